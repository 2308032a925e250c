"""Trajectories of a run: carried, observed, averaged, one after the other, in batches, on several ranks."""
