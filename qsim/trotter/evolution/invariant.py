"""Chebyshev expansions of states with equal amplitudes on every orbit of the symmetries of H and start."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.trotter.deck import initial as blocks
from qsim.trotter.evolution.carried import measured
from qsim.trotter.evolution.chebyshev import LONGEST, coefficients
from qsim.trotter.kernels.orbit_series import bessel, series
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.invariant import LEAST, MOST_STATES, Orbits, symmetries_of
from qsim.trotter.sectors.operator import SectorOperator
from qsim.trotter.states.initial import basis_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.evolution.accuracy import Choice
    from qsim.trotter.kernels.measure import Moments
    from qsim.trotter.model.hamiltonian import Hamiltonian
    from qsim.trotter.problem import Problem

SMALL = 0.1  # arguments of Bessel functions, below which the recurrence spans too many powers of ten

__all__ = ["InvariantCarrier", "OrbitSeries", "orbits_in"]


def orbits_in(problem: Problem, hamiltonian: Hamiltonian) -> Orbits | None:
    """Return the orbits that a state can be carried on from the start of a problem; None where that is no use.

    It is one on a CPU, in double precision, in a sector of Sz, from an Ising state, with at least four symmetries.
    """
    sector, start = problem.sector, problem.start
    if not (
        isinstance(sector, Sector)
        and not sector.inversion
        and isinstance(start, blocks.BasisInitial | blocks.NeelInitial | blocks.DomainWallInitial)
        and not problem.device.is_cuda
        and problem.precision == "double"
        and sector.dimension < MOST_STATES
        and hamiltonian.is_static
        and not problem.stepped
        and not problem.by_bonds
    ):
        return None
    model = hamiltonian.at(0.0)
    found = symmetries_of(model, sector, basis_index(start, problem.spins))
    return Orbits(sector, model, found) if len(found) >= LEAST else None


def _numbers(x: float, tolerance: float) -> NDArray[np.float64]:
    """Return what :func:`qsim.trotter.evolution.chebyshev.coefficients` does, in a hundredth of the time."""
    if x < SMALL:
        return coefficients(x, tolerance)[0]
    values = np.empty(int(x + 40 + 20 * x ** (1 / 3)))
    bessel(x, values)
    values[1:] *= 2.0
    tail = np.cumsum(np.abs(values[::-1]))[::-1]
    return values[: max(1, int(np.flatnonzero(tail <= max(tolerance, 1e-17))[0]))]


class OrbitSeries:
    """Expansions on the orbits; the ends of the spectrum are the rigorous bounds of the couplings."""

    def __init__(self, orbits: Orbits) -> None:
        self.orbits = orbits
        self.bounds = orbits.model.bounds
        self._known: dict[tuple[float, float], NDArray[np.float64]] = {}
        self._work: tuple[NDArray[np.complex128], ...] | None = None

    def advance(self, psi: NDArray[np.complex128], t: float, tolerance: float) -> int:
        """Replace amplitudes (orbits,) by those after t, which may be negative; return the number of products."""
        if t == 0.0:
            return 0
        low, high = self.bounds
        centre, radius = 0.5 * (low + high), 0.5 * (high - low)
        parts = max(1, math.ceil(radius * abs(t) / LONGEST))
        key = (abs(t), tolerance)
        if key not in self._known:
            self._known[key] = _numbers(radius * abs(t) / parts, tolerance / parts)
        numbers = self._known[key]
        if self._work is None:
            old, new, total = (np.empty(psi.size, np.complex128) for _ in range(3))
            self._work = old, new, total
        old, new, total = self._work
        data, indices, indptr, diagonal = self.orbits.matrix
        inverse = 1.0 / radius if radius > 0 else 0.0
        angle = -centre * t / parts
        for _ in range(parts):
            series(data, indices, indptr, diagonal, psi, old, new, total, numbers, centre, inverse, t > 0.0)
            np.multiply(total, complex(math.cos(angle), math.sin(angle)), out=psi)
        if not np.isfinite(psi[0]):
            raise NumericsError("the expansion on the orbits is not finite", hint="sector: full")
        return parts * (len(numbers) - 1)


class InvariantCarrier:
    """A state of a sector of Sz with equal amplitudes on the orbits.

    Attributes
    ----------
    products : int
        Products ``H psi`` so far.
    """

    passes = 0
    expansion = None

    def __init__(self, problem: Problem, orbits: Orbits, psi: NDArray[Any], how: Choice) -> None:
        self.problem, self.orbits, self.how = problem, orbits, how
        self.series = OrbitSeries(orbits)
        self.amplitudes = np.asarray(psi[orbits.numbered[1]], np.complex128)
        self.products = 0
        self._whole: Any = None
        assert isinstance(problem.sector, Sector)
        self.linear = SectorOperator(problem.device, problem.sector, orbits.model)

    @property
    def psi(self) -> Any:
        """State (D,) of the sector."""
        if self._whole is None:
            self._whole = self.amplitudes[self.orbits.numbered[0]]
        return self._whole

    def advance(self, start: float, dt: float, steps: int) -> None:
        """Carry the state over some intervals; dt may be negative."""
        for _ in range(steps):
            self.products += self.series.advance(self.amplitudes, dt, self.how.tolerance / steps)
        self._whole = None

    def measure(self, axes: str, pairs: bool = True) -> Moments:
        """Return the moments of the state, and its energy with the variance."""
        return measured(self.problem, self.orbits.model, self.linear, self.psi, axes, pairs)
