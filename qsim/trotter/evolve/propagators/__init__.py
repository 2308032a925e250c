"""A state and what carries it through time, one file per method."""
