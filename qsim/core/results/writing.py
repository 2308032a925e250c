"""Write a results file; :mod:`qsim.core.results.file` describes its layout and reads it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from qsim.core.errors import FileError
from qsim.core.results.file import FORMAT_VERSION, PLAIN_DIMENSION
from qsim.core.results.hdf5 import new_file
from qsim.core.results.jsonable import json_ready, python_scalar
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
    from numpy.typing import NDArray

__all__ = ["Content", "write_results"]

# Arrays of more bytes than this are compressed (gzip 1 after a byte shuffle).
COMPRESS_ABOVE = 64 * 1024
# From this version on HDF5 has checksums of what describes the data, and small chunked arrays cost no more than plain ones.
LIBVER = "v110"


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
    # Everything that can be wrong with the content is found before the file is made.
    declared = match_tables(content.tables, content.arrays)
    data = {name: storable(name, array) for name, array in content.arrays.items()}
    scales = resolve_dimensions(declared, data)
    if wrong := [name for name in (*content.scalars, *content.provenance) if not name or "/" in name]:
        raise ValueError(f"'{wrong[0]}' cannot name a scalar or an entry of the provenance")
    _refuse_existing(path, overwrite)
    try:
        with new_file(path, overwrite=overwrite, libver=LIBVER) as (file, part):
            file.attrs.update(_root_attributes(content))
            _write_tables(_group(file, "results"), declared, data, scales)
            # Arrays are nearly all of the file: a full disk is noticed here.
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
        place = _group(group, parent(name))
        if array.dtype == object:
            array = np.array([_storable_text(text) for text in array.flat], dtype=object).reshape(array.shape)
            # Texts of any length, UTF-8, which HDF5 keeps in a heap.
            dataset = place.create_dataset(leaf(name), data=array, dtype=h5py.string_dtype())
        else:
            dataset = _write_numbers(place, leaf(name), array)
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
            # A coordinate is its own scale.
            if path != name:
                group[name].dims[axis].attach_scale(group[path])
    _write_default_plot(group, declared, data)


def _write_numbers(group: h5py.Group, name: str, array: NDArray[Any]) -> h5py.Dataset:
    """Store numbers with checksums, which every reader of HDF5 compares."""
    if array.ndim:
        # Arrays without elements have no chunks.
        options: dict[str, Any] = {"fletcher32": True, "chunks": array.shape} if array.size else {}
        if array.nbytes > COMPRESS_ABOVE:
            options |= {"chunks": True, "compression": "gzip", "compression_opts": 1, "shuffle": True}
        return group.create_dataset(name, data=array, **options)
    # A single number goes into its description, which has a sum; h5py itself places it elsewhere.
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_layout(h5py.h5d.COMPACT)
    layout.set_obj_track_times(False)
    kind = h5py.h5t.py_create(array.dtype, logical=True)
    item = h5py.h5d.create(group.id, name.encode(), kind, h5py.h5s.create(h5py.h5s.SCALAR), layout)
    item.write(h5py.h5s.ALL, h5py.h5s.ALL, array)
    return h5py.Dataset(item)


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
        # HDF5 has no null for numbers: NaN with a mark, which readers of qsim turn into None again.
        dataset = _write_value(group, name, math.nan if value is None else value)
        if value is None:
            dataset.attrs["null"] = 1
        dataset.attrs["units"] = scalar.unit
        dataset.attrs["long_name"] = scalar.description or name.replace("_", " ")
        if scalar.error is not None:
            dataset.attrs["error"] = float(scalar.error)
        if scalar.note:
            dataset.attrs["comment"] = scalar.note
        if scalar.alias:
            dataset.attrs["alias"] = scalar.alias


def _write_provenance(group: h5py.Group, provenance: Mapping[str, Any]) -> None:
    for name, entry in provenance.items():
        value = python_scalar(entry)
        # Integers beyond 64 bits go as JSON, like all that has parts.
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
    return _write_numbers(group, name, np.asarray(value))


def _storable_text(text: str) -> str:
    """Return a text without what HDF5 strings cannot hold: NUL, and bytes of file names that are not UTF-8."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
