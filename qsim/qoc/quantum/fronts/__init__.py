"""Fronts: the best value against a duration, a fluence or any other key of the deck."""
