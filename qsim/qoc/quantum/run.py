"""Search for the controls of a quantum system, then look at the result."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.loop import drive
from qsim.qoc.optimizers.lbfgs import Lbfgs
from qsim.qoc.optimizers.search import CriticalPoint, Finished, Search
from qsim.qoc.quantum.build import kind_of
from qsim.qoc.quantum.paths import paths_of
from qsim.qoc.quantum.result import QuantumResult
from qsim.qoc.quantum.verification import Check, verify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.qoc.quantum.problem import QuantumProblem

__all__ = ["run"]

# Above 1 by more than this, a probability is an error of the program, not rounding.
ABOVE_ONE = 1e-9
# Largest number of entries of the population table.
LARGEST_TABLE = 30_000_000


class QuantumSearch(Search):
    """A search whose P may be a mean value of any sign: only a vanishing gradient is a critical point."""

    def refuse_critical_point(self, gradient: NDArray[np.float64], probability: float) -> None:
        """Raise :class:`CriticalPoint` if the gradient vanishes at the first values."""
        if not np.any(np.abs(gradient) > 0.0):
            raise CriticalPoint(
                f"the gradient vanishes at the first values of the controls (P = {probability:.3g}): a critical point",
                hint="start from guess: random, or guess: {type: expression, value: ...}",
            )


class Maximisation:
    """L-BFGS, or the first values as they are; the controls are left in ``search.field``."""

    def __init__(self, problem: QuantumProblem, search: Search, saved: Mapping[str, Any] | None) -> None:
        self.problem, self.search = problem, search
        first = problem.controls.parameters(problem.guess)
        self.lbfgs = None if problem.memory is None else Lbfgs(search, first, problem.memory, saved=saved)

    def state(self) -> State:
        """Return the state of the optimiser."""
        return self.search.state() if self.lbfgs is None else self.lbfgs.state()

    def advance(self, report: Report) -> None:
        """Search until a maximum, the threshold or the limit is reached."""
        search = self.search
        with suppress(Finished):
            if self.lbfgs is not None:
                self.lbfgs.advance(report)
                return
            field = self.problem.guess
            p, j = search.objective.values(field)
            search.reason = "no optimisation"
            search.record(report, field, float(p[0]), float(j[0]), 0.0, savable=False)


def run(problem: QuantumProblem, monitor: Monitor) -> QuantumResult:
    """Maximise the goal and analyse the controls that were found.

    Raises
    ------
    NumericsError
        If a probability is above 1.
    """
    for text in problem.warnings:
        monitor.warn(text)
    # the search asks nothing of them but values and gradients of any shape
    objective, controls = cast("Any", problem.objective), cast("Any", problem.controls)
    search = QuantumSearch(objective, controls, problem.threshold, problem.max_sweeps)
    maximisation = Maximisation(problem, search, monitor.restored)
    what = "none" if problem.memory is None else "lbfgs"
    with monitor.stage("optimise"):
        drive(maximisation, monitor, total=problem.max_sweeps, unit="sweeps", what=what, at_most=True)
    kind = kind_of(problem.model)
    if problem.memory is not None and not search.reached and np.isfinite(problem.threshold):
        best = max(search.history["probability"], default=0.0)
        monitor.warn(
            f"the threshold {problem.threshold:g} was not reached (best {kind} {best:.6g}): {search.reason}"
        )
    final = problem.guess if search.field is None else search.field
    return _analysed(problem, search, final, monitor)


def _analysed(
    problem: QuantumProblem, search: Search, fields: NDArray[np.float64], monitor: Monitor
) -> QuantumResult:
    """Propagate the final controls once more: populations, final state, and the independent value."""
    objective, kind = problem.objective, kind_of(problem.model)
    with monitor.stage("analyse"):
        first = objective.cost.value(objective.propagator.forward(problem.guess, objective.start)[0])
        final, trajectory = objective.propagator.forward(fields, objective.start)
        p = objective.cost.value(final)
        if kind != "observable" and p > 1.0 + ABOVE_ONE:
            raise NumericsError(f"the {kind} is 1 + {p - 1.0:.2g}: the propagation has lost its accuracy")
        states = trajectory.at_slots()
        stride = max(1, -(-states.shape[0] * problem.model.dimension // LARGEST_TABLE))
        columns = np.concatenate([states[1:], final[None]])[stride - 1 :: stride]
        populations = objective.populations(columns)
        paths = paths_of(problem, columns, final)
    check = None
    if problem.verify.propagator != "none":
        with monitor.stage("verify"):
            check = monitor.judged(f"the verified {kind}", lambda: verify(problem, fields, p), None)
        if check is not None:
            _warn(problem, check, p, monitor)
    return QuantumResult(
        problem=problem,
        kind=kind,
        fields=fields,
        value=p,
        value_guess=first,
        final=final,
        populations=populations,
        stride=stride,
        paths=paths,
        check=check,
        sweeps=objective.sweeps,
        iterations=search.iterations,
        reached=search.reached,
        reason=search.reason,
        history={k: np.array(v, dtype=float) for k, v in search.history.items()},
    )


def _warn(problem: QuantumProblem, check: Check, p: float, monitor: Monitor) -> None:
    """Warn of a value that is not confirmed, and of an error that is large or unknown."""
    tolerance = problem.verify.tolerance
    difference = abs(check.value - p)
    if difference > tolerance:
        monitor.warn(
            f"the independent propagation gives {check.value:.8g}, the run {p:.8g}: they differ by {difference:.2g}"
        )
    if check.unclaimed is not None:
        monitor.warn(f"no error is claimed: {check.unclaimed}")
    elif check.error > tolerance:
        worst = max(check.parts, key=lambda name: check.parts[name])
        monitor.warn(
            f"the claimed error {check.error:.2g} is above verify.tolerance ({tolerance:g}); its largest part: {worst}"
        )
