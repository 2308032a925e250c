"""Photoelectrons of an atom: window operator, scattering states, flux through a sphere, tunnelling rates."""
