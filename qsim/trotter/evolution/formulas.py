"""Product formulas in a sector of conserved Sz: bonds one after the other, in place.

H is a sum of bonds, ``h_jk = J (S^x_j S^x_k + S^y_j S^y_k) + J^z S^z_j S^z_k + D (S_j x S_k)^z`` and a share of the fields of
both sites, the same for each bond of a site.  Bonds are sorted into groups without a site in common, whose members
commute; the groups take the place that the axes have in the whole space: a first-order map goes through them once, its adjoint
backwards, and the methods are the same compositions of both (:mod:`qsim.trotter.evolution.integrators`).  The evolution of a bond
is exact.  Phases of two spins up are left out of every bond; they are the same for all states, and are put in at the end.
"""

from __future__ import annotations

import cmath
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device.device import cpu
from qsim.core.errors import NumericsError
from qsim.trotter.evolution.accuracy import PASS_ROUNDING, ROUNDING, Choice, rounded_angles
from qsim.trotter.evolution.integrators import composed
from qsim.trotter.evolution.pilot import Panel, Pilot
from qsim.trotter.evolution.pilots import hardest
from qsim.trotter.kernels.bonds import BondTables, Rotation, sector_bond
from qsim.trotter.kernels.measure import Moments
from qsim.trotter.sectors.basis import Part, Sector
from qsim.trotter.sectors.choice import definite_down
from qsim.trotter.sectors.moments import sector_moments
from qsim.trotter.sectors.operator import SectorOperator, place_tables
from qsim.trotter.states.initial import basis_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.run.progress import Monitor
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model
    from qsim.trotter.problem import Problem

__all__ = ["Bond", "Bonds", "FormulaCarrier", "SectorFormula", "formula_choice"]

KEPT = 256  # rotations of groups for different times
BOND_ROUNDING = (
    0.5  # of a bond, in units of the last place of a double: the same in every step, so that it adds up
)
HUGE = 1e11  # groups of an evolution: days


class Bond(NamedTuple):
    """Two sites with what couples them, and their share of the fields.

    Attributes
    ----------
    j, k : int
        Sites, j < k.
    flip : complex
        ``<j up, k down| H |j down, k up> = J / 2 + i D / 2``.
    J : float
        ``J^z``.
    first, second : float
        Fields along z.
    """

    j: int
    k: int
    flip: complex
    J: float
    first: float
    second: float

    @property
    def up(self) -> float:
        """Energy of both spins up."""
        return 0.25 * self.J + 0.5 * (self.first + self.second)

    def rotation(self, tau: float) -> Rotation:
        """Return ``exp(-i tau (h - h_upup))``, h_upup the energy of both spins up."""
        mean = -0.25 * self.J - self.up
        delta = 0.5 * (self.second - self.first)
        size = math.hypot(delta, abs(self.flip))
        phase = cmath.exp(-1j * mean * tau)
        c, s = math.cos(size * tau), math.sin(size * tau) / size if size > 0.0 else 0.0
        both = cmath.exp(1j * tau * (self.first + self.second))
        return Rotation(
            phase * complex(c, -s * delta),
            phase * -1j * s * self.flip.conjugate(),
            phase * -1j * s * self.flip,
            phase * complex(c, s * delta),
            both,
        )


class Bonds:
    """H as groups of bonds.

    Parameters
    ----------
    model : Model
        Conserves Sz; of at least two spins.

    Attributes
    ----------
    groups : list of list of Bond
        Bonds of one group have no site in common.
    up : float
        Energy of the state with all spins up, the sum of those of the bonds.
    """

    def __init__(self, model: Model) -> None:
        spins, field = model.spins, model.h[2]
        flip = (model.J[0] + model.J[1]) / 4.0 + 0j
        if model.cross is not None:
            flip = flip + 0.5j * model.cross[0, 1]
        coupled = np.triu((flip != 0) | (model.J[2] != 0), 1)
        degree = (coupled | coupled.T).sum(axis=1)
        # a site without couplings has its field in a bond that couples nothing
        for j in np.flatnonzero((degree == 0) & (field != 0)).tolist():
            coupled[min(j, (j + 1) % spins), max(j, (j + 1) % spins)] = True
        degree = np.maximum((coupled | coupled.T).sum(axis=1), 1)
        self.groups: list[list[Bond]] = []
        taken: list[set[int]] = []
        for j, k in ((int(a), int(b)) for a, b in np.argwhere(coupled)):
            bond = Bond(
                j,
                k,
                complex(flip[j, k]),
                float(model.J[2, j, k]),
                float(field[j] / degree[j]),
                float(field[k] / degree[k]),
            )
            place = next((g for g, sites in enumerate(taken) if j not in sites and k not in sites), None)
            if place is None:
                place = len(taken)
                taken.append(set())
                self.groups.append([])
            taken[place] |= {j, k}
            self.groups[place].append(bond)
        self.up = math.fsum(bond.up for group in self.groups for bond in group)

    def layers(self, method: str, dt: float, steps: int) -> Iterator[tuple[int, float]]:
        """Yield the groups and times of some steps, neighbours merged."""
        step = composed(tuple(range(len(self.groups))), method, dt)
        waiting: tuple[int, float] | None = None
        for _ in range(steps):
            for group, tau in step:
                if waiting is not None and waiting[0] == group:
                    waiting = group, waiting[1] + tau
                    continue
                if waiting is not None:
                    yield waiting
                waiting = group, tau
        if waiting is not None:
            yield waiting

    def per_step(self, method: str) -> tuple[int, int]:
        """Return the groups and the bonds of a step among others."""
        one, two = ([g for g, _ in self.layers(method, 1.0, steps)] for steps in (1, 2))
        bonds = sum(len(self.groups[g]) for g in two) - sum(len(self.groups[g]) for g in one)
        return max(1, len(two) - len(one)), max(1, bonds)


