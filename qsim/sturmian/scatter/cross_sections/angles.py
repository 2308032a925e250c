r"""Angular distributions of two electrons in a plane with the axis z."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.deck.symmetry import exchange_sign
from qsim.sturmian.driven.continuum import phase
from qsim.sturmian.two_electron.angular import clebsch_gordan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def harmonic(l: int, m: int, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``Y_lm`` in the plane phi = 0 (theta >= 0) or phi = pi (theta < 0), which is real there.

    Parameters
    ----------
    l, m : int
    theta : (k,) float64
        Signed angles from z, radian.
    """
    from scipy.special import lpmv

    size = abs(m)
    norm = math.sqrt((2 * l + 1) / (4.0 * math.pi) * math.factorial(l - size) / math.factorial(l + size))
    values = norm * lpmv(size, l, np.cos(theta))
    # Y_l,-m = (-1)^m conj(Y_lm); lpmv contains the phase of Condon and Shortley.
    if m < 0 and size % 2:
        values = -values
    return np.asarray(np.where((theta < 0.0) & (size % 2 == 1), -values, values), float)


def coplanar(
    pairs: Sequence[tuple[int, int]],
    L: int,
    S: int,
    f: NDArray[np.complex128],
    k1: float,
    k2: float,
    theta: NDArray[np.float64],
    charge: float,
) -> NDArray[np.complex128]:
    """Return ``sum (-i)^(la+lb) exp(i(sigma_la + sigma_lb)) Y^L0_(la lb)(k1, k2) f`` over ordered pairs, (R, k, k).

    Parameters
    ----------
    pairs : list of (la, lb)
        Stored pairs.
    L, S : int
    f : (R, P, 2) complex128
        ``f_ab(k1, k2)`` and ``f_ab(k2, k1)`` of the stored pairs; amplitudes of the other order follow from exchange.
    k1, k2 : float
        Wave numbers, 1/bohr.
    theta : (k,) float64
        Signed angles from z, radian, of each electron.
    charge : float
        That both electrons see far outside.
    """
    out = np.zeros((f.shape[0], theta.size, theta.size), complex)
    for p, (a, b) in enumerate(pairs):
        orders = [(a, b, f[:, p, 0])]
        if a != b:
            orders.append((b, a, exchange_sign(a, b, L, S) * f[:, p, 1]))
        for la, lb, amplitude in orders:
            # Coulomb phases of both electrons, and i^-l of their partial waves
            sigma = phase(la, charge, k1) + phase(lb, charge, k2)
            factor = (-1j) ** (la + lb) * np.exp(1j * sigma)
            shape = np.zeros((theta.size, theta.size))
            # bipolar harmonic with M = 0; in one plane the harmonics are real functions of a signed angle
            for m in range(-min(la, lb), min(la, lb) + 1):
                weight = clebsch_gordan(la, lb, L, m, -m, 0)
                if weight != 0.0:
                    shape += weight * np.outer(harmonic(la, m, theta), harmonic(lb, -m, theta))
            out += factor * amplitude[:, None, None] * shape
    return out
