"""Couplings, fields, positions and tables from text files, matrices from .npy and .npz, state vectors and tensors."""

from __future__ import annotations

import math
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import FileError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["read_arrays", "read_component_matrices", "read_matrix", "read_rows"]


def read_rows(path: Path, widths: tuple[int, ...], columns: str) -> list[list[float]]:
    """Read rows of numbers; commas, semicolons and white space separate them, # and % begin a comment.

    Parameters
    ----------
    path
        Text file; a first line that holds no number is a header.
    widths
        Allowed numbers of columns; empty for any.
    columns
        Their names, for messages.

    Raises
    ------
    FileError
        With the line, if a word is no finite number or a row has another length.
    """
    rows: list[list[float]] = []
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path} cannot be read: {error}") from error
    header = True
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split("%")[0].replace(",", " ").replace(";", " ").split()
        if not words:
            continue
        row = [_number(word) for word in words]
        if header and all(value is None for value in row):
            header = False
            continue
        header = False
        for word, value in zip(words, row, strict=True):
            if value is None or not math.isfinite(value):
                raise FileError(f"{path}:{number}: '{word}' is not a finite number")
        if widths and len(row) not in widths:
            expected = " or ".join(map(str, widths))
            raise FileError(f"{path}:{number}: {len(row)} columns, expected {expected} ({columns})")
        if not widths and rows and len(row) != len(rows[0]):
            raise FileError(f"{path}:{number}: {len(row)} columns, but {len(rows[0])} in the lines before")
        rows.append([value for value in row if value is not None])
    if not rows:
        raise FileError(f"{path} holds no numbers; expected the columns {columns}")
    return rows


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npy or .npz file by name; that of an .npy file has the name ``""``.

    Raises
    ------
    FileError
        If the file is no such file, or holds Python objects.
    """
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise FileError(f"{path} cannot be read as a NumPy file: {error}") from error


def read_matrix(path: Path, spins: int, *, symmetric: bool) -> NDArray[np.float64]:
    """Return one matrix of couplings, (N, N), from a text file, .npy or .npz (array ``J``)."""
    if path.suffix == ".npz":
        arrays = read_arrays(path)
        if "J" not in arrays and len(arrays) != 1:
            raise FileError(f"{path} holds {_listed(arrays)}; expected one matrix J")
        found = arrays.get("J", next(iter(arrays.values()), None))
    elif path.suffix == ".npy":
        found = read_arrays(path)[""]
    else:
        found = np.array(read_rows(path, (), "J of site j with every site k"))
    return _checked(path, "J", found, spins, symmetric)


def read_component_matrices(path: Path, spins: int, *, symmetric: bool) -> NDArray[np.float64]:
    """Return (3, N, N) couplings of x, y and z from Jx, Jy, Jz, or from J, in an .npz file; a missing component is 0."""
    arrays = read_arrays(path)
    J = np.zeros((3, spins, spins))
    if "J" in arrays and arrays["J"].ndim == 3:
        if arrays["J"].shape != J.shape:
            raise FileError(f"{path}: J has shape {arrays['J'].shape}, expected {J.shape}")
        arrays = {f"J{axis}": arrays["J"][a] for a, axis in enumerate("xyz")}
    known = [name for name in ("J", "Jx", "Jy", "Jz") if name in arrays]
    if not known or ("J" in known and len(known) > 1):
        raise FileError(f"{path} holds {_listed(arrays)}; expected Jx, Jy and Jz, or J for equal components")
    for name in known:
        matrix = _checked(path, name, arrays[name], spins, symmetric)
        J[slice(None) if name == "J" else "xyz".index(name[1])] = matrix
    return J


def _checked(path: Path, name: str, matrix: Any, spins: int, symmetric: bool) -> NDArray[np.float64]:
    """Return a matrix as float64; refuse wrong shapes, values that are not finite, a diagonal, and asymmetry."""
    if matrix is None or matrix.dtype.kind not in "biuf":
        raise FileError(f"{path}: {name} does not hold real numbers")
    if matrix.shape != (spins, spins):
        raise FileError(f"{path}: {name} has shape {matrix.shape}, but system.spins = {spins}")
    matrix = matrix.astype(np.float64)
    if not np.isfinite(matrix).all():
        j, k = np.argwhere(~np.isfinite(matrix))[0]
        raise FileError(f"{path}: {name}[{j}, {k}] is {matrix[j, k]}")
    if (diagonal := np.flatnonzero(np.diagonal(matrix))).size:
        j = diagonal[0]
        raise FileError(
            f"{path}: site {j} is coupled to itself, {name}[{j}, {j}] = {matrix[j, j]:g}; S^2 of a spin 1/2 is a constant"
        )
    wrong = np.abs(matrix - matrix.T) > 1e-12 * max(np.abs(matrix).max(), 1e-300)
    if symmetric and wrong.any():
        j, k = np.argwhere(wrong)[0]
        raise FileError(
            f"{path}: {name} is not symmetric, {name}[{j}, {k}] = {matrix[j, k]:g} but {name}[{k}, {j}] = {matrix[k, j]:g}",
            hint="with sum: pairs every pair counts once and needs one value; sum: full adds both",
        )
    return matrix


def _listed(arrays: dict[str, NDArray[Any]]) -> str:
    return ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "no arrays"