def _tables(sector: Sector, bond: Bond) -> BondTables:
    """Return the columns that a bond pairs."""
    low, nothing = sector.low, np.zeros(0, np.uint32)
    if bond.j >= low.bits:
        return BondTables(np.zeros(1, np.int64), nothing, nothing, nothing)
    if bond.k >= low.bits:
        return BondTables(_offsets(low.bits - 1), low.filled[bond.j], low.clear[bond.j], nothing)
    j, k = 1 << bond.j, 1 << bond.k
    down = low.strings[(low.strings & j != 0) & (low.strings & k == 0)]
    both = low.strings[(low.strings & j != 0) & (low.strings & k != 0)]
    return BondTables(
        _offsets(low.bits - 2), _ranks(low, down), _ranks(low, down ^ (j | k)), _ranks(low, both)
    )


def _ranks(low: Part, strings: NDArray[np.int64]) -> NDArray[np.uint32]:
    return np.asarray(low.rank[strings], np.uint32)


def _offsets(bits: int) -> NDArray[np.int64]:
    """Return the first place of each weight of so many bits, and the end, (bits + 2,)."""
    return np.concatenate([[0], np.cumsum([math.comb(bits, w) for w in range(bits + 1)])]).astype(np.int64)


class SectorFormula:
    """A vector of a sector without inversion, and steps of product formulas that change it in place.

    Parameters
    ----------
    device : Device
        A CPU.
    sector : Sector
    model : Model
    psi : (D,) complex
        Taken over.

    Raises
    ------
    ValueError
        In a sector with inversion.
    """

    def __init__(self, device: Device, sector: Sector, model: Model, psi: NDArray[Any]) -> None:
        if sector.inversion:
            raise ValueError("bonds change the sign under inversion only together with their mirror images")
        self.device, self.sector, self.psi = device, sector, psi
        self.single_spin = 0.5 * float(model.h[2, 0]) * (1 - 2 * sector.down) if sector.spins == 1 else None
        self.bonds = Bonds(model) if sector.spins > 1 else None
        self._strings = place_tables(sector, device)
        self._columns: dict[tuple[int, int], BondTables] = {}
        self._rotations: dict[tuple[int, float], list[Rotation]] = {}

    def advance(self, method: str, dt: float, steps: int) -> None:
        """Make steps of a method of :data:`integrators.METHODS`; dt may be negative."""
        energy = self.single_spin
        if self.bonds is not None:
            energy = self.bonds.up
            for group, tau in self.bonds.layers(method, dt, steps) if self.bonds.groups else ():
                self._group(self.bonds.groups[group], group, tau)
        assert energy is not None
        if energy != 0.0:
            self.psi *= self.psi.dtype.type(cmath.exp(-1j * energy * dt * steps))

    def _group(self, bonds: Sequence[Bond], group: int, tau: float) -> None:
        if len(self._rotations) > KEPT:
            self._rotations.clear()
        if (group, tau) not in self._rotations:
            self._rotations[group, tau] = [bond.rotation(tau) for bond in bonds]
        bits = (self.sector.low.bits, self.sector.high.bits)
        for bond, rotation in zip(bonds, self._rotations[group, tau], strict=True):
            sites = (bond.j, bond.k)
            if sites not in self._columns:
                self._columns[sites] = _tables(self.sector, bond)
            sector_bond(self.device, self._strings, bits, sites, self._columns[sites], self.psi, rotation)


