"""Jumps of a quantum system: how they enter a run, and what its result says of them."""
