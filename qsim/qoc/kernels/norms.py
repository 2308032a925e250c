"""Bound of the spectral norm of a sum of sparse matrices, from the sizes of its entries (CPU)."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from qsim.qoc.kernels.blocks import JIT

# Added to the vector of the next power: entries that no row reaches stay positive.
FLOOR = 1e-6


@njit(**JIT)
def norm_bound(start, column, sizes, factors, powers):
    """Return a bound of ``||A0 + sum_c f_c A_c||`` with ``|f_c| <= F_c``.

    ``||A|| <= ||B||`` with ``B = |A0| + sum_c F_c |A_c|`` by entries, and ``||B||^2 <= max_i (B^T B x)_i/x_i`` for every positive
    vector x (Collatz and Wielandt); powers of B^T B bring x near the best one.

    Parameters
    ----------
    start, column : (D + 1,), (E,) int32
        Pattern, rows compressed. Read.
    sizes : (C + 1, E) float64
        Sizes of the entries of A0 and A_c. Read.
    factors : (C,) float64
        F_c. Read.
    powers : int
        Number of powers; the bound holds after every one of them.
    """
    rows = start.size - 1
    # The matrix of sizes at the largest factors.
    b = np.empty(column.size)
    for e in range(column.size):
        b[e] = sizes[0, e]
        for c in range(factors.size):
            b[e] += factors[c] * sizes[c + 1, e]
    x = np.ones(rows)
    y = np.empty(rows)
    best = np.inf
    for _ in range(powers):
        # y = B^T B x, row by row: a row of B takes x to one number and gives it back to the same columns.
        y[:] = 0.0
        for i in range(rows):
            z = 0.0
            for e in range(start[i], start[i + 1]):
                z += b[e] * x[column[e]]
            for e in range(start[i], start[i + 1]):
                y[column[e]] += b[e] * z
        largest, ratio = 1e-300, 0.0
        for i in range(rows):
            ratio = max(ratio, y[i] / x[i])
            largest = max(largest, y[i])
        # Every positive x gives a bound; the smallest one is kept.
        best = min(best, ratio)
        for i in range(rows):
            x[i] = y[i] / largest + FLOOR
    return math.sqrt(best)
