"""Results files: one HDF5 file per run, self-describing, readable without qsim.

Layout (format version 1.0)::

    /                attributes: format="qsim", format_version=[1, 0], qsim_version, method, title,
                     status, created (ISO 8601, UTC), default="results"
    /results         NXdata group; one dataset per table, nested groups for names such as history/cost.
                     Every dataset has the attributes units, long_name and label, and an HDF5 dimension
                     scale on every axis.  Complex numbers are HDF5 compounds (r, i), strings UTF-8.
    /scalars         one 0-d dataset per headline number: units, long_name and, where known, error;
                     a value that does not exist is NaN with the attribute null=1
    /provenance      one 0-d dataset per entry; structured entries are JSON text (attribute encoding="json")
    /log             the last lines of the run log

A one-dimensional table named like its own dimension is that dimension's coordinate.  A dimension is looked up
in the group of the table, then in the groups above it; one without a coordinate is a plain, named index.  So

    xarray.open_dataset("run.h5", engine="h5netcdf", group="results")

gives named dimensions, coordinates and complex variables.  A reader of version 1.x reads every 1.y file; a
file of a newer major version is refused.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from qsim.core.errors import FileError
from qsim.core.results.atomic import replacing
from qsim.core.results.hdf5 import (
    attribute,
    is_plain,
    is_scale,
    member,
    members,
    open_hdf5,
    require_inside,
    require_text,
    scale_names,
)
from qsim.core.results.jsonable import json_ready, python_scalar
from qsim.core.results.reading import reading, require_room
from qsim.core.results.tables import (
    Scalar,
    Table,
    Value,
    leaf,
    match_tables,
    parent,
    resolve_dimensions,
    storable,
)

if TYPE_CHECKING:
    from types import TracebackType

    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

__all__ = ["FORMAT_VERSION", "Content", "Results", "open_results", "write_results"]

FORMAT_VERSION = (1, 0)
COMPRESS_ABOVE = 64 * 1024
"""Arrays of more bytes than this are chunked and compressed (gzip 1 after a byte shuffle)."""

# The name that netCDF-4 readers (h5netcdf, xarray, netCDF4) take as "dimension without coordinate values".
PLAIN_DIMENSION = "This is a netCDF dimension but not a netCDF variable. %10d"

# ---------------------------------------------------------------------------------------------- writing


@dataclass(frozen=True)
class Content:
    """Everything that a results file holds.

    Attributes
    ----------
    method, title, status
        Name of the method, title of the deck, and ``complete`` or ``stopped``.
    tables
        Declarations of all arrays the method can write; those without an array are skipped.
    arrays
        Array of each table name.
    scalars
        Headline numbers.
    provenance
        Entries of ``/provenance``; mappings and sequences are stored as JSON.  ``deck`` holds the resolved
        deck.
    log
        Last lines of the run log.
    """

    method: str
    title: str
    status: str
    tables: Sequence[Table]
    arrays: Mapping[str, NDArray[Any]]
    scalars: Mapping[str, Scalar]
    provenance: Mapping[str, Any]
    log: Sequence[str] = ()


def write_results(path: str | Path, content: Content, *, overwrite: bool = False) -> Path:
    """Write a results file in one step: under a temporary name, then renamed.

    Parameters
    ----------
    path
        File to write.
    content
        What to write into it.
    overwrite
        Replace an existing file.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    FileError
        If the file exists and ``overwrite`` is false, or cannot be written.
    ValueError
        If arrays and table declarations contradict each other.
    """
    path = Path(path)
    declared = match_tables(content.tables, content.arrays)
    data = {name: storable(name, array) for name, array in content.arrays.items()}
    scales = resolve_dimensions(declared, data)
    if wrong := [name for name in (*content.scalars, *content.provenance) if not name or "/" in name]:
        raise ValueError(f"'{wrong[0]}' cannot name a scalar or an entry of the provenance")
    _refuse_existing(path, overwrite)
    try:
        with replacing(path, overwrite=overwrite) as part, h5py.File(part, "w") as file:
            file.attrs.update(_root_attributes(content))
            _write_tables(_group(file, "results"), declared, data, scales)
            part.check()
            _write_scalars(_group(file, "scalars"), content.scalars)
            _write_provenance(_group(file, "provenance"), content.provenance)
            _write_value(file, "log", "\n".join(content.log))
    except (OSError, RuntimeError) as error:  # RuntimeError: h5py, for what it cannot write
        raise FileError(
            f"cannot write {path}: {error}", hint="check the folder, its rights and the free space"
        ) from error
    return path


def _refuse_existing(path: Path, overwrite: bool) -> None:
    if not path.parent.is_dir():
        raise FileError(
            f"no folder {path.parent} for {path.name}", hint="create it, or choose another with -o"
        )
    if os.path.lexists(path) and not overwrite:
        raise FileError(f"{path} exists", hint="use --force to replace it, or choose another file with -o")


def _group(file: h5py.Group, name: str) -> h5py.Group:
    """Return the group ``name``, made if need be, which keeps its members in the order they are written."""
    for part in filter(None, name.split("/")):
        file = file[part] if part in file else file.create_group(part, track_order=True)
    return file


def _root_attributes(content: Content) -> dict[str, Any]:
    return {
        "format": "qsim",
        "format_version": np.array(FORMAT_VERSION),
        "qsim_version": str(content.provenance.get("qsim_version", "")),
        "method": content.method,
        "title": _storable_text(content.title),
        "status": content.status,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "default": "results",
    }


def _write_tables(
    group: h5py.Group,
    declared: Mapping[str, Table],
    data: Mapping[str, NDArray[Any]],
    scales: Mapping[str, tuple[str, ...]],
) -> None:
    """Write the arrays with units, texts and axes; coordinates become scales of the dimensions."""
    for name, table in declared.items():
        array = data[name]
        big = array.nbytes > COMPRESS_ABOVE and array.dtype != object
        options = {"compression": "gzip", "compression_opts": 1, "shuffle": True} if big else {}
        dtype: Any = array.dtype
        if array.dtype == object:
            array = np.array([_storable_text(text) for text in array.flat], dtype=object).reshape(array.shape)
            dtype = h5py.string_dtype()
        dataset = _group(group, parent(name)).create_dataset(leaf(name), data=array, dtype=dtype, **options)
        dataset.attrs["units"] = table.unit
        dataset.attrs["long_name"] = table.description or leaf(name).replace("_", " ")
        dataset.attrs["label"] = table.label or leaf(name).replace("_", " ")
        if table.note:
            dataset.attrs["comment"] = table.note
    # every scale first, since a table may come before its coordinate
    for name, paths in scales.items():
        for path, size in zip(paths, data[name].shape, strict=True):
            _make_scale(group, path, size)
    for name, paths in scales.items():
        for axis, path in enumerate(paths):
            if path != name:
                group[name].dims[axis].attach_scale(group[path])
    _write_default_plot(group, declared, data)


def _make_scale(group: h5py.Group, path: str, size: int) -> None:
    if path not in group:  # a plain index: a scale of the right length without stored values
        _group(group, parent(path)).create_dataset(leaf(path), shape=(size,), dtype=">f4").make_scale(
            PLAIN_DIMENSION % size
        )
    elif not group[path].is_scale:
        group[path].make_scale(leaf(path))


def _write_default_plot(
    group: h5py.Group, declared: Mapping[str, Table], data: Mapping[str, NDArray[Any]]
) -> None:
    """Add the NeXus attributes by which h5web, silx and NeXpy draw the group when it is opened."""
    group.attrs["NX_class"] = "NXdata"
    for name, table in declared.items():
        if "/" not in name and table.dims and (name,) != table.dims and data[name].dtype.kind in "fc":
            group.attrs["signal"] = name
            axes = [dim if declared.get(dim, table).dims == (dim,) else "." for dim in table.dims]
            group.attrs["axes"] = np.array(axes, dtype=h5py.string_dtype())
            return


def _write_scalars(group: h5py.Group, scalars: Mapping[str, Scalar]) -> None:
    for name, scalar in scalars.items():
        value = python_scalar(scalar.value)
        dataset = _write_value(group, name, math.nan if value is None else value)
        if value is None:
            dataset.attrs["null"] = 1
        dataset.attrs["units"] = scalar.unit
        dataset.attrs["long_name"] = scalar.description or name.replace("_", " ")
        if scalar.error is not None:
            dataset.attrs["error"] = float(scalar.error)


def _write_provenance(group: h5py.Group, provenance: Mapping[str, Any]) -> None:
    for name, entry in provenance.items():
        value = python_scalar(entry)
        plain = isinstance(value, str | bool | float) or (
            isinstance(value, int) and -(2**63) <= value < 2**63
        )
        dataset = _write_value(
            group, name, value if plain else json.dumps(json_ready(value), ensure_ascii=False)
        )
        if not plain:
            dataset.attrs["encoding"] = "json"


def _write_value(group: h5py.Group, name: str, value: Value) -> h5py.Dataset:
    if isinstance(value, str):
        return group.create_dataset(name, data=_storable_text(value), dtype=h5py.string_dtype())
    return group.create_dataset(name, data=value)


def _storable_text(text: str) -> str:
    """Return a text without what HDF5 strings cannot hold: NUL, and bytes of file names that are not UTF-8."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


