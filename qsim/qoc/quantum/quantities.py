"""Quantities of results with jumps and bounds, of ensembles, and of fronts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.qoc.quantum.result import beside
from qsim.qoc.result import MEANINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.qoc.objectives.jumps import Expansion
    from qsim.qoc.quantum.ensembles.ensemble import EnsembleResult
    from qsim.qoc.quantum.fronts import Front
    from qsim.qoc.quantum.result import QuantumResult
    from qsim.qoc.quantum.verification import Check

__all__ = ["FRONT", "JUMPS", "MEMBERS"]


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


def _limit(name: str) -> Callable[[QuantumResult], float | None]:
    """Return the function that gives a limit of the value by its name."""
    return lambda result: getattr(result.problem.limits, name)


def _is_known(part: Callable[[QuantumResult], object]) -> Callable[[QuantumResult], bool]:
    return lambda result: part(result) is not None


def _expanded_kind(name: str) -> Callable[[QuantumResult], bool]:
    return lambda result: result.kind == name and result.outcome.expansion is not None


BY_JUMPS: tuple[Quantity[QuantumResult], ...] = tuple(
    Quantity(
        f"{name}_{end}",
        "",
        f"{MEANINGS[name]}: {text}",
        _expanded(part),
        error=beside(claim),
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

JUMPS: tuple[Quantity[QuantumResult], ...] = (
    *BY_JUMPS,
    *(
        Quantity(
            name,
            "",
            f"probability of {count} jump until T",
            _expanded(part),
            error=beside(claim),
            when=lambda r: r.outcome.expansion is not None,
        )
        for name, count, part, claim in (
            ("jump_free", "no", lambda e: e.jump_free, "no_jump"),
            ("jump_single", "one", lambda e: e.one_jump, "one_jump"),
        )
    ),
    Quantity(
        "coherent_value",
        "",
        "value of the same controls without any jump",
        _coherent,
        error=_coherent_error,
        when=_is_known(_coherent),
    ),
    Quantity(
        "coherent_value_nominal",
        "",
        "value of the same controls without any jump, of the system without the ensemble",
        lambda r: r.outcome.budget and r.outcome.budget.coherent,
        error=beside("coherent_value"),
        when=lambda r: r.outcome.budget is not None and r.ensemble is not None,
    ),
    *(
        Quantity(name, "", text, limit, exact=True, when=_is_known(limit))
        for name, text, limit in (
            (
                "fidelity_coherence_limit",
                "first-order estimate of the fidelity that jumps leave of the gate, by a formula",
                _limit("coherence"),
            ),
            ("bound_mixture", "the most that unitary motion can make of the start", _limit("mixture")),
            (
                "bound_connection",
                "the most where parts of the space are connected by no control, coupling or jump",
                _limit("connection"),
            ),
            ("speed_limit_bound", "the most that controls within their bounds reach in T", _limit("speed")),
        )
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


KINDS = {
    "probability": "probability of the goal",
    "fidelity": "average fidelity of the gate",
    "observable": "mean value of the observable",
    "functional": "formula of mean values and overlaps",
    "closeness": "closeness to the density matrix",
    "goals": "weighted mean of the goals",
}
PARAMETER = "member_parameter/"


def _own(result: QuantumResult) -> EnsembleResult:
    assert result.ensemble is not None
    return result.ensemble


def _largest_error(result: QuantumResult) -> float | None:
    """Return the largest claimed error of the members that were followed; None if one of them has none."""
    checks = _own(result).checks.values()
    if not checks or any(check.unclaimed for check in checks):
        return None
    return max(check.error for check in checks)


def _nominal_error(result: QuantumResult) -> float | None:
    """Return the claimed error of the nominal system's value; None if none is claimed."""
    return None if result.nominal_check is None else result.nominal_check.claimed


def _of_kind(kind: str) -> Callable[[QuantumResult], bool]:
    return lambda result: result.kind == kind and result.ensemble is not None


def _verified(kind: str) -> Callable[[QuantumResult], bool]:
    return lambda result: result.kind == kind and result.ensemble is not None and bool(result.ensemble.checks)


def _has_members(result: QuantumResult) -> bool:
    return result.ensemble is not None


def _parameters(result: QuantumResult) -> dict[str, NDArray[np.float64]]:
    ensemble = result.problem.ensemble
    assert ensemble is not None
    return {f"{PARAMETER}{path}": values for path, values in ensemble.members.numbers().items()}


