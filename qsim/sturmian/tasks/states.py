"""Bound states of a run, their errors, and the energies of its scans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.sturmian.problem import Problem
    from qsim.sturmian.radial.sturmians import Sturmians

__all__ = ["BoundResult", "Scan", "State", "total"]


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
        How far the energy lies from that of the same pairs on a finer grid, estimated: functions, grid and quadrature together;
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
        See :class:`qsim.sturmian.two_electron.observables.Observed`.
    wall : float
        ``int |du/dr1|^2 dr2`` at r1 = R, of one electron, 1/bohr^3.
    density : (n,) float64
    map : (n, n) float64 or None
    weights : (P,) float64
    pairs : (P, 2) int
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

    @property
    def error_in_pairs(self) -> float:
        """Distance to the exact energy of a model with these pairs only, hartree: solver, functions, grid and box."""
        return total(self.error_solver, self.error_radial, self.error_box)

    @property
    def error(self) -> float:
        """Distance to the exact energy, hartree, without the other pairs where the deck lists its own."""
        return total(self.error_in_pairs, self.error_angular)

    @property
    def error_in_points(self) -> float:
        """Largest error of the energies that are extrapolated, hartree: solver, functions, grid and box."""
        radial = [e for e in (self.error_radial, self.error_radial_limit) if np.isfinite(e)]
        return total(self.error_solver, max(radial, default=0.0), self.error_box)

    @property
    def bound(self) -> bool:
        """Whether the state lies below the threshold of its symmetry."""
        return self.energy < self.threshold


@dataclass(frozen=True)
class Scan:
    """Energies against one parameter: ``values`` (k,), ``energies`` (k, states), ``unknowns`` (k,)."""

    values: NDArray[np.float64]
    energies: NDArray[np.float64]
    unknowns: NDArray[np.int64]


@dataclass
class BoundResult:
    """What a run leaves.

    Attributes
    ----------
    states : list of State
        In the order of the deck.
    bases : dict of Sturmians
        For each l; empty if the basis is the grid.
    convergence : dict of Scan
        The scans of the deck by key.
    partial : Scan
        Energies against l_max: those of the extrapolation, or the few below l_max that give ``error_angular``; may be empty.
    limits : list of (float, float)
        Limit of all partial waves and its error, of each state; empty unless the deck asks for it.
    solver_iterations, products, unknowns : int
        Of the states of the deck, without scans.
    flops : float
        Of a product H x.
    """

    task: ClassVar[str] = "bound"

    problem: Problem
    states: list[State]
    bases: dict[int, Sturmians]
    convergence: dict[str, Scan]
    partial: Scan
    limits: list[tuple[float, float]]
    solver_iterations: int
    products: int
    unknowns: int
    flops: float
    histories: list[NDArray[np.float64]] = field(default_factory=list)

    @property
    def map_r(self) -> NDArray[np.float64]:
        """Radii of the maps of the states, bohr."""
        return np.asarray(self.problem.grid.r, float)
