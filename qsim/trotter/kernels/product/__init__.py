"""H psi without a matrix in the whole space, and in a sector of parity."""