# ---------------------------------------------------------------------------------------------- reading


class Results:
    """An open results file; arrays are read when they are asked for.

    Use :func:`open_results` to get one, best in a ``with`` statement.

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
        self.scalars = {name: _read_scalar(path, item) for name, item in members(path, scalars)}
        self.provenance = {name: _read_entry(path, item) for name, item in members(path, provenance)}
        self.log = (
            tuple(str(_read_value(path, member(path, file, "log"))).splitlines()) if "log" in file else ()
        )
        self._tables = dict(_tables(path, member(path, file, "results")))
        self.names = tuple(self._tables)

    @property
    def deck(self) -> dict[str, Any]:
        """Resolved deck of the run, every default filled in."""
        deck = self.provenance.get("deck")
        return dict(deck) if isinstance(deck, dict) else {}

    def __contains__(self, name: object) -> bool:
        return name in self.names

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
            return np.asarray(dataset[()])

    def _reading(self, name: str) -> AbstractContextManager[None]:
        return reading(self.path, "what qsim has written", place=f"array '{name}'", hint=_DAMAGED)

    def _table(self, name: str) -> h5py.Dataset:
        if name not in self._tables:
            listing = ", ".join(self.names)
            raise KeyError(f"{self.path} has no array '{name}'; it has {listing}")
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

    # ---------------------------------------------------------------------------------------- use in Python

    def to_xarray(self, group: str = "") -> xarray.Dataset:
        """Return arrays as an xarray dataset, with named dimensions, coordinates, units and meanings.

        Parameters
        ----------
        group
            Part of the names before the last slash: ``"history"`` gives ``history/probability`` as ``probability``.

        Returns
        -------
        xarray.Dataset
            Its attributes hold method, title and the values of all scalars.

        Raises
        ------
        KeyError
            If there is no such group.
        """
        from qsim.core.results.views import to_xarray

        return to_xarray(self, group)

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures that :meth:`plot` knows besides the names of arrays."""
        from qsim.core.results.views import figure_functions

        return tuple(figure_functions(self))

    def plot(
        self, name: str = "overview", ax: Axes | SubFigure | None = None, **line: Any
    ) -> Figure | SubFigure | None:
        """Draw a figure of the method, or an array against its coordinates.

        Parameters
        ----------
        name
            A name of :attr:`figures`, or of an array of one or two dimensions.
        ax
            Where to draw: axes (a figure of the method takes their place in the grid), or a subfigure; by default a figure of
            its own.
        **line
            Properties of the line of an array, such as ``label`` and ``color``.

        Returns
        -------
        Figure
            What was drawn into, to be changed or saved with ``savefig``; None if the file lacks what the figure shows.

        Raises
        ------
        KeyError
            If there is no figure and no array of this name.
        ValueError
            If the array has three or more dimensions, or `ax` stands in no grid.
        """
        from qsim.core.results.views import plot

        return plot(self, name, ax, **line)

    def __repr__(self) -> str:
        """Return method, title, scalars and the names of the arrays."""
        from qsim.core.results.views import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        """Return the tables that a notebook shows."""
        from qsim.core.results.views import as_html

        return as_html(self)

    def remove_with(self, folder: Path) -> None:
        """Remove a temporary folder, which holds the file, when the results are closed or forgotten."""
        self._folder = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def close(self) -> None:
        """Close the file; arrays can no longer be read."""
        self._file.close()
        if self._folder is not None:
            self._folder()

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_results(path: str | Path) -> Results:
    """Open a results file for reading.

    Raises
    ------
    FileError
        If the file is missing, is no qsim results file, is damaged, or has a newer major format version.
    """
    path = Path(path)
    if not path.is_file():
        raise FileError(f"no results file {path}", hint="give the .h5 file that a run has written")
    file = open_hdf5(path, "a results file of qsim")
    try:
        with reading(path, "a complete results file of qsim", hint=_DAMAGED):
            _check_format(path, file)
            return Results(path, file)
    except BaseException:
        file.close()
        raise


