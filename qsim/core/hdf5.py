"""Plain HDF5 arrays that are not qsim results: the input and the large outputs of a method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from qsim.core.errors import FileError

__all__ = ["new_dataset", "open_datasets", "save_datasets"]


def open_datasets(path: str | Path) -> tuple[Any, dict[str, Any]]:
    """Open a file for reading.

    Returns
    -------
    file
        To be closed when the datasets are no longer needed.
    datasets : dict
        Datasets of the top level and, below their path, of the group ``results``; sliced like arrays, read on demand.

    Raises
    ------
    FileError
        If the file is missing or no HDF5 file.
    """
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error}") from error
    found = {name: item for name, item in file.items() if isinstance(item, h5py.Dataset)}
    results = file.get("results")
    if isinstance(results, h5py.Group):
        found |= {f"results/{name}": item for name, item in results.items() if isinstance(item, h5py.Dataset)}
    return file, found


@contextmanager
def new_dataset(path: str | Path, shape: tuple[int, ...], dtype: Any) -> Iterator[Any]:
    """Open a new file with a dataset ``x``, to be written block by block.

    Raises
    ------
    FileError
        If the file cannot be written.
    """
    try:
        with h5py.File(path, "w") as file:
            yield file.create_dataset("x", shape, dtype)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error}") from error


def save_datasets(path: str | Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as datasets of the top level of a file, which appears complete or not at all.

    Raises
    ------
    FileError
        If the file cannot be written.
    """
    part = Path(f"{path}.part")
    try:
        with h5py.File(part, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array)
        part.replace(path)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error}") from error
