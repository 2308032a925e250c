"""Differences between two results files: every scalar and every array, statistical errors respected.

Two numbers agree if ``|a - b| <= atol + rtol * scale + sigmas * sqrt(error_a^2 + error_b^2)``.  For a
scalar the scale is its own size, for an array the largest magnitude in either file: elements that are small
only because others cancel are not asked for digits that they do not have.  An array ``<name>_error`` of the
shape of ``<name>`` holds its standard errors.  Signs and phases of eigenvectors are not special: another
gauge is a difference.  Numbers in two units of one quantity are compared in the first of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.tables import of_machine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim.core.results.tables import Scalar

__all__ = ["Comparison", "Tolerance", "compare_results"]


@dataclass(frozen=True)
class Tolerance:
    """Largest allowed distance of two numbers.

    Parameters
    ----------
    rtol
        Relative to the scale of the quantity.
    atol
        In the unit of the quantity.
    sigmas
        In units of the combined standard error, for quantities that have one.
    """

    rtol: float = 1e-9
    atol: float = 0.0
    sigmas: float = 3.0


@dataclass(frozen=True)
class Comparison:
    """Comparison of one quantity.

    Attributes
    ----------
    name
        Scalar or array; ``"method"`` for the files as a whole.
    first, second
        The two values as text, arrays by their shape.
    same
        True if they agree.
    difference, allowed
        Largest difference and what was allowed there; None for things that are not numbers.
    note
        Why they differ, or why they were not compared.
    """

    name: str
    first: str
    second: str
    same: bool
    difference: float | None = None
    allowed: float | None = None
    note: str = ""


#: Function from two units and the name of a quantity to the factor from the first to the second, None where there is none.
Between = Callable[[str, str, str], float | None]


def _equal(unit: str, other: str, name: str) -> float | None:
    return 1.0 if unit == other else None


def compare_results(
    first: Results, second: Results, tolerance: Tolerance, between: Between = _equal
) -> list[Comparison]:
    """Compare two open results files.

    Parameters
    ----------
    first, second
        The files.
    tolerance
        What may differ.
    between
        Factors between units, such as `qsim.core.physics.conversion.factor_between`; without it, units must be equal.

    Returns
    -------
    list of Comparison
        One entry per quantity in either file, scalars before arrays, in the order of the first file.
    """
    # Files of two methods are compared all the same: names in common may agree.
    comparisons: list[Comparison] = []
    if first.method != second.method:
        comparisons.append(
            Comparison("method", first.method, second.method, same=False, note="different methods")
        )
    # Quantities of either file, each once, in the order of the first.
    # An alias is the same quantity in a file of an earlier version.
    names = [*first.scalars, *second.scalars]
    others = first.scalars.aliases | second.scalars.aliases
    for name in dict.fromkeys(others.get(name, name) for name in names):
        comparisons.append(
            _compare_scalar(
                name, _called(name, others, first), _called(name, others, second), tolerance, between
            )
        )
    for name in dict.fromkeys([*first.names, *second.names]):
        if name not in first or name not in second:
            a, b = (_shape_text(r.shape(name)) if name in r else "missing" for r in (first, second))
            comparisons.append(Comparison(name, a, b, same=False, note="only in one file"))
        elif not (_is_error(name, first) and _is_error(name, second)):
            comparisons.append(_compare_array(name, first, second, tolerance, between))
    return comparisons


def _called(name: str, aliases: Mapping[str, str], results: Results) -> Scalar | None:
    """Return the scalar of a name, or of the alias by which a file of an earlier version has it; None without one."""
    earlier = [alias for alias, real in aliases.items() if real == name and alias in results.scalars]
    found: Scalar | None = results.scalars.get(name, results.scalars[earlier[0]] if earlier else None)
    return found


def _compare_scalar(
    name: str, a: Scalar | None, b: Scalar | None, tolerance: Tolerance, between: Between
) -> Comparison:
    """Compare one scalar of two files: presence, unit, then value within the tolerance."""
    # What can be said without numbers comes first.
    texts = _text(a), _text(b)
    if a is None or b is None:
        return Comparison(name, *texts, same=False, note="only in one file")
    factor = between(b.unit, a.unit, name)
    if factor is None:
        return Comparison(name, *texts, same=False, note=f"units '{a.unit}' and '{b.unit}'")
    # Speeds measure the machine, not the result.
    if of_machine(name, a.unit):
        return Comparison(name, *texts, same=True, note="speed, not compared")
    if not _is_number(a.value) or not _is_number(b.value):
        return Comparison(name, *texts, same=a.value == b.value)
    x, y = float(a.value), factor * float(b.value)  # type: ignore[arg-type]
    # Both runs found no value: they agree.
    if math.isnan(x) and math.isnan(y):
        return Comparison(name, *texts, same=True)
    # Two independent estimates: their variances add up.
    claimed = ((a.error, 1.0), (b.error, factor))
    error = math.hypot(*(e * scale for e, scale in claimed if e is not None and math.isfinite(e)))
    difference = abs(x - y) if x != y else 0.0  # inf - inf is not a number
    allowed = tolerance.atol + tolerance.rtol * max(abs(x), abs(y)) + tolerance.sigmas * error
    note = f"{difference / error:.1f} sigma" if error > 0 and math.isfinite(difference) else ""
    return Comparison(
        name, *texts, same=difference <= allowed, difference=difference, allowed=allowed, note=note
    )


def _compare_array(
    name: str, first: Results, second: Results, tolerance: Tolerance, between: Between
) -> Comparison:
    """Compare one array of two files: shape, unit, then the largest difference against the tolerance."""
    # What can be said without numbers comes first.
    a, b = first[name], second[name]
    texts = _shape_text(a.shape), _shape_text(b.shape)
    if a.shape != b.shape:
        return Comparison(name, *texts, same=False, note="different shapes")
    factor = between(second.unit(name), first.unit(name), name)
    if factor is None:
        return Comparison(
            name, *texts, same=False, note=f"units '{first.unit(name)}' and '{second.unit(name)}'"
        )
    if of_machine(name, first.unit(name)):
        return Comparison(name, *texts, same=True, note="speed, not compared")
    # Texts are equal or not.
    if a.dtype.kind not in "biufc" or b.dtype.kind not in "biufc":
        return Comparison(name, *texts, same=bool(np.array_equal(a, b)))
    if a.size == 0:
        return Comparison(name, *texts, same=True)
    b = b if factor == 1.0 else factor * b
    with np.errstate(invalid="ignore", over="ignore"):
        # where both are the same infinity, or both not a number, nothing differs
        equal = (a == b) | (np.isnan(a) & np.isnan(b))
        wide = np.result_type(a, b, np.float64)
        difference = np.where(equal, 0.0, np.abs(a.astype(wide) - b.astype(wide)))
    error = np.hypot(_errors(name, first, a), factor * _errors(name, second, b))
    # Relative to the largest element of the array, not to each: zeros of an oscillation are not exact.
    allowed = tolerance.atol + tolerance.rtol * max(_scale(a), _scale(b)) + tolerance.sigmas * error
    # Not a number in one file only counts as infinitely far away.
    excess = np.where(np.isnan(difference), np.inf, difference) - allowed
    worst = np.unravel_index(int(np.argmax(excess)), a.shape)
    same = bool(excess[worst] <= 0)
    note = "" if same else f"largest at [{', '.join(map(str, worst))}]"
    return Comparison(name, *texts, same, float(difference[worst]), float(allowed[worst]), note)


def _errors(name: str, results: Results, values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the standard errors of an array, zeros where the file has none."""
    # Errors lie beside the values, in an array of the same shape.
    companion = f"{name}_error"
    if companion in results and results.shape(companion) == values.shape:
        errors = np.abs(np.asarray(results[companion], dtype=np.float64))
        return np.where(np.isfinite(errors), errors, 0.0)  # an unknown error excuses nothing
    return np.zeros(values.shape)


def _is_error(name: str, results: Results) -> bool:
    # An error is used in the comparison of its values, and not compared itself.
    base = name.removesuffix("_error")
    return base != name and base in results and results.shape(base) == results.shape(name)


def _shape_text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one value"


def _scale(values: NDArray[Any]) -> float:
    # Infinities would allow any difference.
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(scalar: Scalar | None) -> str:
    if scalar is None:
        return "missing"
    if not _is_number(scalar.value):
        return str(scalar.value)
    error = "" if scalar.error is None else f" +- {scalar.error:.2g}"
    return f"{scalar.value:.12g}{error}"
