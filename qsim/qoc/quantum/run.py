"""Search for the controls of a quantum system, then look at the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.loop import drive
from qsim.qoc.objectives.jumps import extremes
from qsim.qoc.optimizers.search import CriticalPoint, Search
from qsim.qoc.quantum.build import kind_of
from qsim.qoc.quantum.continuous import continuous_value
from qsim.qoc.quantum.dissipation import WEAK
from qsim.qoc.quantum.ensembles.ensemble import looked_at, verified
from qsim.qoc.quantum.maximisation import Maximisation
from qsim.qoc.quantum.outcome import expansion_of, outcome_of
from qsim.qoc.quantum.result import QuantumResult
from qsim.qoc.quantum.verification import Check, verify

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.qoc.control.controls import Controls
    from qsim.qoc.quantum.outcome import Outcome
    from qsim.qoc.quantum.problem import QuantumProblem

__all__ = ["run"]

# Above 1 by more than this, a probability is an error of the program, not rounding.
ABOVE_ONE = 1e-9
# How much more of what jumps a search may come to keep, before it is asked again.
MARGIN = 1.1
# Largest number of entries of the population table.
LARGEST_TABLE = 30_000_000


class QuantumSearch(Search):
    """A search whose P may be a mean value of any sign: only a vanishing gradient is a critical point.

    Where kets lose what jumps, P is that of no jump: the threshold counts for what is certain with one jump more.
    """

    def __init__(self, problem: QuantumProblem) -> None:
        super().__init__(problem.searched, problem.controls, problem.threshold, problem.max_sweeps)
        self.problem = problem
        # gain of P per probability of jumps, as the last expansion had it; at most the largest value
        self.gain = extremes(problem.model)[1] if problem.objective.lossy else 0.0

    def record(
        self,
        report: Report,
        field: NDArray[np.float64],
        probability: float,
        objective: float,
        gradient_norm: float,
        *,
        savable: bool = True,
    ) -> None:
        """Enter one set of controls into the history and report it; Finished at the threshold or the limit."""
        certain = probability
        if self.problem.objective.lossy and probability < self.threshold < np.inf:
            lost = 1.0 - self.problem.objective.jump_free
            # beyond a tenth more than the last gain the threshold is out of reach
            if probability + min(self.gain * MARGIN, self.gain + 1.0) * lost >= self.threshold:
                expansion = expansion_of(self.problem, field)
                self.gain = max(0.0, (expansion.lower - expansion.zero) / max(lost, 1e-300))
                certain = expansion.lower if expansion.lower >= self.threshold else probability
        try:
            super().record(report, field, certain, objective, gradient_norm, savable=savable)
        finally:
            # the history shows one quantity, that which is maximised
            self.history["probability"][-1] = probability

    def state(self) -> dict[str, object]:
        """Return the state that a checkpoint must hold."""
        return {**super().state(), "gain": self.gain}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint's state."""
        super().restore(state)
        self.gain = float(state["gain"])

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
    search = QuantumSearch(problem)
    maximisation = Maximisation(problem, search, monitor.restored)
    total, what = problem.max_sweeps * (1 + problem.restarts), problem.optimizer.type
    with monitor.stage("optimise"):
        drive(maximisation, monitor, total=total, unit="sweeps", what=what, at_most=True)
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
        first = objective.cost.value(objective.propagator.final(problem.guess, objective.start))
        outcome = outcome_of(problem, fields)
        if kind != "observable" and outcome.value > 1.0 + ABOVE_ONE:
            raise NumericsError(
                f"the {kind} is 1 + {outcome.value - 1.0:.2g}: the propagation has lost its accuracy"
            )
        ensemble = None if problem.ensemble is None else looked_at(problem, problem.ensemble, fields)
    _judge_search(problem, search, outcome, monitor)
    stride = max(1, -(-outcome.populations.size // LARGEST_TABLE))
    check = None
    if problem.verify.propagator != "none":
        with monitor.stage("verify"):
            if ensemble is not None:
                ensemble = verified(problem, ensemble, fields, monitor)
                check = ensemble.check
            else:
                check = monitor.judged(f"the verified {kind}", lambda: verify(problem, fields, outcome), None)
        if check is not None:
            _warn(problem, check, outcome.value if ensemble is None else ensemble.value, monitor)
    controls, u = _found(problem, search, maximisation, fields)
    continuous = None
    if problem.verify.propagator != "none" and not controls.held and ensemble is None:
        with monitor.stage("functions of time"):
            continuous = monitor.judged(
                f"the {kind} under functions of time",
                lambda: continuous_value(problem, controls, u, outcome),
                None,
            )
    return QuantumResult(
        problem=problem,
        kind=kind,
        fields=fields,
        outcome=outcome,
        value_guess=first if ensemble is None else ensemble.value_guess,
        populations=outcome.populations[stride - 1 :: stride],
        stride=stride,
        check=check,
        ensemble=ensemble,
        controls=controls,
        parameters=u,
        continuous=continuous,
        sweeps=problem.searched.sweeps,
        iterations=search.iterations,
        reached=search.reached,
        reason=search.reason,
        history={k: np.array(v, dtype=float) for k, v in search.history.items()},
        extra={k: np.array(v, dtype=float) for k, v in search.extra.items()},
    )


def _judge_search(problem: QuantumProblem, search: Search, outcome: Outcome, monitor: Monitor) -> None:
    """Warn of a threshold that was not reached, and of jumps that the search left out."""
    threshold, kind = problem.threshold, kind_of(problem.model)
    if problem.optimizer.type != "none" and not search.reached and np.isfinite(threshold):
        best = max(search.history["probability"], default=0.0)
        told = f"best {kind} {best:.6g}"
        if outcome.expansion is not None:
            told = f"{kind} {outcome.value:.6g}, {outcome.expansion.zero:.6g} of it without a jump"
            # the Lindbladian may know more than the interval did
            search.reached = outcome.value >= threshold
        if not search.reached:
            monitor.warn(f"the threshold {threshold:g} was not reached ({told}): {search.reason}")
    if outcome.expansion is not None and 1.0 - outcome.expansion.jump_free > WEAK:
        lost = 100.0 * (1.0 - outcome.expansion.jump_free)
        monitor.warn(
            f"{lost:.2g} % of the histories have jumps, which the search left out; try dissipation: lindblad"
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
