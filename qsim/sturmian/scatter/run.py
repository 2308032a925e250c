"""Collisions of a deck: solve the driven equations, take cross sections, and find out how far they can be trusted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.parallel import SerialComm
from qsim.core.run.loop import Progress, drive
from qsim.sturmian.driven import operator as driven
from qsim.sturmian.driven import sources
from qsim.sturmian.driven.recycled import solve_all
from qsim.sturmian.judging import Judged, unguarded
from qsim.sturmian.scatter import saved
from qsim.sturmian.scatter.cross_sections import amplitudes, eigenphases
from qsim.sturmian.scatter.cross_sections.observed import RETURNED, Observed, observe
from qsim.sturmian.scatter.cross_sections.summed import Solutions, Summed, combined
from qsim.sturmian.scatter.elastic import elastic
from qsim.sturmian.scatter.equations import solved, source
from qsim.sturmian.scatter.jobs import Job, chain_of, chains_of, one_of, shares_of
from qsim.sturmian.scatter.result import CollisionResult
from qsim.sturmian.scatter.solved import Solved, Wave, picture
from qsim.sturmian.scatter.warnings import warnings_of
from qsim.sturmian.two_electron.hamiltonian import coefficients

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from qsim.core.device.parallel import Comm
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.sturmian.driven.setup import Bound, Setup
    from qsim.sturmian.scatter.cross_sections.kinematics import Kinematics
    from qsim.sturmian.scatter.problem import Collision

__all__ = ["Collisions", "run"]

# Hartree: largest residual of an initial state.
EXACT = 1e-8
# Residual of the solutions whose differences to the others are the errors.
ROUGH = 1e-6
# The same of those with other momenta, where the differences are larger.
ROUGHEST = 1e-5

Stage = Callable[[str], AbstractContextManager[None]]
ERRORS = "the error of the cross sections"


def run(problem: Collision, monitor: Monitor) -> CollisionResult:
    """Solve all symmetries and energies of a deck, then those that tell the errors.

    Raises
    ------
    NumericsError
        If an equation does not converge: there is no cross section without a solution.
    """
    ranks = Ranks(monitor.comm, monitor.alone)
    collisions = Collisions(problem, monitor.restored, monitor.stage, ranks, monitor.judged)
    drive(collisions, monitor, total=collisions.total, unit="equations", what="driven equations")
    result = collisions.result()
    # Cross sections are complete at this point; a failure of their judgement must not lose
    # them.
    warnings: list[str] = monitor.judged(
        "warnings about the cross sections", partial(warnings_of, result), []
    )
    for text in warnings:
        monitor.warn(text)
    return result


@dataclass(frozen=True)
class Round:
    """Solutions in one grid: of the deck, the coarser one, or one value of a scan.

    Attributes
    ----------
    stage : str
        ``solve``, ``errors`` or ``scan``.
    problem : Collision
    variants : list
        Pairs of every sector; a second entry has other pairs, for the error of the largest momentum.
    tolerance : float
        Largest relative residual.
    scanned : (str, float) or None
        Key and value of a scan.
    """

    stage: str
    problem: Collision
    variants: list[list[list[tuple[int, int]]]]
    tolerance: float
    scanned: tuple[str, float] | None = None

    @property
    def coarser(self) -> bool:
        """True for the coarser grid."""
        return self.stage == "errors"


def rounds_of(problem: Collision) -> list[Round]:
    """Return the rounds of a deck in their order."""
    pairs, tolerance = problem.pairs(), problem.settings.solver.tolerance
    rounds = [Round("solve", problem, [pairs], tolerance)]
    # The second variant, with other partial waves, is solved in the coarser grid only, where it
    # is cheap: the change by partial waves hardly depends on the grid.
    if problem.errors:
        other = problem.other_pairs()
        variants = [pairs] if other is None else [pairs, other]
        rounds.append(Round("errors", problem, variants, max(tolerance, ROUGH)))
    for key, values in problem.scan.items():
        for value in values:
            changed = problem.changed(key, value)
            rounds.append(Round("scan", changed, [changed.pairs()], tolerance, (key, value)))
    return rounds


def jobs_of(rounds: Sequence[Round]) -> Iterator[Job]:
    """Yield the solutions of all rounds, grouped by symmetry and energy, as one starts from another."""
    # Order of the loops: round, symmetry, batch of energies, variant, label. Neighbours then
    # share grid, functions and kernels, and the solutions that they start from.
    for number, part in enumerate(rounds):
        problem = part.problem
        for k, sector in enumerate(problem.sectors):
            size = max(len(variant[k]) for variant in part.variants)
            for points in problem.batches(size, coarser=part.coarser):
                for variant in range(len(part.variants)):
                    for label in problem.labels_of(sector):
                        yield Job(number, k, points, variant, label)


@dataclass(frozen=True)
class Ranks:
    """Processes that share the solutions: one, if nothing is said.

    Attributes
    ----------
    comm : Comm
    alone
        In its block every process goes its own way, as `Monitor.alone`.
    """

    comm: Comm = field(default_factory=SerialComm)
    alone: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass
class _Grid:
    """Grid of a round with what was made of it."""

    setup: Setup
    initial: dict[int, Bound] = field(default_factory=dict)
    kinematics: dict[int, list[Kinematics]] = field(default_factory=dict)
    operators: dict[object, driven.Driven] = field(default_factory=dict)


class Collisions:
    """All solutions of a deck and what was seen in them.

    Between two solutions it holds no more than the observations and, where the next one starts from them, the solutions of the
    same symmetry and energies.  Grids, functions and initial states are made again after a restart.

    Parameters
    ----------
    problem : Collision
    restored : mapping, optional
        State to continue from.
    stage : callable, optional
        Measures the time of a stage, as `Monitor.stage`.
    ranks : Ranks, optional
        Processes that share the symmetries and energies.
    judged : callable, optional
        Lets what only judges the solutions fail, as `Monitor.judged`.
    """

    def __init__(
        self,
        problem: Collision,
        restored: Mapping[str, Any] | None = None,
        stage: Stage | None = None,
        ranks: Ranks | None = None,
        judged: Judged = unguarded,
    ) -> None:
        self.problem, self.stage, self.judged = problem, stage or (lambda _: nullcontext()), judged
        self.ranks = Ranks() if ranks is None else ranks
        self.rounds = rounds_of(problem)
        self.jobs = list(jobs_of(self.rounds))
        self.total = sum(len(job.points) for job in self.jobs)
        self.done = 0
        self.observed: dict[tuple[int, int, str, int], list[Observed]] = {}
        self.solved: list[Solved] = []
        self.wave: Wave | None = None
        # the solutions that tell errors
        self.lost = False
        self.kept: dict[tuple[int, str], Any] = {}
        self._grids: dict[int, _Grid] = {}
        if restored:
            self._restore(restored)

    def state(self) -> State:
        """Return the observations so far, and the solutions that the next ones start from."""
        return {
            "done": self.done,
            "observed": {key: [saved.observed(seen) for seen in of] for key, of in self.observed.items()},
            "solved": [saved.plain(solved) for solved in self.solved],
            "wave": None if self.wave is None else saved.plain(self.wave),
            "lost": self.lost,
            # several processes stop only where nothing that is kept is needed any more
            "kept": dict(self.kept) if self.ranks.comm.size == 1 else {},
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.done = int(state["done"])
        self.observed = {
            key: [saved.as_observed(seen) for seen in of] for key, of in state["observed"].items()
        }
        self.solved = [Solved(**solved) for solved in state["solved"]]
        self.wave = None if state["wave"] is None else Wave(**state["wave"])
        self.lost = bool(state["lost"])
        self.kept = {key: self.problem.device.asarray(u) for key, u in state["kept"].items()}

    def advance(self, report: Report) -> None:
        """Solve the remaining equations; a stop within a solution repeats it, on all processes."""
        equations = sum(len(job.points) for job in self.jobs[: self.done])

        def poll() -> None:
            report(Progress())

        # A job is the unit that a checkpoint counts: what is within one is repeated after a
        # stop, with the same bits.
        while self.done < len(self.jobs):
            if self.ranks.comm.size == 1:
                count = 1
                residual = self._one(self.jobs[self.done], poll)
            else:
                count, residual = self._together(poll)
            equations += sum(len(job.points) for job in self.jobs[self.done : self.done + count])
            self.done += count
            report(Progress(equations, {"residual": residual}))

    def _one(self, job: Job, poll: Callable[[], None]) -> float:
        """Solve one job and keep what is seen; return its largest residual, 0 if it only tells errors and fails."""
        # Solutions that tell errors only may fail: the others stay, with a warning and without
        # errors. Once one is lost, the rest of them is skipped.
        if self.rounds[job.round].coarser:
            residual = None if self.lost else self.judged(ERRORS, lambda: self._seen(job, poll), None)
            self.lost = residual is None
            return residual or 0.0
        return self._seen(job, poll)

    def _seen(self, job: Job, poll: Callable[[], None]) -> float:
        with self.stage(self.rounds[job.round].stage):
            solutions = self._solve(job, poll)
            self._take(job, solutions)
        return float(solutions.residuals.max())

    # ----------------------------------------------------------------------------------- several processes

    def _together(self, poll: Callable[[], None]) -> tuple[int, float]:
        """Let every process solve other symmetries or energies; return how many jobs that were, and the largest residual."""
        comm, left = self.ranks.comm, self.jobs[self.done :]
        # As many chains (one symmetry, its energies, all gauges) as there are processes; within a chain each
        # solution starts from another one.
        chains = chains_of(left)[: comm.size]
        begun = self.done > 0 and chain_of(self.jobs[self.done - 1]) == chain_of(left[0])
        # by one process, which has kept what the rest starts from
        if begun:
            chains = chains[:1]
        # energies are dealt out so that the pairs of momenta, which products take together, add up to the same work
        tasks = shares_of(chains, [self._cost(chain) for chain in chains], 1 if begun else comm.size)
        # Each process collects its own observations in an empty record; all are joined below.
        seen, solved = self.observed, self.solved
        self.observed, worst = {}, 0.0
        own: list[tuple[int, list[Solved]]] = []
        if not begun and not self.lost:
            self._prepare(chains, poll)
        with self.ranks.alone():
            for number, jobs in tasks[comm.rank] if comm.rank < len(tasks) else []:
                self.solved = []
                worst = max([worst, *(self._one(job, poll) for job in jobs)])
                own.append((number, self.solved))
        # in the order of the ranks, so that all processes go on with equal numbers
        parts = comm.allgather((self.observed, own, worst, self.lost))
        self.lost = any(part[3] for part in parts)
        self.observed, self.solved = seen, solved
        for observed, *_ in parts:
            for key, of in observed.items():
                self.observed.setdefault(key, []).extend(of)
        for number in range(len(chains)):
            pieces = [solutions for part in parts for of, solutions in part[1] if of == number]
            self.solved += [one_of(entries) for entries in zip(*pieces, strict=True)]
        # Only the process with the first solution has its picture.
        self.wave = comm.bcast(self.wave)
        return sum(len(chain) for chain in chains), max(part[2] for part in parts)

    def _prepare(self, chains: Sequence[Sequence[Job]], poll: Callable[[], None]) -> None:
        """Make the functions and kernels of the round at work in shares, as several processes need the same ones."""
        number = chains[0][0].round
        part, setup = self.rounds[number], self._grid(number).setup
        wanted: dict[tuple[int, float], None] = {}
        multipoles: set[int] = set()
        for job in (job for chain in chains for job in chain if job.round == number):
            sector, pairs = part.problem.sectors[job.sector], part.variants[job.variant][job.sector]
            for point in job.points:
                energy = self._kinematics(job, poll)[self._first_of(job, point)].E
                wanted |= {(l, energy): None for pair in pairs for l in pair}
            multipoles |= set(coefficients(sector.L, sector.S, pairs)[0])
            # electron impact: of the source, too
            if part.problem.process == "e_h":
                multipoles |= setup.of_screening(sector.L, pairs)
        setup.make_in_shares(list(wanted), sorted(multipoles), self.ranks.comm)

    def _first_of(self, job: Job, point: int) -> int:
        """Return the first energy of the group of one: what approximates the inverse is that one's, wherever a process begins."""
        problem = self.rounds[job.round].problem
        return next(i for i in range(point + 1) if problem.group(i) == problem.group(point))

    def _cost(self, chain: Sequence[Job]) -> float:
        """Return the work of one energy of a chain, in units of one pair of momenta: a product takes pairs together."""
        return float(sum(len(self.rounds[job.round].variants[job.variant][job.sector]) for job in chain))

    # ----------------------------------------------------------------------------------- one solution

    def _grid(self, number: int) -> _Grid:
        if number not in self._grids:
            if number > 0:
                # grids of rounds that are over are dropped, but for the first, which the result needs
                self._grids = {0: self._grids[0]} if 0 in self._grids else {}
            part = self.rounds[number]
            self._grids[number] = _Grid(part.problem.setup(coarser=part.coarser))
        return self._grids[number]

    def _kinematics(self, job: Job, poll: Callable[[], None]) -> list[Kinematics]:
        grid, problem = self._grid(job.round), self.rounds[job.round].problem
        if job.variant not in grid.kinematics:
            if problem.process != "e_h":
                least = ROUGHEST if self.rounds[job.round].coarser else EXACT
                tolerance = min(least, self._tolerance(job))
                grid.initial[job.variant] = problem.initial(
                    grid.setup, poll, tolerance, other=job.variant > 0
                )
            grid.kinematics[job.variant] = problem.kinematics(grid.setup, grid.initial.get(job.variant))
        return grid.kinematics[job.variant]

    def _operator(self, job: Job, E: float) -> driven.Driven:
        grid, part = self._grid(job.round), self.rounds[job.round]
        key = (job.sector, job.variant, part.problem.group(job.points[0]))
        if key not in grid.operators:
            sector = part.problem.sectors[job.sector]
            # One operator at a time: its matrices and kernels are the largest arrays beside the
            # solutions.
            grid.operators.clear()
            pairs = part.variants[job.variant][job.sector]
            energy = grid.kinematics[job.variant][self._first_of(job, job.points[0])].E
            grid.operators[key] = grid.setup.operator(sector.L, sector.S, pairs, energy)
        return grid.operators[key]

    def _tolerance(self, job: Job) -> float:
        """Return the largest relative residual of a solution."""
        tolerance = self.rounds[job.round].tolerance
        return max(tolerance, ROUGHEST) if job.variant > 0 else tolerance

    def equation(self, job: Job, poll: Callable[[], None]) -> tuple[driven.Driven, Any, list[float]]:
        """Return E - H, sources on the device and energies of a job."""
        energies = [self._kinematics(job, poll)[i].E for i in job.points]
        operator = self._operator(job, energies[0])
        return operator, self._source(job, operator, job.label), energies

    def _source(self, job: Job, operator: driven.Driven, label: str) -> Any:
        """Return the sources (m, P, n, n) of the energies of a job, on the device."""
        grid, problem = self._grid(job.round), self.rounds[job.round].problem
        initial, kinematics = grid.initial.get(job.variant), grid.kinematics[job.variant]
        # Each is written where it stays: all of them together are large.
        out = operator.device.xp.empty((len(job.points), *operator.on_grid_shape), complex)
        for place, i in zip(out, job.points, strict=True):
            found = source(problem, grid.setup, operator, kinematics[i], initial, label)
            place[...] = operator.device.asarray(found)
        return out

    def _solve_many(self, job: Job, poll: Callable[[], None]) -> driven.Solution:
        """Solve many energies of one job, each from what those before span, and observe their solutions."""
        part = self.rounds[job.round]
        energies = [self._kinematics(job, poll)[i].E for i in job.points]
        operator = self._operator(job, energies[0])
        together = part.problem.together(len(operator.pairs), operator.points)

        def of(places: list[int]) -> Job:
            return job._replace(points=tuple(job.points[k] for k in places))

        def solve(places: list[int], start: Callable[[Any, Any], Any]) -> tuple[Any, driven.Solution]:
            some, E = of(places), [energies[k] for k in places]
            s = self._source(some, operator, job.label)
            found = solved(part.problem, operator, (s, E, start(s, E)), self._tolerance(job), poll)
            self._observe(some, operator, found.u, s, poll)
            return s, found

        return solve_all(operator.device, energies, together, solve)

    def _solve(self, job: Job, poll: Callable[[], None]) -> driven.Solution:
        """Solve one job, observe its solutions, and keep them where others start from them."""
        if self.rounds[job.round].problem.many(len(job.points)):
            return self._solve_many(job, poll)
        operator, s, energies = self.equation(job, poll)
        part = self.rounds[job.round]
        # The first job of a chain: solutions of the chain before are no longer needed.
        if job.variant == 0 and job.label == part.problem.labels_of(part.problem.sectors[job.sector])[0]:
            self.kept.clear()
        # a guess from all partial waves, or from another gauge, saves steps
        start = self._start(job, operator, poll)
        solutions = solved(part.problem, operator, (s, energies, start), self._tolerance(job), poll)
        if part.problem.process == "photo" or len(part.variants) > 1:
            self.kept[job.variant, job.label] = solutions.u
        self._observe(job, operator, solutions.u, s, poll)
        return solutions

    def _observe(self, job: Job, operator: driven.Driven, u: Any, s: Any, poll: Callable[[], None]) -> None:
        """Take cross sections of some solutions (m, P, n, n)."""
        setup, part = self._grid(job.round).setup, self.rounds[job.round]
        kinematics, wants = self._kinematics(job, poll), part.problem.wants
        # observations are taken at once: solutions are large, and only those that others start from are kept
        real = amplitudes.inside(operator, setup.grid, u, s)
        for i, solution in zip(job.points, real, strict=True):
            ejected = part.problem.ejected(kinematics[i])
            seen = observe(solution, setup, kinematics[i], operator.L, operator.S, wants, ejected)
            if "eigenphases" in wants and kinematics[i].E < 0.0:
                seen = self._with_determinant(job, operator, kinematics[i].E, seen, poll)
            self.observed.setdefault((job.round, job.variant, job.label, i), []).append(seen)

    def _with_determinant(
        self, job: Job, operator: driven.Driven, E: float, seen: Observed, poll: Callable[[], None]
    ) -> Observed:
        """Return an observation with the determinant of the whole S-matrix, from a solution for every open channel."""
        setup, part = self._grid(job.round).setup, self.rounds[job.round]
        if not eigenphases.holds_all(setup, operator.pairs, E):
            return seen

        def solve(s: Any, energies: list[float]) -> Any:
            return solved(part.problem, operator, (s, energies, None), self._tolerance(job), poll).u

        S = eigenphases.matrix(setup, operator, E, solve)
        value, defect = eigenphases.determinant(S)
        slowest = min(one.k for one in eigenphases.entrances(setup, operator.pairs, E))
        returned = RETURNED * setup.reflection(slowest) * len(S)
        return replace(seen, determinant=value, determinant_error=defect + returned)

    def _start(self, job: Job, operator: driven.Driven, poll: Callable[[], None]) -> Any:
        """Return the comparison solution to start from: fewer partial waves, or the other gauge; None if there is none."""
        device, part = operator.device, self.rounds[job.round]
        full = self.kept.get((0, job.label))
        if job.variant > 0 and full is not None:
            # Fewer (or more) partial waves: pairs that both have are copied, others start at
            # zero.
            start = device.xp.zeros((len(job.points), *operator.on_grid_shape), complex)
            there = {pair: p for p, pair in enumerate(part.variants[0][job.sector])}
            for p, pair in enumerate(operator.pairs):
                if pair in there:
                    start[:, p] = full[:, there[pair]]
            return start * self._sign(job, poll)
        known = {label: u for (variant, label), u in self.kept.items() if variant == job.variant}
        if part.problem.process != "photo" or not known:
            return None
        kinematics = self._grid(job.round).kinematics[job.variant]
        omega = device.asarray(np.array([kinematics[i].omega for i in job.points]))
        label, steps = sources.gauge_steps(job.label, known)
        u = known[label]
        # u of one gauge and of the next add up to the source of the first over omega
        for other in steps:
            u = self._source(job, operator, other) / omega[:, None, None, None] - u
        return u

    def _sign(self, job: Job, poll: Callable[[], None]) -> float:
        """Return the relative sign of the initial states of both variants, which is arbitrary."""
        # missing where the run was continued in between
        self._kinematics(job._replace(variant=0), poll)
        initial = self._grid(job.round).initial
        if not initial:
            return 1.0
        first, other = initial[0].components, initial[job.variant].components
        overlap = sum(float(np.vdot(part, other[pair])) for pair, part in first.items() if pair in other)
        return 1.0 if overlap >= 0.0 else -1.0

    def _take(self, job: Job, solutions: driven.Solution) -> None:
        """Keep the solver's numbers of a solution of the deck itself, and the picture of the first one."""
        if job.round > 0:
            return
        # Numbers of the coarser grid and of scans would hide the numbers of the deck itself.
        grid, kinematics = self._grid(0), self._grid(0).kinematics[0]
        operator = self._operator(job, kinematics[job.points[0]].E)
        self.solved.append(
            Solved(
                operator.L,
                operator.S,
                job.label,
                list(job.points),
                operator.unknowns,
                solutions.residuals,
                solutions.iterations,
                solutions.history,
                operator.flops,
                operator.traffic,
                solutions.seconds,
                grid.setup.condition,
            )
        )
        if self.wave is None:
            self.wave = self.judged(
                "the picture of a solution",
                lambda: picture(grid.setup, operator, solutions, job.label),
                None,
            )

    # ----------------------------------------------------------------------------------- the result

    def result(self) -> CollisionResult:
        """Return cross sections with their errors; complete after `advance`."""
        problem = self.problem
        first = next(job for job in self.jobs if job.round == 0)
        kinematics = self._kinematics(first, lambda: None)
        setup = self._grid(0).setup
        observed = []
        every: dict[str, list[Solutions]] = {label: [] for label in problem.labels}
        known = problem.errors and not self.lost
        for i, kin in enumerate(kinematics):
            by_label: dict[str, Summed] = {}
            for label in problem.labels:
                solutions = Solutions(
                    self.observed[0, 0, label, i],
                    self.observed.get((1, 0, label, i)) if known else None,
                    self.observed.get((1, 1, label, i)) if known else None,
                    problem.beyond,
                    problem.numbers.whole,
                    self.lost,
                )
                every[label].append(solutions)
                # three sets of observations: of the deck, of the coarser grid, and there with other partial waves
                theta, charge = np.radians(problem.angles), setup.potential.charge
                by_label[label] = combined(solutions, kin, problem.ejected(kin), theta, charge)
            observed.append(by_label)
        initial = self._grid(0).initial.get(0)
        result = CollisionResult(problem, setup, kinematics, observed, self.solved, self.wave, initial)
        result.convergence = self._convergence(len(kinematics))
        if problem.process == "e_h":
            result.elastic = elastic(problem, setup, kinematics, observed, every)
        return result

    def _convergence(self, count: int) -> dict[str, dict[str, list[object]]]:
        """Return totals and break-up at each value of the scanned keys, all else as it is."""
        out: dict[str, dict[str, list[object]]] = {}
        for number, part in enumerate(self.rounds):
            if part.scanned is None:
                continue
            key, value = part.scanned
            entry = out.setdefault(key, {"value": [], "total": [], "ionisation": []})
            labels = part.problem.labels
            seen = [[self.observed[number, 0, label, i] for label in labels] for i in range(count)]
            entry["value"].append(value)
            entry["total"].append([[sum(part.total for part in parts) for parts in row] for row in seen])
            entry["ionisation"].append([[_broken(parts) for parts in row] for row in seen])
        return out


def _broken(parts: Sequence[Observed]) -> float:
    """Return the break-up of all L together; NaN below its threshold."""
    return sum(part.sharing.total if part.sharing is not None else np.nan for part in parts)
