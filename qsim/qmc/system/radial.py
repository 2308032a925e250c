r"""Radial functions and their tables: quintic polynomials on a grid that is graded towards the nucleus.

A radial function is anything that maps radii (n,) to its values and first two derivatives (`Jet`).  Orbitals and pseudopotentials
of Slater, oscillator and Gaussian kind are sums of ``c r^p exp(-a r - b r^2)`` (`Terms`); corrections at the nuclei and
tabulated pseudopotentials bring functions of their own.

Kernels see only tables.  The grid cuts [0, 2^-6) bohr and every octave [2^k, 2^(k+1)), k = -6 ... 4, into 32 equal intervals,
so that interval and place in it follow from the bits of r.  In an interval of width h the function is the quintic of
t = (r - r_i) / h that has the function's value, slope and curvature at both ends: tables are twice continuously differentiable,
as kinetic energies need, and their error is at most h^6 max|f^(6)| / 46080.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qsim.qmc.kernels.common.types import BINS, OCTAVES, SMALLEST

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "INTERVALS",
    "KNOTS",
    "LARGEST",
    "Jet",
    "RadialFunction",
    "Terms",
    "evaluate",
    "knot_at_or_after",
    "reach_of",
    "table",
]

INTERVALS = BINS * (OCTAVES + 1)
LARGEST = SMALLEST * 2.0**OCTAVES  # bohr: end of the grid
NEGLIGIBLE = 1e-13  # of the largest value of r^l f: what lies farther out is cut off


class Jet(NamedTuple):
    """Values, slopes and curvatures of a function, each (n,) float64."""

    value: NDArray[np.float64]
    slope: NDArray[np.float64]
    curvature: NDArray[np.float64]


RadialFunction = Callable[["NDArray[np.float64]"], Jet]


def _knots() -> NDArray[np.float64]:
    # Equal intervals below the first octave, and as many in each octave: widths grow with r,
    # as functions vary.
    inner = np.arange(BINS) * (SMALLEST / BINS)
    octaves = [SMALLEST * 2.0**k * (1.0 + np.arange(BINS) / BINS) for k in range(OCTAVES)]
    return np.concatenate([inner, *octaves, [LARGEST]])


KNOTS = _knots()  # (INTERVALS + 1,) bohr, exact in binary


@dataclass(frozen=True)
class Terms:
    """The radial function ``sum_k c_k r^p_k exp(-a_k r - b_k r^2)``.

    Parameters
    ----------
    c, a, b : (k,) float64
        Coefficients, and exponents in 1/bohr and 1/bohr^2.
    p : (k,) int64
        Powers, not negative.
    """

    c: NDArray[np.float64]
    p: NDArray[np.int64]
    a: NDArray[np.float64]
    b: NDArray[np.float64]

    @classmethod
    def of(cls, c: ArrayLike, p: ArrayLike = 0, a: ArrayLike = 0.0, b: ArrayLike = 0.0) -> Terms:
        """Build from numbers or lists, each broadcast to the number of terms."""
        c, p, a, b = np.broadcast_arrays(np.atleast_1d(np.asarray(c, np.float64)), p, a, b)
        power = np.array(p, np.int64)
        if np.any(power < 0):
            raise ValueError(f"powers of a regular radial function are not negative, found {power.tolist()}")
        return cls(c.copy(), power, np.array(a, np.float64), np.array(b, np.float64))

    def __call__(self, r: NDArray[np.float64]) -> Jet:
        """Return the jet at radii (n,) in bohr, r = 0 included."""
        r = np.asarray(r, np.float64)
        x = r[..., None]
        p = self.p
        # d/dr of the exponent is -rate; products of powers and exponentials are
        # differentiated term by term, r = 0 included.
        rate = self.a + 2.0 * self.b * x
        g = self.c * np.exp(-(self.a + self.b * x) * x)

        def power(k: int) -> NDArray[np.float64]:  # 0 where its factor p (p - 1) ... is 0
            return np.asarray(x ** np.maximum(p - k, 0))

        value = power(0) * g
        slope = (p * power(1) - rate * power(0)) * g
        curvature = (
            p * (p - 1) * power(2) - 2 * p * rate * power(1) + (rate**2 - 2.0 * self.b) * power(0)
        ) * g
        return Jet(value.sum(-1), slope.sum(-1), curvature.sum(-1))

    def __add__(self, other: Terms) -> Terms:
        """Sum of two functions."""
        return Terms(*(np.concatenate([getattr(self, k), getattr(other, k)]) for k in ("c", "p", "a", "b")))

    def __mul__(self, factor: float) -> Terms:
        """Multiply by a number."""
        return Terms(self.c * factor, self.p, self.a, self.b)


def knot_at_or_after(r: float) -> float:
    """Return the first boundary of the grid that is not below r; the last one for larger r."""
    return float(KNOTS[min(int(np.searchsorted(KNOTS, r)), INTERVALS)])


def reach_of(f: RadialFunction, l: int = 0, negligible: float = NEGLIGIBLE) -> float:
    """Return the grid boundary beyond which ``r^l f`` stays below ``negligible`` times its largest value, bohr."""
    # With r^l, as orbitals have it: diffuse shells of large l reach further.
    size = np.abs(KNOTS**l * f(KNOTS).value)
    present = np.flatnonzero(size > negligible * size.max())
    return 0.0 if present.size == 0 else float(KNOTS[min(present[-1] + 1, INTERVALS)])


def table(f: RadialFunction, rmax: float = LARGEST) -> NDArray[np.float64]:
    """Tabulate a radial function.

    Parameters
    ----------
    f
        Maps radii to a `Jet`.
    rmax
        Intervals that begin at or beyond it are zero, bohr.

    Returns
    -------
    (INTERVALS, 6) float64
        Coefficients of t^0 ... t^5.
    """
    begin, end = KNOTS[:-1], KNOTS[1:]
    h = end - begin
    # A quintic on each interval that has value, slope and curvature of f at both ends: twice
    # continuously differentiable, as kinetic energies need it.
    y0, s0, c0 = f(begin)
    y1, s1, c1 = f(end)
    s0, s1, c0, c1 = h * s0, h * s1, h * h * c0, h * h * c1
    # Hermite conditions at t = 0 and t = 1; D, E, F are what the first three powers leave at t = 1
    D = y1 - y0 - s0 - 0.5 * c0
    E = s1 - s0 - c0
    F = c1 - c0
    out = np.stack(
        [
            y0,
            s0,
            0.5 * c0,
            10.0 * D - 4.0 * E + 0.5 * F,
            -15.0 * D + 7.0 * E - F,
            6.0 * D - 3.0 * E + 0.5 * F,
        ],
        -1,
    )
    out[begin >= rmax] = 0.0
    return out


def evaluate(coefficients: NDArray[np.float64], r: NDArray[np.float64]) -> Jet:
    """Return the jets of a table at radii (n,), bohr; zero from `LARGEST` on.

    Parameters
    ----------
    coefficients : (INTERVALS, 6) real
    """
    r = np.asarray(r, np.float64)
    inside = r < LARGEST
    x = np.where(inside, r, 0.0)
    # Octave and place in it by exponent and mantissa, as the kernels do by bits.
    m, e = np.frexp(np.maximum(x, SMALLEST))
    octave = e - 1 - (np.frexp(SMALLEST)[1] - 1)
    place = np.where(x < SMALLEST, x * (BINS / SMALLEST), (2.0 * m - 1.0) * BINS)
    index = np.floor(place).astype(np.int64)
    t = place - index
    inverse_h = BINS / SMALLEST / np.where(x < SMALLEST, 1.0, 2.0**octave)
    c = coefficients[np.where(x < SMALLEST, index, BINS * (octave + 1) + index)]
    value = c[..., 0] + t * (c[..., 1] + t * (c[..., 2] + t * (c[..., 3] + t * (c[..., 4] + t * c[..., 5]))))
    slope = c[..., 1] + t * (2 * c[..., 2] + t * (3 * c[..., 3] + t * (4 * c[..., 4] + t * 5 * c[..., 5])))
    curvature = 2 * c[..., 2] + t * (6 * c[..., 3] + t * (12 * c[..., 4] + t * 20 * c[..., 5]))
    return Jet(value * inside, slope * inverse_h * inside, curvature * inverse_h**2 * inside)
