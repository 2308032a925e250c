"""Quantities of a complete run, and its files for other programs."""
