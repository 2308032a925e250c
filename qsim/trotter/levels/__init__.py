"""``task: levels``: all levels of a sector and their statistics."""
