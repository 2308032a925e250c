"""Declarations of the arrays and numbers of a results file, and of the axes that arrays share.

Kept apart from :mod:`qsim.core.results.results`, so that a method's declarations load no HDF5.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from qsim.core.text import format_scalar

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "NOT_VERIFIED",
    "NO_ERROR",
    "SPEED_UNITS",
    "Named",
    "Scalar",
    "Table",
    "Value",
    "aliases_of",
    "leaf",
    "match_tables",
    "of_machine",
    "parent",
    "resolve_dimensions",
    "storable",
]

# Units that measure the machine, not the physics, which is in atomic units: shown, not compared, never the
# same twice.
SPEED_UNITS = ("s", "ns", "1/s")
# Times of the physics, which a deck may give in seconds or nanoseconds.
TIMES = ("time", "time_populations", "free_time")

# Stands beside a computed number whose error nobody knows, or that was not asked for.
NO_ERROR = "no error known"
NOT_VERIFIED = "not verified"

Value = float | int | bool | str | None
T = TypeVar("T")


@dataclass(frozen=True)
class Scalar:
    """A headline number of a run, with its unit and, where there is one, its error.

    Attributes
    ----------
    value, unit, error, description
        What it is; None: there is no value, or no error.
    note
        `NO_ERROR` where a reader would expect an error and none is known.
    alias
        Short or earlier name, by which it is found as well; empty without one.
    """

    value: Value
    unit: str = ""
    error: float | None = None
    description: str = ""
    note: str = ""
    alias: str = ""

    def __float__(self) -> float:
        """Return the value as a number, NaN if there is none."""
        if isinstance(self.value, str):
            raise TypeError(f"{self.value!r} is no number")
        return float("nan") if self.value is None else float(self.value)

    def __str__(self) -> str:
        """Return value, error and unit: ``0.99964 ± 3e-06 hartree``."""
        return format_scalar(self.value, self.unit, self.error, note=self.note)


class Named(dict[str, T]):
    """Values by name that are found by their aliases as well; these are not among the keys.

    Parameters
    ----------
    values : mapping
    aliases : mapping of str to str
        Names by alias.
    """

    def __init__(self, values: Mapping[str, T], aliases: Mapping[str, str]) -> None:
        super().__init__(values)
        self.aliases = {
            alias: name for alias, name in aliases.items() if name in values and alias not in values
        }

    @classmethod
    def of(cls, scalars: Mapping[str, Scalar]) -> Named[Scalar]:
        """Return scalars with the aliases that they have."""
        return Named(scalars, aliases_of(scalars))

    def real(self, name: str) -> str:
        """Return the name of a value from its name or its alias; a name that is not known as it is."""
        return self.aliases.get(name, name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.aliases

    def __missing__(self, name: str) -> T:
        if name in self.aliases:
            return self[self.aliases[name]]
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value by its name or its alias, or the default."""
        return super().get(self.real(name), default)


def aliases_of(scalars: Mapping[str, Scalar]) -> dict[str, str]:
    """Return the names of scalars by their aliases."""
    return {scalar.alias: name for name, scalar in scalars.items() if scalar.alias}


@dataclass(frozen=True)
class Table:
    """Declaration of one array of a results file.

    Parameters
    ----------
    name
        Path below ``/results``, such as ``"history/probability"``.  ``*`` stands for a part that is known
        only at run time (``"basis/l*/beta"``).
    dims
        Name of each axis: that of a one-dimensional coordinate table, or a plain index.
    unit
        Unit of the values; ``""`` for pure numbers.
    description
        One sentence without a full stop, stored as ``long_name``.
    label
        Text for plot axes; by default the last part of the name.
    note
        Convention that a reader must know, stored as the attribute ``comment``.
    """

    name: str
    dims: tuple[str, ...]
    unit: str = ""
    description: str = ""
    label: str = ""
    note: str = ""


