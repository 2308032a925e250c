"""Errors of expectation values: functions and grid, box, missing partial waves.

An expectation value is the derivative of the energy with respect to a factor of its operator (Hellmann and Feynman), so that the
contributions of partial waves to both fall with the same power of l.  What is missing of an expectation value is then to its last
contribution as what is missing of the energy is to the last contribution to that, and the limit of the energy is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.bound.observables import MOMENTS
from qsim.sturmian.bound.states import box_density
from qsim.sturmian.two_electron.sizes import finer_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.sturmian.bound.states import State
    from qsim.sturmian.problem import Problem

__all__ = ["Waves", "moment_errors", "unknown_moments"]

# Moments of energies, which the wall changes as it changes the energy.
ENERGIES = ("kinetic", "nuclear", "repulsion", "virial_ratio")
# The states on the finer grid and with more pairs are relaxed until a tenth of a difference in energy is left, which is a
# third of their distance from the state of the run.
UNSETTLED = 1.5
# Rounding of an expectation value, relative.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Waves:
    """Energies and moments of a state with pairs up to several l_max.

    Attributes
    ----------
    energies : (k,) float64
        Hartree.
    moments : (k, len(MOMENTS)) float64
    limit : float
        Energy with all pairs, hartree.
    """

    energies: NDArray[np.float64]
    moments: NDArray[np.float64]
    limit: float


def unknown_moments(states: Sequence[object]) -> NDArray[np.float64]:
    """Return moments (states, len(MOMENTS)) that are not known: NaN."""
    return np.full((len(states), len(MOMENTS)), np.nan)


def moment_errors(state: State, problem: Problem, waves: Waves | None) -> dict[str, float]:
    """Return the errors of the expectation values of a state.

    Parameters
    ----------
    state
        With its moments on the finer grid.
    problem
        Grid and potential.
    waves : Waves or None
        Partial waves; None where the deck lists its pairs, which are then taken as given.

    Returns
    -------
    dict of float
        By the name of the moment; those without all parts of an error are missing.
    """
    by_box = _by_box(state, float(problem.grid.R))
    settled = dict.fromkeys(MOMENTS, UNSETTLED) | {"inv_r2": _at_the_nucleus(problem.grid.order)}
    errors: dict[str, float] = {}
    least = _least(state)
    for number, name in enumerate(MOMENTS):
        own = state.moments[name]
        finer = state.finer_moments.get(name, math.nan)
        missing = 0.0 if waves is None else _missing(own, waves.moments[:, number], waves)
        change = max(abs(finer - own), least * abs(own))
        error = settled[name] * change + by_box[name] + missing + ROUNDING * (1.0 + abs(own))
        error += UNSETTLED * state.doubts.get(name, 0.0)
        if math.isfinite(error):
            errors[name] = error
    return errors


def _least(state: State) -> float:
    """Return the least relative change of a moment on the finer grid: on a poor one a single moment may agree by chance.

    It is the smaller one of an outer moment and an inner one.
    """
    changes = (state.finer_moments.get(name, math.nan) / state.moments[name] - 1.0 for name in ("r", "inv_r"))
    return min(map(abs, changes))


def _at_the_nucleus(order: int) -> float:
    """Return the ratio of the error of <1/r^2> to its change on the finer grid.

    Its integrand does not vanish at r = 0, where a grid without that point misses the weight 2 / (n (n - 1)) of n points.
    """
    finer = finer_order(order)
    return 1.2 / (1.0 - order * (order - 1) / (finer * (finer - 1)))


def _missing(own: float, moments: NDArray[np.float64], waves: Waves) -> float:
    """Return what the missing partial waves change of a moment; NaN if it is not known."""
    last = moments[-1] - moments[-2]
    gained = waves.energies[-1] - waves.energies[-2]
    # The ratio of what is missing to the last contribution is that of the energies.
    rest = 0.0
    if gained != 0.0:
        rest = float(last * (waves.limit - waves.energies[-1]) / gained)
    return UNSETTLED * (abs(float(moments[-1]) - own) + abs(rest))


def _by_box(state: State, R: float) -> dict[str, float]:
    """Return what the wall changes of each moment, about.

    It adds ``exp(kappa (r - 2 R))`` to a state that falls like ``exp(-kappa r)``: the density changes by about that at R,
    everywhere within, and what lay beyond R is missing.
    """
    kappa = math.sqrt(2.0 * max(state.threshold - state.energy, 1e-6))
    norm = box_density(state) * (R + 1.0 / kappa)
    at_wall = {
        "r": R,
        "r2": R**2,
        "inv_r": 1.0 / R,
        "inv_r2": 1.0 / R**2,
        "inv_r12": 1.0 / R,
        "r12_squared": 2.0 * R**2,
        "r1_dot_r2": R * state.moments["r"],
        "cos_theta12": 1.0,
    }
    shifts = {name: norm * (abs(at_wall[name]) + abs(state.moments[name])) for name in at_wall}
    # of energies: the shift of the whole, and by the virial theorem with a wall R dE/dR of its parts
    by_energy = 2.0 * (1.0 + kappa * R) * state.error_box
    return shifts | dict.fromkeys(ENERGIES, by_energy)
