"""The last rung of the ladder: systems solved in decimal numbers of as many digits as it takes.

Elements over hundreds of orders of magnitude leave rows that no elimination in double precision solves: what one row is about
is far below the rounding errors of another, however rows and columns are scaled.  The numbers of :mod:`decimal` have any number
of digits and practically no limits of size; the digits are doubled until two solutions agree in every unknown to more than a
double holds, so that the result is the exact solution of the system as it was given, rounded once.  A matrix for which they never
agree is singular.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.tridiag.solver.robustness.verdicts import SingularMatrixError, out_of_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Row = dict[int, Decimal]
    Parts = tuple[Decimal, Decimal]

__all__ = ["Extended", "Numbers", "fits", "solve_extended"]

# real unknowns of all systems: some seconds
UNKNOWNS = 10_000
DIGITS = (40, 80, 160, 320, 640, 1280)
# digits from which an unknown that still shrinks with them is zero
NOISE = 640
# digits in which residuals of doubles are computed
JUDGED = 60
# relative difference of two solutions of which either is rounded to the same double
AGREED = Decimal("1e-18")
ZERO = Decimal(0)


@dataclass(frozen=True)
class Extended:
    """Solutions of one matrix.

    Attributes
    ----------
    x : (columns, n)
        Exact solutions, rounded to the precision of the system.
    residual, backward, rowwise : float
        Largest ``|d - T x|``, normwise and row-wise backward errors of the rounded x.
    underflows : int
        Unknowns that are too small for the precision: zero, or with fewer digits.
    """

    x: NDArray[Any]
    residual: float
    backward: float
    rowwise: float
    underflows: int


class Numbers(NamedTuple):
    """One matrix and its right-hand sides, on the host: bands (n,), d (columns, n).

    ``b[0]`` and ``c[n - 1]`` are the corners of a cyclic matrix of at least 3 rows, zero in others.
    """

    a: NDArray[Any]
    b: NDArray[Any]
    c: NDArray[Any]
    d: NDArray[Any]


class _NoPivotError(Exception):
    """No pivot is left for a row."""

    def __init__(self, row: int) -> None:
        super().__init__()
        self.row = row


def fits(systems: int, n: int, dtype: np.dtype[Any]) -> bool:
    """Return whether systems of n rows are few and short enough to be solved in decimal numbers."""
    return systems * n * (2 if dtype.kind == "c" else 1) <= UNKNOWNS


def solve_extended(numbers: Numbers, which: str = "", system: int = 0) -> Extended:
    """Solve a system exactly.

    Parameters
    ----------
    numbers
        The system.
    which, system
        What messages call the system, such as `` of system 3``, and its number.

    Raises
    ------
    SingularMatrixError
        If the matrix is singular.
    NumericsError
        If an unknown is too large for the precision, or if all are too small.
    """
    decimals = _System(numbers)
    exact, weakest = _exact(decimals)
    if exact is None:
        raise SingularMatrixError(
            f"the matrix{which} is singular: no pivot is left for row {weakest}", row=weakest, system=system
        )
    x = np.zeros((len(exact), len(numbers.a)), numbers.a.dtype)
    for column, unknowns in enumerate(exact):
        # rounded once: decimal numbers convert to the nearest double
        floats = np.array([(float(re), float(im)) for re, im in unknowns])
        with np.errstate(over="ignore", under="ignore"):
            x[column] = floats[:, 0] + 1j * floats[:, 1] if x.dtype.kind == "c" else floats[:, 0]
    return _judged(decimals, exact, x, which)


class _System:
    """Elements in decimal numbers, real and imaginary parts.

    Attributes
    ----------
    rows
        Columns and elements of every row.
    right
        Right-hand sides.
    complex
        Whether imaginary parts count.
    """

    def __init__(self, numbers: Numbers) -> None:
        n = len(numbers.a)
        self.complex = numbers.a.dtype.kind == "c"
        self.rows: list[list[tuple[int, Parts]]] = []
        for i in range(n):
            row = [(i, numbers.a[i]), ((i - 1) % n, numbers.b[i]), ((i + 1) % n, numbers.c[i])]
            self.rows.append([(j, _parts(v)) for j, v in row if v != 0])
        self.right = [[_parts(v) for v in column] for column in numbers.d]

    def equations(self) -> tuple[list[Row], list[list[Decimal]]]:
        """Return rows and right-hand sides in real numbers, rounded to the digits in use: of a complex row one for each part."""
        if not self.complex:
            rows = [{j: +re for j, (re, _im) in row} for row in self.rows]
            return rows, [[+column[i][0] for column in self.right] for i in range(len(rows))]
        rows, right = [], []
        # (re + i im)(p + i q): the real part has re p - im q, the imaginary part im p + re q
        for i, row in enumerate(self.rows):
            rows.append({2 * j: +re for j, (re, _im) in row} | {2 * j + 1: -im for j, (_re, im) in row})
            rows.append({2 * j: +im for j, (_re, im) in row} | {2 * j + 1: +re for j, (re, _im) in row})
            right += [[+column[i][part] for column in self.right] for part in (0, 1)]
        return rows, right

    def unknowns(self, real: list[Decimal]) -> list[Parts]:
        """Return the unknowns of the rows from the real unknowns of the equations."""
        if not self.complex:
            return [(re, ZERO) for re in real]
        return list(zip(real[::2], real[1::2], strict=True))

    def errors(self, x: Sequence[Parts], d: Sequence[Parts]) -> tuple[Decimal, Decimal, Decimal]:
        """Return the largest residual of a row, and the normwise and the row-wise backward error."""
        worst, rowwise, norm = ZERO, ZERO, ZERO
        for row, (real, imaginary) in zip(self.rows, d, strict=True):
            whole = _size((real, imaginary))
            for j, (re, im) in row:
                p, q = x[j]
                real, imaginary = real - (re * p - im * q), imaginary - (re * q + im * p)
                whole += _size((re, im)) * _size((p, q))
            residual = _size((real, imaginary))
            worst = max(worst, residual)
            norm = max(norm, sum((_size(z) for _j, z in row), ZERO))
            rowwise = max(rowwise, residual / whole if residual else ZERO)
        # max|d - T x| / (||T|| max|x| + max|d|)
        scale = norm * max(map(_size, x)) + max(map(_size, d))
        return worst, worst / scale if worst else ZERO, rowwise


def _parts(z: Any) -> Parts:
    """Return the real and the imaginary part."""
    return Decimal(float(z.real)), Decimal(float(z.imag))


def _size(parts: Parts) -> Decimal:
    """Return ``|Re z| + |Im z|``."""
    return abs(parts[0]) + abs(parts[1])


def _context(digits: int) -> Context:
    return Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


# ------------------------------------------------------------------------------------------ elimination


def _exact(system: _System) -> tuple[list[list[Parts]] | None, int]:
    """Return the unknowns of every right-hand side, None for a singular matrix, and the row of the weakest pivot.

    That two solutions agree is not enough: both may have too few digits for what is far smaller than the elements beside it, be
    it a pivot.  The rows tell.
    """
    before: list[list[Parts]] | None = None
    weakest, stride = 0, 2 if system.complex else 1
    for digits in DIGITS:
        with localcontext(_context(digits)):
            try:
                real, row = _eliminated(*system.equations())
            except _NoPivotError as error:
                # with these digits; a pivot that is only far smaller than its row appears with more of them
                before, weakest = None, error.row // stride
                continue
            weakest = row // stride
            unknowns = [system.unknowns(one) for one in real]
            agreed = before is not None
            for old, new in zip(before or [], unknowns, strict=agreed):
                agreed = _settled(old, new, digits) and agreed
        with localcontext(_context(2 * digits)):
            # judged with twice the digits: every row must be solved to half of the digits in use
            pairs = zip(unknowns, system.right, strict=True)
            if agreed and all(system.errors(x, d)[2].scaleb(digits // 2) < 1 for x, d in pairs):
                return unknowns, weakest
        before = unknowns
    return None, weakest


def _settled(old: list[Parts], new: list[Parts], digits: int) -> bool:
    """Return whether two solutions agree in every unknown; what is exactly zero is set to zero in the new one.

    Such an unknown is noise, which shrinks with every digit.  With few digits one that is only small may look like it.
    """
    for i, (p, q) in enumerate(zip(old, new, strict=True)):
        if _size((p[0] - q[0], p[1] - q[1])) <= AGREED * _size(q):
            continue
        # noise falls by far more than digits/4 powers of ten from one precision to the next
        if digits < NOISE or _size(q) > _size(p).scaleb(-digits // 4):
            return False
        new[i] = ZERO, ZERO
    return True


def _eliminated(rows: list[Row], right: list[list[Decimal]]) -> tuple[list[list[Decimal]], int]:
    """Solve by elimination with scaled partial pivoting.

    Returns
    -------
    x
        Unknowns of every column.
    weakest
        Row with the smallest pivot relative to its elements.
    """
    n = len(rows)
    sizes = [max(map(abs, row.values()), default=ZERO) for row in rows]
    # rows by the column in which they begin: few rows have an entry in a column, and only they are looked at
    starting: list[list[int]] = [[] for _ in range(n)]
    for i, row in enumerate(rows):
        if not sizes[i]:
            raise _NoPivotError(i)
        starting[min(row)].append(i)
    pending: list[int] = []
    order: list[int] = []
    weakest, least = 0, Decimal("Infinity")
    for j in range(n):
        # rows that begin in this column join the rows that earlier pivots have left
        pending += starting[j]
        candidates = [i for i in pending if rows[i].get(j)]
        if not candidates:
            raise _NoPivotError(pending[0] if pending else j)
        # pivots relative to the size of their rows, so that rows of different scales compete fairly
        p = max(candidates, key=lambda i: abs(rows[i][j]) / sizes[i])
        pivot = rows[p]
        if abs(pivot[j]) < least * sizes[p]:
            weakest, least = p, abs(pivot[j]) / sizes[p]
        pending.remove(p)
        order.append(p)
        for i in candidates:
            if i == p:
                continue
            row = rows[i]
            factor = row.pop(j) / pivot[j]
            for k, value in pivot.items():
                # a corner fills its row as elimination goes on: rows are dictionaries, not bands
                if k > j:
                    row[k] = row.get(k, ZERO) - factor * value
            right[i] = [v - factor * w for v, w in zip(right[i], right[p], strict=True)]
    columns = len(right[0])
    x = [[ZERO] * n for _ in range(columns)]
    for j in reversed(range(n)):
        # back substitution in the order of the pivots
        row, load = rows[order[j]], right[order[j]]
        others = [(k, value) for k, value in row.items() if k > j]
        for one, value in zip(x, load, strict=True):
            one[j] = (value - sum((v * one[k] for k, v in others), ZERO)) / row[j]
    return x, weakest


# ------------------------------------------------------------------------------------------------ judging


def _judged(system: _System, exact: list[list[Parts]], x: NDArray[Any], which: str) -> Extended:
    """Return the rounded solution with its errors, in numbers that neither overflow nor underflow."""
    tiny = Decimal(float(np.finfo(x.dtype).tiny))
    underflows, errors = 0, []
    with localcontext(_context(JUDGED)):
        for column, unknowns, d in zip(x, exact, system.right, strict=True):
            sizes = [_size(z) for z in unknowns]
            wrong = ~np.isfinite(column)
            largest = int(np.argmax(wrong)) if wrong.any() else sizes.index(max(sizes))
            # an overflow, or a solution whose largest unknown underflows: no scale of x remains
            if wrong.any() or 0 < sizes[largest] < tiny:
                raise out_of_range(x.dtype, largest, sizes[largest].adjusted(), which)
            underflows += sum(bool(0 < size < tiny) for size in sizes)
            errors.append(system.errors([_parts(z) for z in column], d))
    residual, backward, rowwise = (float(max(values)) for values in zip(*errors, strict=True))
    return Extended(x, residual, backward, rowwise, underflows)
