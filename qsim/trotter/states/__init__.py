"""State vectors: initial states, and vectors larger than one array."""
