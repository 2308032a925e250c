"""State vectors: random amplitudes, and moments of the spins."""
