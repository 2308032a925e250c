"""Kernels of ``sturmian``: electron repulsion on the grid and as integrals; CPU twin and CUDA."""
