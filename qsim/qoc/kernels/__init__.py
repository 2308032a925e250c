"""Propagation kernels of ``qoc``: the grid (Crank-Nicolson) and the truncated eigenbasis (Strang), CPU twin and CUDA."""