def match_tables(tables: Sequence[Table], arrays: Mapping[str, Any]) -> dict[str, Table]:
    """Return the declaration of each array, in the order of the declarations; exact names before patterns."""
    exact = {table.name for table in tables}
    declared: dict[str, Table] = {}
    for table in tables:
        if "*" in table.name:
            names = [name for name in fnmatch.filter(arrays, table.name) if name not in exact]
        else:
            names = [table.name] if table.name in arrays else []
        for name in names:
            declared.setdefault(name, table)
    if unknown := [name for name in arrays if name not in declared]:
        raise ValueError(f"arrays without a table declaration: {', '.join(unknown)}")
    return declared


def storable(name: str, array: Any) -> NDArray[Any]:
    """Return an array that HDF5 and netCDF readers understand: numbers, booleans or UTF-8 strings."""
    import numpy as np

    data: NDArray[Any] = np.asarray(array)
    if data.dtype.kind in "UO":
        if not all(isinstance(item, str) for item in data.flat):
            raise ValueError(
                f"table '{name}' holds Python objects; only numbers, booleans and strings can be stored"
            )
        return data.astype(object)
    if data.dtype.kind not in "biufc" or data.dtype.itemsize > (16 if data.dtype.kind == "c" else 8):
        raise ValueError(f"table '{name}' has dtype {data.dtype}, which other readers do not know")
    return data


def resolve_dimensions(
    declared: Mapping[str, Table], data: Mapping[str, NDArray[Any]]
) -> dict[str, tuple[str, ...]]:
    """Return, for each array, the path of the dimension scale of each axis; check names and sizes."""
    sizes: dict[str, int] = {}
    scales: dict[str, tuple[str, ...]] = {}
    for name, table in declared.items():
        shape, group = data[name].shape, parent(name)
        if len(shape) != len(table.dims):
            raise ValueError(f"table '{name}' has dimensions {table.dims}, but its array has shape {shape}")
        if len(set(table.dims)) != len(table.dims):
            # netCDF readers cannot tell two axes of one name apart
            raise ValueError(f"table '{name}' repeats a dimension: {table.dims}")
        if leaf(name) in table.dims and len(shape) != 1:
            raise ValueError(
                f"table '{name}' is named like one of its dimensions, but is not one-dimensional"
            )
        scales[name] = tuple(_scale_path(dim, group, declared) for dim in table.dims)
        for scale, size in zip(scales[name], shape, strict=True):
            if sizes.setdefault(scale, size) != size:
                raise ValueError(f"dimension '{scale}' has size {sizes[scale]}, but {size} in table '{name}'")
    for scale, size in sizes.items():
        for above in _ancestors(parent(scale)):
            if sizes.get(other := _join(above, leaf(scale)), size) != size:
                raise ValueError(
                    f"dimension '{scale}' has size {size}, but '{other}' above it has {sizes[other]}"
                )
    return scales


def _scale_path(dim: str, group: str, declared: Mapping[str, Table]) -> str:
    """Return the path of the nearest coordinate called ``dim``, else of a plain index in ``group``."""
    for candidate in (group, *_ancestors(group)):
        path = _join(candidate, dim)
        if path in declared and declared[path].dims == (dim,):
            return path
    return _join(group, dim)


def parent(name: str) -> str:
    """Return the group of a table, ``""`` at the top."""
    return name.rpartition("/")[0]


def leaf(name: str) -> str:
    """Return the last part of the name of a table."""
    return name.rpartition("/")[2]


def of_machine(name: str, unit: str) -> bool:
    """Return True if a number or an array measures the machine, by its name and unit."""
    return unit in SPEED_UNITS and leaf(name) not in TIMES


def _join(group: str, name: str) -> str:
    return f"{group}/{name}" if group else name


def _ancestors(group: str) -> tuple[str, ...]:
    """Return the groups above ``group``, nearest first, ending with the root ``""``."""
    found: list[str] = []
    while group:
        group = parent(group)
        found.append(group)
    return tuple(found)
