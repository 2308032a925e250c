"""Plain HDF5 arrays that are not qsim results: the input and the large outputs of a method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from qsim.core.atomic import PartFile, replacing
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


class _New:
    """A dataset that is being written; a piece that cannot be written is an error at once."""

    def __init__(self, dataset: h5py.Dataset, part: PartFile) -> None:
        self._dataset, self._part = dataset, part
        self.shape: tuple[int, ...] = tuple(dataset.shape)
        self.dtype = dataset.dtype

    def __setitem__(self, key: Any, values: Any) -> None:
        self._dataset[key] = values
        self._part.check()

    def __getitem__(self, key: Any) -> Any:
        return self._dataset[key]


@contextmanager
def new_dataset(path: str | Path, shape: tuple[int, ...], dtype: Any) -> Iterator[Any]:
    """Open a new file with a dataset ``x``, to be written block by block; it appears when it is complete.

    Raises
    ------
    FileError
        If the file cannot be written.
    """
    try:
        with replacing(path) as part, h5py.File(part, "w") as file:
            yield _New(file.create_dataset("x", shape, dtype), part)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error}") from error


def save_datasets(path: str | Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as datasets of the top level of a file, which appears complete or not at all.

    Raises
    ------
    FileError
        If the file cannot be written.
    """
    try:
        with replacing(path) as part, h5py.File(part, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error}") from error
