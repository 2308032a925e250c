"""Lowest levels of the sectors of H, and observables of the lowest level of all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive
from qsim.trotter.deck.axes import AXES
from qsim.trotter.measurement.spaces import moments_in, plain, schmidt_in, unlike_in
from qsim.trotter.model.hamiltonian import scale_of
from qsim.trotter.observables.base import View
from qsim.trotter.sectors.lanczos import EPS
from qsim.trotter.spectrum.result import SpectrumResult
from qsim.trotter.spectrum.search import LowestLevels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array, FloatArray
    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.trotter.deck.tasks import Spectrum
    from qsim.trotter.measurement.spaces import Space
    from qsim.trotter.observables.base import Pair
    from qsim.trotter.problem import TaskProblem
    from qsim.trotter.sectors.schmidt import Spectrum as Schmidt
    from qsim.trotter.spectrum.search import Member

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
        monitor.note(f"sector {sector}: {sector.dimension} of {problem.model.dimension} states")
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
            f"the {which} level, {energy:.12g}, is degenerate within {lowest.within:.2g} J: it holds states that are "
            f"{apart:.2g} J apart, which rounding and the tolerance do not tell from one energy; they count as one level, and "
            "the gap is that to the next one"
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
    s, ss : dict of axis to (N,) and (N, N) float64
        ``<S^a_j>`` and ``<S^a_j S^a_k>`` along the axes of the strings.
    state : (Space, vector), optional
        The state of a level that has one.
    unlike : dict of (axes, j, k) to float
        ``<S^a_j S^b_k>`` of unlike components along axes of the deck.
    """

    complete = True

    def __init__(
        self,
        problem: TaskProblem[Spectrum],
        s: Mapping[str, FloatArray],
        ss: Mapping[str, FloatArray],
        state: tuple[Space, Array] | None,
        unlike: Mapping[tuple[str, int, int], float],
    ) -> None:
        self.problem, self.s, self.ss, self.state, self.unlike = problem, s, ss, state, unlike
        self.labelled = problem.charged

    def spins(self, axis: str) -> FloatArray:
        """Return ``<S^a_j>`` of every site."""
        place, sign = self.problem.frame.place(axis)
        return sign * self.s[place]

    def correlator_matrix(self, axis: str) -> FloatArray:
        """Return ``<S^a_j S^a_k>`` of all sites."""
        return self.ss[self.problem.frame.place(axis)[0]]

    def correlators(self, axis: str, pairs: Sequence[Pair]) -> FloatArray:
        """Return ``<S^a_j S^a_k>`` of pairs."""
        if len(axis) == 2:
            return np.array([self.unlike[axis, j, k] for j, k in pairs])
        j, k = np.array(pairs).T
        return self.correlator_matrix(axis)[j, k]

    def schmidt(self, cut: Sequence[int]) -> Schmidt:
        """Return the squared Schmidt coefficients of a part."""
        # mixtures have none
        assert self.state is not None
        space, psi = self.state
        return schmidt_in(space, self.problem.place, psi, cut)


def observe(problem: TaskProblem[Spectrum], members: Sequence[Member]) -> dict[str, Array]:
    """Return the observables of the deck, as means over the states of a level; entropies of a single state alone."""
    total = sum(member.states for member in members)
    # the mean over a multiplet has no direction
    averaged = problem.multiplets and total > 1
    # pairs along all axes of the deck but that of the strings, whose moments come with every vector
    along = problem.frame.axis
    across = sorted(
        {
            pair
            for axis, pairs in problem.observables.needs.pairs.items()
            if len(axis) == 1 and (averaged or axis != along)
            for pair in pairs
        }
    )
    # the mean over a level: weights of its states
    s: dict[str, NDArray[np.float64]] = {axis: np.zeros(problem.spins) for axis in AXES}
    ss: dict[str, NDArray[np.float64]] = {axis: np.zeros((problem.spins, problem.spins)) for axis in AXES}
    named, frame = problem.observables.needs.unlike, problem.frame
    keys = [(frame.places(axes)[0], j, k) for axes, j, k in named]
    signs = np.array([frame.places(axes)[1] for axes, _, _ in named])
    unlike = np.zeros(len(named))
    for member in members:
        moments = moments_in(problem.sectors[member.sector], problem.place, member.vector, across)
        # the mean over all states of the level, each sector with as many as it stands for
        share = member.states / total / moments.norm
        # of a whole multiplet they vanish: there is no direction
        if not averaged:
            found = unlike_in(problem.sectors[member.sector], problem.place, member.vector, keys)
            unlike += share * signs * found
        # <S^z> counts where H tells Sz from -Sz; states of both together have no mean
        if member.states == 1 or not problem.mirrored:
            for axis in AXES:
                s[axis] += share * moments.s[axis]
        of = moments.ss
        # a full multiplet is isotropic: every component is the mean of xx, yy and zz
        if averaged:
            of = dict.fromkeys(AXES, (of["x"] + of["y"] + of["z"]) / 3.0)
        for axis in AXES:
            ss[axis] += share * of[axis]
    state = plain(problem.sectors[members[0].sector], members[0].vector) if total == 1 else None
    level = Level(problem, s, ss, state, dict(zip(named, unlike.tolist(), strict=True)))
    arrays: dict[str, Array] = {}
    for observable in problem.observables:
        if total == 1 or not observable.needs.cuts:
            arrays |= {name: np.asarray(value) for name, value in observable.values(level).items()}
    return arrays
