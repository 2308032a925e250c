r"""Real solid harmonics of any l, by recurrences: the reference for the kernels' explicit polynomials.

``S_lm = r^l Y_lm`` with orthonormal real ``Y_lm`` without the sign of Condon and Shortley: m < 0 has sin(|m| phi), m > 0
cos(m phi).  Order: m = -l ... l, but x, y, z for l = 1, as in PySCF.  Equations: Helgaker, Jorgensen, Olsen, Molecular
Electronic-Structure Theory, section 6.4.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["order", "solid_harmonics"]


def order(l: int) -> list[int]:
    """Return the m of the components of a shell."""
    return [1, -1, 0] if l == 1 else list(range(-l, l + 1))


def solid_harmonics(l: int, d: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the solid harmonics of one l and their gradients; their Laplacians vanish.

    Parameters
    ----------
    l
        Angular momentum.
    d : (n, 3) float64
        Vectors from the centre, bohr.

    Returns
    -------
    S : (n, 2l + 1) float64
    gradient : (n, 2l + 1, 3) float64
    """
    x, y, z = np.moveaxis(np.asarray(d, np.float64), -1, 0)
    rr = x * x + y * y + z * z
    # (x + i y)^m and the polynomials P_lm(z, r^2) with their derivatives by x, y, z
    powers = [np.ones_like(x) + 0j]
    for _ in range(l):
        powers.append(powers[-1] * (x + 1j * y))
    S = np.empty((*x.shape, 2 * l + 1))
    G = np.empty((*x.shape, 2 * l + 1, 3))
    for k, m in enumerate(order(l)):
        n = abs(m)
        P, by_z, by_rr = _polynomial(l, n, z, rr)
        factor = math.sqrt((2 * l + 1) / (4 * math.pi) * math.factorial(l - n) / math.factorial(l + n))
        factor *= 1.0 if m == 0 else math.sqrt(2.0)
        power, lower = powers[n], n * powers[max(n - 1, 0)]
        A, by_x, by_y = (
            (power.real, lower.real, -lower.imag) if m >= 0 else (power.imag, lower.imag, lower.real)
        )
        S[..., k] = factor * A * P
        G[..., k, 0] = factor * (by_x * P + A * 2 * x * by_rr)
        G[..., k, 1] = factor * (by_y * P + A * 2 * y * by_rr)
        G[..., k, 2] = factor * A * (by_z + 2 * z * by_rr)
    return S, G


def _polynomial(
    l: int,
    m: int,
    z: NDArray[np.float64],
    rr: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return ``r^(l-m)`` times the m-th derivative of the Legendre polynomial at z/r, and its derivatives by z and r^2."""
    zero = np.zeros_like(z)
    last = (zero, zero, zero)
    now = (zero + math.prod(range(1, 2 * m, 2)), zero, zero)
    for n in range(m, l):
        a, b = (2 * n + 1) / (n - m + 1), (n + m) / (n - m + 1)
        last, now = (
            now,
            (
                a * z * now[0] - b * rr * last[0],
                a * (now[0] + z * now[1]) - b * rr * last[1],
                a * z * now[2] - b * (last[0] + rr * last[2]),
            ),
        )
    return now
