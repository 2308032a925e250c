"""Sweeps: one deck at many values of some keys, and one table of many runs."""
