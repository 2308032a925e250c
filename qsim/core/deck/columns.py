"""Columns of numbers in text files: tables, couplings, positions, fields, right-hand sides.

One behaviour for every method:

- Commas, semicolons and white space separate numbers; ``#`` and ``%`` begin a comment; empty lines do not count.
- Up to two lines before the first row may hold names instead of numbers.
- Powers of ten may be written as Fortran does, ``1.5D-03``; decimal commas are refused.
- UTF-8, with or without a byte order mark; a file that begins like gzip is unpacked.
- Every number must be finite, and every error names file and line.
- Pipes and devices are refused; so are lines and files beyond all measure.
"""

from __future__ import annotations

import cmath
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from qsim.core.device.hardware import free_host_memory
from qsim.core.errors import FileError
from qsim.core.results.reading import MAX_TEXT, open_binary
from qsim.core.text import shorten

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.interpolate import CubicSpline

__all__ = [
    "by_first_column",
    "number_in",
    "read_columns",
    "read_complex_columns",
    "read_rows",
    "smooth_curve",
    "text_lines",
]

# Bytes of a line: 600 000 numbers with all their digits.
MAX_LINE = 16 * 2**20
# Characters of a number.
MAX_WORD = 400
# Lines of names before the numbers.
MAX_HEADER = 2
# Lines without a number, one after another: a small file packed with gzip can hold thousands of millions.
MAX_EMPTY = 100_000
# Rows of a table of a function.
MAX_CURVE = 10_000_000
# Points of a cubic spline.
MIN_CURVE = 4

Number = TypeVar("Number", float, complex)

_SEPARATORS = str.maketrans(",;", "  ")
# Numbers as Fortran writes them, and with decimal commas.
_FORTRAN = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+))[dD]([-+]?\d+)")
_COMMAS = re.compile(r"[-+]?\d*(,\d+)?(?:[eEdD][-+]?\d+)?")
# First bytes of files that are no text, and what to do.
_BINARY = {
    b"\x93NUMPY": "a NumPy array",
    b"PK\x03\x04": "a packed file, such as a spreadsheet (save it as CSV) or .npz",
    b"\x89HDF": "an HDF5 file",
    b"\xd0\xcf\x11\xe0": "a spreadsheet (save it as CSV)",
}
_EMPTY_FIELD = re.compile(r"^\s*[,;]|[,;]\s*[,;]\s*[^,;\s]")


@dataclass(frozen=True)
class _Layout:
    """Columns expected in a file.

    Attributes
    ----------
    names
        What the columns hold, for messages.
    first
        Number of columns to read; further ones on a line are ignored; None to read all.
    widths
        Allowed numbers of columns where all are read; empty for any, the same in every row.
    most
        Rows beyond which nothing is read; None for any number.
    distinct
        Name of the first column if it must not be the same in two rows; those after one another are told at once.
    """

    names: str
    first: int | None = None
    widths: tuple[int, ...] = ()
    most: int | None = None
    distinct: str = ""

    @property
    def expected(self) -> str:
        count = "" if self.first is None else f"{self.first} "
        return f"{count}columns of numbers ({self.names})"


def read_columns(
    path: str | Path,
    count: int,
    names: str,
    *,
    check: Callable[[Sequence[float]], str] | None = None,
    distinct: str = "",
) -> NDArray[np.float64]:
    """Read the first columns of a table of a function, of at most `MAX_CURVE` rows; a line may hold more.

    Parameters
    ----------
    path
        Text file, also packed with gzip.
    count
        Number of columns to read.
    names
        What they hold, ``"t, field"``, for messages.
    check
        Returns what is wrong with a row, or an empty text.
    distinct
        Name of the first column, if rows after one another must differ in it.

    Returns
    -------
    (rows, count) float64
        In the order of the file, at least one row.

    Raises
    ------
    FileError
        With file and line, if something is no finite number, missing or refused by `check`.
    """
    layout, path = _Layout(names, first=count, most=MAX_CURVE, distinct=distinct), Path(path)
    # A growing array of doubles takes 8 bytes per number, lists of floats four times that.
    numbers = array("d")
    for line, row in _rows(path, layout, number_in):
        if check is not None and (wrong := check(row)):
            raise FileError(f"{path}:{line}: {wrong}")
        numbers.extend(row)
        _require_room(path, line, numbers)
    return np.frombuffer(numbers, dtype=np.float64).reshape(-1, count).copy()


