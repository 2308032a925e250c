"""Results files: one HDF5 file per run, self-describing, readable without qsim.

Layout (format version 1.1)::

    /                attributes: format="qsim", format_version=[1, 1], qsim_version, method, title,
                     status, created (ISO 8601, UTC), default="results"
    /results         NXdata group; one dataset per table, nested groups for names such as history/cost.
                     Every dataset has the attributes units, long_name and label, and an HDF5 dimension
                     scale on every axis.  Complex numbers are HDF5 compounds (r, i), strings UTF-8.
    /scalars         one 0-d dataset per headline number: units, long_name and, where known, error and alias;
                     a value that does not exist is NaN with the attribute null=1
    /provenance      one 0-d dataset per entry; structured entries are JSON text (attribute encoding="json")
    /log             the last lines of the run log

Behind the end of HDF5 are the checksums of all bytes (:mod:`qsim.core.results.sums`); version 1.0 had none.

A one-dimensional table named like its own dimension is that dimension's coordinate.  A dimension is looked up
in the group of the table, then in the groups above it; one without a coordinate is a plain, named index.  So

    xarray.open_dataset("run.h5", engine="h5netcdf", group="results")

gives named dimensions, coordinates and complex variables.  A reader of version 1.x reads every 1.y file; a
file of a newer major version is refused.
"""

from __future__ import annotations

import difflib
import json
import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import h5py
import numpy as np

from qsim.core.errors import FileError
from qsim.core.results.hdf5 import (
    attribute,
    is_plain,
    is_scale,
    member,
    members,
    require_inside,
    require_text,
    require_unchanged,
    scale_names,
)
from qsim.core.results.jsonable import python_scalar
from qsim.core.results.reading import damage_of, reading, require_room
from qsim.core.results.tables import (
    Named,
    Scalar,
    Value,
    aliases_of,
    leaf,
)

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import NDArray

__all__ = ["DAMAGED", "FORMAT_VERSION", "PLAIN_DIMENSION", "ResultsFile", "require_format"]

FORMAT_VERSION = (1, 1)
DAMAGED = "it may be no HDF5 file, or its copy or transfer broke off; copy it again or repeat the run"

# The name that netCDF-4 readers (h5netcdf, xarray, netCDF4) take as "dimension without coordinate values".
PLAIN_DIMENSION = "This is a netCDF dimension but not a netCDF variable. %10d"


class Scalars(Named[Scalar]):
    """Scalars by name or alias; a name that is not there is answered with those that are."""

    def __init__(self, path: Path, scalars: Mapping[str, Scalar]) -> None:
        super().__init__(scalars, aliases_of(scalars))
        self._path = path

    def __missing__(self, name: str) -> Scalar:
        if name in self.aliases:
            return self[self.aliases[name]]
        raise KeyError(f"{self._path} has no scalar '{name}'{_meant(name, self)}; it has {', '.join(self)}")

    def __repr__(self) -> str:
        """Return a line per scalar, with error and unit."""
        return "\n".join(f"{name}  {scalar}" for name, scalar in self.items())


def _meant(name: object, names: Iterable[str]) -> str:
    """Return the closest of some names as a question."""
    text = str(name)
    inside = [each for each in names if text and text in each]
    close = difflib.get_close_matches(text, list(names), n=1) or inside[:1]
    return f"; did you mean '{close[0]}'?" if close else ""


