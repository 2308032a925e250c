"""Blocks of four complex columns in vectors of the processor: what the CPU kernels of slots are made of.

A block (D, 8) holds in each row the real parts of four columns, then the imaginary ones; columns that are missing are zeros. The
product of a sparse row with a block then takes two loads and four multiply-adds per entry, and its sums stay in registers. Where
A is real, the two halves of a block are eight columns of their own, with half of the work. All indices of vectors count through
all dimensions of an array.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from qsim.core.device.cpu.vectors import LANES, lanes, put, same, total
from qsim.core.device.jit import PART as _PART

# Products and sums are rounded once where the processor can; nothing is summed in another order.
JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
PART: dict[str, Any] = {**JIT, **_PART}
# Of loops inside of loops: an argument of a call that is not inlined is ten numbers per array.
INLINE: dict[str, Any] = {**PART, "forceinline": True}
# Numbers of a row of a block.
WIDTH = 2 * LANES


@njit(**PART)
def pack(x, first, block):
    """Put the columns ``first ... first + 3`` of x (D, 2 S) into a block (D, 8)."""
    count = x.shape[1] // 2
    here = min(LANES, count - first)
    for i in range(x.shape[0]):
        if here == LANES:
            put(block, WIDTH * i, lanes(x, 2 * count * i + first))
            put(block, WIDTH * i + LANES, lanes(x, 2 * count * i + count + first))
        else:
            for s in range(LANES):
                block[i, s] = x[i, first + s] if s < here else 0.0
                block[i, LANES + s] = x[i, count + first + s] if s < here else 0.0


@njit(**PART)
def unpack(block, first, x):
    """Put a block (D, 8) back into the columns ``first ... first + 3`` of x (D, 2 S)."""
    count = x.shape[1] // 2
    here = min(LANES, count - first)
    for i in range(x.shape[0]):
        if here == LANES:
            put(x, 2 * count * i + first, lanes(block, WIDTH * i))
            put(x, 2 * count * i + count + first, lanes(block, WIDTH * i + LANES))
        else:
            for s in range(here):
                x[i, first + s] = block[i, s]
                x[i, count + first + s] = block[i, LANES + s]


@njit(**PART)
def keep(block, first, trajectory, number):
    """Put a block (D, 8) into entry `number` of a trajectory (n, D, 2 S), block by block where four columns divide S."""
    rows = block.shape[0]
    if trajectory.shape[2] % WIDTH:
        unpack(block, first, trajectory[number])
        return
    # Rows of one block lie side by side: pieces of 32 bytes far apart would share a few sets of the cache.
    at = rows * (trajectory.shape[2] * number + 2 * first)
    for k in range(0, WIDTH * rows, LANES):
        put(trajectory, at + k, lanes(block, k))


@njit(**PART)
def fetch(trajectory, number, first, block):
    """Put into a block (D, 8) what `keep` has put into the trajectory."""
    rows = block.shape[0]
    if trajectory.shape[2] % WIDTH:
        pack(trajectory[number], first, block)
        return
    at = rows * (trajectory.shape[2] * number + 2 * first)
    for k in range(0, WIDTH * rows, LANES):
        put(block, k, lanes(trajectory, at + k))


@njit(**INLINE)
def _row(first, last, column, re, im, x, at):
    """Return one row of ``A x`` for the block that begins at a number of x: real parts, imaginary parts."""
    # Four sums: no multiply-add waits for the one before it of the same entry.
    p = same(0.0)
    q = same(0.0)
    r = same(0.0)
    s = same(0.0)
    for e in range(first, last):
        there = at + WIDTH * column[e]
        real = lanes(x, there)
        imaginary = lanes(x, there + LANES)
        p = p + re[e] * real
        q = q + im[e] * imaginary
        r = r + re[e] * imaginary
        s = s + im[e] * real
    return p - q, r + s


@njit(**INLINE)
def _real_row(first, last, column, re, x, at):
    """Return the same where A is real."""
    p = same(0.0)
    r = same(0.0)
    for e in range(first, last):
        there = at + WIDTH * column[e]
        p = p + re[e] * lanes(x, there)
        r = r + re[e] * lanes(x, there + LANES)
    return p, r


@njit(**INLINE)
def step(matrix, v, w, x, factor):
    """Put ``factor A v`` into w and add it to x; all are blocks (D, 8)."""
    start, column, re, im, real = matrix
    for i in range(start.size - 1):
        if real:
            a, b = _real_row(start[i], start[i + 1], column, re, v, 0)
        else:
            a, b = _row(start[i], start[i + 1], column, re, im, v, 0)
        # Scaled once per row, and not per entry.
        a = factor * a
        b = factor * b
        put(w, WIDTH * i, a)
        put(w, WIDTH * i + LANES, b)
        put(x, WIDTH * i, lanes(x, WIDTH * i) + a)
        put(x, WIDTH * i + LANES, lanes(x, WIDTH * i + LANES) + b)


@njit(**INLINE)
def power(matrix, powers, k):
    """Put ``A x_{k-1}`` into x_k of blocks (m, >= D, 8)."""
    start, column, re, im, real = matrix
    size = WIDTH * powers.shape[1]
    for i in range(start.size - 1):
        if real:
            a, b = _real_row(start[i], start[i + 1], column, re, powers, (k - 1) * size)
        else:
            a, b = _row(start[i], start[i + 1], column, re, im, powers, (k - 1) * size)
        put(powers, k * size + WIDTH * i, a)
        put(powers, k * size + WIDTH * i + LANES, b)


@njit(**INLINE)
def horner(matrix, mu, j, lam, factor, to):
    """Put ``A+ mu_j + factor lam`` into the block `to` counts to in mu (m, >= D, 8); the matrix is A+."""
    start, column, re, im, real = matrix
    size = WIDTH * mu.shape[1]
    for i in range(start.size - 1):
        if real:
            a, b = _real_row(start[i], start[i + 1], column, re, mu, j * size)
        else:
            a, b = _row(start[i], start[i + 1], column, re, im, mu, j * size)
        put(mu, to * size + WIDTH * i, a + factor * lanes(lam, WIDTH * i))
        put(mu, to * size + WIDTH * i + LANES, b + factor * lanes(lam, WIDTH * i + LANES))


@njit(**INLINE)
def add_outer(matrix, terms, mu, powers, outer):
    """Add ``K = sum_j conj(mu_j) x_j^T`` on the pattern to outer (E, 8), column by column: its sums over columns come last."""
    start, column, _, _, real = matrix
    size = WIDTH * mu.shape[1]
    for i in range(start.size - 1):
        for e in range(start[i], start[i + 1]):
            p = lanes(outer, WIDTH * e)
            q = lanes(outer, WIDTH * e + LANES)
            left = WIDTH * i
            right = WIDTH * column[e]
            # All powers of one entry after the other, so that its sums stay in registers.
            for _ in range(terms):
                a = lanes(mu, left)
                b = lanes(mu, left + LANES)
                c = lanes(powers, right)
                d = lanes(powers, right + LANES)
                p = p + a * c
                p = p + b * d
                if not real:
                    q = q + a * d
                    q = q - b * c
                left += size
                right += size
            put(outer, WIDTH * e, p)
            put(outer, WIDTH * e + LANES, q)


@njit(**PART)
def contracted(outer, values, c):
    """Return ``Re sum_e K_e A_c,e`` from outer (E, 8) and values (C + 1, E)."""
    p = same(0.0)
    for e in range(values.shape[1]):
        z = values[c, e]
        p = p + z.real * lanes(outer, WIDTH * e)
        p = p - z.imag * lanes(outer, WIDTH * e + LANES)
    # Sums over the four columns come once per slot and control.
    return total(p)


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
