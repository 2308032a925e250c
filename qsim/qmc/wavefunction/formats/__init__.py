"""Readers of orbitals in files of other programs."""
