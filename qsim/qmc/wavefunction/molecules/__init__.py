"""Molecular orbitals: Gaussian, Slater type, oscillator; cusps and occupations."""
