"""Repulsion integrals of the functions by both routes, timed and compared."""
