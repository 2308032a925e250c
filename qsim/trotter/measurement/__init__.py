"""Numbers from a state: expectation values, entanglement, overlaps."""
