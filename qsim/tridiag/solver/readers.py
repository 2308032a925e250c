"""Tridiagonal systems and right-hand sides from files: .npz, .h5, .hdf5, .mtx, and .npy, .txt, .csv for right-hand sides.

A ``.npz`` or HDF5 file holds ``a`` (diagonal), ``b`` (lower), ``c`` (upper) and, unless it is given apart, ``d`` (right-hand
side); b and c have n or n - 1 entries.  All of them may have a batch axis in front.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.columns import read_complex_columns
from qsim.core.errors import FileError
from qsim.core.results.arrays import listed, map_array, map_arrays
from qsim.core.results.hdf5 import open_datasets
from qsim.core.results.reading import require_file
from qsim.tridiag.solver.matrix_market import read_matrix, read_vectors
from qsim.tridiag.solver.systems import ArraySource, System, check_shapes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.solver.systems import Stored

__all__ = ["OpenFile", "open_system", "read_rhs", "read_system"]

SYSTEMS = (".npz", ".h5", ".hdf5", ".mtx", ".mtx.gz")
SIDES = (".npy", ".npz", ".h5", ".hdf5", ".mtx", ".mtx.gz", ".txt", ".csv", ".dat")
SYSTEM = "a NumPy file with the arrays a, b, c, d"
LETTERS = {
    "a": "the diagonal",
    "b": "the lower diagonal",
    "c": "the upper diagonal",
    "d": "the right-hand side",
}
CHUNK = 1 << 20


def read_system(file: str | Path, rhs: str | Path | None = None) -> System:
    """Read a system whole and check it.

    Parameters
    ----------
    file
        .npz, .h5, .hdf5 or .mtx (also .mtx.gz).
    rhs
        File of the right-hand side; by default ``d`` of the file itself.

    Raises
    ------
    FileError
        If the file is missing, not readable, incomplete, not tridiagonal, or holds a NaN or an infinity.
    """
    with OpenFile(file, rhs) as opened:
        source = opened.source
        arrays = {letter: np.asarray(array[...]) for letter, array in opened.arrays.items()}
        for letter, array in arrays.items():
            _require_finite(
                array, letter, opened.names[letter], source.batch, corner=source.n // source.batch
            )
        n, dtype = arrays["a"].shape[-1], source.dtype
        out = {}
        for letter in "abc":
            part = np.zeros(arrays["a"].shape, dtype)
            given = arrays[letter]
            short = given.shape[-1] < n
            # b without its unused corner begins in row 1, c without it ends in row n - 2
            part[..., int(short and letter == "b") : n - int(short and letter == "c")] = given
            out[letter] = part
        out["b"][..., 0] = 0
        out["c"][..., -1] = 0
        return System(out["a"], out["b"], out["c"], arrays["d"].astype(dtype, copy=False), source.name)


def open_system(file: str | Path, rhs: str | Path | None = None) -> OpenFile:
    """Open a system without reading it, for a solution block by block; use as a context manager."""
    return OpenFile(file, rhs)


class OpenFile:
    """A system in a file; `source` reads blocks of it.  HDF5 datasets and uncompressed .npz arrays stay on disk.

    Attributes
    ----------
    source : ArraySource
    arrays, names : dict
        Arrays or datasets by letter, and what to call them in messages.
    """

    def __init__(self, file: str | Path, rhs: str | Path | None = None) -> None:
        path = Path(file)
        self._open: list[Any] = []
        self.arrays: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        # whatever goes wrong, no file stays open
        try:
            self._take(path, rhs)
        except BaseException:
            self.close()
            raise

    def _take(self, path: Path, rhs: str | Path | None) -> None:
        """Find the arrays of a system and of its right-hand side, and check that they belong together.

        Raises
        ------
        FileError
            If an array is missing, has another shape than the others need, or holds no numbers.
        """
        kind = _require(path, SYSTEMS, "a system")
        if kind.startswith(".mtx"):
            for letter, array in zip("abc", read_matrix(path), strict=True):
                self._add(letter, array, path)
        else:
            held = _arrays(path, kind, self._open)
            # a right-hand side that is given apart goes before `d` of the file
            for letter in "abc" if rhs is not None else "abcd":
                if letter not in held:
                    wanted = "system.rhs names a file that holds it" if letter == "d" else None
                    raise FileError(
                        f"{path}: no array '{letter}' ({LETTERS[letter]}); it holds {listed(held)}",
                        hint=wanted
                        or "a system file holds a (diagonal), b (lower), c (upper) and d (right-hand side)",
                    )
                self._add(letter, held[letter], path)
        if rhs is not None:
            self._add("d", read_rhs(rhs, self._open), Path(rhs))
        # a MatrixMarket file holds a matrix alone
        elif "d" not in self.arrays:
            raise FileError(
                f"{path} holds a matrix, but no right-hand side", hint="system.rhs names a file that holds it"
            )
        shapes = {letter: tuple(self.arrays[letter].shape) for letter in "abcd"}
        try:
            check_shapes(*(shapes[letter] for letter in "abcd"))
        except ValueError as error:
            files = dict.fromkeys(str(p) for p in (path, rhs) if p is not None)
            raise FileError(f"{' and '.join(files)}: {error}") from error
        a, b, c, d = (self.arrays[letter] for letter in "abcd")
        self.source = ArraySource(a, b, c, d, path.name)

    def _add(self, letter: str, array: Stored, path: Path) -> None:
        name = f"{path}: {letter}"
        if array.dtype.kind not in "biufc":
            raise FileError(f"{name} holds {array.dtype}, not numbers")
        # its digits would be lost without a word
        if array.dtype.kind in "fc" and array.dtype.itemsize > (16 if array.dtype.kind == "c" else 8):
            raise FileError(f"{name} has extended precision ({array.dtype}); store double precision instead")
        self.arrays[letter], self.names[letter] = array, name

    def close(self) -> None:
        """Close the files."""
        while self._open:
            self._open.pop().close()

    def __enter__(self) -> OpenFile:
        """Return the open file."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the files."""
        self.close()


