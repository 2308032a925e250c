"""Quantities: what a method computes, declared once with name, value, unit, meaning and axes.

From one tuple of `Quantity` follow the arrays and scalars of the results file with their units and descriptions, the numbers
that are shown first, and the page of the documentation that lists them.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, cast

import numpy as np
from typing_extensions import TypeVar

from qsim.core.results.tables import NO_ERROR, Named, Scalar, Table, Value, of_machine

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "MEASURES",
    "Failed",
    "Quantities",
    "Quantity",
    "arrays",
    "by_task",
    "headline",
    "quantity_reference",
    "scalars",
    "tables",
]

# Words in the names of numbers that measure an error or a run themselves.
MEASURES = frozenset(
    (
        "autocorrelation",
        "bias",
        "condition",
        "defect",
        "difference",
        "drift",
        "error",
        "leak",
        "residual",
        "verification",
    )
)

R = TypeVar("R")

# Takes the name of what could not be found, and why.
Failed = Callable[[str, Exception], None]


@dataclass(frozen=True)
class Quantity(Generic[R]):
    """One quantity of the result ``R`` of a method: a scalar, or with axes an array.

    Parameters
    ----------
    name
        Name of a scalar, or path of an array below ``/results``.  A ``*`` stands for a part that is known only at run time
        (``"error_*"``, ``"basis/l*/beta"``); `value` then returns a mapping from full names to values.
    unit
        Unit; ``""`` for pure numbers.
    unit_of
        Function from the result to its unit, where the deck chooses one; `unit` says then what it is for the page.
    text
        Meaning in one sentence without a full stop.  A ``*`` in it becomes the part of the name that the ``*`` stands for.
    value
        Function from the result to the value: a number or text, or an array on the host or the device. None: an array that this
        result does not have, or a scalar without a value.  A :class:`~qsim.core.results.tables.Scalar` states unit, error and
        meaning of its own, where they depend on the result.
    axes
        Name of each axis of an array; None for a scalar.
    axes_of
        Function from the result to the axes of its array, where they are not always `axes`.
    exact
        True for a number that needs no error: a setting, a count, or what measures an error itself.  Other computed numbers
        without a claimed error are marked "no error known", or with the text `why_no_errors` of the result if it has one.
    error
        Function from the result to the error of a scalar, or to a mapping from names of scalars to errors; None: no error is
        claimed.
    when
        Tells whether a result has this quantity at all; by default it always has.
    note
        Convention that a reader must know.
    label
        Text for plot axes; by default the last part of the name.
    headline
        True for a scalar that is shown first at the end of a run, in the order of declaration; or the names or aliases that are
        shown first in this place: some of those that a ``*`` stands for, or those of quantities declared further below.
    """

    name: str
    unit: str
    text: str
    value: Callable[[R], object]
    axes: tuple[str, ...] | None = None
    error: Callable[[R], float | Mapping[str, float] | None] | None = None
    when: Callable[[R], bool] | None = None
    note: str = ""
    label: str = ""
    headline: bool | tuple[str, ...] = False
    axes_of: Callable[[R], tuple[str, ...]] | None = None
    exact: bool = False
    unit_of: Callable[[R], str] | None = None

    def unit_in(self, result: R | None) -> str:
        """Return the unit of this quantity in a result."""
        return self.unit if self.unit_of is None or result is None else self.unit_of(result)

    def named(self, result: R) -> Iterator[tuple[str, object]]:
        """Yield full names and values of this quantity in a result.

        Raises
        ------
        TypeError
            If a quantity with a ``*`` in its name gives no mapping.
        ValueError
            If the mapping has names that do not fit.
        """
        if self.when is not None and not self.when(result):
            return
        value = self.value(result)
        if "*" not in self.name:
            if value is not None or self.axes is None:
                yield self.name, value
            return
        if not isinstance(value, Mapping):
            raise TypeError(f"the quantity '{self.name}' must give a mapping from names to values")
        for name, item in value.items():
            if not fnmatch.fnmatchcase(name, self.name):
                raise ValueError(f"the quantity '{self.name}' gives '{name}'")
            yield name, item

    def meaning(self, name: str) -> str:
        """Return the text for a name that stands for the pattern."""
        before, star, after = self.name.partition("*")
        if not star:
            return self.text
        part = name[len(before) : len(name) - len(after)]
        return self.text.replace("*", part.replace("_", " "))

    def claimed(self, result: R, name: str) -> float | None:
        """Return the error that a result claims for the scalar `name`, None if it claims none."""
        error = None if self.error is None else self.error(result)
        return error.get(name) if isinstance(error, Mapping) else error


# What a method declares: the quantities of its result, or of several tasks by their names.
Quantities: TypeAlias = Sequence[Quantity[R]] | Mapping[str, Sequence[Quantity[Any]]]


def tables(quantities: Iterable[Quantity[R]], result: R | None = None) -> tuple[Table, ...]:
    """Return the declarations of all arrays, with the axes that they have in a result if one is given."""

    def axes(quantity: Quantity[R], usual: tuple[str, ...]) -> tuple[str, ...]:
        return usual if quantity.axes_of is None or result is None else quantity.axes_of(result)

    return tuple(
        Table(one.name, axes(one, one.axes), one.unit_in(result), one.text, one.label, one.note)
        for one in quantities
        if one.axes is not None
    )


def arrays(
    quantities: Iterable[Quantity[R]], result: R, failed: Failed | None = None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a result by name; those of the device are still there.

    An array whose function raises is left out and given to `failed`; without it the exception is raised.
    """
    found = {
        name: cast("NDArray[Any]", value)
        for quantity in quantities
        if quantity.axes is not None
        for name, value in _named(quantity, result, failed)
    }
    if _claims(result):
        return found
    return {
        name: value * np.nan if name.endswith(("_error", "_errors")) else value
        for name, value in found.items()
    }


