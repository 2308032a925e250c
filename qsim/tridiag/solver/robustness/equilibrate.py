"""Equilibration: rows and columns of a tridiagonal matrix scaled by powers of two before it is judged.

Whether a matrix is singular must not depend on the units of its equations and unknowns: ``diag(1e30, 2, 2, ...)`` has the
condition number 1e30 and is as harmless as the unit matrix.  ``(R T C) y = R d``, ``x = C y`` (Eq. T3) is the same system; with
powers of two as scales the entries keep all their bits.  The scales follow from the heaviest matching of the matrix
(:mod:`qsim.tridiag.kernels.partition.matching`), whatever its rows and columns were multiplied with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.tridiag.kernels.partition.matching import NOTHING, matching_scales

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Scales", "find", "ldexp", "spread"]

# of rows and columns of a matrix without a matching
SWEEPS = 12


@dataclass(frozen=True)
class Scales:
    """Exponents of the scales of a batch.

    Attributes
    ----------
    rows, columns : (systems, n) int32
        ``R = 2^rows``, ``C = 2^columns``.
    """

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]

    @property
    def worst(self) -> int:
        """Largest difference of two exponents, of rows or of columns, in any system."""
        return int(max(np.ptp(self.rows, axis=1).max(), np.ptp(self.columns, axis=1).max()))

    @property
    def farthest(self) -> int:
        """Largest size of an exponent: how far elements lie from 1."""
        return int(max(np.abs(self.rows).max(), np.abs(self.columns).max()))

    def matrix(
        self, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the bands of ``R T C``; ``b[:, 0]`` and ``c[:, -1]`` count as the corners of a cyclic matrix."""
        left, right = np.roll(self.columns, 1, axis=1), np.roll(self.columns, -1, axis=1)
        return (
            ldexp(a, self.rows + self.columns),
            ldexp(b, self.rows + left),
            ldexp(c, self.rows + right),
        )

    def rhs(self, d: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return ``2^-e R d``, d (systems, n), and e (systems, 1), with which the largest element is about 1."""
        exponents = _exponents(d) + self.rows
        top = exponents.max(axis=1, keepdims=True)
        # a zero right-hand side keeps its scale
        top = np.where(top > NOTHING // 2, top, 0).astype(np.int32)
        return ldexp(d, self.rows - top), top

    def solution(self, y: NDArray[Any], top: NDArray[np.int32]) -> NDArray[Any]:
        """Return ``2^e C y``, y (systems, n), for the e of :meth:`rhs`."""
        return ldexp(y, self.columns + top)

    def sizes(self, y: NDArray[Any], top: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the exponents of the elements of :meth:`solution`, which need not be in the range of the precision."""
        return _exponents(y) + self.columns + top


def find(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> Scales:
    """Return the scales of a batch of matrices.

    Parameters
    ----------
    a, b, c : (systems, n)
        Diagonal, lower, upper; ``b[:, 0]`` and ``c[:, -1]`` are the corners of a cyclic matrix, zero in others.
    """
    main, lower, upper = (_exponents(band) for band in (a, b, c))
    rows, columns = np.zeros(a.shape, np.int64), np.zeros(a.shape, np.int64)
    for s in range(a.shape[0]):
        scales = matching_scales(main[s], lower[s], upper[s])
        # without a perfect matching there are no such scales
        # singular by its pattern, which elimination will find
        if scales is None:
            return _alternating(main, lower, upper)
        rows[s], columns[s] = scales
    return Scales(_limited(rows), _limited(columns))


def _limited(exponents: NDArray[np.int64]) -> NDArray[np.int32]:
    return np.clip(exponents, -(1 << 20), 1 << 20).astype(np.int32)


def _alternating(main: NDArray[np.int64], lower: NDArray[np.int64], upper: NDArray[np.int64]) -> Scales:
    """Return scales that make the largest entry of every row, then of every column, about 1, until nothing changes."""
    rows, columns = np.zeros_like(main), np.zeros_like(main)
    for _sweep in range(SWEEPS):
        left, right = np.roll(columns, 1, axis=1), np.roll(columns, -1, axis=1)
        largest = np.maximum(np.maximum(main + columns, lower + left), upper + right)
        rows = np.where(largest > NOTHING // 2, -largest, 0)
        # the same for columns, with the entries of the rows below and above
        below, above = np.roll(lower + rows, -1, axis=1), np.roll(upper + rows, 1, axis=1)
        largest = np.maximum(np.maximum(main + rows, below), above)
        change = np.where(largest > NOTHING // 2, -largest, 0) - columns
        columns = columns + change
        if not change.any():
            break
    return Scales(_limited(rows), _limited(columns))


def spread(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> int:
    """Return the largest difference of the exponents of two rows' largest entries in any system."""
    largest = np.maximum(np.maximum(_exponents(a), _exponents(b)), _exponents(c))
    # rows of zeros have no size
    lowest = np.where(largest > NOTHING // 2, largest, largest.max(axis=1, keepdims=True))
    return int((largest.max(axis=1) - lowest.min(axis=1)).max())


def ldexp(values: NDArray[Any], exponents: NDArray[np.int32]) -> NDArray[Any]:
    """Return ``values 2^exponents`` in the precision of the values; what underflows is zero."""
    with np.errstate(under="ignore", over="ignore"):
        if not np.iscomplexobj(values):
            return np.asarray(np.ldexp(values, exponents))
        # NumPy's ldexp takes real numbers only
        out = np.empty(values.shape, values.dtype)
        out.real, out.imag = np.ldexp(values.real, exponents), np.ldexp(values.imag, exponents)
    return out


def _exponents(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return e with ``2^(e - 1) <= max(|Re z|, |Im z|) < 2^e``, `NOTHING` for zero."""
    size = np.maximum(np.abs(values.real), np.abs(values.imag))
    return np.where(size > 0, np.frexp(size)[1].astype(np.int64), NOTHING)
