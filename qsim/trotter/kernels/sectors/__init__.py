"""Vectors of a sector of conserved Sz: H psi, bonds of a product formula, orbits of symmetries."""
