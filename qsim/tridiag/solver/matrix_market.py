"""MatrixMarket files: tridiagonal matrices and vectors, ``coordinate`` and ``array``, of all symmetries.

R. F. Boisvert, R. Pozo, K. A. Remington, "The Matrix Market exchange formats", NISTIR 5935 (1996).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from qsim.core.deck.columns import text_lines
from qsim.core.errors import FileError
from qsim.core.results.reading import reading, require_room
from qsim.core.text import shorten

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["read_matrix", "read_vectors"]

EXPECTED = "a MatrixMarket file"
FORMATS = ("coordinate", "array")
FIELDS = ("real", "integer", "complex", "double", "pattern")
SYMMETRIES = ("general", "symmetric", "hermitian", "skew-symmetric")


@dataclass
class _Table:
    """Header and numbers of a file: (entries, columns of the body)."""

    path: Path
    format: str
    field: str
    symmetry: str
    rows: int
    columns: int
    body: NDArray[np.float64]

    @property
    def values(self) -> NDArray[Any]:
        """The entries, in the order of the file."""
        numbers = self.body[:, 2:] if self.format == "coordinate" else self.body
        return numbers[:, 0] + 1j * numbers[:, 1] if self.field == "complex" else numbers[:, 0].copy()

    def fail(self, message: str) -> NoReturn:
        raise FileError(f"{self.path}: {message}")


def read_matrix(path: Path) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return diagonal a, lower b and upper c, (n,) each with zero corners.

    Raises
    ------
    FileError
        If the file is no MatrixMarket file, or its matrix not square or not tridiagonal (with the entry).
    """
    with reading(path, EXPECTED), np.errstate(all="ignore"):
        return _diagonals(_read(path))


def _diagonals(table: _Table) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the diagonals of a matrix: entries near the diagonal, each at most once, mirrored where there is a symmetry."""
    n = table.rows
    if table.rows != table.columns:
        table.fail(f"the matrix must be square, not {table.rows} x {table.columns}")
    i, j, values = _entries(table)
    # zeros that a file stores off the diagonals do no harm
    far = np.flatnonzero((np.abs(i - j) > 1) & (values != 0))
    if len(far):
        k = int(far[0])
        table.fail(
            f"not tridiagonal: entry ({i[k] + 1}, {j[k] + 1}) is {_written(values[k])} ({len(far)} entries outside)"
        )
    # the header announces the size: refused before arrays of that length are made
    require_room(table.path, f"a matrix of {n} rows", 3 * n * values.itemsize)
    near = np.abs(i - j) <= 1
    i, j, values = i[near], j[near], values[near]
    diagonals = [np.zeros(n, values.dtype) for _ in range(3)]
    mirrored = table.symmetry != "general"
    for diagonal, offset in zip(diagonals, (0, -1, 1), strict=True):
        chosen = (j - i) == offset
        rows = i[chosen]
        # programs differ in what duplicates mean: some add them, others take the last
        if len(rows) != len(np.unique(rows)):
            order = np.argsort(rows, kind="stable")
            row = int(rows[order][1:][np.diff(rows[order]) == 0][0])
            table.fail(f"duplicate entry ({row + 1}, {row + 1 + offset})")
        diagonal[rows] = values[chosen]
    a, b, c = diagonals
    # symmetric formats store the lower triangle only
    if mirrored:
        lower = b[1:].conj() if table.symmetry == "hermitian" else b[1:]
        c[:-1] = -lower if table.symmetry == "skew-symmetric" else lower
    if table.symmetry == "hermitian" and np.any(a.imag):
        k = int(np.flatnonzero(a.imag)[0])
        table.fail(
            f"the diagonal of a Hermitian matrix is real, but entry ({k + 1}, {k + 1}) is {_written(a[k])}"
        )
    return a, b, c


def read_vectors(path: Path) -> NDArray[Any]:
    """Return a right-hand side (n,), or several (n, k).

    Raises
    ------
    FileError
        If the file is no MatrixMarket file, or its numbers do not belong to vectors.
    """
    with reading(path, EXPECTED), np.errstate(all="ignore"):
        return _vectors(_read(path))


def _vectors(table: _Table) -> NDArray[Any]:
    if table.symmetry != "general":
        table.fail(f"a right-hand side is 'general', not '{table.symmetry}'")
    i, j, values = _entries(table)
    require_room(table.path, f"{table.columns} vectors of {table.rows} rows", table.rows * table.columns * 16)
    out = np.zeros((table.rows, table.columns), values.dtype)
    out[i, j] = values
    return out[:, 0].copy() if table.columns == 1 else out


def _entries(table: _Table) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Return rows, columns (from 0) and values as they stand in the file; mirrored ones are not added."""
    if table.format == "array":
        return (*_array_places(table), table.values)
    places = table.body[:, :2]
    i, j = (places[:, k].astype(np.int64) - 1 for k in (0, 1))
    for name, index, size, column in (("row", i, table.rows, 0), ("column", j, table.columns, 1)):
        # places count from 1; the comparison with the number in the file finds fractions, too
        wrong = np.flatnonzero((index < 0) | (index >= size) | (places[:, column] != index + 1))
        if len(wrong):
            k = int(wrong[0])
            table.fail(f"entry {k + 1} has {name} {places[k, column]:g}, outside of 1 .. {size}")
    if table.symmetry != "general":
        upper = np.flatnonzero(j > i if table.symmetry != "skew-symmetric" else j >= i)
        if len(upper):
            k = int(upper[0])
            what = "below the diagonal" if table.symmetry == "skew-symmetric" else "on and below the diagonal"
            table.fail(
                f"a {table.symmetry} matrix is stored {what}, but there is an entry ({i[k] + 1}, {j[k] + 1})"
            )
    return i, j, table.values


