"""Blocks `system` beside the molecule on a grid: one file per type."""
