"""Polarisability against frequency, through the levels that the light reaches, from the space of the first-order functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.sturmian.response.sectors import Level
    from qsim.sturmian.response.solutions import Reached

__all__ = ["Curve", "curve", "curve_nodes"]

# Points of a curve, and its end relative to the ionisation energy.
COUNT, END = 400, 0.97
# Frequencies of the equations behind a curve relative to the ionisation energy; an imaginary part keeps them off the levels.
NODES, ABOVE = (0.25, 0.5, 0.7, 0.85, 0.95), 0.03
# Oscillator strength from which a level is marked.
MARKED = 1e-6


@dataclass(frozen=True, eq=False)
class Curve:
    """Dynamic dipole polarisability of a state at the largest l_max.

    Attributes
    ----------
    frequency, alpha : (k,) float64
        Hartree and bohr^3.
    poles, strengths : (m,) float64
        Frequencies of the levels below the ionisation energy, and their oscillator strengths.
    """

    frequency: NDArray[np.float64]
    alpha: NDArray[np.float64]
    poles: NDArray[np.float64]
    strengths: NDArray[np.float64]


def curve_nodes(ionisation: float) -> list[complex]:
    """Return the frequencies of the equations that a curve needs besides the deck's, hartree."""
    return [complex(sign * x, ABOVE) * ionisation for x in NODES for sign in (1, -1)]


def curve(level: Level, responses: Sequence[Reached], ionisation: float) -> Curve:
    """Return the polarisability of a level between zero and its ionisation energy, with the levels that it reaches."""
    dE = np.concatenate([one.lengths.levels for one in responses])
    strength = np.concatenate([one.lengths.strengths for one in responses]) ** 2
    f = 2.0 / 3.0 * dE * strength / (2 * level.L + 1)
    omega = np.linspace(0.0, END * ionisation, COUNT)
    alpha = np.sum(f / (dE**2 - omega[:, None] ** 2), axis=1)
    # levels below the state are poles as well, with negative strengths
    marked = (np.abs(dE) < END * ionisation) & (np.abs(f) > MARKED)
    place = np.argsort(np.abs(dE[marked]))
    return Curve(omega, alpha, np.abs(dE[marked])[place], f[marked][place])
