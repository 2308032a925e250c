"""A state of a sector with equal amplitudes on every orbit of the symmetries of H and of the initial state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.evolution.accuracy import Choice
from qsim.trotter.evolution.orbits import OrbitSeries
from qsim.trotter.evolve.propagators.chebyshev import measured
from qsim.trotter.initial.product import PolarisedState
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.operator import SectorOperator
from qsim.trotter.sectors.orbits import LEAST, MOST_STATES, Orbits, symmetries_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.model.hamiltonian import Hamiltonian


def ising_string(problem: Problem) -> int | None:
    """Return the index of the Ising state that a run begins with; None for other states, and for a polarised one."""
    # all spins up or down: one state, on which no flip acts
    return None if isinstance(problem.start, PolarisedState) else problem.start.string(problem.spins)


def orbits_in(problem: Problem, hamiltonian: Hamiltonian) -> Orbits | None:
    """Return the orbits that a state can be carried on from the start of a problem; None where that is no use.

    It is one on a CPU, in double precision, in a sector of Sz, from an Ising state, with at least four symmetries.
    """
    sector, string = problem.sector, ising_string(problem)
    if not (
        isinstance(sector, Sector)
        and not sector.inversion
        and string is not None
        and not problem.device.is_cuda
        and problem.precision == "double"
        and sector.dimension < MOST_STATES
        and hamiltonian.is_static
        and problem.path == "chebyshev"
    ):
        return None
    model = hamiltonian.at(0.0)
    symmetries = symmetries_of(model, sector, string)
    return Orbits(sector, model, symmetries) if len(symmetries) >= LEAST else None


class OrbitPropagator:
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
        # one amplitude for each orbit, at its first string
        self.amplitudes = np.asarray(psi[orbits.numbered[1]], np.complex128)
        self.products = 0
        self._whole: Any = None
        assert isinstance(problem.sector, Sector)
        self.linear = SectorOperator(problem.device, problem.sector, orbits.model)

    @property
    def psi(self) -> Any:
        """State (D,) of the sector."""
        if self._whole is None:
            # unfolded only where something is observed
            self._whole = self.amplitudes[self.orbits.numbered[0]]
        return self._whole

    def advance(self, start: float, dt: float, steps: int) -> None:
        """Carry the state over some intervals; dt may be negative."""
        for _ in range(steps):
            # the tolerance is of the whole call; each interval is an expansion of its own
            self.products += self.series.advance(self.amplitudes, dt, self.how.tolerance / steps)
        self._whole = None

    def measure(self, axes: str, pairs: bool = True) -> Moments:
        """Return the moments of the state, and its energy with the variance."""
        return measured(self.problem, self.orbits.model, self.linear, self.psi, axes, pairs)
