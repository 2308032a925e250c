"""Kernels of tridiagonal systems: partition stages, streamed pieces, serial solvers, matching."""