def _of(kind: str, text: str) -> tuple[Quantity[QuantumResult], ...]:
    """Return the quantities of an ensemble whose values are of one kind."""
    return (
        Quantity(
            f"{kind}_worst",
            "",
            "smallest value in the ensemble",
            lambda r: float(_own(r).values.min()),
            error=_largest_error,
            when=_of_kind(kind),
            headline=True,
        ),
        Quantity(
            f"{kind}_spread",
            "",
            "standard deviation in the ensemble, with its weights",
            lambda r: _own(r).spread,
            # the spread changes by no more than the root mean square of what the members change by
            error=_largest_error,
            when=_of_kind(kind),
        ),
        Quantity(
            f"{kind}_nominal",
            "",
            "value of the system as the deck has it, without the ensemble",
            lambda r: r.nominal,
            error=_nominal_error,
            when=_of_kind(kind),
        ),
        Quantity(
            f"member_{kind}",
            "",
            f"{text}, of every member",
            lambda r: _own(r).values,
            ("member",),
            when=_of_kind(kind),
            note="the last entry of ensemble.members varies fastest",
        ),
        Quantity(
            f"member_{kind}_verified",
            "",
            "the same by another algorithm",
            lambda r: _own(r).verified,
            ("member",),
            when=_verified(kind),
            note="NaN for members that were not followed independently",
        ),
        Quantity(
            f"member_{kind}_error",
            "",
            "claimed error of every member",
            lambda r: _own(r).errors,
            ("member",),
            when=_verified(kind),
            note="NaN for members that were not followed independently",
        ),
    )


MEMBERS: tuple[Quantity[QuantumResult], ...] = (
    *(quantity for kind, text in KINDS.items() for quantity in _of(kind, text)),
    Quantity(
        f"{PARAMETER}*",
        "",
        "what the ensemble varies, *, of every member",
        _parameters,
        ("member",),
        when=_has_members,
        note="as the deck has it, without its unit",
    ),
)


def _has_front(result: QuantumResult) -> bool:
    return result.front is not None


def _of_front(part: Callable[[Front], object]) -> Callable[[QuantumResult], Any]:
    """Return a quantity of the front."""
    return lambda result: result.front and part(result.front)


def _front_fields(result: QuantumResult) -> dict[str, NDArray[np.float64]]:
    """Return the best controls of every point (n, N), where all points have as many slots."""
    front = result.front
    if front is None or len({f.shape for f in front.fields}) > 1:
        return {}
    rows = np.array(front.fields)
    return {f"front/control/{name}": rows[:, i] for i, name in enumerate(result.problem.names)}


def _checked(part: Callable[[Check], float | None]) -> Callable[[Front], NDArray[np.float64]]:
    """Return a number of the check of every point; NaN without one."""

    def of_all(front: Front) -> NDArray[np.float64]:
        numbers = [None if c is None else part(c) for c in front.checks]
        return np.array([np.nan if n is None else n for n in numbers])

    return of_all


FRONT: tuple[Quantity[QuantumResult], ...] = (
    Quantity(
        "front_shown",
        "",
        "value of front.over that the rest of the file describes: the smallest that reaches the threshold, else that of the best",
        _of_front(lambda f: float(f.values[f.shown])),
        when=_has_front,
        headline=True,
        exact=True,
    ),
    Quantity(
        "front_limit",
        "",
        "smallest value of front.over that reaches the threshold, on a line between two points; their distance is its error",
        _of_front(lambda f: f.limit),
        error=_of_front(lambda f: f.spacing),
        when=lambda r: r.front is not None and r.front.limit is not None,
        headline=True,
    ),
    *(
        Quantity(f"front/{name}", "", text, _of_front(part), ("value",), when=_has_front, note=note)
        for name, text, part, note in (
            ("value", "values of front.over", lambda f: f.values, "times in time_unit"),
            ("probability", "largest value of the goal of both directions", lambda f: f.best, ""),
            (
                "forward",
                "value of the goal, searched in the order of the values",
                lambda f: f.found["forward"],
                "",
            ),
            (
                "backward",
                "value of the goal, searched backwards",
                lambda f: f.found["backward"],
                "NaN: not searched",
            ),
            ("verified", "value of the goal by the independent propagation", _checked(lambda c: c.value), ""),
            (
                "error",
                "claimed error of the value of the goal",
                _checked(lambda c: c.claimed),
                "NaN: none is claimed",
            ),
            (
                "bound",
                "what no controls can pass (Mandelstam-Tamm)",
                lambda f: f.bounds,
                "NaN: none is known",
            ),
            ("fluence", "integral of the sum of u^2 of the best controls", lambda f: f.fluences, ""),
            ("peak", "largest |u| of the best controls", lambda f: f.peaks, ""),
            ("reached", "whether the threshold was reached", lambda f: f.reached.astype(np.int64), ""),
            ("converged", "whether the search ended by itself", lambda f: f.converged.astype(np.int64), ""),
        )
    ),
    Quantity(
        "front/control/*",
        "",
        "best controls * of all points, in system.unit",
        _front_fields,
        ("value", "slot"),
        when=_has_front,
    ),
)
