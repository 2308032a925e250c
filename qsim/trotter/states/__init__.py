"""State vectors: products, matrix product states, files, sums over vectors."""
