r"""Energy sharing at infinite distance from what finite radii give, with an error.

The product of two one-electron waves is not the wave of two electrons that repel each other: at a finite radius R the density of
energy sharing carries a ripple and a tilt that die out like 1/R.  Densities at several R and energies are fitted together by

    D(x, R) = P(y) + Q(y) / R,        y = (2x - 1)^2,        x = e / E,

with polynomials P and Q: smooth in the energy, symmetric under exchange of the electrons.  The error is the spread between this
fit, one with a lower degree and the plain mean over R, and some of the ripple's root mean square.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Degree of P in y.
DEGREE = 4
# Degree of Q in y.
TILT = 1
# Energies between 0 and E/2.
NODES = 10
# Error of the smooth curve over the rms ripple, which is long-waved in R and energy, and no noise.
RIPPLES = 2.5
# Radii from which a tilt can be fitted.
FEW = 4
# Bohr: with fewer, nothing tells the part of the density that goes like 1/R, which is taken to be this over R.
NEAR = 0.4


def energies() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return shares x = e/E in (0, 1/2) and weights of their integral, (k,)."""
    # Gauss-Legendre on (0, 1/2): the density is symmetric about one half, so that half of the
    # energies suffice.
    x, w = np.polynomial.legendre.leggauss(NODES)
    return 0.25 * (x + 1.0), 0.25 * w


def shares() -> NDArray[np.float64]:
    """Return the shares e/E of stored curves, symmetric about one half."""
    return np.linspace(0.025, 0.975, 39)


@dataclass(frozen=True)
class Sharing:
    """Density of energy sharing, convention *full*.

    Attributes
    ----------
    value, error : (k,) float64
        At the shares of `energies`, extrapolated in 1/R, with its error.
    total, total_error : float
        Integral over x from 0 to 1.
    mean : (k,) float64
        Plain mean over the radii.
    ripple : float
        Root mean square of the residuals of the fit, relative to the largest value.
    """

    value: NDArray[np.float64]
    error: NDArray[np.float64]
    total: float
    total_error: float
    mean: NDArray[np.float64]
    ripple: float
    _coefficients: NDArray[np.float64]

    def at(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the fit at other shares."""
        y = (2.0 * np.asarray(x) - 1.0) ** 2
        return np.asarray(np.polynomial.polynomial.polyval(y, self._coefficients), float)

    def error_at(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the error at other shares, interpolated."""
        own = energies()[0]
        share = np.minimum(np.asarray(x), 1.0 - np.asarray(x))
        return np.asarray(np.interp(share, own, self.error), float)


def _fit(
    radii: NDArray[np.float64], densities: NDArray[np.float64], degree: int, tilt: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the coefficients of P and the residuals, (R, k)."""
    # One least-squares problem for all radii and energies: the ripple in R averages out within
    # it.
    y = (2.0 * energies()[0] - 1.0) ** 2
    R = np.repeat(radii, y.size)
    every = np.tile(y, radii.size)
    columns = [every**p for p in range(degree + 1)] + [every**p / R for p in range(tilt + 1)]
    A = np.stack(columns, axis=1)
    solution = np.asarray(np.linalg.lstsq(A, densities.ravel(), rcond=None)[0], float)
    return solution[: degree + 1], densities - (A @ solution).reshape(densities.shape)


def extrapolate(radii: NDArray[np.float64], densities: NDArray[np.float64]) -> Sharing:
    """Return the sharing at infinite radius.

    Parameters
    ----------
    radii : (R,) float64
        Bohr; with fewer than `FEW` only the mean is taken.
    densities : (R, k) float64
        At the shares of `energies`.
    """
    x, w = energies()
    # the sharing is symmetric about E/2: a polynomial in the square of the distance from it
    y = (2.0 * x - 1.0) ** 2
    mean = densities.mean(axis=0)
    plain, rest = _fit(radii, densities, DEGREE, -1)
    # The amplitude at a finite radius oscillates and drifts like 1/R: a fit of all radii with a tilt in 1/R, and
    # beside it without, and with one degree less. Their differences are the error of the fit.
    choices = [plain]
    if radii.size >= FEW:
        tilted, rest = _fit(radii, densities, DEGREE, TILT)
        choices = [tilted, plain, _fit(radii, densities, DEGREE - 1, TILT)[0]]
    curves = np.array([np.polynomial.polynomial.polyval(y, c) for c in choices])
    ripple = float(np.sqrt((rest**2).mean()))
    error = np.hypot(np.abs(curves - curves[0]).max(axis=0), RIPPLES * ripple)
    # few radii do not show the drift, which is then claimed as an error
    unseen = NEAR / float(radii.max()) if radii.size < FEW else 0.0
    error = error + unseen * np.abs(curves[0])
    totals = 2.0 * (curves @ w)
    by_radius = 2.0 * (densities @ w)
    scatter = float(by_radius.std()) / max(1.0, np.sqrt(radii.size - 1.0))
    return Sharing(
        value=curves[0],
        error=error,
        total=float(totals[0]),
        total_error=float(np.hypot(np.abs(totals - totals[0]).max(), scatter) + unseen * abs(totals[0])),
        mean=mean,
        ripple=ripple / max(float(np.abs(mean).max()), 1e-300),
        _coefficients=choices[0],
    )
