"""Jump operators of open systems and the drift between their jumps."""
