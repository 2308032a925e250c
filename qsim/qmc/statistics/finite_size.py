"""What the energy of a finite periodic cell lacks, from its structure factor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["potential_correction"]

SAME = 1e-5  # 1/bohr: waves whose lengths differ by less belong to one shell
LARGEST = 0.99  # of S(k) at the smallest waves: beyond, the cell is too small for its limit at k = 0


def potential_correction(
    k: NDArray[np.float64], S: NDArray[np.float64], error: NDArray[np.float64], density: float
) -> tuple[float, float] | None:
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
    tuple of float, or None
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
    return float(scale * first), float(scale * math.hypot(scatter, first - second))
