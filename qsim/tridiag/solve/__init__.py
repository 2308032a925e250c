"""``task: solve``: tridiagonal systems that are generated or read from a file."""
