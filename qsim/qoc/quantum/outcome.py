"""Evaluate the final controls: the value, the state at T, how much of it had jumps, and the errors of numbers beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.models.quantum import GateTarget, leakage_of, purity_of
from qsim.qoc.objectives.costs import Several, cost_of, is_quadratic
from qsim.qoc.objectives.jumps import budget, expand
from qsim.qoc.objectives.unravelling import Unravelling
from qsim.qoc.quantum.dissipation import first_order_fits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.objectives.cost import Cost
    from qsim.qoc.objectives.jumps import Expansion
    from qsim.qoc.objectives.slots import SlotObjective
    from qsim.qoc.quantum.problem import QuantumProblem

# Bytes of the density matrices on the way that are kept for curves.
MOST_BYTES = 3e8
# Streams of the times of jumps: 0 is that of the search.
OTHER_NOISE = 1


@dataclass(frozen=True)
class Budget:
    """Contributions to a value below 1.

    Attributes
    ----------
    coherent : float
        The value without jumps.
    taken : (K,) float64
        What each jump takes from it, to first order in its rate.
    """

    coherent: float
    taken: NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """Final propagation of the controls.

    Attributes
    ----------
    value : float
        P; of a search without jumps by the Lindbladian, or the middle of the interval that one jump and more leave.
    cost : Cost
        Of the columns that the value is of; phases that were free are those found.
    phases : (k,) float64 or None
        Of gates with free phases.
    charges : float
        What J has less than the value, beside the fluence.
    final : (D, S) or (D^2, S) complex128
        Columns of the search at T.
    density : (D, D) complex128
        Mean density matrix at T, of trace 1 (less what was left out of a mixture).
    populations : (N, D) float64
        At the end of each slot.
    seepage : float or None
        Of a gate: what comes back into the logical space from the mean of all other states.
    expansion : Expansion or None
        Of a search without jumps.
    sampling : float or None
        Standard error of sampled histories.
    budget : Budget or None
        What each jump takes from the value.
    goals : (G,) float64 or None
        The value of each of several goals; None for one goal, and where a part of them is known by an interval alone.
    path : (N, D^2) complex128 or None
        Density matrix that is shown, at the end of each slot, row by row; None of kets, and where it is large.
    """

    value: float
    cost: Cost
    phases: NDArray[np.float64] | None
    charges: float
    final: ComplexArray
    density: ComplexArray
    populations: NDArray[np.float64]
    seepage: float | None
    expansion: Expansion | None
    sampling: float | None = None
    budget: Budget | None = None
    goals: NDArray[np.float64] | None = None
    path: ComplexArray | None = None

    @property
    def after_jumps(self) -> float | None:
        """Mean value of the histories with jumps, 0 to 1, where the Lindbladian tells it; None without an expansion."""
        if self.expansion is None or self.expansion.most > 1.0 or self.expansion.least < 0.0:
            return None
        share = (self.value - self.expansion.zero) / max(1.0 - self.expansion.jump_free, 1e-300)
        return min(max(share, 0.0), 1.0)


def expansion_of(problem: QuantumProblem, fields: NDArray[np.float64]) -> Expansion:
    """Return the expansion in jumps; order 0 alone where order 1 takes too long."""
    searched = problem.objective
    first = first_order_fits(problem.model, problem.duration, fields)
    return expand(
        problem.model, searched.cost, searched.mean_weights(), problem.duration, fields, first_order=first
    )


def outcome_of(problem: QuantumProblem, fields: NDArray[np.float64]) -> Outcome:
    """Propagate the final controls (C, N)."""
    # the error is that of these controls, whatever series a search needed on its way
    propagator = problem.objective.propagator
    propagator.remainder, propagator.products = 0.0, 0
    return replace(_propagated(problem, fields), budget=_budget(problem, fields))


def _budget(problem: QuantumProblem, fields: NDArray[np.float64]) -> Budget | None:
    """Return what each jump takes from a probability or fidelity; None without jumps, or where it takes long."""
    made = problem.model
    if problem.dissipation.search == "closed" or made.measured:
        return None
    if not is_quadratic(made) or not first_order_fits(made, problem.duration, fields):
        return None
    # The budget is of kets, whatever the search carried: first order needs no density matrix.
    _, cost = cost_of(made, lindblad=False)
    return Budget(*budget(made, cost, problem.duration, fields))


def _propagated(problem: QuantumProblem, fields: NDArray[np.float64]) -> Outcome:
    """Return the value and the state at T."""
    searched, finish = problem.objective, problem.finish
    if isinstance(searched, Unravelling):
        return _sampled(searched, fields)
    final, populations, path, seepage = _looked_at(searched, fields)
    cost, phases = _at_best_phases(searched.cost, final)
    made = Outcome(
        value=cost.value(final),
        cost=cost,
        phases=phases,
        charges=_charges(searched, fields),
        final=final,
        density=searched.density(final),
        populations=populations,
        seepage=None if searched.by_order else seepage,
        expansion=None,
        path=path,
        goals=None if searched.by_order else _goals(cost, final),
    )
    # A closed system has no jumps, and density matrices have them in the value already.
    if not searched.by_order:
        return made
    # Members of an ensemble end with the Lindbladian, so their nominal system does.
    expansion = None if problem.ensemble is not None else expansion_of(problem, fields)
    if finish is None:
        assert expansion is not None
        density = expansion.density
        whole = float(searched.mean_weights().sum())
        # Two jumps or more are missing from the trace; the rest is taken to be like what is known.
        density = density * (whole / float(np.trace(density).real))
        return replace(made, value=expansion.middle, density=density, expansion=expansion)
    columns, populations, path, seepage = _looked_at(finish, fields)
    # the phases of order 0, as the interval has them
    whole_cost = finish.cost if phases is None else finish.cost.at(phases)
    return replace(
        made,
        value=whole_cost.value(columns),
        cost=whole_cost,
        density=finish.density(columns),
        populations=populations,
        seepage=seepage,
        expansion=expansion,
        path=path,
        goals=_goals(whole_cost, columns),
    )


def _sampled(searched: Unravelling, fields: NDArray[np.float64]) -> Outcome:
    """Return the estimate with times of jumps that the search has not seen."""
    found = searched.sampled(fields, OTHER_NOISE)
    final = searched.propagator.final(fields, searched.start)
    whole = float(searched.mean_weights().sum())
    return Outcome(
        value=found.value,
        cost=searched.cost,
        phases=None,
        charges=0.0,
        final=final,
        density=found.density * (whole / float(np.trace(found.density).real)),
        populations=found.populations,
        seepage=None,
        expansion=None,
        sampling=found.error,
    )


def _at_best_phases(cost: Cost, final: ComplexArray) -> tuple[Cost, NDArray[np.float64] | None]:
    """Return the cost with the phases that are best for columns, and these."""
    if not cost.free:
        return cost, None
    phases = cost.phases(final)
    return cost.at(phases), phases


def _goals(cost: Cost, final: ComplexArray) -> NDArray[np.float64] | None:
    """Return the value of each of several goals."""
    return cost.parts(final) if isinstance(cost, Several) else None


def _charges(searched: SlotObjective, fields: NDArray[np.float64]) -> float:
    """Return what the objective subtracts from the value, beside the fluence."""
    if searched.terms.empty:
        return 0.0
    final, trajectory = searched.propagator.forward(fields, searched.start)
    return searched.charges(final, trajectory)[0]


def _looked_at(
    shown: SlotObjective, fields: NDArray[np.float64]
) -> tuple[ComplexArray, NDArray[np.float64], ComplexArray | None, float | None]:
    """Return the columns at T, the populations, the density matrices on the way, and the seepage.

    Seepage is ``Tr V V+ E((1 - V V+)/(D - d))``; None where there is nothing but logical states, or no gate.
    """
    goal, size = shown.model.goal, shown.model.dimension
    gate = goal if isinstance(goal, GateTarget) and goal.columns.shape[1] < size else None
    if not shown.lindblad:
        final, populations = shown.look(fields)
        if gate is None:
            return final, populations, None, None
        # what has left makes room for as much: unitary maps keep the trace of V V+
        logical = gate.columns.shape[1]
        back = float(logical - np.linalg.norm(gate.columns.conj().T @ final) ** 2)
        return final, populations, None, back / (size - logical)
    inside = np.zeros((size, size), complex)
    outside = None
    if gate is not None:
        inside = np.asarray(gate.columns @ gate.columns.conj().T)
        # One column, the mean of all states outside, written row by row.
        mean = (np.eye(size) - inside).reshape(-1, 1) / (size - gate.columns.shape[1])
        outside = np.asarray(mean, complex)
    final, path, others = shown.passed(fields, outside)
    populations = np.ascontiguousarray(path[:, :: size + 1].real)
    kept = path if path.nbytes <= MOST_BYTES else None
    seepage = None if gate is None else float(np.vdot(inside.ravel(), others[:, 0]).real)
    return final, populations, kept, seepage


@dataclass(frozen=True)
class Found:
    """What another route finds of the final controls.

    Attributes
    ----------
    value : float
        P.
    jumps : float
        What the jumps that it leaves out can change.
    unclaimed : str or None
        Why it claims nothing.
    numbers : dict or None
        Leakage, purity and seepage; None where it knows no state.
    zero : float or None
        Value without a jump, of an expansion.
    """

    value: float
    jumps: float = 0.0
    unclaimed: str | None = None
    numbers: dict[str, float] | None = None
    zero: float | None = None


def numbers_of(objective: SlotObjective, columns: ComplexArray) -> dict[str, float]:
    """Return purity, leakage and, of kets, seepage from the columns at T, (D, S) or (D^2, S)."""
    goal, density = objective.model.goal, objective.density(columns)
    found = {"purity": purity_of(density)}
    leak = leakage_of(goal, density)
    if leak is None or not isinstance(goal, GateTarget):
        return found
    found["leakage"] = leak
    size, logical = objective.model.dimension, goal.columns.shape[1]
    if not objective.lindblad and size > logical:
        # As much comes back as leaves: unitary maps keep the trace of the projector.
        kept = float(np.linalg.norm(goal.columns.conj().T @ columns) ** 2)
        found["seepage"] = (logical - kept) / (size - logical)
    return found


def errors_of_state(
    problem: QuantumProblem,
    outcome: Outcome,
    parts: Mapping[str, float],
    found: Found,
    larger: Mapping[str, float] | None,
) -> dict[str, float]:
    """Return the errors of the numbers beside the value.

    Parameters
    ----------
    problem, outcome
        What was run.
    parts
        Parts of the error of the value by name.
    found
        What another route finds.
    larger
        What the levels change of them; None where nothing is known of it.
    """
    series = parts["series"] + parts["mixture"]
    errors: dict[str, float] = {}
    if outcome.expansion is not None and found.zero is not None:
        # one jump and all bounds are off by what the part without a jump is, and by the integral over its time
        errors["no_jump"] = series + abs(found.zero - outcome.expansion.zero) + parts.get("levels", 0.0)
        errors["one_jump"] = errors["no_jump"] + outcome.expansion.quadrature
    if not outcome.density.size:
        return errors
    shown = problem.finish or problem.objective
    own = {
        "purity": purity_of(outcome.density),
        "leakage": leakage_of(problem.model.goal, outcome.density),
        "seepage": outcome.seepage,
    }
    if found.numbers is not None:
        for name, value in own.items():
            if value is not None and name in found.numbers:
                errors[name] = series + abs(value - found.numbers[name])
    elif outcome.expansion is not None:
        errors |= _of_interval(outcome, series)
    elif not shown.lindblad and outcome.sampling is None:
        # a closed system keeps its purity, whatever its basis
        errors["purity"] = series
    if own["seepage"] is not None and "seepage" not in errors:
        # of density matrices a propagation of its own, of the same series
        errors["seepage"] = series + parts["difference"]
    errors = _with_levels(errors, own, parts, larger)
    goal = problem.model.goal
    if (levels := parts.get("levels", 0.0)) and "seepage" in errors and isinstance(goal, GateTarget):
        # As much comes back as leaves, spread over the levels outside: what more of them change of one, they change of the other.
        change = 2.0 * levels if larger is None else larger.get("leakage", 2.0 * levels)
        logical = goal.columns.shape[1]
        errors["seepage"] += change * logical / (problem.model.dimension - logical)
    return errors


def _of_interval(outcome: Outcome, series: float) -> dict[str, float]:
    """Return the errors where the state is that of no jump and of one, and all others are taken to be like it."""
    expansion = outcome.expansion
    assert expansion is not None
    # Tr rho^2 of a mixture with an unknown state of weight w moves by 2 w |rho - sigma| at most.
    return {
        "purity": series + 2.0 * math.sqrt(2.0) * expansion.rest,
        "leakage": series + expansion.rest + expansion.quadrature,
    }


def _with_levels(
    errors: dict[str, float],
    own: Mapping[str, float | None],
    parts: Mapping[str, float],
    larger: Mapping[str, float] | None,
) -> dict[str, float]:
    """Return the errors with what a basis of more levels changes."""
    levels = parts.get("levels", 0.0)
    if levels == 0.0:
        return errors
    # Jumps that are known by an interval: the levels change the state as they change its parts.
    return errors | {
        name: errors[name] + (2.0 * levels if larger is None else larger.get(name, 2.0 * levels))
        for name in ("purity", "leakage")
        if name in errors and own[name] is not None
    }
