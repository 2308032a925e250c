"""Residuals of a solution that is kept elsewhere, block by block: for refinement, profiles and the row-wise error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.kernels.partition.stages import smallest_row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Array
    from qsim.tridiag.solver.systems import Source, Stored

__all__ = ["Defect", "largest_share", "size"]

# rows that are looked at together
CHUNK = 1 << 18


class Defect:
    """The system of a correction: same matrix, ``d - T x`` on the right; read in order, while x is being corrected."""

    def __init__(self, source: Source, x: Stored) -> None:
        self._source, self._x = source, x
        self.n, self.columns, self.dtype, self.name = source.n, source.columns, source.dtype, source.name
        self._before: tuple[int, Any] = (
            -1,
            None,
        )  # row before the next block, and x there before its correction

    def read(self, lo: int, hi: int) -> tuple[Any, Any, Any, Any]:
        """Return the rows lo .. hi - 1."""
        a, b, c, d = self._source.read(lo, hi)
        x = np.asarray(self._x[lo : min(hi + 1, self.n)]).reshape(-1, self.columns).T
        here = x[:, : hi - lo]
        r = d - a * here
        r[:, :-1] -= c[:-1] * here[:, 1:]
        r[:, 1:] -= b[1:] * here[:, :-1]
        if hi < self.n:
            r[:, -1] -= c[-1] * x[:, -1]
        # the row before this block may have been corrected since: its old value was kept for this residual
        if lo > 0:
            row, value = self._before
            if row != lo - 1:
                value = np.asarray(self._x[lo - 1]).reshape(self.columns)
            r[:, 0] -= b[0] * value
        self._before = (hi - 1, here[:, -1].copy())
        return a, b, c, np.ascontiguousarray(r, dtype=self.dtype)

    def rowwise(self, rows: int = CHUNK) -> float:
        """Return the row-wise backward error, the largest ``|d - T x| / (|T| |x| + |d|)`` of a row; see :func:`largest_share`.

        Parameters
        ----------
        rows
            Rows that are read together.
        """
        worst = 0.0
        for lo in range(0, self.n, rows):
            hi = min(self.n, lo + rows)
            a, b, c, d = self._source.read(lo, hi)
            first, last = max(lo - 1, 0), min(hi + 1, self.n)
            # with the rows before and after
            x = np.zeros((self.columns, hi - lo + 2), self.dtype)
            x[:, first - lo + 1 : last - lo + 1] = np.asarray(self._x[first:last]).reshape(-1, self.columns).T
            below, here, above = x[:, :-2], x[:, 1:-1], x[:, 2:]
            with np.errstate(all="ignore"):
                r = d - a * here - b * below - c * above
                whole = size(a) * size(here) + size(b) * size(below) + size(c) * size(above) + size(d)
            worst = max(worst, largest_share(r, whole))
        return worst


def size(z: Array) -> Array:
    """Return ``|Re z| + |Im z|``, which cannot overflow where z does not."""
    return abs(z.real) + abs(z.imag)


def largest_share(r: NDArray[Any], whole: NDArray[Any]) -> float:
    """Return the largest ``|r| / whole`` (Eq. T23); infinite if one is not a number.

    W. Oettli and W. Prager, Numer. Math. 6, 405 (1964).

    Scales of rows and columns do not change it, so that large unknowns cannot hide what is wrong with small ones.  Rows that
    underflow (:func:`~qsim.tridiag.kernels.partition.stages.smallest_row`) do not count.

    Parameters
    ----------
    r
        Residuals ``d - T x``.
    whole
        ``|T| |x| + |d|``, real, of the same shape.
    """
    with np.errstate(all="ignore"):
        share = np.where(whole > smallest_row(r.dtype), size(r) / whole, 0.0)
    return float(np.max(np.where(np.isnan(share), np.inf, share), initial=0.0))
