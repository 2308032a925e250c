"""One electron in a central potential and a laser field, in three dimensions: grid, potentials, levels, steps, observables."""
