"""Scans: many runs that differ in one number of the laser or of the potential, and the average over a focus, of any geometry."""
