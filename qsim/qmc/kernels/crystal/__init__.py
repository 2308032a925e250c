"""Bloch orbitals, nearest images and Ewald energies of crystals."""
