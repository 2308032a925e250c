"""Errors of the numbers beside the value: leakage, purity, seepage, and the parts of the value without a jump and with one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.models.quantum import GateTarget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.objectives.slots import SlotObjective
    from qsim.qoc.quantum.outcome import Outcome
    from qsim.qoc.quantum.problem import QuantumProblem


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


def purity_of(density: ComplexArray) -> float:
    """Return Tr rho^2 of a density matrix (D, D)."""
    return float(np.sum(np.abs(density) ** 2))


def leakage_of(goal: object, density: ComplexArray) -> float | None:
    """Return the mean population outside of the logical space of a gate, from the density matrix (D, D) of its mixture."""
    if not isinstance(goal, GateTarget):
        return None
    inside = goal.columns.conj().T @ density @ goal.columns
    return float(1.0 - np.trace(inside).real)


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
