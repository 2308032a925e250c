"""Cubic splines, without ``scipy.interpolate``, whose import takes longer than a small run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["cubic_spline"]


def cubic_spline(
    x: NDArray[np.float64], y: NDArray[np.float64], at: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the cubic spline through some points, as ``scipy.interpolate.CubicSpline(x, y)(at)`` does.

    Its third derivative is continuous at the second and at the last but one point ("not a knot"); beyond the ends the outer
    cubics go on.

    Parameters
    ----------
    x : (N,) float64
        Places of the points, ascending; at least four.
    y : (N,) float64
        Values there.
    at : (M,) float64
        Places at which the spline is wanted.

    Returns
    -------
    (M,) float64
        Values of the spline.
    """
    h = np.diff(x)
    chord = np.diff(y) / h
    slope = _slopes(x, h, chord)
    # coefficients of (at - x)^k, k = 3 ... 0, of each interval
    bend = (slope[:-1] + slope[1:] - 2 * chord) / h
    cubic, square = bend / h, (chord - slope[:-1]) / h - bend
    k = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(h) - 1)
    z = at - x[k]
    # powers and terms in the order of SciPy
    return np.asarray(y[k] + slope[k] * z + square[k] * (z * z) + cubic[k] * (z * z * z), dtype=float)


def _slopes(
    x: NDArray[np.float64], h: NDArray[np.float64], chord: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the derivatives (N,) of the spline at its points."""
    from scipy.linalg import solve_banded

    # Second derivatives are continuous: (k+1) h_k-1 s_k-1 + 2 (h_k-1 + h_k) s_k + ... of three neighbours each.
    bands, right = np.zeros((3, len(x))), np.empty(len(x))
    bands[0, 2:] = h[:-1]
    bands[1, 1:-1] = 2 * (h[:-1] + h[1:])
    bands[2, :-2] = h[1:]
    right[1:-1] = 3 * (h[1:] * chord[:-1] + h[:-1] * chord[1:])
    # The third derivative is continuous, too, at the second and at the last but one point; eliminated to two neighbours.
    first, last = x[2] - x[0], x[-1] - x[-3]
    bands[1, 0], bands[0, 1] = h[1], first
    right[0] = ((h[0] + 2 * first) * h[1] * chord[0] + h[0] ** 2 * chord[1]) / first
    bands[1, -1], bands[2, -2] = h[-2], last
    right[-1] = (h[-1] ** 2 * chord[-2] + (2 * last + h[-1]) * h[-2] * chord[-1]) / last
    return np.asarray(solve_banded((1, 1), bands, right), dtype=float)
