"""Compilers of kernels: where they keep what they compile, who is told while they work, and NVRTC without a GPU."""
