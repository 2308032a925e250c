r"""Phases of elastic scattering: the polarised target beyond the box, branches, and the scattering length.

The incident wave is cut off at R, and with it what the target's polarisation, ``-alpha/(2 r^4)``, does to it further out.  In
first order that is

    delta_R = (alpha/k) int_R^inf [F_L(kr) cos delta + G_L(kr) sin delta]^2 r^-4 dr,

which is added to the phase.  The same tail gives the S wave at small k its expansion (T. F. O'Malley, L. Spruch and L. Rosenberg,
J. Math. Phys. 2, 491 (1961)),

    k cot delta = -1/a + pi alpha k/(3 a^2) + (2 alpha k^2/(3 a)) ln(alpha k^2/16) + c k^2 + d k^3 + ...,

with the scattering length a.  A phase is continuous in the energy, and goes to n pi at k = 0 with n bound states or states that
Pauli's principle excludes (Levinson): n = 1 for S waves of both spins on a neutral target.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FEWEST", "LARGEST", "Length", "beyond", "continuous", "scattering_length"]

# Largest k of the expansion, 1/bohr, and fewest energies up to it.
LARGEST, FEWEST = 0.25, 4
# Most coefficients of powers from k^2 on.
COEFFICIENTS = 3
# Relative error of the part beyond the box, of which the first order is taken.
FIRST_ORDER = 0.3
# Points of its integral over R/r.
POINTS = 600


class Length(NamedTuple):
    """A scattering length, bohr: from all energies with all coefficients, and from other choices of both."""

    value: float
    spread: float


def beyond(alpha: float, L: int, k: float, delta: float, R: float) -> float:
    """Return what the polarised target beyond R adds to a phase, radian.

    Parameters
    ----------
    alpha : float
        Dipole polarisability of a neutral target, bohr^3.
    L : int
        Orbital momentum of the electron outside.
    k : float
        Wave number, 1/bohr.
    delta : float
        Phase without this part, radian.
    R : float
        Bohr.
    """
    if alpha == 0.0:
        return 0.0
    from scipy.special import spherical_jn, spherical_yn

    # With x = R/r the integral is one over (0, 1); at small x the wave oscillates, but x^2 suppresses it.
    nodes, weights = np.polynomial.legendre.leggauss(POINTS)
    x, w = 0.5 * (nodes + 1.0), 0.5 * weights
    rho = k * R / x
    wave = rho * (math.cos(delta) * spherical_jn(L, rho) - math.sin(delta) * spherical_yn(L, rho))
    return float(alpha / (k * R**3) * (w @ (wave**2 * x**2)))


def continuous(
    delta: NDArray[np.float64], k: NDArray[np.float64], first: tuple[float, float]
) -> NDArray[np.int64]:
    """Return how many times pi is to be added to phases (n,) modulo pi, so that they are continuous in k.

    Parameters
    ----------
    delta : (n,) float64
        In [0, pi); NaN where there is no phase.
    k : (n,) float64
        Wave numbers in any order.
    first : (float, float)
        Interval of length pi that the phase of the smallest k lies in.
    """
    out = np.zeros(delta.size, np.int64)
    before = None
    for i in np.argsort(k):
        if not np.isfinite(delta[i]):
            continue
        middle = 0.5 * (first[0] + first[1]) if before is None else before
        out[i] = round((middle - delta[i]) / math.pi)
        before = float(delta[i] + math.pi * out[i])
    return out


def scattering_length(k: NDArray[np.float64], delta: NDArray[np.float64], alpha: float) -> Length:
    """Return the scattering length that S-wave phases (n,) at wave numbers k (n,) have at k = 0.

    Parameters
    ----------
    k : (n,) float64
        1/bohr; at least `FEWEST`.
    delta : (n,) float64
        Radian, modulo pi.
    alpha : float
        Dipole polarisability of the target, bohr^3.
    """
    order = np.argsort(k)
    k, delta = k[order], delta[order]
    # The fit must not pass through all points by having as many coefficients.
    count = min(COEFFICIENTS, k.size - 2)
    value = _fitted(k, delta, alpha, count)
    others = [
        _fitted(k[:-1], delta[:-1], alpha, count),
        _fitted(k[1:], delta[1:], alpha, count),
        _fitted(k[:-1], delta[:-1], alpha, count - 1),
    ]
    return Length(value, max(abs(other - value) for other in others))


def _fitted(k: NDArray[np.float64], delta: NDArray[np.float64], alpha: float, count: int) -> float:
    """Return the scattering length of one fit with a number of coefficients from k^2 on."""
    from scipy.optimize import least_squares

    # The expansion of a short-range potential is one in k^2.
    powers = [k ** (2 + (j if alpha else 2 * j)) for j in range(count)]
    y = k / np.tan(delta)
    # equal weights for phases: d(k cot delta) = -k / sin^2(delta) d(delta)
    weights = np.sin(delta) ** 2 / k
    logarithm = np.log(alpha * k**2 / 16.0) if alpha else np.zeros_like(k)

    def missed(p: NDArray[np.float64]) -> NDArray[np.float64]:
        inverse = p[0]
        known = -inverse + math.pi * alpha / 3.0 * inverse**2 * k
        known = known + 2.0 * alpha / 3.0 * inverse * k**2 * logarithm
        return np.asarray((known + sum(c * x for c, x in zip(p[1:], powers, strict=True)) - y) * weights)

    start = np.concatenate(([-y[0]], np.zeros(count)))
    found = least_squares(missed, start, x_scale=np.maximum(np.abs(start), 0.3), xtol=1e-12, ftol=1e-14)
    return float(1.0 / found.x[0])
