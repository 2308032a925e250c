"""Kernels of Crank-Nicolson steps on overlapping chunks."""