class FormulaCarrier:
    """A state in a sector that a product formula carries.

    Attributes
    ----------
    products : int
        Products ``H psi``: none.
    """

    passes = products = 0
    expansion = None

    def __init__(self, problem: Problem, hamiltonian: Hamiltonian, psi: NDArray[Any], how: Choice) -> None:
        assert isinstance(problem.sector, Sector)
        self.problem, self.how = problem, how
        self.model = hamiltonian.at(0.0)
        self.formula = SectorFormula(problem.device, problem.sector, self.model, psi)
        self.operator = SectorOperator(problem.device, problem.sector, self.model)

    @property
    def psi(self) -> Any:
        """State (D,)."""
        return self.formula.psi

    def advance(self, start: float, dt: float, steps: int) -> None:
        """Carry the state over some steps; dt may be negative."""
        self.formula.advance(self.how.method, dt, steps)

    def measure(self, axes: str, pairs: bool = True) -> Moments:
        """Return the moments of the state, and its energy; the variance only if it is asked for, which takes a second vector."""
        from qsim.trotter.evolution.carried import measured

        if not pairs or needs_vector(self.problem, self.model):
            return measured(self.problem, self.model, self.operator, self.psi, axes, pairs)
        asked = {pair for axes, given in self.problem.asked.pairs.items() if axes != "zz" for pair in given}
        flips = np.argwhere(np.triu(self.model.J[0] + self.model.J[1], 1))
        coupled = [(int(j), int(k)) for j, k in flips]
        return sector_moments(self.operator, self.psi, sorted(asked | set(coupled)))


def needs_vector(problem: Problem, model: Model) -> bool:
    """Return whether the energy takes a second vector, H psi: with its variance, and with couplings of different components."""
    return bool(problem.asked.block("energy_variance")) or model.cross is not None


# ---------------------------------------------------------------------------------------------- step


class _Small:
    """A state of all strings of a few spins, made of those of all sectors; the evolver of a pilot."""

    def __init__(self, model: Model, psi: NDArray[np.complex128]) -> None:
        self.psi = psi
        self.sectors = [Sector(model.spins, down) for down in range(model.spins + 1)]
        self.places = [sector.strings() for sector in self.sectors]
        self.model = model

    def advance(self, method: str, dt: float, steps: int) -> None:
        """Make some steps."""
        for sector, place in zip(self.sectors, self.places, strict=True):
            part = SectorFormula(cpu(1), sector, self.model, self.psi[place])
            part.advance(method, dt, steps)
            self.psi[place] = part.psi


def _pilot(problem: Problem, hamiltonian: Hamiltonian) -> Pilot:
    """Return the pilot of a product formula of bonds: a random state, and the part of an Ising state."""
    model = hamiltonian.at(0.0)
    plain = model
    if model.cross is not None:  # a pilot knows couplings by their size
        size = np.hypot(model.J[0], np.abs(model.cross[0, 1]))
        plain = replace(model, J=np.stack([size, size, model.J[2]]), cross=None)
    found = Pilot.of(plain)
    small = model.restricted(found.sites)
    own = float(np.abs(plain.restricted(found.sites).J).max(initial=0.0))
    factor = float(np.abs(found.hamiltonian.at(0.0).J).max(initial=0.0)) / own if own > 0.0 else 1.0
    small = replace(small, J=factor * small.J, cross=None if small.cross is None else factor * small.cross)
    found.hamiltonian = small
    found.make = lambda _, psi: _Small(small, np.asarray(psi, np.complex128))  # type: ignore[assignment,return-value]
    start: Any = problem.start
    if start.type in ("basis", "neel", "domain_wall") and definite_down(start, problem.spins) is not None:
        index = basis_index(start, problem.spins)
        state = np.zeros(1 << len(found.sites), np.complex128)
        state[sum(1 << n for n, site in enumerate(found.sites) if index >> site & 1)] = 1.0
        found.states.insert(0, state)
    return found


def formula_choice(problem: Problem, monitor: Monitor) -> Choice:
    """Return the step of a product formula in the sector of a problem, as given or for the accuracy, and its error.

    The error is that of pilots of at most 12 spins (:mod:`qsim.trotter.evolution.pilot`) whose states are carried by the same
    bonds, of the realisation of the disorder with the largest one, and of the way back of an echo.

    Raises
    ------
    NumericsError
        If the accuracy is out of reach, or the evolution too long.
    """
    block = problem.evolution
    name, accuracy, member = block.integrator, block.accuracy, hardest(problem)
    hamiltonians = [problem.hamiltonian(member)]
    if problem.asked.echo_sigma:
        hamiltonians.append(hamiltonians[0] + problem.sigma(member))
    panel = Panel([_pilot(problem, hamiltonian) for hamiltonian in hamiltonians])
    intervals = np.diff(np.asarray(problem.times, float))
    duration = float(intervals.sum())
    counts = [Bonds(h.at(0.0)).per_step(name) for h in hamiltonians] if problem.spins > 1 else [(1, 1)]
    groups, bonds = max(g for g, _ in counts), max(b for _, b in counts)
    if duration <= 0.0:
        return Choice(name, block.dt or 1.0, 0.0, groups, 0.0)
    dt = block.dt
    if dt is None:
        assert accuracy is not None  # the deck has seen to it
        dt = panel.step(name, intervals, 0.95 * accuracy)
    panel.duration = duration
    steps = float(np.ceil(intervals / dt * (1.0 - 1e-12)).sum())
    made = bonds * steps
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
