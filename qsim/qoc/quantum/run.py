"""Search for the controls of a quantum system, then look at the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.loop import drive
from qsim.qoc.optimizers.search import CriticalPoint, Search
from qsim.qoc.quantum.build import kind_of
from qsim.qoc.quantum.continuous import continuous_value
from qsim.qoc.quantum.maximisation import Maximisation
from qsim.qoc.quantum.result import QuantumResult
from qsim.qoc.quantum.verification import Check, verify

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.qoc.control.controls import Controls
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


def run(problem: QuantumProblem, monitor: Monitor) -> QuantumResult:
    """Maximise the goal and analyse the controls that were found.

    Raises
    ------
    NumericsError
        If a probability is above 1.
    """
    for text in problem.warnings:
        monitor.warn(text)
    search = QuantumSearch(problem.objective, problem.controls, problem.threshold, problem.max_sweeps)
    maximisation = Maximisation(problem, search, monitor.restored)
    total, what = problem.max_sweeps * (1 + problem.restarts), problem.optimizer.type
    with monitor.stage("optimise"):
        drive(maximisation, monitor, total=total, unit="sweeps", what=what, at_most=True)
    kind = kind_of(problem.model)
    if problem.optimizer.type != "none" and not search.reached and np.isfinite(problem.threshold):
        best = max(search.history["probability"], default=0.0)
        monitor.warn(
            f"the threshold {problem.threshold:g} was not reached (best {kind} {best:.6g}): {search.reason}"
        )
    final = problem.guess if search.field is None else search.field
    return _analysed(problem, search, maximisation, final, monitor)


def _found(
    problem: QuantumProblem, search: Search, maximisation: Maximisation, fields: NDArray[np.float64]
) -> tuple[Controls, NDArray[np.float64]]:
    """Return the controls with the functions that were found, and their parameters."""
    controls = maximisation.controls_of(search.best_tag)
    u = search.parameters
    return controls, controls.parameters(fields) if u is None else u


def _analysed(
    problem: QuantumProblem,
    search: Search,
    maximisation: Maximisation,
    fields: NDArray[np.float64],
    monitor: Monitor,
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
        populations = objective.populations(np.concatenate([states[1:], final[None]])[stride - 1 :: stride])
    check = None
    if problem.verify.propagator != "none":
        with monitor.stage("verify"):
            check = monitor.judged(f"the verified {kind}", lambda: verify(problem, fields, p), None)
        if check is not None:
            _warn(problem, check, p, monitor)
    controls, u = _found(problem, search, maximisation, fields)
    continuous = None
    if problem.verify.propagator != "none" and not controls.held:
        with monitor.stage("functions of time"):
            continuous = monitor.judged(
                f"the {kind} under functions of time", lambda: continuous_value(problem, controls, u), None
            )
    return QuantumResult(
        problem=problem,
        kind=kind,
        fields=fields,
        value=p,
        value_guess=first,
        final=final,
        populations=populations,
        stride=stride,
        check=check,
        controls=controls,
        parameters=u,
        continuous=continuous,
        sweeps=objective.sweeps,
        iterations=search.iterations,
        reached=search.reached,
        reason=search.reason,
        history={k: np.array(v, dtype=float) for k, v in search.history.items()},
        extra={k: np.array(v, dtype=float) for k, v in search.extra.items()},
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
