"""What the tasks beside an evolution leave; nothing here loads a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.dynamics.kpm import share
from qsim.trotter.model.hamiltonian import scale_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.deck.tasks import Dynamics, Floquet, Levels, Spectrum, Thermal
    from qsim.trotter.problem import TaskProblem
    from qsim.trotter.sectors.basis import Sector
    from qsim.trotter.sectors.symmetric import AnySector

__all__ = ["DynamicsResult", "FloquetResult", "LevelsResult", "SpectrumResult", "TaskResult", "ThermalResult"]

EPS = 2.2e-16


@dataclass
class SpectrumResult:
    """Levels of all sectors.

    Attributes
    ----------
    problem : TaskProblem
    sectors : list of Sector or SymmetricSector
    levels, residuals : (sectors, levels) float64
        Not a number where a sector has fewer states.
    listed : (n, 2) float64
        Levels and residuals of all sectors, the lowest (highest) first, up to where they are complete.
    degeneracy : int or None
        States at the lowest (highest) level; None where they are not all known.
    second : (float, float) or None
        Energy and residual of the next level; None where it is not known, or where there is none.
    observed : dict of arrays
        Expectation values in the lowest (highest) level, means over its states.
    products : int
    """

    problem: TaskProblem[Spectrum]
    sectors: list[AnySector]
    levels: NDArray[np.float64]
    residuals: NDArray[np.float64]
    listed: NDArray[np.float64]
    degeneracy: int | None
    second: tuple[float, float] | None
    observed: dict[str, NDArray[Any]] = field(default_factory=dict)
    products: int = 0

    @property
    def order(self) -> list[tuple[int, int]]:
        """Sector and number of all levels, the lowest (highest) first."""
        sign = -1.0 if self.problem.block.which == "highest" else 1.0
        places = [tuple(map(int, place)) for place in np.argwhere(np.isfinite(self.levels))]
        return sorted(((i, k) for i, k in places), key=lambda place: sign * self.levels[place])

    @property
    def extreme(self) -> AnySector:
        """Sector of the lowest (highest) level."""
        return self.sectors[self.order[0][0]]

    @property
    def rounding(self) -> float:
        """Rounding of an energy."""
        return 4.0 * EPS * scale_of(self.problem.model)

    def error(self, number: int) -> float:
        """Return the bound of the error of a listed level: its residual, and rounding."""
        return float(self.listed[number, 1]) + self.rounding

    @property
    def gap(self) -> tuple[float, float] | None:
        """Distance of the two lowest (highest) distinct levels of the sectors, and its error; None where it is not known."""
        if self.second is None:
            return None
        energy, residual = self.second
        return abs(energy - float(self.listed[0, 0])), self.error(0) + residual + self.rounding


@dataclass
class DynamicsResult:
    """Spectral functions of the ground state.

    Attributes
    ----------
    problem : TaskProblem
    sector : Sector
        Of the ground state.
    energy, residual : float
    structure : (q, omega) float64
    poles, weights : (q, steps) float64 or None
        Positions (not a number where there are fewer) and weights; None of kpm.
    change : (q,) float64 or None
        Change of the structure with the last fifth of the products, relative to its maximum; None of kpm.
    moments : (q, M) float64 or None
        Of Chebyshev, of kpm.
    band : (float, float)
        Middle and half width of the energies of kpm.
    """

    problem: TaskProblem[Dynamics]
    sector: Sector
    energy: float
    residual: float
    structure: NDArray[np.float64]
    poles: NDArray[np.float64] | None
    weights: NDArray[np.float64] | None
    change: NDArray[np.float64] | None
    moments: NDArray[np.float64] | None = None
    band: tuple[float, float] = (0.0, 1.0)

    @property
    def static(self) -> NDArray[np.float64]:
        """``<0| S_q^dagger S_q |0>`` of every q."""
        if self.weights is None:
            assert self.moments is not None
            return self.moments[:, 0]
        return np.asarray(self.weights.sum(axis=1), np.float64)

    @property
    def resolution(self) -> float | None:
        """Standard deviation of a peak of kpm in the middle of the band, ``pi R / M``."""
        return None if self.moments is None else np.pi * self.band[1] / self.moments.shape[1]

    @property
    def edges(self) -> tuple[float, float]:
        """Ends of the band of kpm, as frequencies."""
        middle = self.band[0] - self.energy
        return middle - self.band[1], middle + self.band[1]

    @property
    def captured(self) -> float | None:
        """Least share of a static factor that lies within the frequencies, of kpm; None without weight."""
        if self.moments is None or not self.static.any():
            return None
        omega = self.problem.block.omega
        ends = omega.first + self.energy, omega.to + self.energy
        return float(share(self.moments, ends, self.band)[self.static > 0.0].min())

    @property
    def first_moment(self) -> NDArray[np.float64]:
        """Integral of ``w S(q, w)`` of every q."""
        if self.weights is None or self.poles is None:
            assert self.moments is not None
            return self.band[1] * self.moments[:, 1] + (self.band[0] - self.energy) * self.moments[:, 0]
        return np.asarray((self.weights * np.nan_to_num(self.poles)).sum(axis=1), np.float64)

    @property
    def continuum(self) -> NDArray[np.float64] | None:
        """Edges of the two-spinon continuum (2, q) of a Heisenberg ring, None for all other models."""
        model, n = self.problem.model, self.problem.spins
        J = float(model.J[2, 0, 1]) if n > 2 else 0.0
        ring = np.zeros((n, n))
        for j in range(n):
            ring[j, (j + 1) % n] = ring[(j + 1) % n, j] = J
        if (
            J <= 0.0
            or self.problem.block.sites is not None
            or self.problem.block.operator == "current"
            or model.h.any()
            or model.cross is not None
            or not all(np.allclose(part, ring, rtol=0, atol=1e-12 * J) for part in model.J)
        ):
            return None
        q = np.pi * np.array(self.problem.block.wave_numbers(n))
        return np.array([0.5 * np.pi * J * np.abs(np.sin(q)), np.pi * J * np.abs(np.sin(0.5 * q))])


@dataclass
class ThermalResult:
    """Thermal averages.

    Attributes
    ----------
    problem : TaskProblem
    temperatures : (T,) float64
    values : (4, T) float64
        Energy, specific heat, susceptibility and entropy, per site.
    errors : (4, T) float64 or None
        Standard errors with those of the end of the recurrences; None where every sector was diagonalised.
    observed, observed_errors : dict of (T, ...) float64
        Correlators and structure factors, and their errors.
    steps : int
        Largest number of steps of a random vector; 0 where every sector was diagonalised.
    change : (T,) float64 or None
        Largest change of ln Z and <H> / T with the last two fifths of the steps.
    """

    problem: TaskProblem[Thermal]
    temperatures: NDArray[np.float64]
    values: NDArray[np.float64]
    errors: NDArray[np.float64] | None
    observed: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    observed_errors: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    steps: int = 0
    change: NDArray[np.float64] | None = None


@dataclass
class LevelsResult:
    """All levels of sectors and their statistics.

    Attributes
    ----------
    problem : TaskProblem
    levels : (members, levels) float64
        Of every realisation, ascending.
    ratios : (members,) float64
        Mean gap ratio of every realisation; empty if the window holds too few levels.
    all_ratios : (n,) float64 or None
        Gap ratios of all realisations in the window.
    participation, entropies : (members, levels) float64 or None
        Participation entropy, and that of half of the chain, of every eigenstate.
    """

    problem: TaskProblem[Levels]
    levels: NDArray[np.float64]
    ratios: NDArray[np.float64]
    all_ratios: NDArray[np.float64] | None
    participation: NDArray[np.float64] | None = None
    entropies: NDArray[np.float64] | None = None

    @property
    def ratio_error(self) -> float | None:
        """Standard error of the mean gap ratio over the realisations; None for a single one."""
        if len(self.ratios) < 2:
            return None
        return float(self.ratios.std(ddof=1) / np.sqrt(len(self.ratios)))


@dataclass
class FloquetResult:
    """A state after every few cycles.

    Attributes
    ----------
    problem : TaskProblem
    sector : Sector
    rows : dict of arrays
        ``cycle``, ``norm``, ``sz`` and what was asked for, one row per observation.
    error : float
        Claimed error of the last state.
    products : int
    quasienergies : (D,) float64 or None
    ratio : float or None
        Mean gap ratio of the quasi-energies.
    """

    problem: TaskProblem[Floquet]
    sector: Sector
    rows: dict[str, NDArray[Any]]
    error: float
    products: int
    quasienergies: NDArray[np.float64] | None = None
    ratio: float | None = None

    @property
    def period(self) -> float:
        """Duration of a cycle."""
        return sum(step.time for step in self.problem.block.cycle)

    def row(self, name: str) -> NDArray[Any] | None:
        """Return what was observed, None if it was not; of one cut without the axis of the cuts."""
        found = self.rows.get(name)
        if found is not None and found.ndim == 2 and name != "sz" and found.shape[1] == 1:
            return np.asarray(found[:, 0])
        return found


TaskResult = SpectrumResult | DynamicsResult | ThermalResult | LevelsResult | FloquetResult