def read_rows(
    path: str | Path, names: str, widths: tuple[int, ...] = (), *, most: int | None = None
) -> list[list[float]]:
    """Read whole rows of numbers.

    Parameters
    ----------
    path
        Text file, also packed with gzip.
    names
        What the columns hold, for messages.
    widths
        Allowed numbers of columns; by default any, but the same in every row.
    most
        Rows that the file may have; it is read no further.

    Returns
    -------
    list of list of float
        At least one row.

    Raises
    ------
    FileError
        With file and line, if something is no finite number, or a row has another length.
    """
    layout, path = _Layout(names, widths=widths, most=most), Path(path)
    return [row for _, row in _rows(path, layout, number_in)]


def read_complex_columns(path: str | Path, names: str) -> NDArray[np.float64] | NDArray[np.complex128]:
    """Read all columns of a file whose numbers may be complex, ``1.0+2.0j`` or ``1.0-0.5i``.

    Returns
    -------
    (rows, columns) float64 or complex128
        Real if no imaginary part is other than zero.

    Raises
    ------
    FileError
        With file and line, if something is no finite number, or a row has another length.
    """
    layout, path = _Layout(names), Path(path)
    numbers, width = array("d"), 1
    for line, row in _rows(path, layout, _complex):
        width = len(row)
        # Real and imaginary part are neighbours: the memory layout of complex128.
        for value in row:
            numbers.append(value.real)
            numbers.append(value.imag)
        _require_room(path, line, numbers)
    values = np.frombuffer(numbers, dtype=np.complex128).reshape(-1, width)
    return values.copy() if values.imag.any() else np.ascontiguousarray(values.real)


def by_first_column(
    path: str | Path, table: NDArray[np.float64], name: str, least: int = MIN_CURVE
) -> NDArray[np.float64]:
    """Return a table in ascending order of its first column.

    Raises
    ------
    FileError
        If two values of the first column, called `name`, are equal, or there are fewer rows than `least`.
    """
    table = table[np.argsort(table[:, 0], kind="stable")]
    if len(table) < least:
        raise FileError(
            f"{path}: a table needs at least {least} rows with distinct {name}, found {len(table)} rows"
        )
    # Sorted, so that equal values are neighbours.
    same = np.flatnonzero(np.diff(table[:, 0]) <= 0)
    if same.size:
        raise FileError(
            f"{path}: a table needs at least {least} rows with distinct {name}, but {name} = {table[same[0], 0]:g} is repeated"
        )
    return table


def smooth_curve(
    path: str | Path, x: NDArray[np.float64], y: NDArray[np.float64] | NDArray[np.complex128]
) -> CubicSpline:
    """Return the cubic spline (not-a-knot) through ascending points of a file, y also complex.

    Raises
    ------
    FileError
        If the numbers are so large, or so close to each other, that double precision has no spline through them.
    """
    from scipy.interpolate import CubicSpline

    curve = None
    with (
        np.errstate(all="ignore"),
        suppress(ValueError),
    ):  # SciPy, of numbers that are not finite or a singular matrix
        curve = CubicSpline(x, y)
    # Overflow in the coefficients leaves infinities without an exception.
    if curve is None or not np.isfinite(curve.c).all():
        raise FileError(
            f"{path}: no spline in double precision goes through values up to {np.abs(y).max():.3g} "
            f"at points {np.diff(x).min():.3g} apart"
        )
    return curve


def text_lines(path: str | Path, expected: str) -> Iterator[tuple[int, str]]:
    """Yield line numbers and lines of a text file, also packed with gzip; read no more than a line at a time.

    Raises
    ------
    FileError
        If the file is no regular file, damaged, no UTF-8 text, or has lines or a size beyond all measure.
    """
    total, line, filled = 0, 0, 0
    with open_binary(path, expected) as file:
        # One byte more than a line may have: a longer one is noticed without being read to its
        # end.
        while chunk := file.readline(MAX_LINE + 1):
            if total == 0 and (
                kind := next((k for start, k in _BINARY.items() if chunk.startswith(start)), "")
            ):
                raise FileError(f"{path} is {kind}, not text; expected {expected}")
            total += len(chunk)
            if len(chunk) > MAX_LINE:
                raise FileError(
                    f"{path}:{line + 1}: a line of more than {MAX_LINE} bytes; expected {expected}"
                )
            if total > MAX_TEXT:
                raise FileError(
                    f"{path}: more than {MAX_TEXT} bytes of text; store large tables as .npz or HDF5"
                )
            try:
                text = chunk.decode("utf-8-sig" if line == 0 else "utf-8")
            except UnicodeDecodeError as error:
                byte = f"byte 0x{chunk[error.start]:02x}"
                raise FileError(f"{path}:{line + 1}: {byte} is not UTF-8 text; expected {expected}") from None
            for part in text.splitlines():
                line += 1
                filled = line if part.strip() else filled
                if line - filled > MAX_EMPTY:
                    raise FileError(f"{path}:{line}: {MAX_EMPTY} empty lines; expected {expected}")
                yield line, part


