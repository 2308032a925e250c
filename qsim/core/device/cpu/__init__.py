"""Parts of compiled CPU kernels: random numbers, vectors of a few numbers, stores past the caches, scratch memory."""
