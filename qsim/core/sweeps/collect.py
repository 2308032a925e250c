"""The table of many runs: its columns, as a file and as a figure."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.atomic import write_text
from qsim.core.results.plotting import entitle, figure, save, style
from qsim.core.results.quantities import MEASURES
from qsim.core.results.tables import Table
from qsim.core.results.writing import Content, write_results
from qsim.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Cell", "Collection", "Column", "draw_collection", "write_collection"]

# Blocks of a deck that are no parameter to draw against, unless nothing else differs.
NOT_PHYSICS = ("run", "title", "output")
# Most scalars and most lines per scalar that the figure shows.
PANELS, LINES = 6, 8
# Characters of labels side by side; longer ones are turned.
MOST_OF_LABELS = 40

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
        ``key``, ``scalar``, ``error`` or ``warnings``.
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
    """The table: runs by name, columns, and runs that have no row, with the reasons."""

    runs: tuple[str, ...]
    columns: tuple[Column, ...]
    title: str = ""
    refused: tuple[str, ...] = ()

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
                "warnings": "what the run warned of",
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
    shown = _drawn(table)[:PANELS]
    if axis is None or not shown:
        return []
    second = _second_axis(table, axis)
    with style():
        drawn = _figure(table, axis, shown) if second is None else _maps(table, axis, second, shown)
        entitle(drawn, table.title)
        return save(drawn, stem, {"Title": table.title})


def _drawn(table: Collection) -> list[Column]:
    """Return the scalars that make a curve of their own; what measures an error or a run is one where nothing else is."""
    found = _once([column for column in table.of("scalar") if _varies(column)])
    return [column for column in found if not MEASURES & set(column.name.split("_"))] or found


def _varies(column: Column) -> bool:
    numbers = column.numbers
    if numbers is None or not np.isfinite(numbers).any():
        return False
    values = numbers[np.isfinite(numbers)]
    # Numbers that are equal but for rounding are no curve.
    return values.size < 2 or bool(np.ptp(values) > 1e-9 * np.abs(values).max())


def _once(columns: Sequence[Column]) -> list[Column]:
    """Return columns without those that show the curve of an earlier one again: equal, or the same in other units."""
    kept: list[Column] = []
    for column in columns:
        if not any(_same_curve(column, other) for other in kept):
            kept.append(column)
    return kept


def _same_curve(column: Column, other: Column) -> bool:
    a, b = column.numbers, other.numbers
    if a is None or b is None or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return False
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    # In other units, one is a multiple of the other.
    factor = float(a @ b) / float(b @ b) if column.unit != other.unit and b.any() else 1.0
    return bool(np.allclose(a, factor * b, rtol=1e-9, atol=0.0))


def _axis(table: Collection) -> Column | None:
    """Return the key to draw against: the physical one with most values, texts and files where no number varies more."""
    keys = [column for column in table.of("key") if len(set(column.cells)) > 1]
    physical = [column for column in keys if column.name.partition(".")[0] not in NOT_PHYSICS]
    return max(
        physical or keys,
        key=lambda column: (len(set(column.cells)), column.numbers is not None),
        default=None,
    )


def _positions(axis: Column) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], list[str]]:
    """Return where runs stand on an axis, and the labels of these places; no labels for numbers."""
    if axis.numbers is not None:
        return axis.numbers, []
    places = {cell: place for place, cell in enumerate(dict.fromkeys(axis.cells))}
    texts = [_label(cell) for cell in places]
    # Files by their names, as long as these tell them apart.
    names = [text.rpartition("/")[2] for text in texts]
    return np.array([float(places[cell]) for cell in axis.cells]), names if len(set(names)) == len(
        names
    ) else texts


def _second_axis(table: Collection, axis: Column) -> Column | None:
    """Return the other key of a full grid of two, if it has too many values for a family of curves."""
    others = [column for column in _others(table, axis) if len(set(column.cells)) > 1]
    if len(others) != 1 or others[0].numbers is None or axis.numbers is None:
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
    x, labels = _positions(axis)
    errors = {column.name.removesuffix("_error"): column.numbers for column in table.of("error")}
    groups = _groups(table, axis)
    # One panel fills a column of a journal, two or more stand side by side over both.
    columns = min(2, len(shown))
    rows = -(-len(shown) // columns)
    fig = figure("double" if columns == 2 else "single", 0.4 + 2.1 * rows)
    panels = fig.subplots(rows, columns, squeeze=False, sharex=True)
    for panel, column in zip(panels.flat, shown, strict=False):
        y, error = column.numbers, errors.get(column.name)
        if y is None:
            continue
        for label, members in groups[:LINES]:
            # Stable: runs of equal x keep the order of their names.
            order = members[np.argsort(x[members], kind="stable")]
            # Missing errors are drawn without a bar.
            bars = None if error is None else np.nan_to_num(error[order])
            panel.errorbar(
                x[order],
                y[order],
                yerr=bars,
                fmt="o" if labels else "o-",
                markersize=3,
                capsize=2,
                label=label,
            )
        panel.set_ylabel(_labelled(column))
        if labels:
            _name_ticks(panel, labels)
        elif _logarithmic(x):
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


def _name_ticks(panel: Axes, labels: Sequence[str]) -> None:
    """Write labels in the place of numbers, turned where they are long; of many, not all."""
    step = -(-len(labels) // 40)
    long = sum(map(len, labels[::step])) > MOST_OF_LABELS
    panel.set_xticks(range(0, len(labels), step), labels[::step], rotation=90 if long else 0)
    panel.set_xlim(-0.5, len(labels) - 0.5)


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
