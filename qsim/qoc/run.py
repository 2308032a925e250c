"""Optimise, then look at the result: final field, populations, verification."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import drive
from qsim.qoc import checks
from qsim.qoc.claims import Errors, Judge
from qsim.qoc.objective import Objective
from qsim.qoc.optimizers.gauss_newton import GaussNewton
from qsim.qoc.optimizers.krotov import Krotov
from qsim.qoc.optimizers.lbfgs import Lbfgs
from qsim.qoc.optimizers.search import CriticalPoint, Finished, Search
from qsim.qoc.optimizers.travolta import Travolta
from qsim.qoc.verify import Verification, verify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, Resumable, State
    from qsim.core.run.progress import Monitor
    from qsim.qoc.problem import Problem
    from qsim.qoc.propagators import Run

STALLED = 1e-6  # a search that converges below this probability has not left the critical point at zero field
AT_BOUND = 0.85  # of a bound: the soft clip keeps fields 8 % below it
MEMBERS_AT_ONCE = 4096
LARGEST_TABLE = 30_000_000  # numbers of the population table; above, times are thinned out


@dataclass
class Result:
    """Result of a run; ``output.py`` gives the names in the file."""

    problem: Problem
    field: NDArray[np.float64]
    probability: float
    objective: float
    guess_probability: float
    member_probabilities: NDArray[np.float64]
    populations: NDArray[np.float64]
    stride: int
    amplitudes: NDArray[np.complex128]
    psi: NDArray[np.complex128]
    norm_error: float
    truncation: float
    verification: Verification | None
    errors: Errors | None
    reached_levels: NDArray[np.float64]
    sweeps: int
    iterations: int
    reached: bool
    reason: str
    history: dict[str, NDArray[np.float64]] = attribute(default_factory=dict)
    extra: dict[str, NDArray[np.float64]] = attribute(default_factory=dict)

    @property
    def levels(self) -> int:
        """Number of levels K of the run."""
        return int(self.problem.initial.shape[1])

    @property
    def claimed(self) -> bool:
        """True if an error of P is claimed."""
        return self.errors is not None and self.errors.unclaimed is None


def run(problem: Problem, monitor: Monitor) -> Result:
    """Run the deck's optimiser and analyse the field it found."""
    for text in problem.warnings:
        monitor.warn(text)
    for text in problem.notices:
        monitor.note(text)
    goal, optimizer = problem.goal, problem.optimizer
    objective = Objective(problem.propagator, problem.targets, goal.alpha, goal.coherent)
    limit = getattr(optimizer, "max_sweeps", 1)
    search = Search(objective, problem.control, goal.threshold, limit)
    optimisation = Optimisation(problem, search, monitor.restored)
    with monitor.stage("optimise"):
        drive(optimisation, monitor, total=limit, unit="sweeps", what=optimizer.type, at_most=True)
    if optimisation.escaped:
        monitor.warn(
            "the search came to a critical point, where the gradient vanishes and P is no maximum, and went on from a field "
            "without its symmetries"
        )
    if optimizer.type != "none" and not search.reached:
        search.reason = optimisation.why()
        best = max(search.history["probability"], default=0.0)
        monitor.warn(
            f"the threshold P = {goal.threshold:g} was not reached (best {best:.6g}): {search.reason}"
        )
    final = (
        search.field
        if search.field is not None
        else problem.control.field(problem.control.parameters(problem.guess))
    )
    return analyse(problem, search, final, monitor)


