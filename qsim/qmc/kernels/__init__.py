"""Kernels of ``qmc``: moves of walkers, local energies, derivatives, histograms; CPU twin and CUDA."""
