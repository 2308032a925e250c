"""Arrays, random numbers, Jastrow functions and inverses of all kernels of ``qmc``."""
