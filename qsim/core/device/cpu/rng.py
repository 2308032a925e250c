"""Numba twin of :mod:`qsim.core.device.rng`, for use inside compiled CPU kernels.

Numba does arithmetic in 64 bits, so every product and sum is masked to 32 bits by hand.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from qsim.core.device.rng import MULTIPLIERS, ROUNDS, WEYL

__all__ = ["normal2", "philox", "uniform2"]

_M0, _M1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
_W0, _W1 = np.uint64(WEYL[0]), np.uint64(WEYL[1])
_LOW = np.uint64(0xFFFFFFFF)
_32, _12 = np.uint64(32), np.uint64(12)
_STEP, _HALF = 2.0**-52, 2.0**-53
_TWO_PI = 2.0 * math.pi


@njit(cache=True)
def philox(c0, c1, c2, c3, k0, k1):
    """Return the four words (uint64 below 2**32) of Philox4x32-10 for counter ``c`` and key ``k``."""
    # Arguments may be signed: masked first, since numba turns a mixture of int64 and uint64 into floats.
    c0, c1 = np.uint64(c0) & _LOW, np.uint64(c1) & _LOW
    c2, c3 = np.uint64(c2) & _LOW, np.uint64(c3) & _LOW
    k0, k1 = np.uint64(k0) & _LOW, np.uint64(k1) & _LOW
    for _ in range(ROUNDS):
        first, second = c0 * _M0, c2 * _M1
        # All four words at once: each is made of two of the round before.
        c0, c1, c2, c3 = (second >> _32) ^ c1 ^ k0, second & _LOW, (first >> _32) ^ c3 ^ k1, first & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@njit(cache=True)
def uniform2(k0, k1, stream, step, index, pair):
    """Return the two uniforms of draws ``2 * pair`` and ``2 * pair + 1``; bit-equal to `rng.uniform`."""
    a, b, c, d = philox(step, index, pair, stream, k0, k1)
    # 52 bits of two words, shifted by half a step: never 0 or 1.
    one = np.float64(((b << _32) | a) >> _12) * _STEP + _HALF
    two = np.float64(((d << _32) | c) >> _12) * _STEP + _HALF
    return one, two


@njit(cache=True)
def normal2(k0, k1, stream, step, index, pair):
    """Return the two normals of draws ``2 * pair`` and ``2 * pair + 1``."""
    one, two = uniform2(k0, k1, stream, step, index, pair)
    radius, angle = math.sqrt(-2.0 * math.log(one)), _TWO_PI * two
    return radius * math.cos(angle), radius * math.sin(angle)
