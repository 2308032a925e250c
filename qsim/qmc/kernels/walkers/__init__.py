"""Moves, energies, derivatives and branching of walkers."""