def _array_places(table: _Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of an array's numbers, column by column; of the lower triangle only where there is a symmetry."""
    if table.symmetry == "general":
        j, i = np.divmod(np.arange(table.rows * table.columns), max(1, table.rows))
        return i, j
    # the lower triangle column by column is the upper triangle row by row
    j, i = np.triu_indices(table.rows, int(table.symmetry == "skew-symmetric"))
    return i, j


# --------------------------------------------------------------------------------------------- text


def _read(path: Path) -> _Table:
    return _parse(path, text_lines(path, EXPECTED))


@dataclass(frozen=True)
class _Kind:
    """First line of a file: format, field and symmetry of the matrix."""

    format: str
    field: str
    symmetry: str

    @property
    def width(self) -> int:
        """Numbers in a line of the body: the place in a coordinate file, real and imaginary part."""
        return (2 if self.format == "coordinate" else 0) + (2 if self.field == "complex" else 1)

    def entries(self, rows: int, columns: int) -> int:
        """Return the number of entries of an array: of its lower triangle where there is a symmetry."""
        below = rows * (rows - 1) // 2
        return {"general": rows * columns, "skew-symmetric": below}.get(self.symmetry, below + rows)


def _parse(path: Path, lines: Iterator[tuple[int, str]]) -> _Table:
    """Return the header and the numbers of a file."""
    kind = _kind(path, next(lines, (1, ""))[1])
    rows, columns, count = _sizes(path, lines, kind)
    body = _numbers(path, lines, kind.width, kind.field)
    if len(body) != count:
        raise FileError(f"{path}: {count} entries are announced, but {len(body)} found")
    table = _Table(path, kind.format, kind.field, kind.symmetry, rows, columns, body)
    _require_finite(table)
    return table


def _kind(path: Path, first: str) -> _Kind:
    """Return what the first line says, such as ``%%MatrixMarket matrix coordinate real general``."""
    words = first.lower().split()
    if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] != "matrix":
        raise FileError(
            f"{path}: not a MatrixMarket file",
            hint="its first line reads: %%MatrixMarket matrix coordinate real general",
        )
    for word, known, what in zip(
        words[2:], (FORMATS, FIELDS, SYMMETRIES), ("format", "field", "symmetry"), strict=True
    ):
        if word not in known:
            raise FileError(f"{path}:1: unknown {what} {shorten(repr(word))}; known are {', '.join(known)}")
    kind = _Kind(*words[2:])
    # every field of the standard is known, so that a valid file of no use gets a message of its own
    if kind.field == "pattern":
        raise FileError(f"{path}:1: a pattern has no values; store a real or a complex matrix")
    if kind.symmetry == "hermitian" and kind.field != "complex":
        raise FileError(f"{path}:1: a hermitian matrix is complex, not {kind.field}; a real one is symmetric")
    return kind


def _sizes(path: Path, lines: Iterator[tuple[int, str]], kind: _Kind) -> tuple[int, int, int]:
    """Return rows, columns and entries, from the first line that is no comment."""
    number, sizes = 1, ""
    for number, sizes in lines:  # noqa: B007 - the line number is used below
        if sizes.strip() and not sizes.lstrip().startswith("%"):
            break
    # a coordinate file says how many entries it lists, an array has as many as its shape
    wanted = 3 if kind.format == "coordinate" else 2
    counts = sizes.split()
    if len(counts) != wanted or not all(word.isdecimal() and len(word) < 19 for word in counts):
        what = "rows, columns and entries" if wanted == 3 else "rows and columns"
        raise FileError(
            f"{path}:{number}: expected the numbers of {what}, found {shorten(repr(sizes.strip()))}"
        )
    rows, columns, *entries = (int(word) for word in counts)
    if rows < 1 or columns < 1:
        raise FileError(f"{path}:{number}: a matrix of {rows} x {columns} is empty")
    if kind.symmetry != "general" and rows != columns:
        raise FileError(f"{path}:{number}: a {kind.symmetry} matrix is square, not {rows} x {columns}")
    return rows, columns, entries[0] if entries else kind.entries(rows, columns)


def _require_finite(table: _Table) -> None:
    """Name the first entry that is NaN or infinite."""
    body = table.body
    bad = np.flatnonzero(~np.isfinite(body).all(axis=1))
    if len(bad):
        k, place = int(bad[0]), f"entry {int(bad[0]) + 1}"
        if table.format == "coordinate":
            place = f"entry ({body[k, 0]:g}, {body[k, 1]:g})"
        table.fail(f"{place} is not finite; all numbers must be finite")


def _numbers(path: Path, lines: Iterator[tuple[int, str]], width: int, field: str) -> NDArray[np.float64]:
    """Return the numbers of the body, `width` in a line."""
    kept = [(at, line) for at, line in lines if line.strip() and not line.lstrip().startswith("%")]
    if not kept:
        return np.zeros((0, width))
    try:
        # the fast reader first; it does not say which line is wrong
        body = np.loadtxt([line for _, line in kept], comments=None, ndmin=2)
        if body.shape[1] == width:
            return body
    except ValueError:
        pass
    # slowly, to name the line
    for at, line in kept:
        words = line.split()
        if len(words) != width:
            raise FileError(f"{path}:{at}: {len(words)} numbers in a line; a {field} matrix has {width}")
        for word in words:
            try:
                float(word)
            except ValueError:
                raise FileError(f"{path}:{at}: {shorten(repr(word))} is not a number") from None
    raise FileError(f"{path}: the numbers cannot be read; expected {width} in a line")


def _written(value: complex) -> str:
    return f"{value:.6g}"