class Optimisation:
    """The search that the deck names; the field is left in ``search.field``.

    A search that comes to a critical point goes on from a field without the guess's symmetries, once.

    Parameters
    ----------
    problem : Problem
    search : Search
    saved : mapping, optional
        State to continue from; one of another optimiser is not used.

    Attributes
    ----------
    escaped : bool
        Whether a critical point was left.
    """

    def __init__(self, problem: Problem, search: Search, saved: Mapping[str, Any] | None = None) -> None:
        self.problem = problem
        self.search = search
        self.saved = saved or {}
        self.escaped = bool(self.saved.get("escaped", False))
        self.current: Resumable = _Given(problem, search)

    def state(self) -> State:
        """Return the state of the optimiser at work."""
        return {**self.current.state(), "escaped": self.escaped}

    def advance(self, report: Report) -> None:
        """Search until a maximum, the threshold or the limit is reached.

        Raises
        ------
        CriticalPoint
            If the gradient vanishes exactly at both first fields.
        """
        with suppress(Finished):
            if self._stands_still(report):
                self.escaped, self.saved = True, {}
                self._search(report)

    def why(self) -> str:
        """Return why the search ended, and what may help where it has not left the field that it began with."""
        if not self._stalled:
            return self.search.reason
        if self._at_the_bounds:
            return f"{self.search.reason}, with the field at control.bounds: the maximum that they allow"
        return (
            f"{self.search.reason} at a critical point, where the gradient vanishes; start from a stronger field, such as "
            "control.guess: ladder, or lower objective.alpha"
        )

    def _stands_still(self, report: Report) -> bool:
        """Search, and return True if that has come to a critical point for the first time."""
        if self.escaped or self.problem.optimizer.type == "none":
            self._search(report)
            return False
        try:
            self._search(report)
        except CriticalPoint:
            if not np.any(self.problem.escape):
                raise
            return True
        return self._stalled and not self._at_the_bounds

    @property
    def _stalled(self) -> bool:
        """True if a search has converged without having moved the state."""
        return self.search.probability < STALLED and self.search.reason.startswith(("converged", "stopped"))

    @property
    def _at_the_bounds(self) -> bool:
        """True if the field reaches its bounds somewhere, as near as their soft clip lets it."""
        field, control = self.search.field, self.problem.control
        if field is None:
            return False
        return bool(np.any(field >= AT_BOUND * control.high) or np.any(field <= AT_BOUND * control.low))

    def _search(self, report: Report) -> None:
        """Run one optimiser, or two in succession."""
        options, search = self.problem.optimizer, self.search
        if options.type == "none":
            self.current.advance(report)
        elif options.type == "travolta":
            self._run(Travolta(search, self._first_field(), options, self._saved("travolta")), report)
        elif options.type == "krotov":
            first = search.control.field(self._parameters())
            self._run(Krotov(search, first, options.step, self._saved("krotov")), report)
        elif options.type == "lbfgs" and self._saved("gauss_newton") is None:
            finish = options.finish_at if options.finish == "gauss_newton" else None
            lbfgs = Lbfgs(search, self._parameters(), options.memory, finish, self._saved("lbfgs"))
            self._run(lbfgs, report)
            if options.finish == "gauss_newton":
                self._run(GaussNewton(search, lbfgs.last), report)
        else:
            saved = self._saved("gauss_newton")
            self._run(GaussNewton(search, self._parameters(), saved), report)

    def _run(self, optimiser: Resumable, report: Report) -> None:
        self.current = optimiser
        optimiser.advance(report)

    def _first_field(self) -> NDArray[np.float64]:
        return self.problem.escape if self.escaped else self.problem.guess

    def _parameters(self) -> NDArray[np.float64]:
        return self.problem.control.parameters(self._first_field())

    def _saved(self, kind: str) -> Mapping[str, Any] | None:
        return self.saved if self.saved.get("kind") == kind else None


class _Given:
    """No search at all: the first field as it is, constraints applied."""

    def __init__(self, problem: Problem, search: Search) -> None:
        self.problem = problem
        self.search = search

    def state(self) -> State:
        return self.search.state()

    def advance(self, report: Report) -> None:
        search, field = self.search, search_guess(self.problem)
        p, j = search.objective.values(field)
        search.field, search.best = field, float(j[0])
        search.reason = "no optimisation"
        search.record(report, field, float(p[0]), float(j[0]), 0.0, savable=False)


