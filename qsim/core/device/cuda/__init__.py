"""The CUDA driver, asked without CuPy."""
