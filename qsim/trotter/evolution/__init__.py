"""Time evolution: product formulas, Chebyshev series, driven Hamiltonians, step size and error, trajectories, ensembles."""
