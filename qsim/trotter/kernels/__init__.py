"""Kernels of ``trotter``: layers of rotations and phases, measurements, random amplitudes; CPU twin and CUDA."""
