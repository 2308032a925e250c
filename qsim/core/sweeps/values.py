"""Values of a sweep: ranges and lists of the keys of a deck."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qsim.core.text import shorten

__all__ = ["Axis", "parse_axis", "points"]

MOST_POINTS = 100_000
# Significant digits of the values between the ends of a range, so that 0.3 is not 0.30000000000000004.
DIGITS = 12

# A number, and `A unit : B unit : N`, whose units hold neither digits nor colons at their start.
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(
    rf"({_NUMBER})\s*([^\d\s:][^:]*?)?\s*(?::|\.\.)\s*({_NUMBER})\s*([^\d\s:][^:]*?)?\s*(?::\s*(\d+)(:log)?)?"
)
_OPENING = dict(zip("([{", ")]}", strict=True))


@dataclass(frozen=True)
class Axis:
    """A key of the deck and the texts of its values."""

    key: str
    values: tuple[str, ...]


def parse_axis(text: str) -> Axis:
    """Return the key and the values of ``KEY=A:B:N``, ``KEY=A:B:N:log`` or ``KEY=X,Y,...``.

    The first two are N values from A to B, both included, at equal distances or ratios; A and B may carry a unit.

    Raises
    ------
    ValueError
        If it is none of these.
    """
    key, equals, text_of_values = text.partition("=")
    key, text_of_values = key.strip(), text_of_values.strip()
    if not equals or not all(key.split(".")):
        raise ValueError(f"{shorten(repr(text))} is not KEY=A:B:N or KEY=X,Y,...")
    # A range has two colons and no comma outside of brackets; everything else is a list.
    if span := _RANGE.fullmatch(text_of_values):
        return Axis(key, tuple(_between(key, span)))
    values = tuple(_split(text_of_values))
    if not values or not all(values):
        raise ValueError(f"{key}: a value is missing in {shorten(repr(text_of_values))}")
    if len(set(values)) < len(values):
        raise ValueError(f"{key}: duplicate value in {shorten(repr(text_of_values))}")
    return Axis(key, values)


def _between(key: str, span: re.Match[str]) -> Iterator[str]:
    """Yield the values of a range ``first:last:count``, with the unit that they have in common."""
    first, unit, last, unit_of_last, count, logarithmic = span.groups()
    if count is None:
        ends = span[0].replace("..", ":")
        raise ValueError(f"{key}: {span[0]} has two ends; A:B:N says how many values, such as {ends}:5")
    unit = unit or unit_of_last or ""
    if unit_of_last is not None and unit != unit_of_last:
        raise ValueError(f"{key}: the ends of a range need one unit, found '{unit}' and '{unit_of_last}'")
    a, b, n = float(first), float(last), int(count)
    if not 2 <= n <= MOST_POINTS or a == b:
        raise ValueError(
            f"{key}: {shorten(span[0])} is A:B:N; it needs two ends and N from 2 to {MOST_POINTS} values"
        )
    if logarithmic and a * b <= 0:
        raise ValueError(
            f"{key}: equal ratios need two ends of one sign other than 0, found {first} and {last}"
        )
    # Counts stay counts: 100:400:4 gives 100, 200, ..., which a key for whole numbers takes.
    whole = all(re.fullmatch(r"[-+]?\d+", end) for end in (first, last))
    for index in range(n):
        part = index / (n - 1)
        value = a * (b / a) ** part if logarithmic else a + (b - a) * part
        # The ends are exactly what was typed; between them, digits that rounding made are cut.
        value = (a, b)[index > 0] if index in (0, n - 1) else float(f"{value:.{DIGITS}g}")
        number = str(int(value)) if whole and value.is_integer() and abs(value) < 2**53 else repr(value)
        yield f'"{number} {unit}"' if unit else number


def _split(text: str) -> Iterator[str]:
    """Yield the parts between commas that stand in no brackets or quotes."""
    closing: list[str] = []
    start = 0
    for index, character in enumerate(text):
        # The innermost bracket or quote is closed first.
        if closing and character == closing[-1]:
            closing.pop()
        elif closing and closing[-1] in "\"'":
            continue
        elif character in "\"'":
            closing.append(character)
        elif character in _OPENING:
            closing.append(_OPENING[character])
        elif character == "," and not closing:
            yield text[start:index].strip()
            start = index + 1
    yield text[start:].strip()


def points(axes: Sequence[Axis], *, zipped: bool = False) -> list[tuple[str, ...]]:
    """Return the values of each point: all combinations, the last key fastest, or the axes side by side.

    Raises
    ------
    ValueError
        If a key is given twice, axes to go side by side differ in length, or there are too many points.
    """
    keys = [axis.key for axis in axes]
    if twice := next((key for index, key in enumerate(keys) if key in keys[:index]), None):
        raise ValueError(f"{twice} is given twice")
    if zipped:
        lengths = [len(axis.values) for axis in axes]
        if len(set(lengths)) > 1:
            listed = ", ".join(f"{axis.key}: {len(axis.values)}" for axis in axes)
            raise ValueError(f"--zip needs equal numbers of values, found {listed}")
        return list(zip(*(axis.values for axis in axes), strict=True))
    number = math.prod(len(axis.values) for axis in axes)
    if number > MOST_POINTS:
        raise ValueError(f"{number} decks are more than {MOST_POINTS}")
    return list(itertools.product(*(axis.values for axis in axes)))
