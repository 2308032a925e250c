"""Linear systems: the N-shaped partition, the ladder of pivoting, streamed systems, readers."""
