"""Lowest levels of the sectors of H, and observables of the lowest level of all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive
from qsim.trotter.model.hamiltonian import scale_of
from qsim.trotter.observables.base import View
from qsim.trotter.sectors.lanczos import EPS
from qsim.trotter.sectors.lowest import RESOLUTION
from qsim.trotter.sectors.moments import sector_moments
from qsim.trotter.sectors.operator import SectorOperator
from qsim.trotter.sectors.schmidt import sector_schmidt
from qsim.trotter.sectors.symmetric import SymmetricSector
from qsim.trotter.spectrum.result import SpectrumResult
from qsim.trotter.spectrum.search import LowestLevels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array, FloatArray
    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.trotter.deck.tasks import Spectrum
    from qsim.trotter.observables.base import Pair
    from qsim.trotter.problem import TaskProblem
    from qsim.trotter.sectors.basis import Sector
    from qsim.trotter.sectors.schmidt import Spectrum as Schmidt
    from qsim.trotter.spectrum.search import Member

__all__ = ["run"]

# residual of levels, of H of order one or more
DEFAULT_TOLERANCE = 1e-10


def tolerance_of(problem: TaskProblem[Spectrum]) -> float:
    """Return the largest residual of a level: of the deck, else by the size of H."""
    given = problem.block.tolerance
    return DEFAULT_TOLERANCE * min(1.0, scale_of(problem.model)) if given is None else given


class Computation:
    """The search for the levels of all sectors; complete sectors are kept in a checkpoint."""

    def __init__(self, problem: TaskProblem[Spectrum], restored: Mapping[str, Any] | None) -> None:
        self.problem = problem
        block = problem.block
        shape = (len(problem.sectors), block.levels)
        self.levels, self.residuals = np.full(shape, math.nan), np.full(shape, math.nan)
        self.spins = np.full(shape, math.nan)
        self.done = self.products = 0
        if restored is not None:
            self.levels, self.residuals = np.array(restored["levels"]), np.array(restored["residuals"])
            self.spins = np.array(restored["spins"])
            self.done, self.products = int(restored["done"]), int(restored["products"])
        self.lowest = LowestLevels(
            problem,
            block.levels,
            tolerance_of(problem),
            passing=block.gap,
            highest=block.which == "highest",
            spins=problem.spin_conserved,
            restored=None if restored is None else restored["lowest"],
        )

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "levels": self.levels,
            "residuals": self.residuals,
            "spins": self.spins,
            "done": self.done,
            "products": self.products,
            "lowest": self.lowest.state(),
        }

    def advance(self, report: Report) -> None:
        """Find the levels of the sectors that are left."""
        # the largest sectors first; the unit of a checkpoint is a sector
        for number in self.lowest.order[self.done :]:
            levels, spins = self.lowest.visit(number, lambda: report(Progress()))
            count = min(self.problem.block.levels, len(levels.energies))
            self.levels[number, :count] = levels.energies[:count]
            self.residuals[number, :count] = levels.residuals[:count]
            self.spins[number, :count] = spins[:count]
            self.products += levels.products
            self.done += 1
            report(Progress(self.done, {"energy": float(levels.energies[0])}))


def run(problem: TaskProblem[Spectrum], monitor: Monitor) -> SpectrumResult:
    """Find the levels of all sectors and observe the lowest one."""
    for sector in problem.sectors:
        monitor.note(f"sector {sector}: {sector.dimension} of {2**problem.spins} states")
    made = Computation(problem, monitor.restored)
    with monitor.stage("levels"):
        drive(made, monitor, total=len(problem.sectors), unit="sectors", what="levels", done=made.done)
    lowest = made.lowest
    result = SpectrumResult(
        problem,
        problem.sectors,
        made.levels,
        made.residuals,
        made.spins,
        lowest.listed,
        lowest.degeneracy,
        lowest.second,
        products=made.products,
    )
    energy, which = result.listed[0, 0], problem.block.which
    # in this order: degeneracy, gap, observables; each needs all states of the level
    if problem.block.gap and not lowest.known:
        monitor.warn(
            f"the {which} level, {energy:.12g}, has more states than were found, or lies closer to others than the tolerance "
            f"{tolerance_of(problem):.2g} can tell: its degeneracy and the gap are not given, nor is it observed; lower "
            "spectrum.tolerance, or name a smaller sector"
        )
        return result
    if (apart := lowest.splitting) > 32.0 * EPS * scale_of(problem.model):
        monitor.warn(
            f"the {which} level, {energy:.12g}, holds states that are {apart:.2g} J apart, which levels of this H are not told "
            f"apart by ({RESOLUTION * scale_of(problem.model):.2g} J and the residuals): they count as one level"
        )
    if problem.block.gap and not problem.complete:
        monitor.note("gap: the sectors of the deck do not hold all levels of H; sector_gap is their own")
    if not (problem.block.vectors and problem.observables):
        return result
    with monitor.stage("observe"):
        result.observed = observe(problem, lowest.members)
    if result.degeneracy != 1:
        left_out = (
            "; entropies, of which a mixture has none, are left out" if problem.observables.needs.cuts else ""
        )
        monitor.warn(
            f"{result.degeneracy} states have the {which} energy, {energy:.12g}: what is observed is the mean over them{left_out}"
        )
    return result


class Level(View):
    """A level as observables see it: means over its states.

    Parameters
    ----------
    problem : TaskProblem
    sz : (N,) float64
    ss : dict of (N, N) float64
        ``<S^x_j S^x_k>`` and ``<S^z_j S^z_k>``, where they were measured.
    state : (Sector, vector), optional
        The state of a level that has one.
    """

    complete = labelled = True

    def __init__(
        self,
        problem: TaskProblem[Spectrum],
        sz: FloatArray,
        ss: Mapping[str, FloatArray],
        state: tuple[Sector, Array] | None,
    ) -> None:
        self.problem, self.sz, self.ss, self.state = problem, sz, ss, state

    def spins(self, axis: str) -> FloatArray:
        """Return ``<S^z_j>`` of every site."""
        return self.sz if axis == "z" else np.zeros_like(self.sz)

    def correlator_matrix(self, axis: str) -> FloatArray:
        """Return ``<S^a_j S^a_k>`` of all sites."""
        return self.ss["z" if axis == "z" else "x"]

    def correlators(self, axis: str, pairs: Sequence[Pair]) -> FloatArray:
        """Return ``<S^a_j S^a_k>`` of pairs."""
        j, k = np.array(pairs).T
        return self.correlator_matrix(axis)[j, k]

    def schmidt(self, cut: Sequence[int]) -> Schmidt:
        """Return the squared Schmidt coefficients of a part."""
        # mixtures have none
        assert self.state is not None
        sector, psi = self.state
        return sector_schmidt(sector, self.problem.place, psi, cut)


def observe(problem: TaskProblem[Spectrum], members: Sequence[Member]) -> dict[str, Array]:
    """Return the observables of the deck, as means over the states of a level; entropies of a single state alone."""
    total = sum(member.states for member in members)
    # the mean over a multiplet has no direction
    averaged = problem.multiplets and total > 1
    needs, spins = problem.observables.needs, problem.spins
    across = sorted({*needs.across, *(needs.along if averaged else ())})
    # the mean over a level: weights of its states, xx from pairs and zz from probabilities
    sz, ss = np.zeros(spins), {"x": np.zeros((spins, spins)), "z": np.zeros((spins, spins))}
    for member in members:
        sector, psi = plain(problem, member)
        moments = sector_moments(SectorOperator(problem.place, sector, problem.model), psi, across)
        # the mean over all states of the level, each sector with as many as it stands for
        share = member.states / total / moments.norm
        # <S^z> counts where H tells Sz from -Sz; states of both together have no mean
        if member.states == 1 or not problem.mirrored:
            sz += share * moments.s["z"]
        x, z = moments.ss["x"], moments.ss["z"]
        # a full multiplet is isotropic: every component is the mean of xx, yy and zz
        if averaged:
            x = z = (2.0 * x + z) / 3.0
        ss["x"] += share * x
        ss["z"] += share * z
    level = Level(problem, sz, ss, plain(problem, members[0]) if total == 1 else None)
    arrays: dict[str, Array] = {}
    for observable in problem.observables:
        if total == 1 or not observable.needs.cuts:
            arrays |= {name: np.asarray(value) for name, value in observable.values(level).items()}
    return arrays


def plain(problem: TaskProblem[Spectrum], member: Member) -> tuple[Sector, NDArray[Any]]:
    """Return the sector of Sz of a state, and the state there."""
    sector = problem.sectors[member.sector]
    if isinstance(sector, SymmetricSector):
        return sector.base, sector.whole(member.vector)
    return sector, member.vector
