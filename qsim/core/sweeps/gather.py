"""One table of many runs: the keys in which their decks differ, and their scalars with errors.

What stands there is what the results files say.  Keys come from the resolved decks, in atomic units, so that a default and the
same value written out do not differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from qsim.core.deck.load import changed_keys
from qsim.core.errors import FileError, MismatchError
from qsim.core.physics.conversion import factor_between
from qsim.core.results.display.views import output_of
from qsim.core.results.quantities import by_task, headline
from qsim.core.results.tables import Named
from qsim.core.run.files.identity import at
from qsim.core.sweeps.collect import Cell, Collection, Column
from qsim.core.sweeps.folder import SUMMARY
from qsim.core.sweeps.rows import Row, in_units, rows_of, without_index
from qsim.core.sweeps.runs import Run, read_runs, swept_keys
from qsim.core.text import printable

__all__ = ["collect", "headline_of"]


def headline_of(method: str) -> Sequence[str]:
    """Return the scalars that a method shows first; none, which means all, of a method that is not there."""
    module = output_of(method)
    return () if module is None else headline(*by_task(module.QUANTITIES))


def collect(
    paths: Sequence[Path],
    chosen: Mapping[str, Sequence[str]] | Callable[[str], Sequence[str]] = lambda method: (),
) -> Collection:
    """Return the table of runs.

    Parameters
    ----------
    paths
        Summaries, from :func:`find_runs`.
    chosen
        Names of the scalars to take, for each method; without names, all.

    Returns
    -------
    Collection
        Its `refused` are those that are damaged, or of a sweep and not of their deck: they have no row.

    Raises
    ------
    FileError
        If no run is left.
    MismatchError
        If a scalar has units of different quantities.
    """
    runs, refused = read_runs(paths)
    if not runs:
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise FileError(f"no run can be taken: {refused[0]}{more}", hint="'qsim sweep' runs them again")
    rows = [row for run, name in zip(runs, _names(runs), strict=True) for row in rows_of(run, name)]
    columns = _key_columns(rows, _swept(runs))
    names: dict[str, None] = {}
    for row in rows:
        # A scalar that some runs lack leaves an empty cell there.
        of_method = chosen.get(row.run.method) if isinstance(chosen, Mapping) else chosen(row.run.method)
        names.update(
            dict.fromkeys(n for name in of_method or row.scalars for n in _known(name, row.scalars, chosen))
        )
    for name in names:
        columns += _scalar_columns(name, rows)
    if any(row.run.warnings for row in rows):
        told = tuple("; ".join(printable(text) for text in row.run.warnings) or None for row in rows)
        columns.append(Column("warnings", "", told, "warnings"))
    methods = dict.fromkeys(run.method for run in runs)
    titles = dict.fromkeys(run.title for run in runs)
    title = next(iter(titles)) if len(titles) == 1 else ""
    return Collection(
        tuple(row.name for row in rows),
        tuple(columns),
        f"{title or ', '.join(methods)}: {len(runs)} runs",
        tuple(refused),
    )


def _key_columns(rows: Sequence[Row], swept: Mapping[str, int]) -> list[Column]:
    """Return the keys in which the decks of the rows differ: swept ones first, then in the order of the decks."""
    decks = [dict(row.deck) for row in rows]
    # Against the first deck: a key in which two others differ differs from it in one of them.
    differing = {key for deck in decks[1:] for key in changed_keys(decks[0], deck)}
    columns = []
    for key in sorted(differing, key=lambda key: (swept.get(key, len(swept)), _place(decks, key))):
        unit, cells = in_units(key, rows, [_cell(at(deck, key)) for deck in decks])
        # A seed that a run has drawn says nothing of it; one that was given may be a parameter.
        if key == "run.seed" and key not in swept:
            cells = tuple(
                None if row.written and at(row.written, key) is None else cell
                for row, cell in zip(rows, cells, strict=True)
            )
        if any(cell is not None for cell in cells):
            columns.append(Column(key, unit, cells, "key"))
    return [*columns, *_content_columns(rows)]


def _content_columns(rows: Sequence[Row]) -> list[Column]:
    """Return the contents of data files, shortened hashes, where files of one name had different ones."""
    columns = []
    for key in dict.fromkeys(key for row in rows for key in row.run.contents):
        found: dict[str, set[str]] = {}
        for row in rows:
            if key in row.run.contents:
                found.setdefault(str(at(row.deck, key)), set()).add(row.run.contents[key])
        if any(len(contents) > 1 for contents in found.values()):
            cells = tuple(row.run.contents.get(key, "")[:12] or None for row in rows)
            columns.append(Column(f"{key}.content", "", cells, "key"))
    return columns


def _known(name: str, scalars: Mapping[str, Any], chosen: object) -> list[str]:
    """Return the name of a scalar as a row has it: ``sigma`` of an entry for ``sigma_0``; nothing if it has none.

    A scalar that is asked for by its alias keeps it.
    """
    real = scalars.real if isinstance(scalars, Named) and chosen is headline_of else str
    return [real(each) for each in (name, without_index(name)) if each in scalars][:1]


def _swept(runs: Sequence[Run]) -> dict[str, int]:
    """Return the keys that the sweeps of these runs vary, with their places in the index."""
    folders = dict.fromkeys(run.path.parent for run in runs)
    keys = dict.fromkeys(key for folder in folders for key in swept_keys(folder))
    return {key: place for place, key in enumerate(keys)}


def _names(runs: Sequence[Run]) -> tuple[str, ...]:
    # File names, as long as they tell the runs apart; else the paths.
    short = [run.path.name.removesuffix(SUMMARY) for run in runs]
    long = [str(run.path).removesuffix(SUMMARY) for run in runs]
    return tuple(printable(name) for name in (short if len(set(short)) == len(short) else long))


def _place(decks: Sequence[Mapping[str, Any]], key: str) -> tuple[int, ...]:
    """Return the place of a key in the decks, in whose order the columns stand; ``run`` comes last."""
    places = [int(key.startswith("run."))]
    for deck in decks:
        block: object = deck
        for part in key.split("."):
            if not isinstance(block, dict) or part not in block:
                break
            places.append(list(block).index(part))
            block = block[part]
        else:
            break
        # This deck lacks the key: the next one may show where it belongs.
        places[1:] = []
    return tuple(places)


def _cell(value: object) -> Cell:
    if value is None or isinstance(value, bool | int | float):
        return value
    return printable(value if isinstance(value, str) else json.dumps(value))


def _scalar_columns(name: str, rows: Sequence[Row]) -> list[Column]:
    """Return the column of a scalar, and one of its errors if a run states one, or warns and knows none."""
    entries = [row.scalars.get(name, {}) for row in rows]
    given = [(row, entry) for row, entry in zip(rows, entries, strict=True) if entry.get("value") is not None]
    unit = str(given[0][1]["unit"]) if given else ""
    factors = {row.name: _factor(name, row, str(entry["unit"]), given[0][0], unit) for row, entry in given}

    def column(part: str) -> tuple[Cell, ...]:
        cells = [_cell(entry.get(part)) for entry in entries]
        return tuple(
            cell * factor
            if isinstance(cell, int | float) and not isinstance(cell, bool) and factor != 1.0
            else cell
            for cell, factor in zip(cells, (factors.get(row.name, 1.0) for row in rows), strict=True)
        )

    columns = [Column(name, unit, column("value"), "scalar")]
    unknown = any(entry.get("note") and row.run.warnings for row, entry in zip(rows, entries, strict=True))
    if unknown or any(entry.get("error") is not None for entry in entries):
        columns.append(Column(f"{name}_error", unit, column("error"), "error"))
    return columns


def _factor(name: str, row: Row, unit: str, first: Row, wanted: str) -> float:
    """Return the factor that brings a scalar of a row to the unit of the first row.

    Raises
    ------
    MismatchError
        If there is none.
    """
    factor = factor_between(unit, wanted, name)
    if factor is None:
        raise MismatchError(
            f"{name} is in {wanted or 'a pure number'} in {first.name} and in {unit or 'a pure number'} in {row.name}, "
            "which no factor connects: one column cannot hold both",
            hint="--scalar NAME chooses columns, or make a table of each kind of run",
        )
    return factor
