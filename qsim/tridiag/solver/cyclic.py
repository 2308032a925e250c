"""Cyclic tridiagonal systems: corner elements couple the first and the last row.

``T = T' + u v^T`` (Eq. T4) with a tridiagonal T' (Sherman and Morrison): the systems ``T' y = d`` and ``T' z = u`` are
solved together by any of the tridiagonal solvers, and ``x = y - z (v.y) / (1 + v.z)``.  That is refined by the residual of
the cyclic system; what is then not accurate in every row (T' may be singular where T is not) is equilibrated and solved with
pivoting as a matrix with two diagonals on either side: the rows in the order 0, n - 1, 1, n - 2, ... are coupled to their
next but one neighbours at most.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.device import namespace
from qsim.core.errors import NumericsError
from qsim.tridiag.solver.batch import ROUGH
from qsim.tridiag.solver.ladder import PIVOTED, WEAK_PIVOT
from qsim.tridiag.solver.robustness import equilibrate, extended
from qsim.tridiag.solver.robustness.defect import largest_share, size
from qsim.tridiag.solver.robustness.verdicts import SUSPICIOUS, SingularMatrixError, difficulty, underflow
from qsim.tridiag.solver.solution import Solution

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Array

    Solve = Callable[[Array, Array, Array, Array], Solution]

__all__ = ["Matrix", "joined", "solve_one", "solve_short"]

REFINEMENTS = 3
# |1 + v.z| relative to its terms below which the correction is not trusted
CANCELLED = 1e-6


@dataclass(frozen=True)
class Matrix:
    """A cyclic matrix: diagonal a, lower b, upper c, (n,) each; ``b[0]`` is T[0, n-1] and ``c[n-1]`` is T[n-1, 0]."""

    a: Array
    b: Array
    c: Array

    def times(self, x: Array) -> Array:
        """Return ``T x``, x (n, columns)."""
        xp = namespace(x)
        # periodic neighbours: the corners b[0] and c[n-1] need no case of their own
        left, right = xp.roll(x, 1, axis=0), xp.roll(x, -1, axis=0)
        return self.a[:, None] * x + self.b[:, None] * left + self.c[:, None] * right

    @property
    def norm(self) -> float:
        """Largest row sum of ``|Re z| + |Im z|``."""
        return float((size(self.a) + size(self.b) + size(self.c)).max())

    def rowwise(self, x: Array, d: Array) -> float:
        """Return the largest ``|d - T x| / (|T| |x| + |d|)`` of a row (Oettli and Prager, Numer. Math. 6, 405 (1964)).

        See :func:`~qsim.tridiag.solver.robustness.defect.largest_share`.
        """
        with np.errstate(all="ignore"):
            whole = Matrix(size(self.a), size(self.b), size(self.c)).times(size(x)) + size(d)
            return largest_share(_host(d - self.times(x)), _host(whole))

    def errors(self, x: Array, d: Array) -> tuple[float, float, float]:
        """Return the largest residual, the normwise backward error, and a lower bound of the condition number."""
        with np.errstate(all="ignore"):
            residual = size(d - self.times(x)).max(axis=0)
            big_x, big_d = size(x).max(axis=0), size(d).max(axis=0)
            backward = residual / (self.norm * big_x + big_d)
            bound = self.norm * big_x / big_d
        # 0 / 0 of a zero right-hand side is an exact solution, not a broken one
        backward = np.where(np.asarray(_host(residual)) == 0.0, 0.0, _host(backward))
        bound = np.where(np.asarray(_host(big_d)) == 0.0, 0.0, _host(bound))
        worst = float(np.max(np.where(np.isnan(backward), np.inf, backward)))
        return float(residual.max()), worst, float(np.max(bound))


def _host(array: Array) -> Array:
    return array.get() if hasattr(array, "get") else array


def solve_one(
    matrix: Matrix, d: Array, inner: Solve, *, pivoting: bool, strict: bool, tolerance: float
) -> Solution:
    """Solve a cyclic system of at least 3 rows.

    Parameters
    ----------
    matrix
        The matrix.
    d : (n, columns)
        Right-hand sides.
    inner
        Solver of tridiagonal systems (a, b, c, d).
    pivoting
        Go to the pivoted elimination at once.
    strict
        Raise instead of pivoting.
    tolerance
        Largest backward error to accept.

    Raises
    ------
    SingularMatrixError
        If the matrix is singular to working precision after equilibration.
    NumericsError
        If the backward error exceeds the tolerance, or ``strict`` and pivoting is needed.
    """
    start = time.perf_counter()
    if not pivoting:
        solution = _sherman_morrison(matrix, d, inner, tolerance)
        if solution is not None:
            return replace(solution, seconds=time.perf_counter() - start)
        # a correction of rank 1 that fails is the cyclic form of a weak pivot
        if strict:
            raise NumericsError(
                f"{PIVOTED}: the backward error exceeds the tolerance {tolerance:.0e}",
                hint="set on_unstable: ladder, or type: lapack",
            )
    return replace(_folded(matrix, d, tolerance, pivoting), seconds=time.perf_counter() - start)


def solve_short(matrix: Matrix, right: Array, inner: Solve) -> Solution:
    """Solve a cyclic system of one or two rows: its corners lie on other elements, which they are added to."""
    a, b, c = matrix.a, matrix.b, matrix.c
    if len(a) == 1:
        return inner(a + b + c, b[:0], c[:0], right)
    return inner(a, b[1:] + c[1:], c[:1] + b[:1], right)


def joined(parts: Sequence[Solution], x: Array) -> Solution:
    """Return the solution x of several systems from the solutions of each: the worst errors, the most difficult algorithm."""
    return replace(
        max(parts, key=lambda part: (difficulty(part.algorithm), part.backward_error)),
        x=x,
        residual=max(part.residual for part in parts),
        backward_error=max(part.backward_error for part in parts),
        rowwise_error=max(part.rowwise_error for part in parts),
        min_pivot=min(part.min_pivot for part in parts),
        refinements=max(part.refinements for part in parts),
        seconds=sum(part.seconds for part in parts),
        notes=list(dict.fromkeys(note for part in parts for note in part.notes)),
        equilibrated=any(part.equilibrated for part in parts),
    )


def _sherman_morrison(matrix: Matrix, d: Array, inner: Solve, tolerance: float) -> Solution | None:
    """Return the solution by one tridiagonal solution with one more column; None if it is not accurate."""
    xp = namespace(d)
    low, up, first = matrix.b[0], matrix.c[-1], matrix.a[0]
    largest = max(float(abs(v)) for v in (first, low, up))
    # Sherman-Morrison: the corners are a matrix of rank 1 beside a tridiagonal one; gamma is free, and -a_0 keeps the first
    # pivot away from zero
    gamma = -first if abs(first) >= 1e-3 * largest else matrix.a.dtype.type(-largest)
    # T' = T - u v^T with u = (gamma, 0 .. 0, c_{n-1}) and v = (1, 0 .. 0, b_0 / gamma): the corners vanish, two diagonal
    # elements change
    main, u = matrix.a.copy(), xp.zeros_like(matrix.a)
    main[0] = first - gamma
    main[-1] = matrix.a[-1] - low / gamma * up
    u[0], u[-1] = gamma, up
    ratio = low / gamma
    lower, upper = matrix.b[1:], matrix.c[:-1]
    eps = float(np.finfo(matrix.a.dtype).eps)
    try:
        # one solution with one more column, u, gives T0^-1 d and T0^-1 u together
        whole = inner(main, lower, upper, xp.concatenate([d, u[:, None]], axis=1))
        z = whole.x[:, -1]
        # v.z, and below v.y of every column
        overlap = z[0] + ratio * z[-1]
        # a denominator that cancels leaves no digits: the cyclic matrix is nearly singular
        if not abs(1.0 + overlap) > CANCELLED * (1.0 + abs(z[0]) + abs(ratio * z[-1])):
            return None

        def corrected(y: Array) -> Array:
            return y - z[:, None] * ((y[0] + ratio * y[-1]) / (1.0 + overlap))[None]

        x = corrected(whole.x[:, :-1])
        worst = matrix.rowwise(x, d)
        count = 0
        # refinement with the same T0: it repairs what the correction of rank 1 has lost
        while (worst > 4 * eps or whole.min_pivot < WEAK_PIVOT) and count < REFINEMENTS:
            count += 1
            with np.errstate(all="ignore"):
                rest = d - matrix.times(x)
            if not bool(xp.isfinite(rest).all()):
                return None
            trial = x + corrected(inner(main, lower, upper, rest).x)
            error = matrix.rowwise(trial, d)
            if not error <= max(worst, 4 * eps):
                break
            done = error > 0.5 * worst
            x, worst = trial, error
            if done:
                break
        residual, backward, bound = matrix.errors(x, d)
    except NumericsError:
        return None
    # x is as good as its worst row: the norms of the backward error show the largest unknowns alone
    accurate = backward <= tolerance and worst <= max(tolerance, ROUGH * eps)
    if not accurate or bound * eps > SUSPICIOUS or whole.equilibrated:
        return None
    return replace(
        whole,
        x=x,
        residual=residual,
        backward_error=backward,
        rowwise_error=worst,
        refinements=max(count, whole.refinements),
    )


# -------------------------------------------------------------------------------------------- pivoting


def _folded(matrix: Matrix, d: Array, tolerance: float, requested: bool) -> Solution:
    """Return the solution by pivoted elimination of the folded matrix, on the host."""
    host = Matrix(*(np.asarray(_host(band)) for band in (matrix.a, matrix.b, matrix.c)))
    right = np.asarray(_host(d))
    # partial pivoting compares elements of different rows, so rows are brought to one size first
    scales = equilibrate.find(*(band[None] for band in (host.a, host.b, host.c)))
    scaled = Matrix(*(band[0] for band in scales.matrix(host.a[None], host.b[None], host.c[None])))
    scaled_rhs, top = scales.rhs(right.T)
    rhs = scaled_rhs.T
    factors = _Factors(scaled)
    eps = float(np.finfo(host.a.dtype).eps)
    # no digit is left, whatever the residual says
    if factors.condition * eps >= 1.0:
        raise SingularMatrixError(
            f"the cyclic matrix is singular to working precision near row {factors.row}"
            f" (condition number {factors.condition:.1e})",
            row=factors.row,
            hint="no digit of the solution would be correct",
        )
    # one refinement after the pivoted elimination brings the backward error down to rounding
    y = factors.solve(rhs)
    y = y + factors.solve(rhs - scaled.times(y))
    _residual, backward, _bound = scaled.errors(y, rhs)
    x = scales.solution(y.T, top).T
    rowwise = host.rowwise(x, right)
    # pivoting that the user has chosen needs no note
    notes = [] if requested else [f"{PIVOTED}: the cyclic system was solved by LAPACK gbtrf"]
    if factors.condition * eps > SUSPICIOUS:
        notes.append(f"ill-conditioned: condition number {factors.condition:.1e}")
    if backward <= tolerance and rowwise <= max(tolerance, ROUGH * eps):
        # judged as given, but for the normwise error, whose norms mean something only in the scaled system
        residual, algorithm = host.errors(x, right)[0], "lapack"
    # the last rung, as for tridiagonal systems: decimal numbers for what is small enough
    elif extended.fits(right.shape[1], len(right), right.dtype):
        exact = extended.solve_extended(extended.Numbers(host.a, host.b, host.c, right.T))
        x, residual, algorithm = exact.x.T, exact.residual, "extended"
        backward, rowwise = exact.backward, exact.rowwise
        notes = ["elements far apart: the cyclic system was solved in extended precision"]
        if exact.underflows and rowwise > max(tolerance, ROUGH * eps):
            notes.append(underflow(right.dtype, exact.underflows))
    else:
        raise NumericsError(
            f"backward error of a row {max(rowwise, backward):.1e} exceeds the tolerance {tolerance:.0e}",
            hint="raise solver.tolerance, or use a larger precision",
        )
    return Solution(
        namespace(d).asarray(x),
        residual,
        backward,
        rowwise,
        algorithm,
        1,
        1,
        1.0,
        1,
        0.0,
        notes,
        scales.worst > 0,
    )


class _Factors:
    """LU factors of a cyclic matrix with rows and columns in the order 0, n - 1, 1, n - 2, ...

    Attributes
    ----------
    condition
        LAPACK's estimate of the condition number, 1-norm.
    row
        Row with the smallest pivot.
    """

    def __init__(self, matrix: Matrix) -> None:
        from scipy.linalg import get_lapack_funcs

        n = matrix.a.shape[0]
        rows = np.arange(n)
        # rows 0, n-1, 1, n-2, ... in this order: the corners become neighbours, and the matrix has two diagonals on either side
        self.place = np.where(rows < (n + 1) // 2, 2 * rows, 2 * (n - 1 - rows) + 1)
        # two diagonals on either side, two more for the pivoting
        band = np.zeros((7, n), matrix.a.dtype)
        # LAPACK's band storage: element (i, j) in row 4 + i - j
        for values, column in ((matrix.a, rows), (matrix.b, rows - 1), (matrix.c, rows + 1)):
            i, j = self.place, self.place[column % n]
            np.add.at(band, (4 + i - j, j), values)
        norm = float(np.abs(band).sum(axis=0).max())
        factor, self._solve, condition = get_lapack_funcs(("gbtrf", "gbtrs", "gbcon"), (band,))
        self.lu, self.pivots, info = factor(band, 2, 2)
        # the diagonal of U, in row 4
        weakest = info - 1 if info > 0 else int(np.argmin(np.abs(self.lu[4])))
        self.row = int(np.flatnonzero(self.place == weakest)[0])
        if info > 0 or norm == 0.0:
            self.condition = float("inf")
            return
        reciprocal, _info = condition(2, 2, self.lu, self.pivots, norm)
        self.condition = float("inf") if reciprocal == 0.0 else 1.0 / float(reciprocal)

    def solve(self, d: NDArray[Any]) -> NDArray[Any]:
        """Return the solution for right-hand sides (n, columns)."""
        right = np.empty_like(d)
        right[self.place] = d
        x, _info = self._solve(self.lu, 2, 2, right, self.pivots)
        return np.asarray(x[self.place])
