"""``task: solve``: the tridiagonal systems of a deck, generated or read from a file, and their solution."""
