"""Factor between fluxes and cross sections of a photon, in megabarn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.scatter.cross_sections.kinematics import FINE_STRUCTURE, KILOBARN

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MEGABARN", "weight_of"]

# a0^2 in megabarn.
MEGABARN = 1e-3 * KILOBARN


def weight_of(omega: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``4 pi alpha omega`` in Mb: cross section over ``-Im s^T u`` and over ``k |A|^2``."""
    return np.asarray(4.0 * math.pi * FINE_STRUCTURE * omega * MEGABARN)
