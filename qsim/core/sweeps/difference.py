"""Numbers of several runs added with factors, such as binding energies and gaps, with their error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qsim.core.errors import MismatchError
from qsim.core.results.results import open_complete
from qsim.core.results.tables import NO_ERROR, Scalar

if TYPE_CHECKING:
    from qsim.core.results.compare import Between

__all__ = ["Term", "combined"]


@dataclass(frozen=True)
class Term:
    """One number of a run.

    Attributes
    ----------
    factor
        By which it is multiplied.
    path
        The results file.
    name
        The scalar.
    """

    factor: float
    path: Path
    name: str


def combined(terms: Sequence[Term], between: Between) -> Scalar:
    """Return the sum of numbers with their factors, in the unit of the first.

    Errors of one run are not independent and add up; those of different runs are taken as independent and add in quadrature.

    Parameters
    ----------
    terms
        What is added.
    between
        Factors between units.

    Raises
    ------
    FileError
        If a file is no complete result.
    KeyError
        If a file has no such scalar.
    MismatchError
        If a scalar is no number, or in a unit of another quantity than the first.
    """
    numbers: list[float] = []
    errors: dict[Path, float] = {}
    unknown: dict[Path, None] = {}
    first: Scalar | None = None
    for term in terms:
        with open_complete(term.path) as results:
            scalar = results.scalars[term.name]
        first = first or scalar
        factor = between(scalar.unit, first.unit, term.name)
        if factor is None:
            raise MismatchError(
                f"{term.name} of {term.path} is in '{scalar.unit}', {terms[0].name} of {terms[0].path} in '{first.unit}'"
            )
        if isinstance(scalar.value, str | bool) or scalar.value is None:
            raise MismatchError(f"{term.name} of {term.path} is {scalar.value}, no number")
        numbers.append(term.factor * factor * float(scalar.value))
        if scalar.error is None or not math.isfinite(scalar.error):
            unknown.setdefault(term.path)
        else:
            run = term.path.resolve()
            errors[run] = errors.get(run, 0.0) + abs(term.factor * factor) * scalar.error
    unit = "" if first is None else first.unit
    if unknown:
        names = ", ".join(str(path) for path in unknown)
        return Scalar(math.fsum(numbers), unit, None, note=f"{NO_ERROR}: none is stated by {names}")
    return Scalar(math.fsum(numbers), unit, math.hypot(*errors.values()))
