"""CPU side of the repulsion integrals: loops over packed pairs and over the paper's nested sums."""

from __future__ import annotations

from typing import Any

import numba as nb

from qsim.core.device.cpu.streaming import stream
from qsim.core.device.jit import PART as _PART

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
PART: dict[str, Any] = {**JIT, **_PART}
# Packed pairs of the first electron that are read together: whole cache lines across a lower triangle.
RUN = 8


@nb.njit(**PART)
def pack(bra, ket):
    """Return the packed number of a pair."""
    return ket * (ket + 1) // 2 + bra if bra <= ket else bra * (bra + 1) // 2 + ket


@nb.njit(**PART)
def gather(values, first, last, lower, factor, rows):
    """Copy rows ``first .. last - 1`` of a symmetric or full matrix, times ``factor``, to ``rows`` (RUN, Q)."""
    count = values.shape[1]
    # The part of the rows that is stored: up to the diagonal of a lower triangle.
    for p in range(first, last):
        row = rows[p - first]
        source = values[p]
        stop = min(p + 1, count) if lower else count
        for q in range(stop):
            row[q] = factor * source[q]
    # the rest of the rows lies across, in columns first .. last - 1
    if lower:
        for q in range(first + 1, count):
            source = values[q]
            for p in range(first, min(last, q)):
                rows[p - first, q] = factor * source[p]


@nb.njit(**PART)
def unfold(row, packed, square):
    """Write all pairs (b', b) of one pair of the first electron to ``square`` (nb1, nb0)."""
    nb1, nb0 = square.shape
    # Packed numbers ascend with the larger function and within it with the smaller one, which
    # is the order of rows and columns up to the diagonal.
    place = 0
    for b1 in range(nb1):
        for b0 in range(b1 + 1 if packed else nb0):
            square[b1, b0] = row[place]
            place += 1
    # Above the diagonal by symmetry, in a loop of its own: the first one reads and writes in
    # the order of memory.
    if packed:
        for b1 in range(nb1):
            for b0 in range(b1):
                square[b0, b1] = square[b1, b0]


@nb.njit(**PART)
def deliver(square, accumulate, streamed, out):
    """Write, add, or write past the caches, a square to ``out`` (nb1, nb0), row by row."""
    for b1 in range(square.shape[0]):
        source, target = square[b1], out[b1]
        # One test per row and not per number: the inner loops then have no branch and can be
        # vectorised.
        if streamed:
            for b0 in range(square.shape[1]):
                stream(target, b0, source[b0])
        elif accumulate:
            for b0 in range(square.shape[1]):
                target[b0] += source[b0]
        else:
            for b0 in range(square.shape[1]):
                target[b0] = source[b0]


@nb.njit(**PART)
def inner_integral(inner1, inner0, fine_weights, weights, bra, ket, g):
    """Fill ``g`` (points,) with ``w_j r_j^l`` times the integral from r_j to the end: Eqs. (23) and (24), corrected."""
    points, fine = fine_weights.shape
    # Zero of the functions' type.
    total = inner1[0, 0, 0] * 0.0
    # From the outside inwards: the integral from r_j to R is the one from r_(j+1) and the
    # Simpson sum between the two points, Eq. (24). The power r_j^l, which the paper takes into
    # the sum, stands in front of it (in `weights`): it belongs to the outer radius alone.
    for j in range(points - 1, -1, -1):
        for s in range(fine):
            total += fine_weights[j, s] * inner1[j, s, bra] * inner0[j, s, ket]
        g[j] = weights[j] * total


@nb.njit(**PART)
def outer_sums(g, outer1, outer0, bra, sums):
    """Fill ``sums`` (m0,) with ``sum_j outer1[j, bra] g_j outer0[j, :]``."""
    m0 = outer0.shape[1]
    # Points are the outer loop, so that the inner one runs over neighbouring kets of a row and
    # sums into an array that stays in the first cache.
    for k in range(m0):
        sums[k] = 0.0
    for j in range(g.shape[0]):
        both = outer1[j, bra] * g[j]
        row = outer0[j]
        for k in range(m0):
            sums[k] += both * row[k]
