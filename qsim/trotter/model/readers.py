"""Matrices of couplings from text files, .npy and .npz."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.columns import read_rows
from qsim.core.errors import FileError
from qsim.core.results.arrays import listed, read_arrays, require_finite

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

COUPLINGS = "a NumPy file with real couplings, (spins, spins) of every pair of sites"
# of a coupling: its square is a number
LARGEST = 1e150


def read_matrix(path: Path, spins: int, *, symmetric: bool) -> NDArray[np.float64]:
    """Return one matrix of couplings, (N, N), from a text file, .npy or .npz (array ``J``)."""
    if path.suffix == ".npz":
        arrays = read_arrays(path, COUPLINGS)
        if "J" not in arrays and len(arrays) != 1:
            raise FileError(f"{path} holds {listed(arrays)}; expected one matrix J")
        matrix = arrays.get("J", next(iter(arrays.values()), None))
    elif path.suffix == ".npy":
        matrix = next(iter(read_arrays(path, COUPLINGS).values()), None)
    else:
        matrix = np.array(read_rows(path, "J of site j with every site k", most=spins))
    return _checked(path, "J", matrix, spins, symmetric)


def read_component_matrices(path: Path, spins: int, *, symmetric: bool) -> NDArray[np.float64]:
    """Return (3, N, N) couplings of x, y and z from Jx, Jy, Jz, or from J, in an .npz file; a missing component is 0."""
    arrays = read_arrays(path, COUPLINGS)
    J = np.zeros((3, spins, spins))
    # three matrices in one array, in the order x, y, z
    if "J" in arrays and arrays["J"].ndim == 3:
        if arrays["J"].shape != J.shape:
            raise FileError(f"{path}: J has shape {arrays['J'].shape}, expected {J.shape}")
        arrays = {f"J{axis}": arrays["J"][a] for a, axis in enumerate("xyz")}
    known = [name for name in ("J", "Jx", "Jy", "Jz") if name in arrays]
    if not known or ("J" in known and len(known) > 1):
        raise FileError(f"{path} holds {listed(arrays)}; expected Jx, Jy and Jz, or J for equal components")
    for name in known:
        matrix = _checked(path, name, arrays[name], spins, symmetric)
        # one J stands for equal components
        J[slice(None) if name == "J" else "xyz".index(name[1])] = matrix
    return J


def _checked(
    path: Path, name: str, matrix: NDArray[Any] | None, spins: int, symmetric: bool
) -> NDArray[np.float64]:
    """Return a matrix as float64; refuse wrong shapes, values that are not finite, a diagonal, and asymmetry."""
    if matrix is None or matrix.dtype.kind not in "biuf":
        raise FileError(f"{path}: {name} does not hold real numbers")
    if matrix.shape != (spins, spins):
        raise FileError(f"{path}: {name} has shape {matrix.shape}, but system.spins = {spins}")
    require_finite(path, name, matrix)
    if (size := float(np.abs(matrix).max())) > LARGEST:
        raise FileError(
            f"{path}: {name} holds {size:.3g}, which is no coupling; expected at most {LARGEST:g}"
        )
    matrix = matrix.astype(np.float64)
    if (diagonal := np.flatnonzero(np.diagonal(matrix))).size:
        j = diagonal[0]
        raise FileError(
            f"{path}: site {j} is coupled to itself, {name}[{j}, {j}] = {matrix[j, j]:g}; S^2 of a spin 1/2 is a constant"
        )
    # symmetric within rounding of the text
    wrong = np.abs(matrix - matrix.T) > 1e-12 * max(np.abs(matrix).max(), 1e-300)
    if symmetric and wrong.any():
        j, k = np.argwhere(wrong)[0]
        raise FileError(
            f"{path}: {name} is not symmetric, {name}[{j}, {k}] = {matrix[j, k]:g} but {name}[{k}, {j}] = {matrix[k, j]:g}",
            hint="with sum: pairs every pair counts once and needs one value; sum: full adds both",
        )
    return matrix
