"""Kernels of quantum trajectories."""
