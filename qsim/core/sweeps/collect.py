"""One table of many runs: the keys in which their decks differ, and their scalars with errors.

Runs are found by their summaries.  Keys come from the resolved decks, in atomic units, so that a default and the same value
written out do not differ.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.load import changed_keys
from qsim.core.errors import FileError
from qsim.core.results.atomic import write_text
from qsim.core.results.plotting import figure, save, style
from qsim.core.results.results import open_results
from qsim.core.results.summary import read_summary
from qsim.core.results.tables import Table
from qsim.core.results.writing import Content, write_results
from qsim.core.sweeps.rows import Row, at, in_units, rows_of, without_index
from qsim.core.sweeps.sweep import FAILED
from qsim.core.text import printable
from qsim.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "Collection",
    "Column",
    "collect",
    "draw_collection",
    "find_runs",
    "incomplete",
    "write_collection",
]

SUMMARY = ".summary.json"
# Blocks of a deck that are no parameter to draw against, unless nothing else differs.
NOT_PHYSICS = ("run", "title", "output")
# Most scalars and most lines per scalar that the figure shows.
PANELS, LINES = 6, 8

Cell = float | int | bool | str | None


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes
    ----------
    name, unit
        Of a scalar, or the dotted key of a deck; without a unit, keys are in atomic units.
    cells
        One per run; None where a run has none.
    kind
        ``key``, ``scalar`` or ``error``.
    """

    name: str
    unit: str
    cells: tuple[Cell, ...]
    kind: str

    @property
    def header(self) -> str:
        """Name and unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    @property
    def numbers(self) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
        """The cells as floats, NaN where there is none; None for texts and truth values."""
        if any(isinstance(cell, str | bool) for cell in self.cells) or all(c is None for c in self.cells):
            return None
        return np.array([math.nan if cell is None else float(cell) for cell in self.cells])


@dataclass(frozen=True)
class Collection:
    """The table: runs by name, and columns."""

    runs: tuple[str, ...]
    columns: tuple[Column, ...]
    title: str = ""

    def of(self, kind: str) -> list[Column]:
        """Return the columns of a kind."""
        return [column for column in self.columns if column.kind == kind]

    def to_dataframe(self) -> pd.DataFrame:
        """Return the table for pandas, with the runs as index and units in the names of columns: ``time.T (fs)``."""
        import pandas as pd

        cells = {column.header: list(column.cells) for column in self.columns}
        return pd.DataFrame(cells, index=pd.Index(self.runs, name="run"))

    def write(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the table as ``.csv`` or ``.h5``; see :func:`write_collection`."""
        return write_collection(self, Path(path), overwrite=force, command="qsim.collect")

    def draw(self, stem: str | Path) -> list[Path]:
        """Draw the first scalars against the parameter; return the files."""
        return draw_collection(self, Path(stem))

    def __len__(self) -> int:
        return len(self.runs)

    def __repr__(self) -> str:
        """Return title and columns."""
        return f"<{self.title}; columns: {', '.join(column.header for column in self.columns)}>"

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows."""
        return str(self.to_dataframe()._repr_html_())


# ------------------------------------------------------------------------------------------- reading


def find_runs(places: Iterable[Path]) -> list[Path]:
    """Return the summaries of runs: of folders with all below them, results files, and summaries, each once, in natural order.

    Raises
    ------
    FileError
        If a place holds none.
    """
    summaries: dict[Path, None] = {}
    for place in places:
        if place.is_dir():
            here = sorted(place.rglob(f"*{SUMMARY}"), key=_natural)
        else:
            name = place.name
            stem = name.removesuffix(SUMMARY) if name.endswith(SUMMARY) else place.stem
            # A results file or a summary stands for the run; the table is made from summaries.
            here = [place.with_name(f"{stem}{SUMMARY}")]
        here = [path for path in here if path.is_file()]
        if not here:
            raise FileError(
                f"{place} holds no summary of a run",
                hint="give folders, *.h5 or *.summary.json of complete runs",
            )
        summaries.update(dict.fromkeys(here))
    return list(summaries)


def _natural(path: Path) -> list[tuple[int, int, str]]:
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.split(r"(\d+)", str(path)) if p]


def incomplete(places: Iterable[Path]) -> list[str]:
    """Return the names of decks in folders of sweeps that have no summary, failed ones with their error."""
    lines = []
    for place in places:
        # A deck of a sweep without a summary has not run to its end.
        for deck in sorted(place.glob("*-[0-9]*.yaml"), key=_natural) if place.is_dir() else ():
            if deck.with_suffix(SUMMARY).exists():
                continue
            try:
                why = json.loads(deck.with_suffix(FAILED).read_text(encoding="utf-8"))["error"].splitlines()[
                    0
                ]
            except (OSError, ValueError, LookupError, TypeError, AttributeError):
                why = "not run yet"
            lines.append(f"{deck.stem}: {why}")
    return lines


def collect(paths: Sequence[Path], chosen: Mapping[str, Sequence[str]] | None = None) -> Collection:
    """Return the table of runs.

    Parameters
    ----------
    paths
        Summaries, from :func:`find_runs`.
    chosen
        Names of the scalars to take, for each method; without it, or for a method that it lacks, all.

    Raises
    ------
    FileError
        If a file is damaged, or has no deck.
    """
    summaries = [read_summary(path) for path in paths]
    decks = [_deck(path, content) for path, content in zip(paths, summaries, strict=True)]
    rows = [
        row
        for path, name, content, deck in zip(paths, _names(paths), summaries, decks, strict=True)
        for row in rows_of(path, name, content, deck)
    ]
    columns = _key_columns(rows, _swept(paths))
    names: dict[str, None] = {}
    for row in rows:
        # A scalar that some runs lack leaves an empty cell there.
        wanted = (chosen or {}).get(row.method) or row.scalars
        names.update(dict.fromkeys(n for name in wanted for n in _known(name, row.scalars)))
    for name in names:
        columns += _scalar_columns(name, [row.scalars.get(name, {}) for row in rows])
    methods = dict.fromkeys(row.method for row in rows)
    return Collection(
        tuple(row.name for row in rows), tuple(columns), f"{', '.join(methods)}: {len(paths)} runs"
    )


def _key_columns(rows: Sequence[Row], swept: Mapping[str, int]) -> list[Column]:
    """Return the keys in which the decks of the rows differ: swept ones first, then in the order of the decks."""
    decks = [dict(row.deck) for row in rows]
    # Against the first deck: a key in which two others differ differs from it in one of them.
    # `output` is left out of the decks, as file names differ in every run.
    differing = {key for deck in decks[1:] for key in changed_keys(decks[0], deck)}
    columns = []
    for key in sorted(differing, key=lambda key: (swept.get(key, len(swept)), _place(decks, key))):
        unit, cells = in_units(key, rows, [_cell(at(deck, key)) for deck in decks])
        columns.append(Column(key, unit, cells, "key"))
    return columns


def _known(name: str, scalars: Mapping[str, Any]) -> list[str]:
    """Return the name of a scalar as a row has it: ``sigma`` of an entry for ``sigma_0``; nothing if it has none."""
    return [each for each in (name, without_index(name)) if each in scalars][:1]


def _swept(paths: Sequence[Path]) -> dict[str, int]:
    """Return the keys that the sweeps of these runs vary, with their places in the index."""
    keys: dict[str, int] = {}
    for folder in dict.fromkeys(path.parent for path in paths):
        try:
            with (folder / "index.csv").open(newline="", encoding="utf-8") as file:
                # The first two columns are number and deck.
                header = next(csv.reader(file), [])[2:]
        except (OSError, UnicodeDecodeError, csv.Error):
            continue
        for key in header:
            keys.setdefault(key, len(keys))
    return keys


def _names(paths: Sequence[Path]) -> tuple[str, ...]:
    # File names, as long as they tell the runs apart; else the paths.
    short = [path.name.removesuffix(SUMMARY) for path in paths]
    long = [str(path).removesuffix(SUMMARY) for path in paths]
    return tuple(printable(name) for name in (short if len(set(short)) == len(short) else long))


def _deck(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the deck of a run; a summary of an earlier version has none, its results file has."""
    deck = content.get("deck")
    if not isinstance(deck, dict) or not deck:
        with open_results(path.with_name(f"{path.name.removesuffix(SUMMARY)}.h5")) as results:
            deck = results.deck
    return {key: value for key, value in deck.items() if key != "output"}


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


