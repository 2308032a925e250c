"""What compiled CPU kernels are made of: random numbers, vectors of a few numbers, stores past the caches, scratch memory."""
