"""Ions and electrons, pseudopotentials, and the radial functions that both need."""
