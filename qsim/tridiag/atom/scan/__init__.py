"""Scans of an atom: many runs that differ in one number of the laser, and the average over a focus."""
