"""Difficult systems: scaling, refinement, decimal arithmetic, and the messages about them."""
