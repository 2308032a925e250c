"""Estimate the time of a run: sections by their work, and the first steps by a clock."""
