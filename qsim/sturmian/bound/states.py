"""Bound states of a run and their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Largest ratio of a change without signs to the change that counts.
MOST_CANCELLED = 10.0

__all__ = ["State", "box_density", "total"]


def total(*errors: float) -> float:
    """Return the sum of those errors that are known."""
    return float(sum(error for error in errors if np.isfinite(error)))


@dataclass
class State:
    """One state and what was found about it.

    Attributes
    ----------
    L, S, parity, root
        Symmetry, and the number in it.
    energy : float
        Hartree, for the pairs of angular momenta of the deck.
    error_solver : float
        Bound of the error of the eigensolver, residual^2 / gap, and what rounding leaves.
    error_radial : float
        Estimated distance to the energy of the same pairs on a finer grid: functions, grid and quadrature together;
        NaN where it was not computed.
    error_box : float
        How much the wall at R raises it, estimated.
    error_angular : float
        How far it lies above the limit of all pairs, estimated; NaN where it was not computed, or the deck lists its pairs.
    error_radial_limit : float
        `error_radial` at the largest l_max of an extrapolation; NaN where it was not computed, or nothing is extrapolated.
    error_threshold : float
        How far the threshold lies from that on the finer grid; NaN where it was not computed.
    one_electron : float
        Lowest one-electron level of the momenta that occur.
    threshold : float
        Energy above which an electron leaves: that level, and the one-body potential at R where that is positive.
    residual : float
    iterations, unknowns : int
    moments : dict of float
        See :class:`qsim.sturmian.bound.observables.Observed`.
    wall : float
        ``int |du/dr1|^2 dr2`` at r1 = R, of one electron, 1/bohr^3.
    density : (n,) float64
    map : (n, n) float64 or None
    weights : (P,) float64
    pairs : (P, 2) int
    finer_moments : dict of float
        The moments on the finer grid; empty where they were not computed.
    error_table : float
        What the rows of a table leave open in the potential changes the energy by: its mean, or more; 0 without a table.
    doubts : dict of float
        The same of the moments; empty without a table.
    moment_errors : dict of float
        Errors of the moments, in their units; empty where none are known.
    """

    L: int
    S: int
    parity: str
    root: int
    energy: float
    error_solver: float
    error_radial: float
    error_box: float
    error_angular: float
    error_threshold: float
    one_electron: float
    threshold: float
    residual: float
    iterations: int
    unknowns: int
    moments: dict[str, float]
    wall: float
    density: NDArray[np.float64]
    map: NDArray[np.float64] | None
    weights: NDArray[np.float64]
    pairs: NDArray[np.int64]
    error_radial_limit: float = float("nan")
    finer_moments: dict[str, float] = field(default_factory=dict)
    moment_errors: dict[str, float] = field(default_factory=dict)
    error_table: float = 0.0
    doubts: dict[str, float] = field(default_factory=dict)

    def doubt(self, energy: float, moments: dict[str, float], level: float) -> None:
        """Keep the distances to the state in the other potential that the rows of a table allow; NaN where it was not found.

        What cancels in the change of the energy, whose mean without signs is known, cancels in the moments as well.

        Parameters
        ----------
        energy, moments, level
            Energy and one-electron level there, hartree, and expectation values.
        """
        shift = abs(energy - self.energy)
        cancelled = min(max(self.error_table / max(shift, 1e-300), 1.0), MOST_CANCELLED)
        self.error_table = float(np.fmax(self.error_table, shift))
        self.error_threshold += cancelled * abs(level - self.one_electron)
        self.doubts = {name: cancelled * abs(other - self.moments[name]) for name, other in moments.items()}

    @property
    def error_in_pairs(self) -> float:
        """Distance to the exact energy of a model with these pairs only, hartree: solver, functions, grid and box."""
        return total(self.error_solver, self.error_radial, self.error_box, self.error_table)

    @property
    def error(self) -> float:
        """Distance to the exact energy, hartree, without the other pairs where the deck lists its own."""
        return total(self.error_in_pairs, self.error_angular)

    @property
    def error_in_points(self) -> float:
        """Largest error of the energies that are extrapolated, hartree: solver, functions, grid and box."""
        radial = [e for e in (self.error_radial, self.error_radial_limit) if np.isfinite(e)]
        return total(self.error_solver, max(radial, default=0.0), self.error_box, self.error_table)

    @property
    def bound(self) -> bool:
        """True if the state lies below the threshold of its symmetry."""
        return self.energy < self.threshold


def box_density(state: State) -> float:
    """Return the density that a bound state would have at R if there were no wall, 1/bohr.

    The wall makes ``exp(-kappa r)`` a difference of two exponentials, whose slope at R is twice as steep; ``kappa = sqrt(2 I)``.
    """
    kappa = math.sqrt(2.0 * max(state.threshold - state.energy, 1e-6))
    return state.wall / (2.0 * kappa) ** 2
