r"""Averages of yields over the focus of a Gaussian beam.

Within a beam of peak intensity I0, the volume in which the intensity exceeds I is, with ``c = sqrt(I0 / I - 1)``,

    V = pi w0^2 zR (4 c / 3 + 2 c^3 / 9 - 4 arctan(c) / 3),   -dV/dI = pi w0^2 zR (2 I + I0) sqrt(I0 - I) / (3 I^(5/2))

for a target that is longer than the focus (three dimensions), and ``-dS/dI = pi w0^2 / (2 I)`` for a thin one (two dimensions).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Focus", "focal_average", "least_power"]

# of the focal integral between two intensities
NODES = 48
# true errors over changes by other curves, for yields that saturate: 1 in the median, some 10 with three points
CURVED = 3.0
# yields below this are none
SMALLEST = 1e-300
# of powers: nearer to the least one they cannot be told from it
EDGE = 1e-6
# of the integrals, relative
ROUNDING = 1e-13


class Focus(NamedTuple):
    """Integral of yields over a focus, in units of ``pi w0^2 zR`` (3 dimensions) or ``pi w0^2`` (2).

    Attributes
    ----------
    value, error : (...) float64
        NaN where the integral diverges; the error is infinite where nothing says that it does not.
    below : (...) float64
        What comes from below the first intensity.
    power : (...) float64
        Power of the intensity with which the yield falls off there.
    """

    value: NDArray[np.float64]
    error: NDArray[np.float64]
    below: NDArray[np.float64]
    power: NDArray[np.float64]


def least_power(dimensions: int) -> float:
    """Return the power of the intensity that a yield must exceed at low intensities for its integral to exist.

    The volume with intensities above I grows as ``I^-3/2`` in a long target, and as ``-log I`` in a thin one.
    """
    return 1.5 if dimensions == 3 else 0.0


def focal_average(
    intensity: NDArray[np.float64], values: NDArray[np.float64], peak: float, dimensions: int
) -> Focus:
    """Return the integral of yields over a Gaussian focus.

    Between two intensities a yield is a power law; below the first it goes on with the power between the first two, which is
    integrated analytically.  The error is `CURVED` times the difference from other interpolations of the logarithms, monotonic
    cubics and a spline, and the difference from a tail whose power goes on changing as it does between the first three.

    Parameters
    ----------
    intensity : (k,) float64
        Rising, at least 3.
    values : (k, ...) float64
        Yield at each.
    peak : float
        Peak intensity, one of the list.
    dimensions : int
        3 or 2.
    """
    # yields are power laws of the intensity piece by piece: straight lines in logarithms
    x, logs = np.log(intensity), np.log(np.maximum(values, SMALLEST))
    rise = np.diff(logs, axis=0) / np.diff(x).reshape(-1, *(1,) * (values.ndim - 1))
    power, least = np.asarray(rise[0]), least_power(dimensions)
    # a yield that has already ended has no tail
    some = values[0] > SMALLEST
    # the tail towards low intensities converges if the yield falls faster than the volume grows
    exists = (power > least + EDGE) | ~some
    # distance from divergence: the nearer, the farther down the tail comes from
    margin = np.where(exists & some, power - least, 1.0)
    # the tail comes from about 1 / margin below the first intensity, in logarithms: how its power changes until there
    bend = (rise[1] - rise[0]) / (0.5 * (x[2] - x[0]))
    changed = power - bend * (0.5 * (x[1] - x[0]) + 1.0 / margin)
    below = np.where(some & exists, _tail(intensity[0], values[0], power, peak, dimensions), 0.0)
    other = np.where(some & exists, _tail(intensity[0], values[0], changed, peak, dimensions), 0.0)
    known, change = _known(x, logs, math.log(peak), dimensions)
    value = np.where(exists, known + below, np.nan)
    error = CURVED * change + np.abs(other - below) + ROUNDING * np.abs(value)
    return Focus(value, np.where(exists, error, np.nan), below, power)


def _tail(
    first: float, value: NDArray[np.float64], power: NDArray[np.float64], peak: float, dimensions: int
) -> NDArray[np.float64]:
    """Return the integral of ``value (I / first)^power`` from 0 to `first`; infinite if there is none."""
    from scipy.special import beta, betainc

    exists = power > least_power(dimensions) + EDGE
    p = np.where(exists, power, 3.0)
    # dS / dI = 1 / (2 I): the integral of a power is elementary
    if dimensions == 2:
        integral = value / (2.0 * p)
    else:
        # int u^(p - 5/2) (2 u + 1) sqrt(1 - u) du / 3, u = I / peak: incomplete beta functions
        u = min(first / peak, 1.0)
        parts = 2.0 * beta(p - 0.5, 1.5) * betainc(p - 0.5, 1.5, u) + beta(p - 1.5, 1.5) * betainc(
            p - 1.5, 1.5, u
        )
        integral = value * parts / (3.0 * np.exp(p * math.log(u)))
    return np.where(exists, integral, np.inf)


def _known(
    x: NDArray[np.float64], logs: NDArray[np.float64], top: float, dimensions: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the integral from the first intensity to the peak (logarithms x, top), and what other interpolations change."""
    from scipy.interpolate import PchipInterpolator, make_interp_spline

    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    ends = x[x <= top]
    # in t = sqrt(log(peak / I)) the weight is smooth at the peak
    edges = np.sqrt(top - ends)[::-1]
    width = 0.5 * np.diff(edges)[:, None]
    t = (edges[:-1, None] + width * (1.0 + nodes)).ravel()
    log_i = top - t * t
    u = np.exp(-t * t)
    # dV of Eq. A22 times dI = -2 t I dt
    weight = t if dimensions == 2 else 2.0 * t * (2.0 * u + 1.0) * np.sqrt(-np.expm1(-t * t)) / (3.0 * u**1.5)
    measure = (width * weights).ravel() * weight
    # straight lines, and curves: monotonic ones, and a spline
    curves = (
        make_interp_spline(x, logs, k=1, axis=0),
        PchipInterpolator(x, logs, axis=0),
        make_interp_spline(x, logs, k=3 if x.size > 3 else 2, axis=0),
    )
    # a spline may overshoot
    highest = logs.max(axis=0) + 1.0
    integrals = [
        np.tensordot(measure, np.exp(np.minimum(curve(log_i), highest)), axes=(0, 0)) for curve in curves
    ]
    return integrals[0], np.maximum(np.abs(integrals[1] - integrals[0]), np.abs(integrals[2] - integrals[0]))