def _scalar_columns(name: str, entries: Sequence[Mapping[str, Any]]) -> list[Column]:
    unit = next((str(entry["unit"]) for entry in entries if entry.get("unit")), "")
    columns = [Column(name, unit, tuple(_cell(entry.get("value")) for entry in entries), "scalar")]
    # A column of errors only where a run states one.
    errors = tuple(_cell(entry.get("error")) for entry in entries)
    if any(error is not None for error in errors):
        columns.append(Column(f"{name}_error", unit, errors, "error"))
    return columns


# ------------------------------------------------------------------------------------------- writing


def write_collection(table: Collection, path: Path, *, overwrite: bool = False, command: str = "") -> Path:
    """Write the table as ``.csv`` or ``.h5``.

    In a CSV file, units stand in the header: ``energy (hartree)``.  An HDF5 file has the layout of results files, with the
    axis ``run``.

    Raises
    ------
    FileError
        If the file exists and may not be replaced, or cannot be written.
    """
    # Numbers with their dtype and meaning for programs; the same table as text for
    # spreadsheets.
    if path.suffix in (".h5", ".hdf5"):
        tables = [Table("run", ("run",), "", "name of the run")]
        arrays: dict[str, Any] = {"run": np.array(table.runs, dtype=object)}
        for column in table.columns:
            meaning = {
                "key": "key of the deck, in atomic units if no unit is given",
                "scalar": "scalar",
                "error": "error of the scalar",
            }
            tables.append(Table(column.name, ("run",), column.unit, meaning[column.kind]))
            numbers = column.numbers
            texts = np.array([_text(cell) for cell in column.cells], dtype=object)
            arrays[column.name] = texts if numbers is None else numbers
        provenance = {
            "command": command,
            "qsim_version": __version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        content = Content("collect", table.title, "complete", tables, arrays, {}, provenance)
        return write_results(path, content, overwrite=overwrite)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", *(column.header for column in table.columns)])
    for index, name in enumerate(table.runs):
        writer.writerow([name, *(_text(column.cells[index]) for column in table.columns)])
    return write_text(path, text.getvalue(), overwrite=overwrite)


def _text(cell: Cell) -> str:
    """Return a cell as text; of a number, as many digits as give it back."""
    if cell is None:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


# ------------------------------------------------------------------------------------------- figure


def draw_collection(table: Collection, stem: Path) -> list[Path]:
    """Draw the first scalars against the parameter; return the files, none where no number differs."""
    axis = _axis(table)
    shown = [column for column in table.of("scalar") if _varies(column)][:PANELS]
    if axis is None or not shown:
        return []
    second = _second_axis(table, axis)
    with style():
        drawn = _figure(table, axis, shown) if second is None else _maps(table, axis, second, shown)
        return save(drawn, stem, {"Title": table.title})


def _varies(column: Column) -> bool:
    numbers = column.numbers
    if numbers is None or not np.isfinite(numbers).any():
        return False
    values = numbers[np.isfinite(numbers)]
    # Numbers that are equal but for rounding are no curve.
    return values.size < 2 or bool(np.ptp(values) > 1e-9 * np.abs(values).max())


def _axis(table: Collection) -> Column | None:
    """Return the key to draw against: the physical one with most values."""
    numeric = [column for column in table.of("key") if column.numbers is not None]
    physical = [column for column in numeric if column.name.partition(".")[0] not in NOT_PHYSICS]
    return max(physical or numeric, key=lambda column: len(set(column.cells)), default=None)


def _second_axis(table: Collection, axis: Column) -> Column | None:
    """Return the other key of a full grid of two, if it has too many values for a family of curves."""
    others = [column for column in _others(table, axis) if len(set(column.cells)) > 1]
    if len(others) != 1 or others[0].numbers is None:
        return None
    # Full: every pair of values occurs, and once.
    sizes = len(set(axis.cells)), len(set(others[0].cells))
    full = len(set(zip(axis.cells, others[0].cells, strict=True))) == sizes[0] * sizes[1] == len(table.runs)
    return others[0] if full and min(sizes) > LINES else None


def _maps(table: Collection, axis: Column, second: Column, shown: Sequence[Column]) -> Figure:
    """Draw columns as maps over two keys."""
    x, y = axis.numbers, second.numbers
    if x is None or y is None:
        raise ValueError(f"{axis.name} and {second.name} need numbers")
    (across, i), (up, k) = (np.unique(values, return_inverse=True) for values in (x, y))
    columns = min(2, len(shown))
    rows = -(-len(shown) // columns)
    fig = figure("double" if columns == 2 else "single", 0.4 + 2.3 * rows)
    panels = fig.subplots(rows, columns, squeeze=False)
    for panel, column in zip(panels.flat, shown, strict=False):
        # Rows of the map are values of the second key; a pair whose run lacks the scalar stays empty.
        values = np.full((up.size, across.size), math.nan)
        values[k, i] = column.numbers
        drawn = panel.pcolormesh(across, up, values, shading="nearest", rasterized=True)
        fig.colorbar(drawn, ax=panel, label=_labelled(column))
        panel.set(xlabel=_labelled(axis), ylabel=_labelled(second))
    for panel in panels.flat[len(shown) :]:
        panel.set_axis_off()
    return fig


def _figure(table: Collection, axis: Column, shown: Sequence[Column]) -> Figure:
    """Draw columns with their errors against another one, a curve for each group."""
    x = axis.numbers
    if x is None:
        raise ValueError(f"{axis.name} has no numbers")
    errors = {column.name.removesuffix("_error"): column.numbers for column in table.of("error")}
    groups = _groups(table, axis)
    # One panel fills a column of a journal, two or more stand side by side over both.
    columns = min(2, len(shown))
    rows = -(-len(shown) // columns)
    fig = figure("double" if columns == 2 else "single", 0.4 + 2.1 * rows)
    panels = fig.subplots(rows, columns, squeeze=False, sharex=True)
    for panel, column in zip(panels.flat, shown, strict=False):
        y, error = column.numbers, errors.get(column.name)
        for label, members in groups[:LINES]:
            # Stable: runs of equal x keep the order of their names.
            order = members[np.argsort(x[members], kind="stable")]
            # Missing errors are drawn without a bar.
            bars = None if error is None else np.nan_to_num(error[order])
            panel.errorbar(x[order], y[order], yerr=bars, marker="o", markersize=3, capsize=2, label=label)  # type: ignore[index]
        panel.set_ylabel(_labelled(column))
        if _logarithmic(x):
            panel.set_xscale("log")
    for panel in panels.flat[len(shown) :]:
        panel.set_axis_off()
    for panel in panels.flat[max(0, len(shown) - columns) : len(shown)]:
        panel.set_xlabel(_labelled(axis))
        panel.tick_params(labelbottom=True)
    if len(groups) > 1:
        more = f" ({LINES} of {len(groups)})" if len(groups) > LINES else ""
        others = ", ".join(map(_labelled, _others(table, axis)))
        panels.flat[0].legend(title=f"{others}{more}", fontsize="small", title_fontsize="small")
    return fig


def _others(table: Collection, axis: Column) -> list[Column]:
    return [c for c in table.of("key") if c is not axis and c.name.partition(".")[0] not in NOT_PHYSICS]


def _groups(table: Collection, axis: Column) -> list[tuple[str, np.ndarray[tuple[int], np.dtype[np.intp]]]]:
    """Return the runs of each line: equal in all other keys.  Keys that follow the first one (--zip) make no lines."""
    others = _others(table, axis)
    # Each run has its own x: the other keys follow it, as with --zip.
    if len(set(axis.cells)) == len(axis.cells):
        others = []
    # In the order in which the runs come, so that a legend follows the values of the keys.
    groups: dict[tuple[Cell, ...], list[int]] = {}
    for index in range(len(table.runs)):
        groups.setdefault(tuple(column.cells[index] for column in others), []).append(index)
    return [
        (", ".join(_label(cell) for cell in cells), np.array(members)) for cells, members in groups.items()
    ]


def _labelled(column: Column) -> str:
    """Return the text of an axis: keys as a deck has them, scalars in words."""
    name = column.name if column.kind == "key" else column.name.replace("_", " ")
    return f"{name} ({column.unit})" if column.unit else name


def _label(cell: Cell) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else _text(cell)


def _logarithmic(x: np.ndarray[tuple[int], np.dtype[np.float64]]) -> bool:
    """Return True for values at nearly equal ratios over more than a decade."""
    values = np.unique(x[np.isfinite(x)])
    if len(values) < 3 or values[0] <= 0 or values[-1] < 10 * values[0]:
        return False
    # Ratios that differ by less than half of their mean: typed values such as 1, 3, 10, 30 count as well.
    steps = np.diff(np.log(values))
    return bool(np.ptp(steps) < 0.5 * np.mean(steps))
