"""Finite-size corrections to the energy of a periodic cell, from its structure factor and pair functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Correction", "kinetic_correction", "potential_correction"]

SAME = 1e-5  # 1/bohr: waves whose lengths differ by less belong to one shell
LARGEST = 0.99  # of S(k) at the smallest waves: beyond, the cell is too small for its limit at k = 0


class Correction(NamedTuple):
    """A correction and its error, hartree."""

    value: float
    error: float


def potential_correction(
    k: NDArray[np.float64], S: NDArray[np.float64], error: NDArray[np.float64], density: float
) -> Correction | None:
    r"""Return the correction of the potential energy of a cell, to be added, and its error, hartree.

    :math:`S(k)=1-e^{-\alpha k^2}` at the first shell gives :math:`\alpha`, and the correction :math:`2\pi n\alpha` (Chiesa et
    al., Phys. Rev. Lett. 97, 076404 (2006)); its difference from that of the second shell is part of the error.

    Parameters
    ----------
    k, S, error : (waves,) float64
        Lengths of the waves, 1/bohr, the structure factor and its errors.
    density : float
        Electrons per volume, 1/bohr^3.

    Returns
    -------
    Correction, or None
        None if there are fewer than two shells, or S is not known there.
    """
    found = []
    for size in np.unique(np.round(k, 6))[:2]:
        here = np.abs(k - size) < SAME
        mean = min(float(S[here].mean()), LARGEST)
        scatter = float(np.sqrt((error[here] ** 2).sum())) / int(here.sum())
        found.append((-math.log1p(-mean) / size**2, scatter / (1.0 - mean) / size**2))
    if len(found) < 2 or not np.isfinite(found).all():
        return None
    (first, scatter), (second, _) = found
    scale = 2.0 * math.pi * density
    return Correction(float(scale * first), float(scale * math.hypot(scatter, first - second)))


def kinetic_correction(k: float, u: float, electrons: int, volume: float) -> Correction:
    r"""Return the correction of the kinetic energy of a cell, to be added, and its error, hartree.

    Pair functions contribute :math:`\sum_{k\ne0}f(k)` with :math:`f=\frac n4k^2u_k\,(1-S(k))` to the kinetic energy, and in the
    bulk an integral: what a cell lacks is the mean of :math:`\frac n4k^2u_k` over the part of k around 0 that its waves do not
    stand for (Chiesa et al., Phys. Rev. Lett. 97, 076404 (2006)).  At k = 0 it is a quarter of the plasma frequency,
    :math:`\omega_p/4` with :math:`\omega_p^2=4\pi n`, and at the smallest wave what the pair functions of the cell have; between,
    a line, for the next term of the electron gas is of first order in k (Drummond et al., Phys. Rev. B 78, 125106 (2008)).
    The error is half of how far both are apart.

    Parameters
    ----------
    k : float
        Length of the smallest wave of the cell, 1/bohr.
    u : float
        Fourier transform of the pair functions there, :math:`\int u(r)e^{-ikr}d^3r`, mean over all pairs, bohr^3.
    electrons : int
    volume : float
        Of the cell, bohr^3.

    Returns
    -------
    Correction
    """
    density = electrons / volume
    limit, first = math.sqrt(4.0 * math.pi * density) / 4.0, density * k**2 * u / 4.0
    radius = (6.0 * math.pi**2 / volume) ** (1.0 / 3.0)  # of a sphere with the volume of a wave, (2 pi)^3 / V
    share = 0.75 * min(radius / k, 1.0)  # mean of the distance from its centre, over k
    return Correction(float(limit + share * (first - limit)), float(0.5 * abs(first - limit)))