_DAMAGED = "it may be no HDF5 file, or its copy or transfer broke off; copy it again or repeat the run"
_DEEPEST = 16
"""Groups inside each other, beyond which a group holds itself."""


def _check_format(path: Path, file: h5py.File) -> None:
    kind = attribute(file, "format")
    if kind == "qsim-checkpoint":
        raise FileError(f"{path} is a checkpoint, not a results file", hint="continue its run with --resume")
    if kind != "qsim":
        raise FileError(
            f"{path} is an HDF5 file, but not one of qsim", hint="give the .h5 file that a run has written"
        )
    major, minor = (int(number) for number in attribute(file, "format_version"))
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
    if prefix.count("/") > _DEEPEST:
        raise ValueError(f"the group {prefix} is nested deeper than {_DEEPEST} levels")
    for key, item in members(path, group):
        if isinstance(item, h5py.Group):
            yield from _tables(path, item, f"{prefix}{key}/")
        elif not bytes(attribute(item, "NAME", b"")).startswith(PLAIN_DIMENSION[:40].encode()):
            yield prefix + key, item


def _read_scalar(path: Path, dataset: h5py.Dataset) -> Scalar:
    with reading(path, "a number or a text", place=f"scalar '{leaf(dataset.name)}'", hint=_DAMAGED):
        error = attribute(dataset, "error")
        return Scalar(
            value=None if "null" in dataset.attrs else _read_value(path, dataset),
            unit=str(attribute(dataset, "units", "")),
            error=None if error is None else float(error),
            description=str(attribute(dataset, "long_name", "")),
        )


def _read_entry(path: Path, dataset: h5py.Dataset) -> Any:
    with reading(path, "a value or JSON", place=f"provenance '{leaf(dataset.name)}'", hint=_DAMAGED):
        value = _read_value(path, dataset)
        return json.loads(str(value)) if attribute(dataset, "encoding") == "json" else value


def _read_value(path: Path, dataset: h5py.Dataset) -> Value:
    """Return a single number, truth value or text."""
    require_inside(path, dataset.name, dataset)
    if dataset.shape != ():
        raise ValueError(f"{dataset.name} has shape {dataset.shape}, but should be a single value")
    if h5py.check_string_dtype(dataset.dtype) is not None:
        require_text(path, dataset.name, dataset)
        return str(dataset.asstr()[()])
    value = python_scalar(dataset[()]) if is_plain(dataset.dtype) else None
    if not isinstance(value, bool | int | float | str):
        raise TypeError(f"{dataset.name} holds {dataset.dtype}")
    return value
