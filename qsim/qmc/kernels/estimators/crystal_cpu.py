"""Histograms and sums of waves of walkers in crystals on the CPU."""

from __future__ import annotations

import math

import numba as nb

from qsim.core.device.jit import held
from qsim.core.device.team import ranges, share
from qsim.qmc.kernels.common.jit import INLINE, JIT, PART
from qsim.qmc.kernels.crystal.geometry_cpu import nearest

__all__ = ["pairs", "waves_shared"]

# pi / 2 in two parts, the first with 33 bits: n times it is exact for n < 2^20 (fdlibm, as the polynomials below)
QUARTER, REST = 1.57079632673412561417e00, 6.07710050650619224932e-11


@nb.njit(**JIT)
def pairs(R, count, orbitals, n_up, inverse_width, out):
    """Count pairs of walkers by the distance of nearest images in ``out`` (3, bins)."""
    orbitals = held(orbitals)
    bins = out.shape[1]
    for w in range(R.shape[0]):
        for i in range(R.shape[1]):
            for j in range(i + 1, R.shape[1]):
                _, _, _, r = nearest(
                    orbitals, R[w, i, 0] - R[w, j, 0], R[w, i, 1] - R[w, j, 1], R[w, i, 2] - R[w, j, 2]
                )
                place = r * inverse_width
                if place < bins:
                    out[int(i >= n_up) + int(j >= n_up), int(place)] += count[w]


@nb.njit(**INLINE)
def _sin_cos(x):
    """Return sin x and cos x to rounding for abs(x) < 1e6, without branches: a loop of them becomes vectors."""
    n = math.floor(x * (2.0 / math.pi) + 0.5)
    r = (x - n * QUARTER) - n * REST
    z = r * r
    sine = r + r * z * (
        -1.66666666666666324348e-01
        + z
        * (
            8.33333333332248946124e-03
            + z
            * (
                -1.98412698298579493134e-04
                + z
                * (
                    2.75573137070700676789e-06
                    + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)
                )
            )
        )
    )
    cosine = (1.0 - 0.5 * z) + z * z * (
        4.16666666666666019037e-02
        + z
        * (
            -1.38888888888741095749e-03
            + z
            * (
                2.48015872894767294178e-05
                + z
                * (
                    -2.75573143513906633035e-07
                    + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)
                )
            )
        )
    )
    # quarters of a turn: sine and cosine change places after each, and signs after two
    half = math.floor(0.5 * n)
    odd = n - 2.0 * half
    sign = 1.0 - 2.0 * (half - 2.0 * math.floor(0.5 * half))
    return sign * (sine + odd * (cosine - sine)), sign * (cosine - odd * (sine + cosine))


@nb.njit(**JIT)
def waves_shared(ticket, *arguments):
    """Fill sums of waves of the walkers of a ticket, see `_waves`."""
    return share(ticket, ranges(_waves, arguments))


@nb.njit(**PART)
def _waves(first, last, worker, R, k, out):
    """Fill Re and Im of ``sum_i exp(i k r_i)``, (2, walkers, waves); k (3, waves)."""
    for w in range(first, last):
        for q in range(k.shape[1]):
            out[0, w, q] = 0.0
            out[1, w, q] = 0.0
        for i in range(R.shape[1]):
            x, y, z = R[w, i, 0], R[w, i, 1], R[w, i, 2]
            # waves side by side in vectors
            for q in range(k.shape[1]):
                sine, cosine = _sin_cos(x * k[0, q] + y * k[1, q] + z * k[2, q])
                out[0, w, q] += cosine
                out[1, w, q] += sine
