"""Inverses of Slater matrices on the CPU: in full, and by delayed updates.

Delayed updates bring the columns of a window of electrons up to date at each move, and all other columns at the end of the
window, column by column: each one is in the cache for all moves of the window, so that an inverse is read and written once for
it (McDaniel and others, J. Chem. Phys. 147, 174107 (2017), do the same by another formula).  The order of operations on a
column is that of single updates, and so are the bits of real numbers.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from qsim.qmc.kernels.common.jit import INLINE, PART
from qsim.qmc.kernels.common.types import WINDOW

__all__ = ["DELAYED", "WINDOW", "close_window", "invert", "renewed", "update_inverse", "update_window"]

#: Electrons of a spin from which on updates are delayed: smaller inverses stay in a core's cache.
DELAYED = 129


@nb.njit(**PART)
def invert(matrix, n, inverse, work, is_complex):
    """Invert the upper left n x n of a matrix (destroyed) into columns; return log |det| and its sign (0: singular).

    ``work`` is another n x n.  The sign of a complex one is 1.
    """
    # Gauss and Jordan with pivots by column: matrix becomes 1, work the inverse.
    for i in range(n):
        for k in range(n):
            work[i, k] = 1.0 if i == k else 0.0
    log, sign = 0.0, 1.0
    for i in range(n):
        p = i
        for k in range(i + 1, n):
            if abs(matrix[k, i]) > abs(matrix[p, i]):
                p = k
        pivot = matrix[p, i]
        if not abs(pivot) > 0.0:
            return -np.inf, 0.0
        if p != i:
            sign = -sign
            for k in range(n):
                matrix[p, k], matrix[i, k] = matrix[i, k], matrix[p, k]
                work[p, k], work[i, k] = work[i, k], work[p, k]
        # Logarithm and sign of the determinant from the pivots: products of hundreds of them
        # would overflow.
        log += math.log(abs(pivot))
        if pivot.real < 0.0:
            sign = -sign
        for k in range(n):
            matrix[i, k] /= pivot
            work[i, k] /= pivot
        for j in range(n):
            if j != i:
                f = matrix[j, i]
                if f != 0.0:
                    for k in range(n):
                        matrix[j, k] -= f * matrix[i, k]
                        work[j, k] -= f * work[i, k]
    for i in range(n):  # column of electron i: work[:, i]
        for o in range(n):
            inverse[i, o] = work[o, i]
    return log, 1.0 if is_complex else sign


@nb.njit(**PART)
def renewed(inverse, fresh, n):
    """Replace an inverse by one that was computed anew; return its largest change relative to its size."""
    size = change = 0.0
    for i in range(n):
        for o in range(n):
            size = max(size, abs(fresh[i, o]))
            change = max(change, abs(fresh[i, o] - inverse[i, o]))
            inverse[i, o] = fresh[i, o]
    return change / size if size > 0.0 else 0.0


@nb.njit(**INLINE)
def update_inverse(inverse, row, i, n, ratio, scratch):
    """Replace row i of a Slater matrix of n electrons (Sherman and Morrison); ``inverse[k]`` is column k."""
    M = inverse.shape[1]
    # The new column i is the old one over the ratio; every other column loses its product
    # with the new row times that.
    column = inverse[i]
    over = inverse.dtype.type(1.0) / inverse.dtype.type(ratio)
    for o in range(M):
        scratch[o] = column[o] * over
    for k in range(n):
        if k != i:
            dot = inverse.dtype.type(0.0)
            other = inverse[k]
            for o in range(n):
                dot += row[o] * other[o]
            for o in range(n):
                other[o] -= dot * scratch[o]
    for o in range(n):
        column[o] = scratch[o]


@nb.njit(**PART)
def update_column(column, row, u, n):
    """Sherman and Morrison for one column: ``c -= u (x c)``."""
    dot = column.dtype.type(0.0)
    for o in range(n):
        dot += row[o] * column[o]
    for o in range(n):
        column[o] -= dot * u[o]


@nb.njit(**PART)
def update_window(inverse, row, i, n, ratio, kept, count):
    """Replace row i of a Slater matrix for the columns of its window.

    ``kept`` (2, WINDOW, M) has u and rows of the ``count`` moves before it, and then its own.
    """
    # The columns of this window are needed by the moves that follow; the others can wait.
    begin = i // WINDOW * WINDOW
    over = inverse.dtype.type(1.0) / inverse.dtype.type(ratio)
    u, x = kept[0, count], kept[1, count]
    for o in range(n):
        u[o], x[o] = inverse[i, o] * over, row[o]
    for k in range(begin, min(begin + WINDOW, n)):
        if k != i:
            update_column(inverse[k], x, u, n)
    for o in range(n):
        inverse[i, o] = u[o]


@nb.njit(**PART)
def close_window(inverse, i, n, kept, count):
    """Bring the columns outside of the window of electron i up to date."""
    begin = i // WINDOW * WINDOW
    for k in range(n):
        if k < begin or k >= begin + WINDOW:
            for j in range(count):
                update_column(inverse[k], kept[1, j], kept[0, j], n)
