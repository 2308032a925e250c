"""Matrices of the user from files: HDF5 or .npz, dense or as the four arrays of a compressed sparse matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from qsim.core.errors import InvalidInput
from qsim.core.results.arrays import read_arrays
from qsim.core.results.hdf5 import Dataset, members, open_hdf5
from qsim.qoc.models.operators import sparse_matrix

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.arrays import ComplexArray

# Names of the arrays of a compressed sparse matrix, rows compressed.
CSR = ("data", "indices", "indptr", "shape")
# Largest dimension of a matrix from a file.
LARGEST = 20_000
# Largest element of an array: squares and products of several stay within double precision.
LARGEST_ELEMENT = 1e100


def read_tree(path: Path, expected: str) -> dict[str, NDArray[Any]]:
    """Return all arrays of an HDF5 or NumPy file by their path, ``"controls/re"``; that of an .npy file is ``""``.

    Raises
    ------
    FileError
        If the file cannot be read, or is damaged.
    """
    if path.suffix in (".npz", ".npy"):
        return {name.strip("/"): array for name, array in read_arrays(path, expected).items()}
    file = open_hdf5(path, expected)
    try:
        found: dict[str, NDArray[Any]] = {}
        groups: list[tuple[str, Any]] = [("", file)]
        while groups:
            above, group = groups.pop()
            for name, item in members(path, group):
                place = f"{above}{name}"
                if hasattr(item, "dtype"):
                    found[place] = Dataset(path, place, item)[...]
                # Links of a file may lead back to a group above.
                elif place.count("/") < 4:
                    groups.append((f"{place}/", item))
        return found
    finally:
        file.close()


def matrices(tree: dict[str, NDArray[Any]], key: str) -> dict[str, csr_array | ComplexArray]:
    """Return the arrays of a file with the four arrays of each sparse matrix put together under the name of their group.

    Raises
    ------
    InvalidInput
        If an array is not of finite numbers, or a sparse matrix is not one.
    """
    # An indptr is the mark of a compressed matrix; no dense one has a dataset of this name.
    groups = {name.rpartition("/")[0] for name in tree if name.rpartition("/")[2] == "indptr"}
    found: dict[str, csr_array | ComplexArray] = {}
    for name, array in tree.items():
        if name.rpartition("/")[0] not in groups:
            found[name] = _numbers(array, name, key)
    for group in sorted(groups):
        found[group] = _csr({part: tree.get(f"{group}/{part}") for part in CSR}, group, key)
    return found


def _numbers(array: NDArray[Any], name: str, key: str) -> ComplexArray:
    """Return an array as complex128.

    Raises
    ------
    InvalidInput
        If it holds no numbers, or some are not finite.
    """
    if array.dtype.kind not in "biufc":
        raise InvalidInput(key, f"{name} holds {array.dtype}, not numbers")
    numbers = np.asarray(array, dtype=np.complex128)
    # A NaN would pass every comparison of the checks that follow.
    bad = np.argwhere(~np.isfinite(numbers))
    if len(bad):
        place = ",".join(map(str, bad[0]))
        raise InvalidInput(key, f"{name} is not finite at ({place})")
    # The parts alone: the size of a complex number may overflow.
    sizes = np.maximum(np.abs(numbers.real), np.abs(numbers.imag))
    if sizes.size and sizes.max() > LARGEST_ELEMENT:
        where = np.unravel_index(int(np.argmax(sizes)), sizes.shape)
        told = f"{name} is {sizes[where]:.3g} at ({','.join(map(str, where))})"
        raise InvalidInput(key, f"{told}, beyond {LARGEST_ELEMENT:.0e}: squares of it leave double precision")
    return numbers


def _csr(arrays: dict[str, NDArray[Any] | None], name: str, key: str) -> csr_array:
    """Return a sparse matrix.

    Raises
    ------
    InvalidInput
        If an array is missing, or the four do not belong together.
    """
    missing = [part for part, array in arrays.items() if array is None]
    if missing:
        raise InvalidInput(
            key, f"{name} has an indptr but no {missing[0]}; a CSR matrix needs {', '.join(CSR)}"
        )
    given = {part: np.asarray(array) for part, array in arrays.items()}
    for part in CSR[1:]:
        if given[part].dtype.kind not in "iu" or given[part].ndim != 1:
            raise InvalidInput(key, f"{name}/{part} must be one row of whole numbers")
    shape = tuple(int(size) for size in given["shape"])
    if len(shape) != 2:
        raise InvalidInput(key, f"{name}/shape must hold 2 numbers, found {len(shape)}")
    data = _numbers(given["data"], f"{name}/data", key)
    try:
        matrix = sparse.csr_array(
            (data, given["indices"].astype(np.int64), given["indptr"].astype(np.int64)), shape=shape
        )
        # Indices out of range would read foreign memory in the kernels.
        matrix.check_format(full_check=True)
    except (ValueError, IndexError, TypeError) as error:
        raise InvalidInput(key, f"{name} is no CSR matrix: {error}") from None
    return sparse_matrix(matrix)


def dense_matrix(value: csr_array | ComplexArray) -> ComplexArray:
    """Return a matrix or an array as a dense one."""
    if isinstance(value, sparse.csr_array):
        return np.asarray(value.toarray())
    return np.asarray(value, dtype=np.complex128)


def array_of(path: Path, names: tuple[str, ...], key: str) -> tuple[str, ComplexArray]:
    """Return the one array of a file with one of the given names, or its only one.

    Returns
    -------
    name
        The name of `names` that was found, ``""`` for the only array of another name.
    array
        complex128, dense.

    Raises
    ------
    InvalidInput
        If there is no such array.
    FileError
        If the file cannot be read.
    """
    found = matrices(read_tree(path, f"an array {' or '.join(names)}"), key)
    for name in names:
        if name in found:
            return name, dense_matrix(found[name])
    if len(found) == 1:
        return "", dense_matrix(next(iter(found.values())))
    there = ", ".join(sorted(found)) or "nothing"
    raise InvalidInput(key, f"{path.name} holds no array {' or '.join(names)}; it holds {there}")