class ResultsFile:
    """An open results file; arrays are read on first use.

    Attributes
    ----------
    path : Path
        The file.
    method, title, status : str
        As written.
    format_version : tuple of int
        Major and minor version of the layout.
    scalars : dict of Scalar
        Headline numbers.
    provenance : dict
        Where the numbers come from; ``deck`` is the resolved deck.
    log : tuple of str
        Last lines of the run log.
    names : tuple of str
        Names of all arrays, such as ``history/probability``.
    """

    def __init__(self, path: Path, file: h5py.File) -> None:
        self.path = path
        self._file = file
        self._folder: Callable[[], object] | None = None
        major, minor = (int(number) for number in attribute(file, "format_version"))
        self.format_version = (major, minor)
        self.method = _text_attribute(file, "method")
        self.title = _text_attribute(file, "title")
        self.status = _text_attribute(file, "status")
        self.created = str(attribute(file, "created", ""))
        scalars, provenance = member(path, file, "scalars"), member(path, file, "provenance")
        self.scalars = Scalars(
            path, {name: _read_scalar(path, item) for name, item in members(path, scalars)}
        )
        self.provenance = {name: _read_entry(path, item) for name, item in members(path, provenance)}
        self.log = (
            tuple(str(_read_value(path, member(path, file, "log"))).splitlines()) if "log" in file else ()
        )
        # Names and handles only: arrays are read one by one, on first use.
        self._tables = dict(_tables(path, member(path, file, "results")))
        self.names = tuple(self._tables)

    @property
    def deck(self) -> dict[str, Any]:
        """Resolved deck of the run, every default filled in."""
        deck = self.provenance.get("deck")
        return dict(deck) if isinstance(deck, dict) else {}

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __bool__(self) -> bool:
        return True

    def keys(self) -> tuple[str, ...]:
        """Return the names of all arrays."""
        return self.names

    def values(self) -> Iterator[NDArray[Any]]:
        """Yield all arrays, each read when its turn comes."""
        return (self[name] for name in self.names)

    def items(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield names and arrays."""
        return ((name, self[name]) for name in self.names)

    def _ipython_key_completions_(self) -> list[str]:
        """Return what ``results["<TAB>`` offers."""
        return list(self.names)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return the array called ``name``.

        Raises
        ------
        FileError
            If it is damaged, empty, in another file, or larger than the memory.
        """
        dataset = self._table(name)
        with self._reading(name):
            require_inside(self.path, f"array '{name}'", dataset)
            size = dataset.size * dataset.dtype.itemsize
            require_room(self.path, f"array '{name}' of shape {dataset.shape}", size)
            if h5py.check_string_dtype(dataset.dtype) is not None:
                require_text(self.path, f"array '{name}'", dataset)
                return np.asarray(dataset.asstr()[()], dtype=np.str_)
            if not is_plain(dataset.dtype):
                raise TypeError(f"it holds {dataset.dtype}")
            values = np.asarray(dataset[()])
            require_unchanged(self.path, dataset)
            return values

    def _reading(self, name: str) -> AbstractContextManager[None]:
        return reading(self.path, "what qsim has written", place=f"array '{name}'", hint=DAMAGED)

    def _table(self, name: str) -> h5py.Dataset:
        if not self._file:
            gone = self._folder is not None
            hint = "results of a mapping are kept until they are closed" if gone else "open it again"
            raise FileError(f"{self.path} is closed, its arrays cannot be read any more", hint=hint)
        if name not in self._tables:
            listing = ", ".join(self.names)
            there = (
                f"'{name}' is a scalar: results.scalars['{name}']; arrays: "
                if name in self.scalars
                else "it has "
            )
            raise KeyError(f"{self.path} has no array '{name}'{_meant(name, self.names)}; {there}{listing}")
        return self._tables[name]

    def _attribute(self, name: str, key: str, default: str) -> str:
        with self._reading(name):
            return str(attribute(self._table(name), key, default))

    def unit(self, name: str) -> str:
        """Return the unit of an array, ``""`` for pure numbers."""
        return self._attribute(name, "units", "")

    def description(self, name: str) -> str:
        """Return the one-line description of an array."""
        return self._attribute(name, "long_name", "")

    def label(self, name: str) -> str:
        """Return the text for a plot axis, such as ``time (a.u.)``."""
        text, unit = self._attribute(name, "label", name), self.unit(name)
        return f"{text} ({unit})" if unit else text

    def dims(self, name: str) -> tuple[str, ...]:
        """Return the names of the axes of an array."""
        dataset = self._table(name)
        with self._reading(name):
            if is_scale(dataset):
                return (leaf(name),)
            return tuple(leaf(path) for path in scale_names(dataset))

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array without reading it."""
        dataset = self._table(name)
        with self._reading(name):
            require_inside(self.path, f"array '{name}'", dataset)
            return tuple(dataset.shape)

    def remove_with(self, folder: Path) -> None:
        """Remove a temporary folder, which holds the file, when the results are closed or forgotten."""
        # Also when the object is forgotten without being closed, and when Python ends.
        self._folder = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def close(self) -> None:
        """Close the file; arrays can no longer be read."""
        self._file.close()
        if self._folder is not None:
            self._folder()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# Groups inside each other, beyond which a group holds itself.
_DEEPEST = 16


def require_format(path: Path, file: h5py.File) -> None:
    """Raise a `FileError` unless the file is a results file of a format version that this version reads."""
    kind = attribute(file, "format")
    if kind == "qsim-checkpoint":
        raise FileError(f"{path} is a checkpoint, not a results file", hint="continue its run with --resume")
    if kind != "qsim":
        raise FileError(
            f"{path} is an HDF5 file, but not one of qsim", hint="give the .h5 file that a run has written"
        )
    major, minor = (int(number) for number in attribute(file, "format_version"))
    # A newer minor version only adds: it can be read.
    if major > FORMAT_VERSION[0]:
        writer = attribute(file, "qsim_version") or "a newer version"
        raise FileError(
            f"{path} has format {major}.{minor}; this qsim reads up to {FORMAT_VERSION[0]}.x",
            hint=f"it was written by qsim {writer}; install that version or a newer one",
        )


def _text_attribute(file: h5py.File, name: str) -> str:
    text = attribute(file, name)
    if not isinstance(text, str):
        raise TypeError(f"its attribute '{name}' is no text")
    return text


def _tables(path: Path, group: h5py.Group, prefix: str = "") -> Iterator[tuple[str, h5py.Dataset]]:
    # A damaged or malicious file may hold a group that is its own member.
    if prefix.count("/") > _DEEPEST:
        raise ValueError(f"the group {prefix} is nested deeper than {_DEEPEST} levels")
    for key, item in members(path, group):
        if isinstance(item, h5py.Group):
            yield from _tables(path, item, f"{prefix}{key}/")
        # Scales of plain indices hold no values: they are no arrays of the user.
        elif not bytes(attribute(item, "NAME", b"")).startswith(PLAIN_DIMENSION[:40].encode()):
            yield prefix + key, item


def _read_scalar(path: Path, dataset: h5py.Dataset) -> Scalar:
    with damage_of(path, "a number or a text", f"scalar '{leaf(dataset.name)}'", DAMAGED):
        error = attribute(dataset, "error")
        return Scalar(
            value=None if "null" in dataset.attrs else _read_value(path, dataset),
            unit=str(attribute(dataset, "units", "")),
            error=None if error is None else float(error),
            description=str(attribute(dataset, "long_name", "")),
            note=str(attribute(dataset, "comment", "")),
            alias=str(attribute(dataset, "alias", "")),
        )


def _read_entry(path: Path, dataset: h5py.Dataset) -> Any:
    with damage_of(path, "a value or JSON", f"provenance '{leaf(dataset.name)}'", DAMAGED):
        value = _read_value(path, dataset)
        return json.loads(str(value)) if attribute(dataset, "encoding") == "json" else value


def _read_value(path: Path, dataset: h5py.Dataset) -> Value:
    """Return a single number, truth value or text."""
    require_inside(path, dataset.name, dataset)
    if dataset.shape != ():
        raise ValueError(f"{dataset.name} has shape {dataset.shape}, but should be a single value")
    kind = dataset.dtype
    if h5py.check_string_dtype(kind) is not None:
        require_text(path, dataset.name, dataset)
        return str(dataset.asstr()[()])
    value = python_scalar(dataset[()]) if is_plain(kind) else None
    if not isinstance(value, bool | int | float | str):
        raise TypeError(f"{dataset.name} holds {kind}")
    return value