def analyse(problem: Problem, search: Search, final: NDArray[np.float64], monitor: Monitor) -> Result:
    """Propagate the final field once more: amplitudes, populations, norm, verification."""
    propagator, objective = problem.propagator, search.objective
    with monitor.stage("analyse"):
        guess = float(_propagate_members(objective, search_guess(problem))[0].mean())
        members, norm, nominal = _propagate_members(objective, final)
        probability = float(members.mean())
        populations = propagator.populations(final)
        reached = populations.max(axis=0)
        leak = _doubts(problem, final, populations, monitor)
        psi = _wavefunction(problem, nominal)
    verification, errors = None, None
    if problem.verify.propagator != "none":
        with monitor.stage("verify"):
            unknown: tuple[Judge | None, Errors | None] = (None, None)
            judge, errors = monitor.judged(
                "the error of P",
                lambda: _judged(Judge(problem, final, reached, members, objective.sweeps)),
                unknown,
            )
            if judge is not None and errors is not None:
                verification = _verification(problem, final, probability, judge, errors, monitor)
    stride = max(1, -(-populations.size // LARGEST_TABLE))
    return Result(
        problem=problem,
        field=final,
        probability=probability,
        objective=probability - float(objective.penalty(final)),
        guess_probability=guess,
        member_probabilities=members,
        populations=populations[stride - 1 :: stride] if stride > 1 else populations,
        stride=stride,
        amplitudes=nominal.amplitudes[0, 0, 0],
        psi=psi,
        norm_error=norm,
        truncation=leak,
        verification=verification,
        errors=errors,
        reached_levels=reached,
        sweeps=objective.sweeps,
        iterations=search.iterations,
        reached=search.reached,
        reason=search.reason,
        history={k: np.array(v, dtype=float) for k, v in search.history.items()},
        extra={k: np.array(v, dtype=float) for k, v in search.extra.items()},
    )


def _propagate_members(
    objective: Objective, field: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float, Run]:
    """Return P of every member, the largest norm error, and the run that holds the first members."""
    propagator, own = objective.propagator, objective.own
    first = propagator.forward(field[None], slice(own.start, min(own.start + MEMBERS_AT_ONCE, own.stop)))
    probabilities = [objective.member_probabilities(first.amplitudes)[0]]
    norm = first.norm_error
    for start in range(own.start + MEMBERS_AT_ONCE, own.stop, MEMBERS_AT_ONCE):
        run = propagator.forward(field[None], slice(start, min(start + MEMBERS_AT_ONCE, own.stop)))
        norm = max(norm, run.norm_error)
        probabilities.append(objective.member_probabilities(run.amplitudes)[0])
    found = objective.comm.allgather((np.concatenate(probabilities), norm))
    return np.concatenate([p for p, _ in found]), max(n for _, n in found), first


def _doubts(
    problem: Problem, final: NDArray[np.float64], populations: NDArray[np.float64], monitor: Monitor
) -> float:
    """Warn of levels, walls and field strengths that the run was not made for; return what leaks (NaN: unknown)."""
    reached = populations.max(axis=0)
    unknown: tuple[float, str | None] = (math.nan, None)
    leak, left_out = monitor.judged(
        "the population of the highest levels",
        lambda: checks.truncation(populations, problem.leak_tolerance),
        unknown,
    )
    doubts = {
        "the density at the walls": lambda: checks.walls(problem.molecule, reached),
        "the strength of the field": lambda: checks.strong_field(
            final, problem.intensity_limit, problem.guess_given
        ),
    }
    for text in (left_out, *(monitor.judged(what, doubt, None) for what, doubt in doubts.items())):
        if text:
            monitor.warn(text)
    return leak


def _judged(judge: Judge) -> tuple[Judge | None, Errors | None]:
    """Return a judge with what it has found."""
    return judge, judge.errors()


def _verification(
    problem: Problem,
    final: NDArray[np.float64],
    probability: float,
    judge: Judge,
    errors: Errors,
    monitor: Monitor,
) -> Verification | None:
    """Propagate the field independently and warn of what is not confirmed; None if that fails."""
    verification = monitor.judged(
        "the verified probability", lambda: verify(problem, final, probability, judge, errors), None
    )
    for text in (verification and verification.warning, errors.fallen, errors.unclaimed):
        if text:
            monitor.warn(text)
    return verification


def search_guess(problem: Problem) -> NDArray[np.float64]:
    """Return the guess as the optimiser sees it, constraints applied."""
    if not problem.constrained:
        return problem.guess
    return problem.control.field(problem.control.parameters(problem.guess))


def _wavefunction(problem: Problem, nominal: Run) -> NDArray[np.complex128]:
    """psi(T) on the grid: from the grid propagator itself, or as the sum over levels."""
    from qsim.qoc.propagators import CrankNicolson

    if isinstance(problem.propagator, CrankNicolson):
        return problem.propagator.wavefunction(nominal)
    states = problem.members.molecules[problem.members.system[0]].states
    return np.asarray(nominal.amplitudes[0, 0, 0] @ states)
