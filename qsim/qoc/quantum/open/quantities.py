"""Quantities of a result that jumps and bounds have: orders of the expansion, the budget of errors, limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.qoc.result import MEANINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim.qoc.objectives.jumps import Expansion
    from qsim.qoc.quantum.result import QuantumResult


def _expanded(part: Callable[[Expansion], float]) -> Callable[[QuantumResult], object]:
    """Return a quantity of the expansion in jumps."""
    return lambda result: result.outcome.expansion and part(result.outcome.expansion)


def _coherent(result: QuantumResult) -> float | None:
    """Return the value without any jump, of the ensemble if there is one."""
    if result.ensemble is not None:
        return result.ensemble.coherent
    budget = result.outcome.budget
    return None if budget is None else budget.coherent


def _coherent_error(result: QuantumResult) -> float | None:
    """Return the error of the value without any jump; an ensemble adds the largest of the members that were followed."""
    own, ensemble = result.other_error("coherent_value"), result.ensemble
    if ensemble is None or own is None:
        return own
    if not ensemble.checks or any(check.unclaimed for check in ensemble.checks.values()):
        return None
    return own + max(check.error for check in ensemble.checks.values())


def _error_of(name: str) -> Callable[[QuantumResult], float | None]:
    """Return the function that gives the claimed error of a number beside the value."""
    return lambda result: result.other_error(name)


def _expanded_kind(name: str) -> Callable[[QuantumResult], bool]:
    return lambda result: result.kind == name and result.outcome.expansion is not None


BY_JUMPS: tuple[Quantity[QuantumResult], ...] = tuple(
    Quantity(
        f"{name}_{end}",
        "",
        f"{MEANINGS[name]}: {text}",
        _expanded(part),
        error=_error_of(claim),
        when=_expanded_kind(name),
    )
    for name in MEANINGS
    for end, text, part, claim in (
        ("no_jump", "contribution of no jump", lambda e: e.zero, "no_jump"),
        ("one_jump", "contribution of at most one jump", lambda e: e.zero + e.one, "one_jump"),
        ("lower", "rigorous lower bound by the number of jumps", lambda e: e.lower, "no_jump"),
        ("upper", "rigorous upper bound by the number of jumps", lambda e: e.upper, "no_jump"),
    )
)

QUANTITIES: tuple[Quantity[QuantumResult], ...] = (
    *BY_JUMPS,
    Quantity(
        "jump_free",
        "",
        "probability of no jump until T",
        _expanded(lambda e: e.jump_free),
        error=_error_of("no_jump"),
        when=lambda r: r.outcome.expansion is not None,
    ),
    Quantity(
        "jump_single",
        "",
        "probability of one jump until T",
        _expanded(lambda e: e.one_jump),
        error=_error_of("one_jump"),
        when=lambda r: r.outcome.expansion is not None,
    ),
    Quantity(
        "coherent_value",
        "",
        "value of the same controls without any jump",
        _coherent,
        error=_coherent_error,
        when=lambda r: _coherent(r) is not None,
    ),
    Quantity(
        "coherent_value_nominal",
        "",
        "value of the same controls without any jump, of the system without the ensemble",
        lambda r: r.outcome.budget and r.outcome.budget.coherent,
        error=_error_of("coherent_value"),
        when=lambda r: r.outcome.budget is not None and r.ensemble is not None,
    ),
    Quantity(
        "fidelity_coherence_limit",
        "",
        "first-order estimate of the fidelity that jumps leave of the gate, by a formula",
        lambda r: r.problem.limits.coherence,
        exact=True,
        when=lambda r: r.problem.limits.coherence is not None,
    ),
    Quantity(
        "bound_mixture",
        "",
        "the most that unitary motion can make of the start",
        lambda r: r.problem.limits.mixture,
        exact=True,
        when=lambda r: r.problem.limits.mixture is not None,
    ),
    Quantity(
        "bound_connection",
        "",
        "the most where parts of the space are connected by no control, coupling or jump",
        lambda r: r.problem.limits.connection,
        exact=True,
        when=lambda r: r.problem.limits.connection is not None,
    ),
    Quantity(
        "speed_limit_bound",
        "",
        "the most that controls within their bounds reach in T",
        lambda r: r.problem.limits.speed,
        exact=True,
        when=lambda r: r.problem.limits.speed is not None,
    ),
    Quantity(
        "mean_jumps",
        "",
        "mean number of jumps that are drawn for a history",
        lambda r: getattr(r.problem.objective, "mean_jumps", None),
        exact=True,
        when=lambda r: r.outcome.sampling is not None,
    ),
    Quantity(
        "budget",
        "",
        "what each jump takes from the value, to first order in its rate; of an ensemble, from that of the nominal system",
        lambda r: r.outcome.budget and r.outcome.budget.taken,
        ("jump",),
        when=lambda r: r.outcome.budget is not None,
    ),
    Quantity(
        "jump_names",
        "",
        "name of a jump",
        lambda r: np.array([jump.name for jump in r.problem.model.jumps], dtype=object),
        ("jump",),
        when=lambda r: r.outcome.budget is not None,
    ),
)
