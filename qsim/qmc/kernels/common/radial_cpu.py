"""Functions of a distance on the graded grid of :mod:`qsim.qmc.system.radial`, on the CPU."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from qsim.qmc.kernels.common.jit import INLINE
from qsim.qmc.kernels.common.types import BINS, OCTAVES, SMALLEST

__all__ = ["LARGEST", "locate", "table_value"]

FIRST_OCTAVE = int(math.log2(SMALLEST))
LARGEST = SMALLEST * 2.0**OCTAVES
INNER = BINS / SMALLEST  # 1 / width of the intervals below the first octave
# Of float64: where the number of an interval within its octave ends, and what makes intervals and widths of exponents.
INTERVAL_BITS = np.uint64(math.log2(BINS))
SHIFT = np.uint64(52) - INTERVAL_BITS
EXPONENT = np.uint64(0x7FF << 52)
MANTISSA = np.uint64((1 << 52) - 1)
ONE = np.uint64(1023 << 52)  # bits of 1.0
FIRST = np.uint64(((1023 + FIRST_OCTAVE) << int(INTERVAL_BITS)) - BINS)
TOP = np.uint64((2 * 1023 + int(INTERVAL_BITS)) << 52)  # minus an exponent: bits of 1 / width in that octave


@nb.njit(**INLINE)
def locate(r):
    """Return interval, place t of [0, 1) in it, and 1 / width on the graded grid; r below ``LARGEST``.

    The bits of r hold all three, exactly: its exponent is the octave, the first bits of its mantissa number the interval, the
    others are t.
    """
    if r < SMALLEST:
        x = r * INNER
        k = int(x)
        return np.uint64(k), x - k, INNER
    bits = np.float64(r).view(np.uint64)
    t = np.uint64(((bits << INTERVAL_BITS) & MANTISSA) | ONE).view(np.float64) - 1.0
    width = np.uint64(TOP - (bits & EXPONENT)).view(np.float64)
    return (bits >> SHIFT) - FIRST, t, width


@nb.njit(**INLINE)
def table_value(table, r):
    """Return the tabulated function at r; 0 beyond the grid."""
    if not r < LARGEST:
        return 0.0
    i, t, _ = locate(r)
    c = table[i]
    return c[0] + t * (c[1] + t * (c[2] + t * (c[3] + t * (c[4] + t * c[5]))))