# ------------------------------------------------------------------------------------------- lines


def _rows(
    path: Path, layout: _Layout, number: Callable[[str], Number | None]
) -> Iterator[tuple[int, list[Number]]]:
    """Yield the rows of a file with their line numbers; refuse a file without any."""
    headers, count, last, before = 0, 0, 0, None
    width: int | None = None
    for line, full in text_lines(path, layout.expected):
        text = full.split("#", 1)[0].split("%", 1)[0]
        words = text.translate(_SEPARATORS).split()
        if not words:
            if line - last > MAX_EMPTY:
                raise FileError(
                    f"{path}:{line}: {MAX_EMPTY} lines without numbers; expected {layout.expected}"
                )
            continue
        wanted = words if layout.first is None else words[: layout.first]
        row = [number(word) for word in wanted]
        # Names are allowed only before the first row of numbers; later words are mistakes.
        if width is None and headers < MAX_HEADER and all(value is None for value in row):
            headers += 1
            continue
        if count == layout.most:
            raise FileError(f"{path}:{line}: more than {count} rows; expected {layout.expected}")
        # Read as separators, decimal commas would make two numbers of one.
        if width is None and _has_decimal_commas(text):
            where = f"{path}:{line}: {shorten(repr(text.strip()))} has decimal commas"
            raise FileError(f"{where}; write decimal points; expected {layout.expected}")
        yield line, _checked(path, line, text, layout, width, wanted, row)
        if layout.distinct and row[0] == before:
            raise FileError(
                f"{path}:{line}: a table needs distinct {layout.distinct}, but {layout.distinct} = {before:g} is repeated"
            )
        width, count, last, before = len(row), count + 1, line, row[0]
    if width is None:
        raise FileError(f"{path} holds no numbers; expected {layout.expected}")


def _checked(
    path: Path,
    line: int,
    text: str,
    layout: _Layout,
    width: int | None,
    words: list[str],
    row: list[Number | None],
) -> list[Number]:
    """Return a row whose numbers are all there and finite."""
    where = f"{path}:{line}"
    if layout.first is not None and len(row) < layout.first:
        line_text = shorten(repr(text.strip()))
        raise FileError(f"{where}: expected {layout.first} numbers ({layout.names}), found {line_text}")
    # An empty field would shift all numbers after it into other columns.
    if _EMPTY_FIELD.search(text):
        raise FileError(f"{where}: a number is missing between two separators, {shorten(repr(text.strip()))}")
    values = [value for value in row if value is not None and cmath.isfinite(value)]
    if len(values) < len(row):
        bad = next(w for w, v in zip(words, row, strict=True) if v is None or not cmath.isfinite(v))
        raise FileError(f"{where}: {shorten(repr(bad))} is not a finite number; expected {layout.expected}")
    if layout.widths and len(row) not in layout.widths:
        expected = " or ".join(map(str, layout.widths))
        raise FileError(f"{where}: {len(row)} columns, expected {expected} ({layout.names})")
    if layout.first is None and not layout.widths and width is not None and len(row) != width:
        raise FileError(f"{where}: {len(row)} columns, but {width} in the lines before")
    return values


def _has_decimal_commas(text: str) -> bool:
    """Return True if commas stand inside of the numbers of a row, which something else separates."""
    fields = [_COMMAS.fullmatch(field) for field in re.split(r"\s*;\s*|\s+", text.strip())]
    commas = [field is not None and field[1] is not None for field in fields]
    # Blanks and commas both separate, where nothing says otherwise.
    return len(fields) > 1 and all(fields) and (any(commas) if ";" in text else commas[0])


def number_in(word: str) -> float | None:
    """Return the number that a word is, also with the exponent of Fortran; None for other words."""
    try:
        return float(word) if len(word) <= MAX_WORD else None
    except ValueError:
        match = _FORTRAN.fullmatch(word[:MAX_WORD])
        return float(f"{match[1]}e{match[2]}") if match else None


def _complex(word: str) -> complex | None:
    try:
        text = word.replace("i", "j") if word.endswith(("i", "i)")) else word
        return complex(text) if len(word) <= MAX_WORD else None
    except ValueError:
        return None


def _require_room(path: Path, line: int, numbers: array[float]) -> None:
    """Refuse more numbers than fit into memory three times; looked at once in a while."""
    # The array that grows, its old copy while it grows, and the result exist at the same time.
    if line % 65536 == 0 and (free := free_host_memory()) and 2 * len(numbers) * 8 > free:
        raise FileError(f"{path}:{line}: {len(numbers)} numbers so far, and no memory for more")
