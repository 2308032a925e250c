"""States with their propagators, one file per method."""
