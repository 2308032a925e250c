"""Hamiltonian, dipole and levels of what is controlled."""