def read_rhs(file: str | Path, opened: list[Any] | None = None) -> Any:
    """Return the right-hand side of a file.

    Parameters
    ----------
    file
        .npy; .npz or HDF5 with an array ``d``, or with a single array; .mtx; .txt, .csv, .dat with one column for each
        right-hand side, complex numbers written as ``1.0+2.0j``.
    opened
        Receives files that must stay open for the array to be read.
    """
    path = Path(file)
    kind = _require(path, SIDES, "a right-hand side")
    keep: list[Any] = [] if opened is None else opened
    try:
        if kind == ".npy":
            return map_array(path, "an array of right-hand sides")
        if kind.startswith(".mtx"):
            return read_vectors(path)
        if kind in (".txt", ".csv", ".dat"):
            return _read_text(path)
        held = _arrays(path, kind, keep)
        if "d" not in held and len(held) != 1:
            raise FileError(f"{path}: no array 'd' (the right-hand side); it holds {listed(held)}")
        rhs = held["d"] if "d" in held else next(iter(held.values()))
        # an open file is left to the caller; without one to close it, the array is read now
        return rhs[...] if opened is None else rhs
    finally:
        if opened is None:
            for handle in keep:
                handle.close()


# ------------------------------------------------------------------------------------------- formats


def _require(path: Path, allowed: tuple[str, ...], what: str) -> str:
    """Return the ending of a file that exists and has one of the allowed endings."""
    name = path.name.lower()
    # the longest endings, such as .mtx.gz, are no suffix of `pathlib`
    kind = next((ending for ending in allowed if name.endswith(ending)), None)
    if kind is None:
        raise FileError(f"{path}: {what} is read from {', '.join(allowed)}, not '{path.suffix or path.name}'")
    if not path.exists():
        raise FileError(f"{path} does not exist")
    require_file(path, what)
    return kind


def _arrays(path: Path, kind: str, opened: list[Any]) -> dict[str, Any]:
    """Return the arrays of a .npz or HDF5 file, unread where that is possible."""
    return map_arrays(path, SYSTEM) if kind == ".npz" else _hdf5(path, opened)


def _hdf5(path: Path, opened: list[Any]) -> dict[str, Any]:
    file, datasets = open_datasets(path)
    opened.append(file)
    # arrays in groups belong to something else
    return {name: item for name, item in datasets.items() if "/" not in name}


def _read_text(path: Path) -> NDArray[Any]:
    values = read_complex_columns(path, "one for each right-hand side")
    return np.ascontiguousarray(values[:, 0] if values.shape[1] == 1 else values)


def _require_finite(array: NDArray[Any], letter: str, name: str, batch: int, corner: int) -> None:
    """Name an element that is NaN or infinite; unused corners do not count."""
    good = np.isfinite(array)
    if letter in "bc" and array.shape[-1] == corner:
        good[..., 0 if letter == "b" else -1] = True
    if not good.all():
        place = np.unravel_index(int(np.argmin(good)), array.shape)
        index = ", ".join(str(int(i)) for i in place)
        raise FileError(f"{name}[{index}] is {array[place]}; all numbers must be finite")
