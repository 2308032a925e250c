"""``task: steady``: the steady state of an open system, its slowest rates, correlations and spectra."""
