"""Orbitals and Coulomb energies in open boundaries."""