def scalars(quantities: Iterable[Quantity[R]], result: R, failed: Failed | None = None) -> Named[Scalar]:
    """Return the scalars of a result by name, with units, errors and meanings.

    A scalar whose function raises has no value, one whose error function raises has no error; `failed` is told.  Without it
    the exception is raised.
    """
    found: dict[str, Scalar] = {}
    for quantity in quantities:
        if quantity.axes is not None:
            continue
        for name, value in _named(quantity, result, failed):
            error = _claimed(quantity, result, name, failed)
            if not isinstance(value, Scalar):
                value = Scalar(cast("Value", value), quantity.unit_in(result), error, quantity.meaning(name))
            elif error is not None:
                value = replace(value, error=error)
            if not _claims(result):
                value = replace(value, error=None)
            if not quantity.exact and _unclaimed(name, value):
                # a run that was told not to look for errors says so
                value = replace(value, note=getattr(result, "why_no_errors", "") or NO_ERROR)
            found[name] = value
    return Named.of(found)


def _claims(result: object) -> bool:
    """Return False for a result whose attribute `claims` says that its errors do not hold all that is not known."""
    return bool(getattr(result, "claims", True))


def _unclaimed(name: str, scalar: Scalar) -> bool:
    """Return True for a computed number without an error: no count, word, time of the machine or measure of an error."""
    if scalar.error is not None or of_machine(name, scalar.unit) or MEASURES & set(name.split("_")):
        return False
    value = getattr(scalar.value, "item", lambda: scalar.value)()
    return isinstance(value, float)


def _named(quantity: Quantity[R], result: R, failed: Failed | None) -> list[tuple[str, object]]:
    """Return names and values of a quantity: what it costs to write is never lost because one of them fails."""
    try:
        return list(quantity.named(result))
    except Exception as error:
        if failed is None:
            raise
        failed(quantity.name, error)
    return [(quantity.name, None)] if quantity.axes is None and "*" not in quantity.name else []


def _claimed(quantity: Quantity[R], result: R, name: str, failed: Failed | None) -> float | None:
    """Return the claimed error of a scalar; None, too, if it cannot be found."""
    try:
        return quantity.claimed(result, name)
    except Exception as error:
        if failed is None:
            raise
        failed(f"the error of {name}", error)
    return None


def by_task(declared: Quantities[Any]) -> list[Sequence[Quantity[Any]]]:
    """Return the quantities of each task; of a method without tasks, one list of all."""
    return list(declared.values()) if isinstance(declared, Mapping) else [declared]


def headline(*tasks: Iterable[Quantity[Any]]) -> tuple[str, ...]:
    """Return the names of the scalars that are shown first, in an order that is right for each of the tasks of a method.

    Raises
    ------
    ValueError
        If two tasks declare the same names in opposite order.
    """
    left = [list(dict.fromkeys(name for quantity in task for name in _shown(quantity))) for task in tasks]
    found: list[str] = []
    while any(left):
        heads = [names[0] for names in left if names]
        first = next((name for name in heads if not any(name in names[1:] for names in left)), None)
        if first is None:
            raise ValueError(f"tasks declare these in opposite order: {', '.join(heads)}")
        found.append(first)
        left = [[name for name in names if name != first] for names in left]
    return tuple(found)


def _shown(quantity: Quantity[Any]) -> tuple[str, ...]:
    if isinstance(quantity.headline, tuple):
        return quantity.headline
    return (quantity.name,) if quantity.headline else ()


def quantity_reference(quantities: Iterable[Quantity[Any]], level: int = 2) -> str:
    """Return Markdown tables of all quantities: scalars and arrays, each a section of a level."""
    declared = list(quantities)
    single = ["| name | unit | meaning |", "|---|---|---|"]
    many = ["| name | axes | unit | meaning |", "|---|---|---|---|"]
    for quantity in declared:
        unit = f"`{quantity.unit}`" if quantity.unit else ""
        if quantity.axes is None:
            claim = "; with an error, where one is claimed" if quantity.error is not None else ""
            single.append(f"| {_code(quantity.name)} | {unit} | {_plain(quantity.text)}{claim} |")
        else:
            note = f"; {_plain(quantity.note)}" if quantity.note else ""
            note += "; other axes in some runs" if quantity.axes_of is not None else ""
            axes = ", ".join(map(_code, quantity.axes))
            many.append(f"| {_code(quantity.name)} | {axes} | {unit} | {_plain(quantity.text)}{note} |")
    sections = (("Scalars", single), ("Arrays", many))
    return "\n\n".join(
        f"{'#' * level} {title}\n\n" + "\n".join(rows) for title, rows in sections if len(rows) > 2
    )


def _code(name: str) -> str:
    return f"`{name}`"


def _plain(text: str) -> str:
    """Return a text whose formulas Markdown does not take for marks of its own."""
    for mark in "\\|<>*_$`[]":
        text = text.replace(mark, f"\\{mark}")
    return text
