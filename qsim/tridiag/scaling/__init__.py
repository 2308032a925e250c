"""``task: scaling``: times of the N-shaped partition method against the number of blocks."""
