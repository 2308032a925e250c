"""Host part of a streamed solution: pieces that need pivoting, and the system of the joint lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.solver.robustness.verdicts import SingularMatrixError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# influence of a joint line on an interior above which the interior counts as nearly singular
GROWTH = 1e3
# how often a piece may be halved
DEPTH = 6


@dataclass
class Reduced:
    """Pieces of one or of many blocks, reduced to their joint lines; P pieces, k right-hand sides.

    Attributes
    ----------
    joint : (P,) int64
        Row of each joint line, the last one of its piece.
    links : (P, 4)
        p_f, q_f, p_l, q_l of :mod:`qsim.tridiag.kernels.partition.streamed`.
    loads : (k, P, 2)
        g_f, g_l.
    a, b, c : (P,), d : (k, P)
        The joint lines as they were given.
    pivoted : (P,) uint8
        Pieces whose interior is solved with pivoting.
    """

    joint: NDArray[np.int64]
    links: NDArray[Any]
    loads: NDArray[Any]
    a: NDArray[Any]
    b: NDArray[Any]
    c: NDArray[Any]
    d: NDArray[Any]
    pivoted: NDArray[np.uint8]

    @classmethod
    def join(cls, parts: list[Reduced]) -> Reduced:
        """Return the pieces of several blocks in their order."""
        axis = {"loads": 1, "d": 1}
        names = cls.__dataclass_fields__
        return cls(
            **{name: np.concatenate([getattr(p, name) for p in parts], axis.get(name, 0)) for name in names}
        )

    def take(self, index: slice | NDArray[np.int64]) -> Reduced:
        """Return some of the pieces."""
        one = {name: getattr(self, name)[index] for name in ("joint", "links", "a", "b", "c", "pivoted")}
        return Reduced(**one, loads=self.loads[:, index], d=self.d[:, index])

    def replace(self, changed: dict[int, Reduced]) -> Reduced:
        """Return the pieces with some of them exchanged for others, or for several."""
        parts, done = [], 0
        for p in sorted(changed):
            parts += [self.take(slice(done, p)), changed[p]]
            done = p + 1
        return Reduced.join([*parts, self.take(slice(done, None))])

    def solve(self) -> NDArray[Any]:
        """Return x at the joint lines (k, P), by LAPACK's ``gtsv``.

        Raises
        ------
        SingularMatrixError
            If a pivot vanishes, with the row of the joint line.
        """
        # the interior is eliminated from the equations of the joint lines: x of its first and last row by x of both lines
        p_f, q_f, p_l, q_l = self.links.T
        # a_w = a - b q_l - c p_f(w+1), b_w = -b p_l, c_w = -c q_f(w+1), d_w = d - b g_l - c g_f(w+1)
        a, c = self.a - self.b * q_l, np.zeros_like(self.c)
        a[:-1] -= self.c[:-1] * p_f[1:]
        c[:-1] = -self.c[:-1] * q_f[1:]
        d = self.d - self.b * self.loads[:, :, 1]
        d[:, :-1] -= self.c[:-1] * self.loads[:, 1:, 0]
        # pivoting costs little here: a joint line stands for hundreds of rows
        x, row = gtsv(a, -self.b * p_l, c, d.T)
        if row is not None:
            raise SingularMatrixError(
                f"the matrix is singular: the pivot of row {int(self.joint[row])} vanishes",
                row=int(self.joint[row]),
            )
        return np.ascontiguousarray(x.T)


def gtsv(
    a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], d: NDArray[Any]
) -> tuple[NDArray[Any], int | None]:
    """Solve with partial pivoting; return x (n, k) and the row of a pivot that vanishes, or None.

    Parameters
    ----------
    a, b, c : (n,)
        Diagonal, lower, upper; ``b[0]`` and ``c[-1]`` do not count.
    d : (n, k)
    """
    from scipy.linalg import get_lapack_funcs

    # LAPACK's wrapper takes no matrix of one row
    if len(a) == 1:
        return (d / a[0], None) if a[0] != 0 else (d, 0)
    (solver,) = get_lapack_funcs(("gtsv",), (a, d))
    *_factors, x, info = solver(b[1:], a, c[:-1], d)
    return x, (info - 1 if info > 0 else None)


def _interior(
    a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], d: NDArray[Any]
) -> tuple[float, NDArray[Any], NDArray[Any]]:
    """Reduce one piece with pivoting; return the growth, links (4,) and loads (k, 2)."""
    # the last row of a piece is its joint line
    m, k = len(a) - 1, d.shape[0]
    links, loads = np.array([0, -1, -1, 0], a.dtype), np.zeros((k, 2), a.dtype)
    if m == 0:
        return 0.0, links, loads
    # right-hand sides, and one more for each joint line: how the interior answers to x there
    rhs = np.zeros((m, k + 2), a.dtype, order="F")
    rhs[:, :k] = d[:, :m].T
    rhs[0, k], rhs[-1, k + 1] = b[0], c[m - 1]
    y, row = gtsv(a[:m], b[:m], c[:m], rhs)
    if row is not None or not np.isfinite(y).all():
        return np.inf, links, loads
    # an interior near a singular one answers with large numbers, which cancel later
    growth = float(np.abs(y[:, k:]).max())
    return growth, np.array([y[0, k], y[0, k + 1], y[-1, k], y[-1, k + 1]]), y[[0, -1], :k].T


def stubborn(
    first: int, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], d: NDArray[Any], depth: int = DEPTH
) -> Reduced:
    """Reduce a piece that elimination without pivoting does not: pivoting, and another joint line where that fails, too.

    A joint line inside the piece takes the role of the shifted joint lines of :mod:`qsim.tridiag.solver.ladder`: an interior
    that is singular by itself becomes two that are not.

    Parameters
    ----------
    first
        Row of the system that the piece begins with.
    a, b, c : (rows,), d : (k, rows)
        The piece, its joint line last.
    """
    whole = _interior(a, b, c, d)
    rows = len(a)
    # good enough, or no better cut can be expected: the residual of the whole system decides then
    if whole[0] <= GROWTH or depth == 0 or rows < 2:
        _growth, links, loads = whole
        joint, one = np.array([first + rows - 1], np.int64), np.ones(1, np.uint8)
        return Reduced(joint, links[None], loads[:, None], a[-1:], b[-1:], c[-1:], d[:, -1:], one)

    def growth(cut: int) -> float:
        left, right = slice(0, cut + 1), slice(cut + 1, rows)
        return max(
            _interior(a[left], b[left], c[left], d[:, left])[0],
            _interior(a[right], b[right], c[right], d[:, right])[0],
        )

    # places for another joint line: the ends, the middle, the largest diagonal element; the one with the least growth is taken
    middle = (rows - 1) // 2
    large = int(np.argmax(np.abs(a[: rows - 1])))
    places = {0, 1, 2, middle - 1, middle, middle + 1, large, rows - 4, rows - 3, rows - 2}
    best = min(sorted(cut for cut in places if 0 <= cut < rows - 1), key=growth)
    # each half may be cut again
    parts = []
    for part, start in ((slice(0, best + 1), 0), (slice(best + 1, rows), best + 1)):
        parts.append(stubborn(first + start, a[part], b[part], c[part], d[:, part], depth - 1))
    return Reduced.join(parts)


def substitute(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    d: NDArray[Any],
    left: NDArray[Any],
    right: NDArray[Any],
) -> NDArray[Any]:
    """Return the interior (k, m) of a piece from x at the joint lines before and after it (k,), with pivoting."""
    # the joint lines are known and go to the right-hand side of the first and the last row
    m = len(a) - 1
    rhs = np.array(d[:, :m].T, order="F")
    rhs[0] -= b[0] * left
    rhs[-1] -= c[m - 1] * right
    # a vanishing pivot leaves the right-hand side: the residual tells
    x, _row = gtsv(a[:m], b[:m], c[:m], rhs)
    return np.asarray(x.T)
