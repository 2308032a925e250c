"""Devices: CPUs and GPUs, kernels and their compilation, random numbers, thread pools, MPI ranks."""
