r"""Energies of several time steps, extrapolated to zero.

The fixed-node energy of a time step is :math:`E(\tau) = E_0 + a\tau + b\tau^2 + \dots`; independent runs are
fitted by least squares with the inverse squares of their error bars as weights, and the covariance of the
coefficients is :math:`(X^T W X)^{-1}`: that of the error bars.

**Truncation.**  A polynomial of degree p leaves out the power p + 1.  Its coefficient c moves the fit at zero by :math:`cq`,
where q is the value at zero of such a fit to :math:`\tau^{p+1}`.  The coefficients of a series in :math:`\tau\Lambda`, with the
highest energy :math:`\Lambda` of the problem, fall off as its powers do, so that :math:`|c|\le\Lambda(|c_p|+\delta c_p)` is
expected; a fit of degree p + 1, if there are enough time steps, may say that it is smaller.  The smaller one of both times
:math:`|q|` is added to the error in quadrature.  Where the fit is poor, errors are scaled by :math:`\sqrt{\chi^2/\nu}`, too.

**Window.**  Branching takes local energies only within a window around the mean.  While it cuts off much of them, as of a poor
trial function in the core of a pseudopotential or at a nucleus, E is no power series: for :math:`E_L\sim c/r` it has all powers
of :math:`\sqrt\tau`.  The energy is wrong by about the mean of what is cut off, which vanishes with the time step; where the
same fit to that does not, as much is left of it in the energy at zero, and is added in quadrature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from qsim.core.errors import NumericsError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["ORDERS", "Extrapolation", "bounded", "curve", "extrapolate"]

Order = Literal["linear", "quadratic"]
LARGEST_RATIO = 1.0  # of neighbouring coefficients, in the highest energy of the problem
POOR = 0.01  # chance of a larger chi squared below which errors are scaled
ORDERS: dict[str, int] = {"linear": 1, "quadratic": 2}


class Extrapolation(NamedTuple):
    """A fit of energies to time steps.

    Attributes
    ----------
    value, error : float
        Energy at zero time step (hartree).
    chi2 : float
        Sum of squared residuals over squared errors.
    coefficients : (order + 1,) float64
        Ascending powers of the time step; the first is the value.
    covariance : (order + 1, order + 1) float64
        Of the coefficients.
    degrees : int
        Degrees of freedom: time steps minus coefficients.
    truncation : float
        Part of the error (hartree) that stands for what is left out; 0 if it was not requested.
    cut : float
        Of that, what the window of branching leaves.
    """

    value: float
    error: float
    chi2: float
    coefficients: NDArray[np.float64]
    covariance: NDArray[np.float64]
    degrees: int
    truncation: float = 0.0
    cut: float = 0.0

    @property
    def probability(self) -> float:
        """Chance that good data of these errors have a larger chi squared; 1 without degrees of freedom."""
        if self.degrees == 0:
            return 1.0
        from scipy.special import gammaincc

        return float(gammaincc(0.5 * self.degrees, 0.5 * self.chi2))


def extrapolate(
    taus: ArrayLike, energies: ArrayLike, errors: Sequence[float | None] | ArrayLike, order: Order = "linear"
) -> Extrapolation:
    """Extrapolate energies to zero time step.

    Parameters
    ----------
    taus : (runs,) float64
        Time steps (atomic units), positive.
    energies, errors : (runs,) float64
        Energies of independent runs and their errors (hartree).  An error may be None, which is refused.
    order
        ``"linear"`` or ``"quadratic"``; the latter has both powers.

    Returns
    -------
    Extrapolation

    Raises
    ------
    NumericsError
        If there are fewer different time steps than coefficients, or an error bar is missing, zero or not finite.
    """
    if order not in ORDERS:
        raise ValueError(f"order '{order}' is not one of {', '.join(ORDERS)}")
    given = list(np.atleast_1d(np.asarray(errors, dtype=object)))
    if any(error is None for error in given):
        raise NumericsError(
            "the extrapolation to zero time step needs an error bar at every time step", hint="raise blocks"
        )
    x, y, e = (np.atleast_1d(np.asarray(values, dtype=np.float64)) for values in (taus, energies, given))
    if not x.shape == y.shape == e.shape or x.ndim != 1:
        raise ValueError(f"taus, energies and errors differ in shape: {x.shape}, {y.shape}, {e.shape}")
    if not np.all(np.isfinite([x, y, e])) or np.any(x <= 0):
        raise NumericsError(
            f"time steps {x}, energies {y} or errors {e} are not finite, or a time step not positive"
        )
    degree = ORDERS[order]
    if np.unique(x).size < degree + 1:
        raise NumericsError(
            f"a {order} extrapolation needs {degree + 1} different time steps, {np.unique(x).size} given",
            hint="add timesteps" + (" or use extrapolate: linear" if degree == 2 else ""),
        )
    if np.any(e <= 0):
        raise NumericsError(
            f"error bars must be positive to weight a fit, not {e.min():g}", hint="raise blocks"
        )
    unit = float(np.max(x))  # powers of numbers up to 1 keep the matrix well conditioned
    powers = (x[:, None] / unit) ** np.arange(degree + 1)
    offset = float(np.mean(y))  # differences of energies, not energies, are what the errors are relative to
    q, r = np.linalg.qr(powers / e[:, None])
    back = np.linalg.inv(r)
    scaled = back @ (q.T @ ((y - offset) / e))
    chi2 = float(np.sum(((y - offset - powers @ scaled) / e) ** 2))
    scale = unit ** -np.arange(degree + 1.0)
    covariance = (back @ back.T) * np.outer(scale, scale)
    coefficients = scaled * scale
    coefficients[0] += offset
    value, error = float(coefficients[0]), float(np.sqrt(covariance[0, 0]))
    return Extrapolation(value, error, chi2, coefficients, covariance, x.size - degree - 1)


def bounded(
    fit: Extrapolation,
    taus: ArrayLike,
    energies: ArrayLike,
    errors: ArrayLike,
    cut: ArrayLike,
    order: Order,
    scale: float,
) -> Extrapolation:
    """Return a fit whose error has a part for the powers that are left out.

    Parameters
    ----------
    fit
        What `extrapolate` made of the rest.
    taus, energies, errors, order
        As there.
    cut : (runs,) float64
        Mean of what the window of branching cuts off from local energies, hartree.
    scale
        Highest energy of the problem, hartree.

    Returns
    -------
    Extrapolation
        With the same value and a larger error.
    """
    x, y, e, c = (np.asarray(values, np.float64) for values in (taus, energies, errors, cut))
    degree = ORDERS[order]
    unit = float(x.max())
    powers = (x[:, None] / unit) ** np.arange(degree + 1)

    def at_zero(values: NDArray[np.float64]) -> float:
        return float(np.linalg.lstsq(powers / e[:, None], values / e, rcond=None)[0][0])

    lever = at_zero((x / unit) ** (degree + 1))
    last = abs(float(fit.coefficients[degree])) + float(np.sqrt(fit.covariance[degree, degree]))
    missing = LARGEST_RATIO * scale * last * unit ** (degree + 1)
    if np.unique(x).size > degree + 1:
        more = (x[:, None] / unit) ** np.arange(degree + 2)
        q, r = np.linalg.qr(more / e[:, None])
        back = np.linalg.inv(r)
        found = back @ (q.T @ ((y - y.mean()) / e))
        noise = float(np.sqrt((back @ back.T)[-1, -1]))
        missing = min(missing, abs(float(found[-1])) + noise)
    left = abs(at_zero(c))
    truncation = float(np.hypot(missing * lever, left))
    stretch = max(1.0, fit.chi2 / fit.degrees) if fit.degrees and fit.probability < POOR else 1.0
    error = float(np.sqrt(fit.error**2 * stretch + truncation**2))
    return fit._replace(error=error, truncation=truncation, cut=left)


def curve(fit: Extrapolation, taus: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the fitted energy and its error at time steps (points,), for plots."""
    powers = np.asarray(taus, dtype=np.float64)[:, None] ** np.arange(fit.coefficients.size)
    return powers @ fit.coefficients, np.sqrt(np.einsum("pi,ij,pj->p", powers, fit.covariance, powers))
