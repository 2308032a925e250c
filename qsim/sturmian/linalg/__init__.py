"""Linear algebra: BLAS on either device, and LDL^T of symmetric matrices."""
