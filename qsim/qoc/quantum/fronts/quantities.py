"""Quantities of a front: one entry per value of the key, and the limit between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.qoc.quantum.fronts.search import Front
    from qsim.qoc.quantum.result import QuantumResult
    from qsim.qoc.quantum.verification import Check


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
    names = [c.name for c in result.problem.model.controls]
    return {f"front/control/{name}": rows[:, i] for i, name in enumerate(names)}


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
