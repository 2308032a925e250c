"""Arrays of a results file as columns: coordinates, values, errors, in the units that a user names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.physics.conversion import convert
from qsim.core.results.display.views import coordinate_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.results.file import ResultsFile

__all__ = ["Columns", "columns_of", "scalar_columns"]


@dataclass(frozen=True)
class Columns:
    """A table.

    Attributes
    ----------
    names, units
        Of the columns; an empty unit for pure numbers.
    columns
        One array (rows,) per column.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    columns: tuple[NDArray[Any], ...]

    @property
    def header(self) -> list[str]:
        """Names with units, ``sigma (Mb)``: as tables of decks are read."""
        return [
            f"{name} ({unit})" if unit else name for name, unit in zip(self.names, self.units, strict=True)
        ]

    def rows(self) -> Iterator[list[str]]:
        """Yield the rows as texts; of a number, as many digits as give it back."""
        for row in zip(*(column.tolist() for column in self.columns), strict=True):
            yield [_text(value) for value in row]


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def columns_of(
    results: ResultsFile, names: Sequence[str], units: Sequence[str] = (), at: Mapping[str, str] | None = None
) -> Columns:
    """Return arrays that share their axes, a row per element of that with the most axes; others repeat along those they lack.

    Parameters
    ----------
    names
        Of the arrays. The array ``NAME_error`` comes along with ``NAME``.
    units
        Wanted units, as :func:`qsim.core.physics.conversion.split_units` returns them.
    at
        Values of axes to which rows are restricted; of numbers, the nearest is taken.

    Raises
    ------
    KeyError
        If there is no such array or axis.
    ValueError
        If the arrays have different axes, a wanted unit fits none of them, or an axis has no such value.
    """
    # An array and its errors, each once; a row is one element of each.
    names = list(dict.fromkeys(known for name in names for known in _with_error(results, name, names)))
    lead = max(names, key=lambda name: len(results.shape(name)))
    whole = {name: _along(results, name, lead) for name in names}
    chosen = _chosen(results, lead, at or {})
    columns = _coordinates(results, lead, chosen)
    known = {name for name, _, _ in columns}
    for name in (name for name in names if name not in known):
        unit, values = results.unit(name), whole[name][chosen].ravel()
        if np.iscomplexobj(values):
            columns += [(f"Re {name}", unit, values.real), (f"Im {name}", unit, values.imag)]
        else:
            columns.append((name, unit, values))
    return _in_units(columns, units)


def _along(results: ResultsFile, name: str, lead: str) -> NDArray[Any]:
    """Return an array with the axes of another one, repeated along those that it lacks.

    Raises
    ------
    ValueError
        If it has an axis that the other one has not.
    """
    dims, own = results.dims(lead), results.dims(name)
    sizes = dict(zip(dims, results.shape(lead), strict=True))
    # in the same order, so that no axis needs to be moved
    fits = own == tuple(dim for dim in dims if dim in own)
    if not fits or any(sizes[dim] != size for dim, size in zip(own, results.shape(name), strict=True)):
        raise ValueError(
            f"{name} has the axes {', '.join(own)}, {lead} has {', '.join(dims)}; print them one by one"
        )
    values = results[name].reshape([sizes[dim] if dim in own else 1 for dim in dims])
    return np.broadcast_to(values, results.shape(lead))


def _coordinates(
    results: ResultsFile, name: str, chosen: tuple[Any, ...]
) -> list[tuple[str, str, NDArray[Any]]]:
    """Return name, unit and values of the axes of an array, one value per chosen element."""
    shape = results.shape(name)
    columns: list[tuple[str, str, NDArray[Any]]] = []
    for axis, dim in enumerate(results.dims(name)):
        coordinate = coordinate_name(results, name, axis)
        # The array is a coordinate itself, and its own column.
        if coordinate == name:
            continue
        # Elements of an axis without coordinates are numbered.
        values = np.arange(shape[axis]) if coordinate is None else results[coordinate]
        spread = [1] * len(shape)
        spread[axis] = shape[axis]
        full = np.broadcast_to(values.reshape(spread), shape)[chosen].ravel()
        columns.append((dim, "" if coordinate is None else results.unit(coordinate), full))
        # Runs of a scan have numbers; what they are runs of are the values that the deck scans.
        for scanned in _scanned(results, name, dim):
            full = np.broadcast_to(results[scanned].reshape(spread), shape)[chosen].ravel()
            columns.append((scanned, results.unit(scanned), full))
    return columns


