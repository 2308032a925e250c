"""A state in a sector of Sz under a product formula of bonds, and the choice of its step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.trotter.evolution.accuracy import PASS_ROUNDING, ROUNDING, Choice, rounded_angles
from qsim.trotter.evolution.bonds import Groups, SectorFormula
from qsim.trotter.evolution.error_pilot import Panel, Pilot, local_error
from qsim.trotter.evolution.gates import GateFormula, gate_pilot, gates_of
from qsim.trotter.evolve.propagators.chebyshev import linear_in, measured
from qsim.trotter.evolve.step_error import hardest
from qsim.trotter.kernels.states.random_states import random_phases
from qsim.trotter.measurement.spaces import strings_of_deck
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.moments import sector_moments
from qsim.trotter.sectors.operator import SectorOperator
from qsim.trotter.sectors.symmetric import SymmetricSector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model

__all__ = ["BondPropagator", "bond_choice"]

# of a bond, in units of the last place of a double: the same in every step, so that it adds up
BOND_ROUNDING = 0.5
# groups of an evolution: days
HUGE = 1e11
# amplitudes up to which a step of the whole system is compared with that of a pilot
COMPARED = 1 << 24


class BondPropagator:
    """A state in a sector that a product formula carries.

    Attributes
    ----------
    products : int
        Products ``H psi``: none.
    """

    passes = products = 0
    expansion = None

    def __init__(self, problem: Problem, hamiltonian: Hamiltonian, psi: NDArray[Any], how: Choice) -> None:
        self.problem, self.how = problem, how
        self.model = hamiltonian.at(0.0)
        self.formula = formula_in(problem, hamiltonian, psi)
        self.operator: Any = linear_in(problem, self.model)

    @property
    def psi(self) -> Any:
        """State (D,)."""
        return self.formula.psi

    def advance(self, start: float, dt: float, steps: int) -> None:
        """Carry the state over some steps; dt may be negative."""
        self.formula.advance(self.how.method, dt, steps)

    def measure(self, axes: str, pairs: bool = True) -> Moments:
        """Return the moments of the state, and its energy; the variance, which takes a second vector, only if it is observed."""
        if (
            not pairs
            or needs_vector(self.problem, self.model)
            or not isinstance(self.operator, SectorOperator)
        ):
            return measured(self.problem, self.model, self.operator, self.psi, axes, pairs)
        # <S^x S^x> of the coupled pairs makes the energy, without a product
        flips = np.argwhere(np.triu(self.model.J[0] + self.model.J[1], 1))
        coupled = [(int(j), int(k)) for j, k in flips]
        return sector_moments(
            self.operator, self.psi, sorted({*self.problem.observables.needs.across, *coupled})
        )


def formula_in(problem: Problem, hamiltonian: Hamiltonian, psi: NDArray[Any]) -> SectorFormula | GateFormula:
    """Return the formula of a state in the space of a problem."""
    space, model = problem.space, problem.frame.turned(hamiltonian.at(0.0))
    # rows and columns of a sector of Sz need no tables of strings
    if isinstance(space, Sector) and not problem.device.is_cuda:
        return SectorFormula(problem.device, space, model, psi)
    # the rules have seen to it
    assert not isinstance(space, SymmetricSector)
    return GateFormula(problem.device, space, model, psi)


def needs_vector(problem: Problem, model: Model) -> bool:
    """Return True if the energy takes a second vector, H psi: with its variance, and with couplings of different components."""
    return problem.observables.needs.variance or model.cross is not None


# ---------------------------------------------------------------------------------------------- step


def _pilot(problem: Problem, hamiltonian: Hamiltonian) -> Pilot:
    """Return the pilot of a formula of bonds: a random state, and the initial one on its sites where that has a part."""
    pilot = gate_pilot(problem.frame.turned(hamiltonian.at(0.0)))
    twos = problem.models.system.twos
    space = DigitSpace(tuple(twos[site] for site in pilot.sites))
    digits = problem.start.digits(twos)
    if len(pilot.sites) == problem.spins:
        state = strings_of_deck(problem.space, problem.device, problem.initial(0), "z")
        pilot.states.insert(0, np.asarray(problem.device.to_host(state), np.complex128))
    elif digits is not None and problem.space.axis == "z":
        string = sum(digits[site] << n * space.bits for n, site in enumerate(pilot.sites))
        state = np.zeros(space.dimension, np.complex128)
        state[space.index(np.array([string]))] = 1.0
        pilot.states.insert(0, state)
    return pilot


def _compared(
    problem: Problem, panel: Panel, hamiltonians: Sequence[Hamiltonian], name: str, dt: float
) -> bool:
    """Let pilots that are smaller than the system see one step of it; tell whether there were any."""
    if problem.dimension > COMPARED or problem.times[-1] <= 0.0:
        return False
    compared = False
    for pilot, hamiltonian in zip(panel.pilots, hamiltonians, strict=True):
        if len(pilot.sites) == problem.spins:
            continue

        def local(method: str, step: float, hamiltonian: Hamiltonian = hamiltonian) -> float:
            first = problem.initial(0).astype(np.complex128)
            drawn = problem.device.xp.empty_like(first)
            random_phases(problem.device, drawn, 1, 0)
            # the start may be a special one
            return max(
                local_error(formula_in(problem, hamiltonian, psi.copy()), psi, method, step)
                for psi in (first, drawn)
            )

        pilot.compare(name, dt, local)
        compared = True
    return compared


def bond_choice(problem: Problem, monitor: Monitor) -> Choice:
    """Return the step of a product formula in the sector of a problem, as given or for the accuracy, and its error.

    The error comes from pilots of at most 12 spins (:mod:`qsim.trotter.evolution.error_pilot`) under the same bonds, for the
    realisation of the disorder with the largest error, and for the way back of an echo.

    Raises
    ------
    NumericsError
        If the accuracy is out of reach, or the evolution too long.
    """
    block = problem.evolution
    name, accuracy, member = block.integrator, block.accuracy, hardest(problem)
    hamiltonians = problem.different_hamiltonians(member)
    panel = Panel([_pilot(problem, hamiltonian) for hamiltonian in hamiltonians])
    intervals = np.diff(np.asarray(problem.times, float))
    duration = float(intervals.sum())
    # a group is a layer: bonds without a common site at once
    each = (Groups(gates_of(hamiltonian.at(0.0))) for hamiltonian in hamiltonians)
    counts = [(1, 1), *(one.per_step(name) for one in each if one.groups)]
    groups, bonds = max(g for g, _ in counts), max(b for _, b in counts)
    if duration <= 0.0:
        return Choice(name, block.dt or 1.0, 0.0, groups, 0.0)
    # a sector of Sz has one vector, and no room for others
    plain = isinstance(problem.space, Sector)
    dt = block.dt
    if dt is None:
        # the deck has seen to it
        assert accuracy is not None
        dt = panel.step(name, intervals, 0.95 * accuracy)
        if not plain and _compared(problem, panel, hamiltonians, name, dt):
            dt = panel.step(name, intervals, 0.95 * accuracy)
    elif not plain:
        given = dt
        monitor.judged(
            "the error of the state", lambda: _compared(problem, panel, hamiltonians, name, given), None
        )
    panel.duration = duration
    # 1e-12: intervals that are multiples of dt but for rounding
    steps = float(np.ceil(intervals / dt * (1.0 - 1e-12)).sum())
    made = bonds * steps
    # angles are rounded once; the rounding of bonds adds up
    rounding = max(rounded_angles(h, duration) for h in hamiltonians)
    rounding += ROUNDING["double"] * (8.0 + BOND_ROUNDING * made)
    if problem.precision == "single":
        rounding += ROUNDING["single"] * (8.0 + PASS_ROUNDING * math.sqrt(made))

    def total() -> float:
        return panel.total(name, intervals, dt) + rounding

    # of a step that is given the error is judged, and nothing hangs on it
    error = total() if accuracy is not None else monitor.judged("the error of the state", total, math.nan)
    if accuracy is not None and not error <= accuracy:
        raise NumericsError(
            f"an error of {accuracy:.2g} after t = {duration:g} is out of reach of {name} in {problem.precision} precision: "
            f"rounding alone makes {rounding:.2g}",
            hint="ask for a larger evolve.accuracy",
        )
    if groups * steps > HUGE:
        raise NumericsError(
            f"{name} takes {groups * steps:.2g} groups of bonds for t = {duration:g}; at most {HUGE:.0g}",
            hint="a shorter evolution",
        )
    return Choice(name, dt, float(np.minimum(2.0, error)), groups, groups * steps)
