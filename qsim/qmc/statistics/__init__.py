"""Statistics of series of blocks: error bars, correlation, extrapolation; nothing here knows physics."""

MINIMUM_BLOCKS = 20
"""Blocks below which no error bar is given."""
