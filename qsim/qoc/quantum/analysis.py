"""Look at the controls that were found for a quantum system: populations, final state, independent value, errors."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import NumericsError
from qsim.qoc.checks import truncation
from qsim.qoc.objectives.costs import kind_of
from qsim.qoc.quantum.dissipation import WEAK
from qsim.qoc.quantum.ensembles.ensemble import looked_at, verified
from qsim.qoc.quantum.outcome import outcome_of
from qsim.qoc.quantum.paths import Paths, paths_of
from qsim.qoc.quantum.result import QuantumResult
from qsim.qoc.quantum.verification import Check, verified_first, verify

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.qoc.optimizers.maximisation import Maximisation
    from qsim.qoc.optimizers.search import Search
    from qsim.qoc.quantum.ensembles.ensemble import EnsembleResult
    from qsim.qoc.quantum.outcome import Outcome
    from qsim.qoc.quantum.problem import QuantumProblem

# Above 1 by more than this, a probability is an error of the program, not rounding.
ABOVE_ONE = 1e-9
# What makes a part of the error smaller.
REMEDIES = {
    "levels": "raise levels of the parts (rotor: J_max; grid, grid2d: states, points), or keep the controls weak and smooth by "
    "bounds, shape or bspline, so that they do not reach the highest level; if these levels are the model, verify: {levels: 0}",
    "jumps": "use dissipation: lindblad",
    "sampling": "raise dissipation.trajectories.count",
    "mixture": "lower below of the thermal start",
    "slots": "raise time.slots",
    "tables": "give more rows in the tables",
}
# Largest number of entries of the population table.
LARGEST_TABLE = 30_000_000


def analyse(
    problem: QuantumProblem,
    search: Search,
    maximisation: Maximisation,
    fields: NDArray[np.float64],
    monitor: Monitor,
) -> QuantumResult:
    """Propagate the final controls once more, verify them, and warn of what is wrong with them.

    Raises
    ------
    NumericsError
        If a probability is above 1.
    """
    objective, kind = problem.objective, kind_of(problem.model)
    with monitor.stage("analyse"):
        outcome = outcome_of(problem, fields)
        # The first values are propagated with the objective of the search, to compare with its history.
        final = outcome.final
        if not np.array_equal(problem.guess, fields):
            final = objective.propagator.final(problem.guess, objective.start)
        first = objective.cost.value(final)
        # a mean over sampled histories may be above
        above = ABOVE_ONE + 6.0 * (outcome.sampling or 0.0)
        if not problem.model.measured and outcome.value > 1.0 + above:
            raise NumericsError(
                f"the {kind} is 1 + {outcome.value - 1.0:.2g}: the propagation has lost its accuracy"
            )
        ensemble = None if problem.ensemble is None else looked_at(problem, problem.ensemble, fields)
    if (text := truncation(outcome.populations, problem.leak_tolerance)[1]) is not None:
        monitor.warn(text)
    # This comes after the outcome: with jumps the value may reach a threshold that the search did not.
    _judge_search(problem, search, outcome, ensemble, monitor)
    # Rows of the table are thinned by a whole number, so that all curves share their times.
    stride = max(1, -(-outcome.populations.size // LARGEST_TABLE))
    with monitor.stage("paths"):
        paths = monitor.judged("paths", lambda: paths_of(problem, fields, stride, outcome), Paths())
    controls = maximisation.controls_of(search.best_tag)
    u = controls.parameters(fields) if search.parameters is None else search.parameters
    check = guess_check = nominal_check = None
    if problem.verify.propagator != "none":
        with monitor.stage("verify"):
            # Controls that are held in slots anyway have no other course in time.
            first_problem = problem.with_functions(
                problem.controls, problem.controls.parameters(problem.guess)
            )
            problem = problem.with_functions(controls, u)
            alone = dataclasses.replace(problem, ensemble=None)
            nominal_check = monitor.judged(
                f"the verified {kind}", lambda: verify(alone, fields, outcome), None
            )
            if ensemble is not None:
                ensemble = verified(problem, ensemble, fields, monitor, first_problem)
                check, guess_check = ensemble.check, ensemble.guess_check
            else:
                check = guess_check = nominal_check
                # Without a search the first values are the final ones.
                if outcome.value != first or not np.array_equal(problem.guess, fields):
                    guess_check = monitor.judged(
                        f"the error of the first {kind}", lambda: verified_first(first_problem, first), None
                    )
        if check is not None:
            _warn(problem, check, outcome.value if ensemble is None else ensemble.value, monitor)
    value = outcome.value if ensemble is None else ensemble.value
    if ensemble is not None:
        first = ensemble.value_guess
    error = None if check is None else check.claimed
    continuous = None if check is None else check.continuous
    return QuantumResult(
        problem=problem,
        kind=kind,
        fields=fields,
        value=value,
        error=error,
        first=(first, None if guess_check is None else guess_check.claimed),
        verified=None if check is None else (check.value, error),
        continuous=None if continuous is None else (continuous.value, continuous.claimed),
        charges=problem.searched.penalty(fields) + outcome.charges,
        norm_error=problem.searched.norm_error,
        parts={} if check is None else _parts(check, value),
        outcome=outcome,
        populations=outcome.populations[stride - 1 :: stride],
        stride=stride,
        paths=paths,
        nominal_check=nominal_check,
        ensemble=ensemble,
        controls=controls,
        parameters=u,
        sweeps=problem.searched.sweeps,
        iterations=search.iterations,
        reached=search.reached,
        reason=search.reason,
        history={k: np.array(v, dtype=float) for k, v in search.history.items()},
        extra={k: np.array(v, dtype=float) for k, v in search.extra.items()},
    )


def _parts(check: Check, value: float) -> dict[str, float]:
    """Return the parts of the error of the value by their names in the file."""
    parts = {f"error_{name}": size for name, size in check.parts.items()}
    if check.continuous is not None and "error_slots" not in parts:
        # of controls that were searched in the slots: no part of the error
        parts["error_slots"] = abs(check.continuous.value - value) + check.continuous.error
    return parts


def _judge_search(
    problem: QuantumProblem,
    search: Search,
    outcome: Outcome,
    ensemble: EnsembleResult | None,
    monitor: Monitor,
) -> None:
    """Warn of a threshold that was not reached, and of jumps that the search left out."""
    threshold, kind = problem.threshold, kind_of(problem.model)
    if problem.optimizer.type != "none" and not search.reached and np.isfinite(threshold):
        best = max(search.history["probability"], default=0.0)
        told = f"best {kind} {best:.6g}"
        if ensemble is not None and problem.objective.by_order:
            told = f"{kind} {ensemble.value:.6g}, {best:.6g} of it without a jump"
            search.reached = ensemble.value >= threshold
        elif outcome.expansion is not None:
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
        remedy = f"; {REMEDIES[worst]}" if worst in REMEDIES else ""
        monitor.warn(
            f"the claimed error {check.error:.2g} is above verify.tolerance ({tolerance:g}); "
            f"its largest part: {worst}{remedy}"
        )
    if check.silent:
        monitor.warn(check.silent)
