"""``task: dynamics``: spectral functions of the ground state."""
