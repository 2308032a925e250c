"""Bound states of two electrons."""
