"""Rows of a table of runs: one per run or per entry of the list that a run goes through; keys in the units of their decks."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qsim.core.results.display.views import output_of
from qsim.core.run.files.identity import at
from qsim.core.sweeps.runs import Run

__all__ = ["Row", "in_units", "rows_of", "without_index"]

_INDEX = re.compile(r"(.+)_(\d+)")
# Number and unit as decks have them, "20 fs" or "20fs". The number is atomic, (?>...): its exponent is never read as a unit.
_QUANTITY = re.compile(r"\s*((?>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?))\s*(\S.*?)\s*")


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes
    ----------
    name
        Of the run, with the number of the entry where there are several.
    run
        What it is a row of.
    deck
        Its resolved deck; a list that the run goes through is the entry of this row.
    scalars
        As a summary has them, without the number of the entry.
    written
        The deck as it was written, with the entry in the place of the list; empty if it is not known.
    """

    name: str
    run: Run
    deck: Mapping[str, Any]
    scalars: Mapping[str, Mapping[str, Any]]
    written: Mapping[str, Any] = field(default_factory=dict)


def rows_of(run: Run, name: str) -> list[Row]:
    """Return the rows of a run, which has this name in the table."""
    # A run that goes through a list of its deck, such as energies, is as many rows as the list has entries.
    key, entries = _list(run.method, run.deck, run.scalars)
    if not key:
        return [Row(name, run, run.deck, run.scalars, run.written)]
    own = _replaced_list(at(run.written, key), len(entries))
    rows = []
    for index, entry in enumerate(entries):
        label = name if len(entries) == 1 else f"{name}:{index}"
        # Scalars without a number belong to the run, and stand in each of its rows.
        chosen = {_base(n, index): value for n, value in run.scalars.items() if _base(n, index)}
        text = {} if own is None else _replaced(run.written, key, own[index])
        rows.append(Row(label, run, _replaced(run.deck, key, entry), chosen, text))
    return rows


def without_index(name: str) -> str:
    """Return the name of a scalar without the number of its entry, ``sigma`` of ``sigma_0``."""
    match = _INDEX.fullmatch(name)
    return match[1] if match else name


def in_units(key: str, rows: Sequence[Row], cells: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Return the unit in which the decks give a key, and its values in that; no unit where they give none.

    Parameters
    ----------
    key
        Dotted key.
    cells
        Its resolved values, one per row; inside a method they are in atomic units.
    """
    # Numbers in two units, or texts and truth values, have no unit in common.
    given = [_quantity(at(row.written, key)) for row in rows]
    units = {unit for _, unit in filter(None, given)}
    numbers = [
        cell if isinstance(cell, int | float) and not isinstance(cell, bool) else None for cell in cells
    ]
    if len(units) != 1 or any(number is None for number in numbers):
        return "", tuple(cells)
    (unit,) = units
    if all(given):
        # As they were typed, without the rounding of factors.
        return unit, tuple(pair[0] for pair in given if pair)
    # Some rows have no unit, such as those with the default of the key: the others tell the factor, which
    # is one and the same unless the unit is no multiple of an atomic unit (a wavelength of a frequency).
    factors = [
        float(cell) / pair[0] for cell, pair in zip(cells, given, strict=True) if pair and pair[0] != 0.0
    ]
    if not factors or not all(math.isclose(factor, factors[0], rel_tol=1e-9) for factor in factors):
        return "", tuple(cells)
    return unit, tuple(
        pair[0] if pair else float(cell) / factors[0] for cell, pair in zip(cells, given, strict=True)
    )


def _quantity(value: object) -> tuple[float, str] | None:
    """Return number and unit of a text of a deck."""
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else (float(match[1]), match[2])


def _list(method: str, deck: Mapping[str, Any], scalars: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
    """Return key and values of the list whose entries number the scalars; an empty key if there is none."""
    keys: Sequence[str] = getattr(output_of(method), "LISTS", ())
    numbers = {int(match[2]) for match in map(_INDEX.fullmatch, scalars) if match}
    for key in keys:
        value = at(deck, key)
        entries = value if isinstance(value, list) else [value]
        # All numbers from 0 on, and no others: numbers of states are not numbers of entries.
        if value is not None and numbers == set(range(len(entries))):
            return key, entries
    return "", ()


def _base(name: str, index: int) -> str:
    """Return the name of a scalar in the row of an entry; empty if it belongs to another entry."""
    match = _INDEX.fullmatch(name)
    if match is None:
        return name
    return match[1] if int(match[2]) == index else ""


def _replaced_list(value: object, count: int) -> list[Any] | None:
    entries = value if isinstance(value, list) else [value]
    return entries if value is not None and len(entries) == count else None


def _replaced(deck: Mapping[str, Any], key: str, value: object) -> dict[str, Any]:
    """Return a deck with one key replaced."""
    part, _, rest = key.partition(".")
    if not rest:
        return {**deck, part: value}
    below = deck.get(part)
    return {**deck, part: _replaced(below if isinstance(below, Mapping) else {}, rest, value)}
