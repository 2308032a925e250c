"""Arrays of observables as a results file has them, for the results of every task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.core.results.quantities import Quantity
from qsim.trotter.observables.registry import labels_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim.trotter.observables.base import Array, Label, Observable, Task

__all__ = ["axes_in", "labels_in"]


def axes_in(
    task: Task, kind: type[Observable], array: Array, first: tuple[str, ...] = ()
) -> Callable[[Any], tuple[str, ...]]:
    """Return the function that gives the axes of an array of a result, which may depend on the observables of its deck."""
    return lambda result: (*first, *result.problem.observables.axes(kind, array, task))


def labels_in(task: Task) -> tuple[Quantity[Any], ...]:
    """Return the arrays that label the axes of observables."""

    def made(kind: type[Observable], label: Label) -> Quantity[Any]:
        value = lambda r: r.problem.observables.label(kind, label, task)  # noqa: E731
        return Quantity(label.name, label.unit, label.text, value, label.axes)

    return tuple(made(kind, label) for kind, label in labels_of(task))
