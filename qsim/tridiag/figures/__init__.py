"""Figures of a propagation and of systems."""