def _scanned(results: ResultsFile, name: str, dim: str) -> list[str]:
    """Return the arrays with the scanned values of an axis that an array is drawn against."""
    if name.startswith("scan_") and results.dims(name) == (dim,):
        return []
    return [other for other in results if other.startswith("scan_") and results.dims(other) == (dim,)]


def _with_error(results: ResultsFile, name: str, names: Sequence[str]) -> list[str]:
    """Return the name of an array, and the name of its errors if there are any."""
    # Raises where there is no such array.
    shape = results.shape(name)
    error = f"{name}_error"
    return (
        [name, error] if error in results and error not in names and results.shape(error) == shape else [name]
    )


def _chosen(results: ResultsFile, name: str, at: Mapping[str, str]) -> tuple[Any, ...]:
    """Return the index of the rows that are wanted."""
    dims = results.dims(name)
    if unknown := [axis for axis in at if axis not in dims]:
        raise KeyError(f"{name} has no axis '{unknown[0]}'; it has {', '.join(dims)}")
    index: list[Any] = []
    for axis, dim in enumerate(dims):
        if dim not in at:
            index.append(slice(None))
            continue
        coordinate = coordinate_name(results, name, axis)
        values = np.arange(results.shape(name)[axis]) if coordinate is None else results[coordinate]
        # A slice of one keeps the axis: its value stays in the table.
        place = _place(values, at[dim], dim)
        index.append(slice(place, place + 1))
    return tuple(index)


def _place(values: NDArray[Any], wanted: str, dim: str) -> int:
    if values.dtype.kind in "biuf":
        try:
            return int(np.argmin(np.abs(values - float(wanted))))
        except ValueError:
            raise ValueError(f"{dim}={wanted}: expected a number") from None
    places = np.flatnonzero(values == wanted)
    if not places.size:
        raise ValueError(f"{dim} has no value '{wanted}'; it has {', '.join(map(str, values[:20]))}")
    return int(places[0])


def _in_units(given: Sequence[tuple[str, str, NDArray[Any]]], units: Sequence[str]) -> Columns:
    """Return columns in the wanted units, each of which must fit one of them."""
    columns, names, texts = [], [], []
    used: set[str] = set()
    for name, unit, values in given:
        # Errors have the quantity of their array.
        new = convert(unit, units, name.removesuffix("_error"))
        used |= new.used
        names.append(name)
        texts.append(new.unit)
        # Integers and texts without a unit stay as they are.
        columns.append(values * new.factor if new.factor != 1.0 else values)
    # Steradians have no other unit to be given in.
    if unused := [unit for unit in units if unit not in used and unit != "sr"]:
        there = ", ".join(f"{name} ({unit or 'a pure number'})" for name, unit, _ in given)
        raise ValueError(f"nothing here can be given in {unused[0]}: {there}")
    return Columns(tuple(names), tuple(texts), tuple(columns))


def scalar_columns(results: ResultsFile, units: Sequence[str] = ()) -> Columns:
    """Return the scalars of a file as a table with the columns name, value, error, unit and meaning."""
    rows: list[tuple[Any, ...]] = []
    used: set[str] = set()
    for name, scalar in results.scalars.items():
        number = isinstance(scalar.value, int | float) and not isinstance(scalar.value, bool)
        new = convert(scalar.unit if number else "", units, name)
        used |= new.used
        value: Any = scalar.value
        if isinstance(value, float | int) and not isinstance(value, bool) and new.factor != 1.0:
            value *= new.factor
        error = None if scalar.error is None else scalar.error * new.factor
        rows.append((name, value, error, new.unit if new.used else scalar.unit, scalar.description))
    if unused := [unit for unit in units if unit not in used]:
        raise ValueError(f"no scalar can be given in {unused[0]}")
    columns = tuple(np.array(column, dtype=object) for column in zip(*rows, strict=True))
    return Columns(("name", "value", "error", "unit", "meaning"), ("",) * 5, columns)
