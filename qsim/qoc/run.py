"""Optimise, then look at the result: final field, populations, verification."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as attribute
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.loop import drive
from qsim.qoc import checks
from qsim.qoc.claims import Errors, Judge
from qsim.qoc.objective import Objective
from qsim.qoc.optimizers.gauss_newton import GaussNewton
from qsim.qoc.optimizers.krotov import Krotov
from qsim.qoc.optimizers.lbfgs import Lbfgs
from qsim.qoc.optimizers.search import Finished, Search
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
    if optimizer.type != "none" and not search.reached:
        best = max(search.history["probability"], default=0.0)
        if best < STALLED and search.reason.startswith(("converged", "stopped")):
            raise NumericsError(
                f"the search stops at P = {best:.3g}, where the gradient vanishes: a critical point, not a maximum",
                hint="start from a stronger field, such as control.guess: ladder; or lower objective.alpha",
            )
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

    Parameters
    ----------
    problem : Problem
    search : Search
    saved : mapping, optional
        State to continue from; one of another optimiser is not used.
    """

    def __init__(self, problem: Problem, search: Search, saved: Mapping[str, Any] | None = None) -> None:
        self.problem = problem
        self.search = search
        self.saved = saved or {}
        self.current: Resumable = _Given(problem, search)

    def state(self) -> State:
        """Return the state of the optimiser at work."""
        return self.current.state()

    def advance(self, report: Report) -> None:
        """Run one optimiser, or two in succession."""
        options, search = self.problem.optimizer, self.search
        try:
            if options.type == "none":
                self.current.advance(report)
            elif options.type == "travolta":
                self._run(Travolta(search, self.problem.guess, options, self._saved("travolta")), report)
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
        except Finished:
            pass

    def _run(self, optimiser: Resumable, report: Report) -> None:
        self.current = optimiser
        optimiser.advance(report)

    def _parameters(self) -> NDArray[np.float64]:
        return self.problem.control.parameters(self.problem.guess)

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
        leak, warning = checks.truncation(populations, problem.leak_tolerance)
        if warning:
            monitor.warn(warning)
        reached = populations.max(axis=0)
        if warning := checks.walls(problem.molecule, reached):
            monitor.warn(warning)
        if warning := checks.strong_field(final, problem.intensity_limit, problem.guess_given):
            monitor.warn(warning)
        psi = _wavefunction(problem, nominal)
    verification, errors = None, None
    if problem.verify.propagator != "none":
        with monitor.stage("verify"):
            judge = Judge(problem, final, reached, members, objective.sweeps)
            errors = judge.errors()
            verification = verify(problem, final, probability, judge, errors)
            for text in (verification.warning, errors.fallen, errors.unclaimed):
                if text:
                    monitor.warn(text)
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
