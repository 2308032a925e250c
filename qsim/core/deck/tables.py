"""Tables of a function with units: from the header of a text file, the attributes of an HDF5 or netCDF file, or the deck.

Headers may be written ``r (Angstrom), V (eV)``, ``r [Angstrom] V [eV]``, ``r/Angstrom V/eV``, as the last comment lines before
the numbers, as two lines (names, units), or as ``# column 1: r (Angstrom)``.  Everything that is returned is in atomic units.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.deck.columns import number_in, read_columns, text_lines
from qsim.core.deck.units import UNITS, UnitError, unit_named
from qsim.core.errors import FileError, QsimError
from qsim.core.text import shorten

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.deck.table_units import Column, Tabulated

__all__ = ["ColumnUnit", "column_units", "read_table", "units_in_doubt"]

HDF5 = (".h5", ".hdf5", ".nc", ".nc4")
# Lines before the first number that are looked at for units.
MAX_LINES = 200
# What says in words that a column has no unit.
NO_UNIT = ("", "-", "1", "dimensionless", "none", "arb. u.", "arb. units")
PLAIN = ("au", "atomic units", "hbar/J")
# What a table may hold beside the columns that are read, in an example.
OTHERS = ("a", "b", "c")
# Names that axes of tables have.
AXES = ("x", "r", "R", "t", "time", "distance")

# "V (eV)" or "V [eV]"; "V/eV"; "column 2: V (eV)", "col. 2 = V (eV)".
_BRACKET = re.compile(r"[(\[]([^()\[\]]*)[)\]]\s*$")
_SLASH = re.compile(r"[^\s/]+\s*/\s*(\S+)$")
_NUMBERED = re.compile(r"\s*(?:col(?:umn)?\.?\s*)(\d+)\s*[:=.)]?\s*(.*)", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnUnit:
    """Unit of a column.

    Attributes
    ----------
    column
        Which column.
    factor
        Atomic units per unit of the file.
    source
        ``"header"``, ``"deck"``, or empty where nothing names a unit.
    """

    column: Column
    factor: float = 1.0
    source: str = ""


@dataclass(frozen=True)
class _Label:
    """Unit of a column as a file has it, with its place; a comment may be prose."""

    unit: str
    where: str
    comment: bool = False


def read_table(
    table: Tabulated, *, check: Callable[[Sequence[float]], str] | None = None, distinct: str = ""
) -> NDArray[np.float64]:
    """Return the columns of a table, in atomic units.

    Parameters
    ----------
    table
        The block of the deck that names the file.
    check
        Returns what is wrong with a row of a text file, as it is written there; or an empty text.
    distinct
        Name of the first column, if rows after one another must differ in it.

    Returns
    -------
    (rows, columns) float64
        In the order of the file.

    Raises
    ------
    FileError
        If the file cannot be read, names a unit that does not fit, or contradicts the key ``units``.
    """
    path, columns = table.table_file(), table.columns()
    if path is None:
        raise FileError("no table is named")
    units = column_units(path, columns, table.given_units())
    stored = path.suffix in HDF5
    values = _stored_columns(path, columns) if stored else _text_columns(path, columns, check, distinct)
    for index, unit in enumerate(units):
        # A factor of 1 leaves the bits of the file.
        if unit.factor != 1.0:
            values[:, index] *= unit.factor
    return values


def _text_columns(
    path: Path, columns: Sequence[Column], check: Callable[[Sequence[float]], str] | None, distinct: str
) -> NDArray[np.float64]:
    """Return the columns of a text file: those that its header calls by their names, or the first."""
    names, places = ", ".join(column.name for column in columns), _places(path, columns)
    if places == tuple(range(len(columns))):
        return read_columns(path, len(columns), names, check=check, distinct=distinct)
    names += f" in the columns {', '.join(str(place + 1) for place in places)}"
    chosen = None if check is None else (lambda row: check([row[place] for place in places]))
    # Equal values of the first column are told where the curve is made of it.
    return read_columns(path, max(places) + 1, names, check=chosen)[:, places]


def column_units(
    path: Path, columns: Sequence[Column], given: Mapping[str, str] | None = None
) -> tuple[ColumnUnit, ...]:
    """Return the units of the columns of a file.

    Parameters
    ----------
    path
        Text, HDF5 or netCDF file.
    columns
        Columns to read.
    given
        Units from the deck, by name of a column.

    Raises
    ------
    FileError
        If a header names no unit of the right kind, or another one than the deck.
    """
    labels = _attributes(path, columns) if path.suffix in HDF5 else _header(path, columns)
    given = given or {}
    return tuple(
        _one_unit(column, labels.get(index), given.get(column.name)) for index, column in enumerate(columns)
    )


def units_in_doubt(table: Tabulated, key: str) -> Iterator[Finding]:
    """Yield a note about columns whose unit is said nowhere.

    Parameters
    ----------
    key
        Where the block stands in the deck.
    """
    path = table.table_file()
    if path is None:
        return
    try:
        units = column_units(path, table.columns(), table.given_units())
    except QsimError:
        # The reader refuses this file later, and names the place.
        return
    place = f"{key}.file" if key else "file"
    names = [unit.column.name for unit in units]
    found = 0 if path.suffix in HDF5 else _names_of_text(path, len(units))[1]
    if found > len(units) and not _named(path, table.columns()):
        text = f"{path.name} has {found} columns; the first {len(units)} are read, as {', '.join(names)}"
        example = ", ".join([*names[:1], *OTHERS[: found - len(names)], *names[1:]])
        remedy = f"a header with names, such as '{example}', chooses others"
        yield Finding(place, f"{text}; {remedy}", "warning")
    bare = [unit.column for unit in units if unit.source == "" and not unit.column.ignored]
    if not bare:
        return
    named = " and ".join(f"{column.name} in {column.bare}" for column in bare)
    header = ", ".join(f"{column.name} ({_plain_unit(column)})" for column in bare)
    yield Finding(
        place,
        f"{path.name} has no unit of {' and '.join(column.name for column in bare)}, which is read as {named}; "
        f"name units in its header, '{header}', or in the key units",
        "note",
    )


def _plain_unit(column: Column) -> str:
    """Return the plain unit of a column, as a header would have it."""
    plain = {"length": "bohr", "energy": "hartree"}
    return column.unit or plain.get(column.kind, "au")


def _one_unit(column: Column, label: _Label | None, given: str | None) -> ColumnUnit:
    """Return the unit of one column, which file and deck must not name differently."""
    # A curve that is normalised afterwards needs no unit, and is in no doubt.
    if column.ignored:
        return ColumnUnit(column, source="header")
    stated = given and unit_named(given, column.kind)
    if label is None or label.unit.lower() in NO_UNIT:
        return ColumnUnit(column, stated[1], "deck") if stated else ColumnUnit(column)
    # Columns with one unit only: the header may name it, or that the numbers are atomic units.
    if not column.kind:
        if label.unit in (column.unit, *PLAIN) or _spelled(label.unit) == "au":
            return ColumnUnit(column, source="header")
        if label.comment and not _known(label.unit):
            return ColumnUnit(column)
        raise FileError(
            f"{label.where}: {column.name} has the unit {shorten(repr(label.unit))}, but only {column.bare} can be read here"
        )
    try:
        name, factor = unit_named(label.unit, column.kind)
    except UnitError as error:
        # Brackets may hold something else than a unit, "V (model A)": the deck decides, and without it,
        # a comment is prose. A known unit of another kind is a wrong column in any case.
        if stated and not _known(label.unit):
            return ColumnUnit(column, stated[1], "deck")
        if label.comment and not _known(label.unit):
            return ColumnUnit(column)
        hint = (
            f"name the column {column.name} in the header, and it is read wherever it stands; or name the unit by "
            f"units: {{{column.name}: ...}} in the deck if the header means something else"
        )
        raise FileError(f"{label.where}: unit of {column.name}: {error}", hint=hint) from None
    # Two units that differ by a factor: one of them is a mistake.
    if stated and stated[1] != factor:
        raise FileError(
            f"{label.where}: the header says {column.name} is in {name}, but the key units says {stated[0]}",
            hint="leave out the key, or correct the header",
        )
    return ColumnUnit(column, factor, "header")


def _spelled(unit: str) -> str:
    """Return ``"au"`` for atomic units in any spelling, of any quantity; otherwise the text."""
    try:
        return unit_named(unit, "energy")[0]
    except UnitError:
        return unit


def _fits(unit: str, kind: str) -> bool:
    """Return True if this is a unit of a quantity; of a plain number, if it is a unit at all."""
    if not kind:
        return _known(unit)
    try:
        unit_named(unit, kind)
    except UnitError:
        return False
    return True


def _known(unit: str) -> bool:
    """Return True if this is a unit of any quantity."""
    return any(_fits(unit, kind) for kind in UNITS)


# ------------------------------------------------------------------------------------------- text


def _header(path: Path, columns: Sequence[Column]) -> dict[int, _Label]:
    """Return the units that the lines before the numbers name, by column."""
    labels: dict[int, _Label] = {}
    names, places = ", ".join(column.name for column in columns), _places(path, columns)
    for number, full in text_lines(path, f"{len(columns)} columns of numbers ({names})"):
        text, mark, remark = _split_comment(full)
        if number > MAX_LINES or (text.strip() and _begins_with_number(text)):
            break
        # A remark behind names on one line is no header of its own.
        comment = bool(mark) and not text.strip()
        fields = _fields(remark if comment else text, max(places) + 1)
        units = {
            k: unit for k, place in enumerate(places) if (unit := _unit_in(fields.get(place, ""))) is not None
        }
        # Prose with brackets: no bracket of the comment holds a unit of its column.
        if comment and not any(_fits(unit, columns[index].kind) for index, unit in units.items()):
            continue
        where = f"{path}:{number}"
        for index, unit in units.items():
            label = _Label(unit, where, comment)
            # Of comments, the last before the numbers counts; of header lines, the first.
            if comment or index not in labels or labels[index].comment:
                labels[index] = label
    return labels


def _split_comment(line: str) -> tuple[str, str, str]:
    """Return a line before and after the mark of its comment."""
    match = re.search(r"[#%]+", line)
    return (line, "", "") if match is None else (line[: match.start()], match[0], line[match.end() :])


def _begins_with_number(text: str) -> bool:
    word = text.replace(",", " ").replace(";", " ").split()
    number = number_in(word[0]) if word else None
    # "nan" is a word here: NaN differs from itself.
    return number is not None and number == number


def _fields(text: str, count: int) -> dict[int, str]:
    """Return the names in a line, with their units, by column; nothing if it cannot be a line of `count` names."""
    if match := _NUMBERED.fullmatch(text):
        # Columns of such comments count from 1.
        return {int(match[1]) - 1: match[2]}
    fields = _split(text, count)
    # Further columns of the file are not read.
    return {} if len(fields) < count else dict(enumerate(fields))


def _places(path: Path, columns: Sequence[Column]) -> tuple[int, ...]:
    """Return which columns of a text file are read, from 0: those that its header names, or the first."""
    return _named(path, columns) or tuple(range(len(columns)))


def _named(path: Path, columns: Sequence[Column]) -> tuple[int, ...]:
    """Return which columns the header of a text file calls by the names of these; empty if it does not name them all.

    The first column may have any name of an axis, where the file has one such column.
    """
    names, width = _names_of_text(path, len(columns))
    wanted = [[k for k, name in names.items() if name == column.name] for column in columns]
    wanted[0] = wanted[0] or [k for k, name in names.items() if name in AXES]
    # As many names as numbers in a row: a sentence in a comment is no header.
    if len(names) != width or any(len(found) != 1 for found in wanted):
        return ()
    places = tuple(found[0] for found in wanted)
    return places if len(set(places)) == len(places) else ()


def _names_of_text(path: Path, count: int) -> tuple[dict[int, str], int]:
    """Return the names of columns in the header of a text file, without units, and the numbers in its first row."""
    numbered: dict[int, str] = {}
    line: dict[int, str] = {}
    for number, full in text_lines(path, f"{count} columns of numbers"):
        text, _, remark = _split_comment(full)
        if _begins_with_number(text):
            width = len(text.replace(",", " ").replace(";", " ").split())
            return line if len(line) == width else numbered, width
        if number > MAX_LINES:
            break
        fields = _fields(text if text.strip() else remark, count)
        named = {k: re.split(r"[\s(\[/]", field.strip(), maxsplit=1)[0] for k, field in fields.items()}
        # Of two lines, names and units, the first has the names.
        if len(named) == 1 and _NUMBERED.fullmatch(remark):
            numbered |= named
        elif len(line) < count or not set(line.values()) & {*AXES}:
            line = named
    return {}, 0


def _split(text: str, count: int) -> list[str]:
    """Return the fields of a line of names: at separators, after brackets, or at blanks."""
    # A separator inside of brackets belongs to the unit.
    outside = re.split(r"[,;\t](?![^(\[]*[)\]])", text.strip().strip(",;"))
    if len(outside) >= count:
        return outside
    closed = [part for part in re.split(r"(?<=[)\]])\s*", text.strip()) if part.strip()]
    if len(closed) >= count:
        return closed
    # At blanks: a unit in brackets belongs to the word before it.
    return [match[0] for match in re.finditer(r"[^\s(\[]*\s*[(\[][^()\[\]]*[)\]]|[^\s(\[]+", text)]


def _unit_in(field: str) -> str | None:
    """Return the unit of a name, ``V (eV)``, ``V [eV]`` or ``V/eV``; None if there is none."""
    if match := _BRACKET.search(field.strip()):
        return match[1].strip()
    # After a slash only what is a unit: "R/x" may be a ratio.
    match = _SLASH.fullmatch(field.strip())
    return match[1] if match and _known(match[1]) else None


# ------------------------------------------------------------------------------------------- HDF5


def _attributes(path: Path, columns: Sequence[Column]) -> dict[int, _Label]:
    """Return the attributes ``units`` (or ``unit``) of the datasets that are read."""
    from qsim.core.results.hdf5 import open_datasets

    names = _names(path, columns)
    file, datasets = open_datasets(path)
    with file:
        return {index: _Label(datasets[name].unit, f"{path}: {name}") for index, name in enumerate(names)}


def _names(path: Path, columns: Sequence[Column]) -> list[str]:
    """Return the datasets of a file that hold the columns: by their names, or, of two alone, the axis first."""
    from qsim.core.results.hdf5 import open_datasets

    file, datasets = open_datasets(path)
    with file:
        lines = {name: item.shape[0] for name, item in datasets.items() if len(item.shape) == 1}
        wanted = [column.name for column in columns]
        if all(name in lines for name in wanted):
            return wanted
        # Two datasets under other names: the one with a name of an axis is the first column.
        others = [name for name in lines if name not in (*wanted[:1], *AXES)]
        axis = [name for name in lines if name not in others]
        if len(axis) == 1 and len(others) == len(columns) - 1 == 1:
            return [*axis, *others]
    there = ", ".join(lines) or "nothing"
    raise FileError(f"{path} needs the one-dimensional datasets {', '.join(wanted)}; it has {there}")


def _stored_columns(path: Path, columns: Sequence[Column]) -> NDArray[np.float64]:
    """Return the datasets of a file as columns."""
    from qsim.core.results.arrays import require_finite
    from qsim.core.results.hdf5 import open_datasets

    names = _names(path, columns)
    file, datasets = open_datasets(path)
    with file:
        read: list[NDArray[Any]] = [np.asarray(datasets[name][()]) for name in names]
    for name, values in zip(names, read, strict=True):
        if values.dtype.kind not in "iuf":
            raise FileError(f"{path}: {name} does not hold real numbers")
        require_finite(path, name, values)
    # Datasets of one file need not have one length, lines of text have.
    if len({values.size for values in read}) > 1:
        sizes = ", ".join(f"{name} {values.size}" for name, values in zip(names, read, strict=True))
        raise FileError(f"{path}: columns of one table differ in length: {sizes}")
    return np.stack([values.astype(np.float64) for values in read], axis=1)
