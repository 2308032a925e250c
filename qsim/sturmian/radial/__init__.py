"""One electron: radial grid, potentials, generalised Sturmian functions, automatic parameters."""
