"""Open systems: quantum trajectories, and density matrices of small systems."""
