"""Random numbers of moves on the CPU: normals from the words of counters."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from qsim.core.device.cpu.rng import philox, uniform2
from qsim.core.device.cpu.vectors import floor, lane, pack, put, root
from qsim.qmc.kernels.common.jit import INLINE

__all__ = ["PAIRS", "TWO_PI", "logarithms", "normals", "rotation", "turns", "two_normals", "unit"]

TWO_PI = 2.0 * math.pi
PAIRS = 8  # counters of an electron in a generation: 0 displacement, 1 acceptance, 5 T-move, the others free
LN_2 = math.log(2.0)
#: Coefficients of x^(2k) in sin(x) / x and cos(x).
SINES = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(9))
COSINES = tuple((-1) ** k / math.factorial(2 * k) for k in range(9))
# Bits of float64: where its fraction ends, the fraction, what sqrt(1/2) has, and what 1 has beyond that.
FRACTION = np.uint64(52)
FRACTIONS = np.uint64((1 << 52) - 1)
LEAST = np.float64(math.sqrt(0.5)).view(np.uint64)
ABOVE = np.uint64(1023 << 52) - LEAST


@nb.njit(**INLINE)
def unit(word):
    """Return the uniform number (2 word + 1) / 2^33 of a word of 32 bits: never 0 or 1."""
    return (np.float64(word) + 0.5) * 2.0**-32


@nb.njit(**INLINE)
def normals(k0, k1, stream, step, index, pair):
    """Return three normals from the four words of one counter (Box and Muller); at most 6.7 in size."""
    # Two logarithms and three angles from one counter of four words.
    a, b, c, d = philox(step, index, pair, stream, k0, k1)
    s, t = math.sqrt(-2.0 * math.log(unit(a))), math.sqrt(-2.0 * math.log(unit(c)))
    angle = TWO_PI * unit(b)
    return s * math.cos(angle), s * math.sin(angle), t * math.cos(TWO_PI * unit(d))


@nb.njit(**INLINE)
def _mantissa(x):
    """Return m within a factor sqrt(2) of 1 and k with ``x = m 2^k``, for x > 0 that is no subnormal number."""
    bits = np.float64(x).view(np.uint64) + ABOVE
    k = np.int64(bits >> FRACTION) - 1023
    return np.uint64((bits & FRACTIONS) + LEAST).view(np.float64), np.float64(k)


@nb.njit(**INLINE)
def logarithms(a, b, c, d):
    """Return the natural logarithms of four numbers > 0, as a vector."""
    (ma, ka), (mb, kb), (mc, kc), (md, kd) = _mantissa(a), _mantissa(b), _mantissa(c), _mantissa(d)
    # log(m 2^k) = k log 2 + log m, with |m - 1| small enough for a series.
    m, k = pack(ma, mb, mc, md), pack(ka, kb, kc, kd)
    s = (m - 1.0) / (m + 1.0)  # log m = 2 artanh s = 2 s + 2 s^3 / 3 + ..., |s| < 0.172
    z = s * s
    sums = z * (1.0 / 19.0) + 1.0 / 17.0
    sums = z * sums + 1.0 / 15.0
    sums = z * sums + 1.0 / 13.0
    sums = z * sums + 1.0 / 11.0
    sums = z * sums + 1.0 / 9.0
    sums = z * sums + 1.0 / 7.0
    sums = z * sums + 0.2
    sums = z * sums + 1.0 / 3.0
    return LN_2 * k + (2.0 * s + (2.0 * s * z) * sums)


@nb.njit(**INLINE)
def turns(v):
    """Return sines and cosines of a vector of angles within a turn, in turns; their errors are below 1e-15."""
    halves = floor(2.0 * v + 0.5)  # 0, 1 or 2
    x = math.pi * (v - 0.5 * halves)  # half of what is left of the angle, within pi / 4
    z = x * x
    # Taylor series, whose rest is below 1e-17
    sine, cosine = SINES[8] * z + SINES[7], COSINES[8] * z + COSINES[7]
    sine, cosine = sine * z + SINES[6], cosine * z + COSINES[6]
    sine, cosine = sine * z + SINES[5], cosine * z + COSINES[5]
    sine, cosine = sine * z + SINES[4], cosine * z + COSINES[4]
    sine, cosine = sine * z + SINES[3], cosine * z + COSINES[3]
    sine, cosine = sine * z + SINES[2], cosine * z + COSINES[2]
    sine, cosine = sine * z + SINES[1], cosine * z + COSINES[1]
    sine, cosine = sine * z + SINES[0], cosine * z + COSINES[0]
    sine = x * sine
    twice = 2.0 - 4.0 * halves * (2.0 - halves)  # 2, and -2 for odd halves
    return twice * (sine * cosine), twice * (0.5 - sine * sine)


@nb.njit(**INLINE)
def two_normals(k0, k1, stream, step, index, first, second, out):
    """Set ``out`` (2, 4) to three normals each, from the four words of two counters (Box and Muller); at most 6.7 in size."""
    a0, b0, c0, d0 = philox(step, index, first, stream, k0, k1)
    a1, b1, c1, d1 = philox(step, index, second, stream, k0, k1)
    # The words of two counters side by side: one logarithm and one sine for four numbers.
    radius = root(-2.0 * logarithms(unit(a0), unit(c0), unit(a1), unit(c1)))
    sine, cosine = turns(pack(unit(b0), unit(d0), unit(b1), unit(d1)))
    sine, cosine = radius * sine, radius * cosine
    put(out, 0, pack(lane(cosine, 0), lane(sine, 0), lane(cosine, 1), 0.0))
    put(out, 4, pack(lane(cosine, 2), lane(sine, 2), lane(cosine, 3), 0.0))


@nb.njit(**INLINE)
def rotation(draw, pair, Q):
    """Set Q (3, 3) to a random rotation (Shoemake, Graphics Gems III, 1992)."""
    a, b = uniform2(draw.k0, draw.k1, draw.stream, draw.step, draw.walker, pair)
    c, _ = uniform2(draw.k0, draw.k1, draw.stream, draw.step, draw.walker, pair + 1)
    # a unit quaternion (x, y, z, w) that is uniform on the sphere in four dimensions, and its matrix
    s, t = math.sqrt(1.0 - a), math.sqrt(a)
    x, y = s * math.sin(TWO_PI * b), s * math.cos(TWO_PI * b)
    z, w = t * math.sin(TWO_PI * c), t * math.cos(TWO_PI * c)
    Q[0, 0], Q[0, 1], Q[0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)
    Q[1, 0], Q[1, 1], Q[1, 2] = 2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)
    Q[2, 0], Q[2, 1], Q[2, 2] = 2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)
