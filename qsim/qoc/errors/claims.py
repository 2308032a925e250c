"""The errors that a run claims: its numbers beside those of a reference that shares neither grid, box, levels nor steps with it.

From the run to the reference there are four changes, made one after the other: finer time steps, a sine basis instead of the
stencil, walls out of reach, more levels.  What each of them changes is a part of the error.  The reference is judged in turn
by a second one with fewer points, nearer walls and fewer levels, and by what the extrapolation to a vanishing step changes.

The reference may cost about twice the run (`qsim.qoc.costs`).  Where it would cost more, no error of P is claimed, and a warning
says so; those of energies and dipoles are cheap and always given.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device.parallel import in_shares
from qsim.qoc import costs
from qsim.qoc.control.mesh import other_way, resample, way_between
from qsim.qoc.errors import reference
from qsim.qoc.errors.reference import PARTS, Errors
from qsim.qoc.models.line import landscape as lines
from qsim.qoc.models.molecule import doubted, molecule
from qsim.qoc.objectives.objective import Objective
from qsim.qoc.propagators.propagator import Eigenbasis, Members

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.qoc.control.controls import Functions
    from qsim.qoc.models.molecule import Molecule
    from qsim.qoc.problem import MoleculeProblem

# Levels of the reference beyond those of the run.
EXTRA_LEVELS = 8
FEWEST_LEVELS = 24
# Of the reference, as many as the CUDA kernels hold.
MOST_LEVELS = 96
# Members of an ensemble on which errors are determined.
SAMPLE = 8
# Of one propagation of the reference.
MOST_STEPS = 1_000_000
MOST_SUBSTEPS = 64
# Error of the reference aimed at, as a fraction of verify.tolerance.
CLOSE = 0.02
# Overlap from which levels on two grids count as the same level.
SAME_LEVEL = 0.9
# Population from which a level counts as reached.
REACHED = 1e-8
# Part of the largest change of P that a change of the amplitudes allows, which is claimed at least.
ALIGNED = 0.2

# Change of P by the last halving of the step up to which an extrapolation is trusted.
FOLLOWED = 0.1


class TooCostly(Exception):
    """The reference of a run costs more than the claims are worth; the message says how much (seconds)."""


@dataclass
class Judge:
    """Sampled members on several grids, to determine errors.

    Parameters
    ----------
    problem : MoleculeProblem
    values : (N,) float64
        The final field.
    reached : (K,) float64
        Largest population of each level during the run.
    probabilities : (M,) float64
        P of every member, of which the worst one is always in the sample.
    sweeps : int
        Propagations that the search made; the claims may cost about twice as much.
    """

    problem: MoleculeProblem
    values: NDArray[np.float64]
    reached: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    sweeps: int = 1
    ground: lines.Landscape = field(init=False)
    sample: NDArray[np.int64] = field(init=False)
    between: str = field(init=False)
    left: float = field(init=False)

    def __post_init__(self) -> None:
        """Choose the members and the meaning of the field between its values."""
        problem = self.problem
        self.ground = lines.landscape(problem.system)
        self.sample = sampled(self.probabilities)
        self.between = way_between(self.values, problem.verify.interpolation)
        self.left = costs.budget(problem, self.sweeps)
        targets = problem.goal.targets(self.levels)
        self.objective = Objective(problem.propagator, targets, 0.0, problem.goal.coherent)

    @property
    def levels(self) -> int:
        """Number of levels K of the run."""
        return int(self.problem.initial.shape[1])

    @property
    def systems(self) -> list[int]:
        """Molecules of the sampled members, ascending, and the nominal one."""
        return sorted({0} | {int(s) for s in self.problem.members.system[self.sample]})

    def top_energy(self, run: Molecule, levels: int) -> float:
        """Return the energy (hartree) up to which a number of levels reach, extrapolated from the levels of the run."""
        known = run.energies[: self.levels]
        return float(known[0] + (known[-1] - known[0]) * (levels / known.size) ** 1.5)

    def errors(self) -> Errors:
        """Return the errors; see :class:`Errors`."""
        # A first reference with some levels more than the run; a second one with twice as many if the first is too
        # poor to judge, and the levels are what limits it.
        count, aim = self._reference_levels(), 0.5 * self.problem.verify.tolerance
        try:
            found = _Chain(self, count).errors()
        except TooCostly as problem:
            return _Chain(self, count, followed=False).levels_only(str(problem))
        if found.parts["reference"] <= aim or found.parts["levels"] <= aim or count >= MOST_LEVELS:
            return found
        try:
            return _Chain(self, min(MOST_LEVELS, 2 * count)).errors()
        except TooCostly:
            # the first errors are as true, only larger
            return found

    def spend(self, seconds: float) -> bool:
        """Take an estimated cost from what the claims may cost; return whether so much was left."""
        if seconds > self.left:
            return False
        self.left -= seconds
        return True

    def _reference_levels(self) -> int:
        # Only the CUDA kernels limit the levels; a CPU takes as many as the run asks for.
        wanted = max(self.levels + EXTRA_LEVELS, FEWEST_LEVELS)
        return min(wanted, MOST_LEVELS) if self.problem.device.is_cuda else wanted

    def probability(self, a: NDArray[np.complex128]) -> NDArray[np.float64]:
        """Return P of amplitudes (S, pairs, levels) of any number of levels: (S,)."""
        self.objective.targets = self.problem.goal.targets(a.shape[-1])
        return self.objective.member_probabilities(a[None])[0]

    def change(
        self, a: NDArray[np.complex128], b: NDArray[np.complex128], same: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return by how much P differs between two sets of final amplitudes, or easily could: (S,).

        With the overall phases aligned, ``delta = |a - b|`` changes P by at most ``2 sqrt(P (1 - P)) delta + delta^2`` (Eq. Q7).
        Differences of P pass through zero by accident, that of the amplitudes does not, so at least `ALIGNED`
        times this bound is returned.

        Parameters
        ----------
        a, b : (S, pairs, levels) complex128
        same : (S, levels) bool, optional
            Levels that are the same in both; of the others only the population is compared.
        """
        # only levels that both know, and that are the same on both grids, have a phase to compare
        common = min(a.shape[-1], b.shape[-1])
        pa, pb = self.probability(a), self.probability(b)
        mask = np.ones((a.shape[0], common)) if same is None else same[:, :common].astype(float)
        left, right = a[..., :common] * mask[:, None], b[..., :common] * mask[:, None]
        overlap = np.sum(right.conj() * left, axis=-1)
        if self.objective.coherent:
            overlap = np.broadcast_to(overlap.sum(axis=1, keepdims=True), overlap.shape)
        # an overall phase changes no P; of coherent pairs it is one for all of them
        phase = np.where(np.abs(overlap) > 0, overlap / np.maximum(np.abs(overlap), 1e-300), 1.0)
        delta = np.linalg.norm(left - right * phase[..., None], axis=-1)
        # of levels that only one of them knows the population counts
        rest = np.abs(_population(a) - _population(left) - _population(b) + _population(right))
        p = np.clip(0.5 * (pa + pb), 0.0, 1.0)[:, None]
        bound = np.mean(2.0 * np.sqrt(p * (1.0 - p)) * delta + delta**2 + rest, axis=1)
        return np.maximum(np.abs(pa - pb), ALIGNED * np.minimum(bound, 1.0))


