"""Lattices: bonds, places and momenta."""
