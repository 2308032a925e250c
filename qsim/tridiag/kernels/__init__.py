"""Kernels of ``tridiag``: partition stages, serial solvers and Crank-Nicolson propagation, CPU twin and CUDA."""