class Grids(NamedTuple):
    """Levels of one molecule on all grids of a reference.

    Attributes
    ----------
    outer, inner, second : Molecule
        The reference; the same between the walls of the run; the second reference.
    missed, angles : (K,), (K, K) float64
        What the reference leaves open, see :func:`qsim.qoc.errors.reference.refined`.
    same_stencil, same_inner, same_second : (levels + 1,) bool
        Levels of the reference that are the same in the run, between its walls, and in the second one.
    """

    outer: Molecule
    inner: Molecule
    second: Molecule
    missed: NDArray[np.float64]
    angles: NDArray[np.float64]
    same_stencil: NDArray[np.bool_]
    same_inner: NDArray[np.bool_]
    same_second: NDArray[np.bool_]


class _Chain:
    """The run's members on every grid, and their final amplitudes under the run's field."""

    def __init__(self, judge: Judge, levels: int, followed: bool = True) -> None:
        self.judge, self.levels = judge, levels
        self.continuous: tuple[float, float] | None = None
        self.problem = judge.problem
        whole = self.problem.members
        self.systems = judge.systems if followed else [0]
        place = {s: i for i, s in enumerate(self.systems)}
        self.system = np.array([place.get(int(s), 0) for s in whole.system[judge.sample]])
        self.scale = whole.scale[judge.sample]
        self.kept = judge.levels
        self.fewer = max(levels - 3, self.problem.goal.top + 1)
        self.stencil = [whole.molecules[s] for s in self.systems]
        whole_grid = self.problem.propagator.name != "eigenbasis"
        # the grid keeps all levels: so must its stand-in
        if whole_grid:
            self.kept = min(levels, self.problem.molecule.x.size - 2)
        if followed:
            self._afford()
        if whole_grid:
            self.stencil = [molecule(self.problem.system, self.kept, *self._factors(s)) for s in self.systems]
        # the same levels where the tables of the deck have other curves through their rows
        other = doubted(self.problem.system)
        self.rows: list[Molecule] = []
        if other is not None:
            self.rows = [
                molecule(other, one.energies.size, *self._factors(s))
                for s, one in zip(self.systems, self.stencil, strict=True)
            ]
        # ranks share the molecules
        self.grids = list(in_shares(judge.objective.comm, range(len(self.systems)), self._grids_of).values())
        self.outer = [grids.outer for grids in self.grids]

    def _afford(self) -> None:
        """Take the cost of the levels and of the coarsest steps from what is left.

        Raises
        ------
        TooCostly
            If too little is left.
        """
        # Diagonalisations grow with the cube of the points, propagations with the steps.
        dense = len(self.systems) * costs.DENSE * max(lines.PLENTY, 2 * self.levels) ** 3
        self._spend(dense + self._cost(1, chain=0) + self._cost(2))

    def _cost(self, substeps: int, chain: int = 5) -> float:
        """Return the seconds of one propagation of the reference and of some along the chain, with a number of substeps."""
        problem, steps = self.problem, self.judge.values.size * substeps
        sizes = (self.scale.size, len(self.systems))
        each = costs.reference_cost(problem, *sizes, self.kept, steps)
        return costs.reference_cost(problem, *sizes, self.levels, steps) + chain * each

    def _spend(self, seconds: float) -> None:
        if not self.judge.spend(seconds):
            raise TooCostly(
                f"no error is claimed: the reference for P would cost about {seconds:.2g} s of computation, more than the "
                f"{self.judge.left:.2g} s that are left for it after a run of this size; check P with fewer ensemble members "
                "or time.steps, or by a run with twice the steps, points and states"
            )

    def _factors(self, system: int) -> tuple[float, float]:
        """Mass and potential factor of a molecule."""
        return self.problem.factors[system]

    def _grids_of(self, number: int) -> Grids:
        """Return the levels of one molecule on all grids."""
        ground, judge, s = self.judge.ground, self.judge, self.systems[number]
        scale = self._factors(s)[1]
        run = self.problem.members.molecules[s]
        top = judge.top_energy(run, self.levels)
        box = ground.box(top, run.mass, scale)
        points = lines.enough_points(ground, box, top, self.levels, run.mass, scale)
        outer, missed, angles = self._refined(box, points, self.levels, s)
        outer, of_stencil = reference.aligned(outer, self.stencil[number])
        # The second reference differs in all of walls, points and levels.
        # What it changes is the error that the first one has left.
        near = ground.box(top, run.mass, scale, 0.6 * lines.REACH)
        fewer = int(0.8 * points) + 1
        second, of_second = reference.aligned(self._refined(near, fewer, self.fewer, s)[0], outer)
        # With reach 0 the walls are those of the run: the step from here to `outer` is that of the box.
        walls = ground.box(top, run.mass, scale, 0.0)
        points = lines.enough_points(ground, walls, top, self.kept, run.mass, scale)
        inner, of_inner = reference.aligned(self._refined(walls, points, self.kept, s)[0], outer)
        masks = map(self._mask, (of_stencil, of_inner, of_second))
        return Grids(outer, inner, second, missed, angles, *masks)

    def _refined(
        self, box: tuple[float, float], points: int, levels: int, system: int
    ) -> tuple[Molecule, NDArray[np.float64], NDArray[np.float64]]:
        """Return the levels of a molecule in a sine basis; see :func:`qsim.qoc.errors.reference.refined`."""
        mass, scale = self._factors(system)
        ground = self.judge.ground
        rough = lines.sine_levels(ground, box, points, levels, mass, scale)
        return reference.refined(ground, rough, scale)

    def _mask(self, overlap: NDArray[np.float64]) -> NDArray[np.bool_]:
        # Levels that are not found again on another grid stay False.
        mask = np.zeros(self.levels + 1, bool)
        mask[: overlap.size] = overlap[: self.levels + 1] > SAME_LEVEL
        return mask

    def _of_members(self, name: str) -> NDArray[Any]:
        """Return an array of the grids by its name, for each member of the sample."""
        return np.array([getattr(grids, name) for grids in self.grids])[self.system]

    def final(
        self,
        molecules: list[Molecule],
        levels: int,
        substeps: int,
        between: str | None = None,
        course: Functions | None = None,
    ) -> NDArray[np.complex128]:
        """Return the final amplitudes (S, pairs, levels) in the levels of some grid; `course` replaces the values of the run."""
        problem, judge = self.problem, self.judge
        steps = judge.values.size * substeps
        if course is None:
            values = resample(judge.values, problem.duration, steps, between or judge.between)
        else:
            values = course.means(steps)[0]
        # All members go in one launch, so the molecule with the fewest levels sets their number.
        levels = min(levels, *(m.energies.size for m in molecules))
        members = Members(tuple(molecules), self.system, self.scale)
        propagator = Eigenbasis(
            problem.device, members, problem.goal.initial(levels), steps, problem.duration
        )
        return propagator.forward(values[None]).amplitudes[0]

    def of_the_run(self) -> NDArray[np.complex128]:
        """Return the final amplitudes of the sampled members by the run's own propagator."""
        whole = self.problem.members
        members = Members(whole.molecules, whole.system[self.judge.sample], self.scale)
        own = self.problem.propagator.of_members(members)
        return own.forward(self.judge.values[None]).amplitudes[0]

    def errors(self) -> Errors:
        """Go from the run to the reference and add up what changes."""
        substeps, coarse, fine = self._substeps()
        parts, best = self._parts(substeps, coarse, fine)
        energies, dipoles = self._levels()
        return Errors(
            parts={name: float(parts[name].mean()) for name in PARTS},
            continuous=self.continuous,
            between=self.judge.between,
            energies=energies,
            dipoles=dipoles,
            member=self.judge.sample,
            truth=best,
            of_members=np.minimum(sum(parts.values()), 1.0),
            guess=self._of_guess(substeps, parts),
            fallen=self._fallen(),
        )

    def _of_guess(self, substeps: int, parts: dict[str, NDArray[np.float64]]) -> float:
        """Return the error of P of the first field, with grids and steps of the final one; NaN if it costs too much."""
        first = self.problem.first[0]
        if np.array_equal(first, self.judge.values):
            return min(1.0, float(sum(part.mean() for part in parts.values())))
        if not self.judge.spend(self._cost(substeps) + self._cost(substeps // 2, chain=0)):
            return math.nan
        other = copy(self)
        other.judge = copy(self.judge)
        other.judge.values = first
        other.judge.between = way_between(first, self.problem.verify.interpolation)
        coarse = other.final(other.outer, other.levels, substeps // 2)
        fine = other.final(other.outer, other.levels, substeps)
        parts, _ = other._parts(substeps, coarse, fine)
        return min(1.0, float(sum(part.mean() for part in parts.values())))

    def _parts(
        self, substeps: int, coarse: NDArray[np.complex128], fine: NDArray[np.complex128]
    ) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.complex128]]:
        """Return the parts of the error of P of each member, and the amplitudes of the reference without steps.

        `coarse` and `fine` are those of the reference with half as many substeps and with all.
        """
        judge = self.judge
        # the error of a Strang step is even in the step
        # Richardson's extrapolation to a step of zero; the sum is no longer of norm 1.
        best = (4.0 * fine - coarse) / 3.0
        best /= np.linalg.norm(best, axis=-1, keepdims=True)
        final = self._finals(substeps)
        stencil, inner, outer, second = (final[name] for name in ("stencil", "inner", "outer", "second"))
        # Levels must be the same on all grids that are compared, as amplitudes are told apart by level.
        same_grid = self._of_members("same_stencil") & self._of_members("same_inner")
        steps = judge.change(fine, best)
        # Parts of the reference's own error: what the extrapolation leaves, the other basis,
        # and what lies between the points or mixes close levels.
        own = 0.25 * steps + judge.change(fine, second, self._of_members("same_second"))
        own += self._unseen(best) + self._mixed(best)
        if self.rows:
            own += judge.change(stencil, final["rows"])
        between = judge.change(fine, final["other"]) if "other" in final else np.zeros_like(own)
        slots = np.zeros_like(own)
        if "course" in final:
            # Means over steps are of second order, and the finer ones are three times as close as the change.
            rest = judge.change(final["coarse course"], final["course"])
            slots = judge.change(fine, final["course"]) + rest
            p = judge.probability(final["course"])
            self.continuous = float(p.mean()), float((rest + own + judge.change(fine, best)).mean())
        parts = {
            "time step": judge.change(final["run"], stencil) + steps,
            "grid": judge.change(stencil, inner, same_grid),
            "box": judge.change(inner, outer, self._of_members("same_inner")),
            "levels": judge.change(outer, fine),
            "interpolation": between,
            "slots": slots,
            "reference": own,
        }
        return parts, best

    def _finals(self, substeps: int) -> dict[str, NDArray[np.complex128]]:
        """Return the final amplitudes along the chain; ranks share the propagations, as one takes as long for fewer members."""
        propagations: dict[str, Callable[[], NDArray[np.complex128]]] = {
            "stencil": lambda: self.final(self.stencil, self.kept, substeps),
            "inner": lambda: self.final([grids.inner for grids in self.grids], self.kept, substeps),
            "outer": lambda: self.final(self.outer, self.kept, substeps),
            "second": lambda: self.final([grids.second for grids in self.grids], self.fewer, substeps),
            "run": self.of_the_run,
        }
        if self.rows:
            propagations["rows"] = lambda: self.final(self.rows, self.kept, substeps)
        if self.problem.verify.interpolation == "auto" and self.judge.between == "cubic":
            other = other_way(self.judge.between)
            propagations["other"] = lambda: self.final(self.outer, self.levels, substeps, other)
        course = self.problem.functions
        if course is not None:
            if missed := course.places[1]:
                raise TooCostly(f"no error is claimed: {missed} narrow pulses of the field were not followed")
            self._spend(self._cost(2 * substeps, chain=0) + self._cost(substeps, chain=0))
            for name, factor in (("coarse course", 1), ("course", 2)):
                propagations[name] = partial(
                    self.final, self.outer, self.levels, factor * substeps, course=course
                )
        return in_shares(self.judge.objective.comm, list(propagations), lambda name: propagations[name]())

    def levels_only(self, why: str) -> Errors:
        """Return the errors of energies and dipoles alone; the errors of P are unknown."""
        energies, dipoles = self._levels()
        return Errors(
            parts=dict.fromkeys(PARTS, math.nan),
            between=self.judge.between,
            energies=energies,
            dipoles=dipoles,
            member=np.zeros(0, np.int64),
            truth=np.zeros((0, self.problem.initial.shape[0], self.levels), complex),
            of_members=np.zeros(0),
            fallen=self._fallen(),
            unclaimed=why,
        )

    def _substeps(self) -> tuple[int, NDArray[np.complex128], NDArray[np.complex128]]:
        """Double the steps until the extrapolation changes little; return substeps and the last two amplitudes."""
        # The search begins with the run's own steps and two times as many.
        aim, size = CLOSE * self.problem.verify.tolerance, self.judge.values.size
        substeps, coarse = 2, self.final(self.outer, self.levels, 1)
        while True:
            fine = self.final(self.outer, self.levels, substeps)
            change = float(self.judge.change(coarse, fine).mean())
            if change < aim or 2 * substeps > MOST_SUBSTEPS or 2 * substeps * size > MOST_STEPS:
                return substeps, coarse, fine
            try:
                # the chain with the fewer steps is no longer needed
                self._spend(self._cost(2 * substeps) - self._cost(substeps) + self._cost(substeps, chain=0))
            except TooCostly:
                # A small last change may be extrapolated all the same; a large one proves nothing.
                if change > FOLLOWED:
                    raise
                return substeps, coarse, fine
            substeps, coarse = 2 * substeps, fine

    def _unseen(self, final: NDArray[np.complex128]) -> NDArray[np.float64]:
        """Return the change of P by the phases that the potential between the points of the reference gives its levels."""
        duration = self.problem.duration
        missed = self._of_members("missed")[:, : self.levels]
        # Populations on the way count as well, since levels gather phases whenever they are populated.
        p = np.abs(final) ** 2
        known = min(self.judge.reached.size, p.shape[-1])
        p[..., :known] = np.maximum(p[..., :known], self.judge.reached[:known])
        # Phase of each level: the energy that the points miss, times T.
        phases = np.sqrt(np.sum(p * (missed[:, None] * duration) ** 2, axis=-1))
        return np.minimum(phases.mean(axis=1), 1.0)

    def _mixed(self, final: NDArray[np.complex128]) -> NDArray[np.float64]:
        """Return the change of P by the mixing of close levels that the reference leaves open (Eqs. Q6 and Q7): (S,).

        Levels are turned against each other by the angles of :func:`~qsim.qoc.errors.reference.refined`.  That changes the start
        and the target; within a list of target levels it changes nothing.
        """
        # (S, K, K)
        angles = self._of_members("angles")[:, : self.levels, : self.levels]
        goal, levels = self.problem.goal, angles.shape[-1]
        turned = []
        for start, targets in zip(goal.initial(levels), goal.targets(levels), strict=True):
            at_start = np.linalg.norm(angles @ np.abs(start), axis=-1)
            # 1: the level lies in the span of the target
            share = np.sum(np.abs(targets) ** 2, axis=0)
            leaving = angles * np.sqrt(share) * (1.0 - share)[:, None]
            inside = np.abs(targets[0]) * (
                len(targets) == 1
            )  # a superposition: its parts turn against each other, too
            at_target = np.linalg.norm(leaving, axis=(-2, -1)) + np.linalg.norm(angles @ inside, axis=-1)
            turned.append(at_start + at_target)
        delta = np.mean(turned, axis=0)
        # P = cos^2 of an angle; a turn by delta changes it by 2 sqrt(P(1 - P)) delta + delta^2 at most.
        p = np.clip(self.judge.probability(final), 0.0, 1.0)
        return np.minimum(2.0 * np.sqrt(p * (1.0 - p)) * delta + delta**2, 1.0)

    def _levels(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the errors of the first molecule's energies and dipole matrix elements."""
        count = self.judge.levels
        energies, dipoles = np.full(count, np.nan), np.full((count, count), np.nan)
        run, grids = self.problem.molecule, self.grids[0]
        outer, second = grids.outer, grids.second
        ground = self.judge.ground
        # Above the potential at the far walls levels are those of a box, and no error is claimed.
        a, b = outer.x[0] - outer.dx, outer.x[-1] + outer.dx
        scale = self._factors(0)[1]
        far = scale * ground.potential(np.array([a, b]))
        bound = np.flatnonzero(outer.energies[:count] < far.min())
        n = min(int(bound.size), second.energies.size, run.energies.size)
        rounding = reference.ROUNDING * float(np.abs(run.diagonal).max())
        energies[:n] = (
            np.abs(run.energies[:n] - outer.energies[:n])
            + np.abs(second.energies[:n] - outer.energies[:n])
            + grids.missed[:n]
            + rounding
        )
        if self.rows:
            energies[:n] += np.abs(self.rows[0].energies[:n] - self.stencil[0].energies[:n])
        mu = outer.dipole_matrix[:n, :n]
        largest = float(np.abs(mu).max(initial=0.0))
        # Mixing turns both levels of a matrix element, by at most the largest dipole per angle.
        turned = np.minimum(grids.angles[:n].sum(axis=1), 1.0)
        same = grids.same_stencil[:n] & grids.same_second[:n]
        known = run.dipole_matrix[:n, :n]
        apart = np.abs(known - mu) + np.abs(second.dipole_matrix[:n, :n] - mu)
        # a level that is not recognised on the other grid has no sign there
        apart = np.where(np.outer(same, same), apart, np.abs(known) + np.abs(mu))
        if self.rows:
            rows, own = (one[0].dipole_matrix[:n, :n] for one in (self.rows, self.stencil))
            apart = apart + np.abs(rows - own)
        dipoles[:n, :n] = apart + largest * (turned[:, None] + turned)
        return energies, dipoles

    def _fallen(self) -> str | None:
        """Return a warning if the potential outside of the box falls below a level that the run reached."""
        run, ground = self.problem.molecule, self.judge.ground
        # The highest level that was reached is the first that may leave through a fallen wall.
        used = np.flatnonzero(self.judge.reached > REACHED)
        energy = float(run.energies[used[-1] if used.size else 0])
        for side, depth in zip(("xmin", "xmax"), ground.falls, strict=True):
            if depth < energy:
                return (
                    f"system.grid.{side}: beyond the wall the potential falls to {depth:.6g} hartree, below the levels in use "
                    f"(up to {energy:.6g}); they are those of the box alone, and so are all claimed errors"
                )
        return None


def sampled(probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the members on which errors are determined: evenly spaced ones, the first, and the one with the lowest P."""
    count = probabilities.size
    # Near P = 1 the bound of a change grows as P falls, so the member with the lowest P is always seen.
    even = np.linspace(0, count - 1, min(count, SAMPLE)).astype(np.int64)
    return np.unique(np.append(even, int(np.argmin(probabilities))))


def _population(a: NDArray[np.complex128]) -> NDArray[np.float64]:
    return np.asarray(np.sum(np.abs(a) ** 2, axis=-1))
