"""Quantities of bound states, of a basis and of integrals; those of collisions are declared with the scattering."""
