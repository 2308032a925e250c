r"""Resonances of a cross section: poles of the model, and fits of Fano's profile.

Near a pole ``E_r - i Gamma/2`` with the dipole element d of its vector, normalised without conjugation, ``(q - i)^2`` is
parallel to ``d^2``, so that

    q = -Re d / Im d,     sigma_a = 4 pi alpha omega (2 / Gamma) (Im d)^2,
    sigma = sigma_a (q + eps)^2 / (1 + eps^2) + sigma_b,     eps = (E - E_r) / (Gamma / 2).

Fano, Phys. Rev. 124, 1866 (1961); ``rho^2 = sigma_a / (sigma_a + sigma_b)`` is 1 where one channel is open.  The fit multiplies
the profile by ``1 + slope eps``, as sigma_a and sigma_b change with the energy, and takes the window of six widths either way;
its errors hold what four and eight widths change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["Fit", "Pole", "fit", "matched", "profile", "resonances", "shifts", "window"]

# Share of the slope of the rotated continuum above which a pole belongs to it.
ROTATED = 0.35
# Hartree: largest width that is a resonance, and smallest one that is told from a bound level.
WIDEST, NARROWEST = 0.05, 1e-9
# Largest change of a pole with the latest nodes, relative to its width.
SETTLED = 0.3
# Largest ratio of the widths of one resonance in two spectra.
ALIKE = 5.0
# Widths on either side of a fit, and those that tell its error.
WINDOW, OTHERS = 6.0, (4.0, 8.0)
# Ratio of the widths of fit and pole from which they are not of the same resonance.
STRAYED = 2.0
# Widths on either side of a resonance that move with it, at most so much of the distance to the next one; distance over the shift
# within which the shift ends.
AROUND, BETWEEN, GENTLE = 7.0, 0.45, 10.0
# Energies of a fit.
POINTS = 49
# Most profiles that a fit computes; from the pole it takes some tens.
CALLS = 600


@dataclass(frozen=True)
class Pole:
    """A resonance from its pole.

    Attributes
    ----------
    energy : complex
        ``E_r - i Gamma/2``, hartree.
    d : (g,) complex128
        Dipole element in every gauge, of photon energy one.
    change : float
        Of the complex energy with the latest nodes of the model, hartree.
    """

    energy: complex
    d: NDArray[np.complex128]
    change: float

    @property
    def width(self) -> float:
        """Gamma, hartree."""
        return -2.0 * self.energy.imag

    def q(self, gauge: int) -> float:
        """Return the profile parameter in a gauge."""
        return float(-self.d[gauge].real / self.d[gauge].imag)

    def height(self, gauge: int, weight: float) -> float:
        """Return sigma_a in a gauge from ``weight = 4 pi alpha omega`` over the powers of omega of the gauge."""
        return float(weight * 2.0 / self.width * self.d[gauge].imag ** 2)


@dataclass(frozen=True)
class Fit:
    """Fano's profile fitted to a cross section, with the errors of the fit.

    Attributes
    ----------
    values, errors : (6,) float64
        Position and width (hartree), q, sigma_a and sigma_b (Mb), slope of both per half width.
    """

    values: NDArray[np.float64]
    errors: NDArray[np.float64]

    @property
    def correlation(self) -> tuple[float, float]:
        """``rho^2`` and its error."""
        a, b = float(self.values[3]), float(self.values[4])
        whole = a + b
        error = math.hypot(b * self.errors[3], a * self.errors[4]) / whole**2
        return a / whole, float(error)


def resonances(
    now: tuple[NDArray[np.complex128], NDArray[np.complex128]],
    before: NDArray[np.complex128],
    span: tuple[float, float],
    thresholds: Sequence[float],
    angle: float,
) -> list[Pole]:
    """Return the resonances among the poles of a model, by energy.

    Parameters
    ----------
    now : (m,), (g, m) complex128
        Complex energies, hartree, and dipole elements.
    before : (b,) complex128
        Complex energies without the latest nodes.
    span : (float, float)
        First and last energy, hartree.
    thresholds : sequence of float
        Energies of the levels of the ion, hartree.
    angle : float
        Of the contour, rad: the continuum above each threshold is turned by twice as much.
    """
    out = []
    for energy, d in zip(now[0], now[1].T, strict=True):
        width = -2.0 * energy.imag
        if not (span[0] < energy.real < span[1] and NARROWEST < width < WIDEST):
            continue
        below = max((level for level in thresholds if level < energy.real), default=-math.inf)
        if 0.5 * width > ROTATED * math.tan(2.0 * angle) * (energy.real - below):
            continue
        change = float(np.abs(before - energy).min()) if before.size else math.inf
        if change <= SETTLED * width:
            out.append(Pole(complex(energy), d, change))
    return sorted(out, key=lambda pole: pole.energy.real)


def matched(pole: Pole, others: Sequence[Pole], reach: float = 1e-3) -> Pole | None:
    """Return the pole of another spectrum that is nearest to one; None if there is none of like width within a reach, hartree."""
    near = [other for other in others if 1.0 / ALIKE < other.width / pole.width < ALIKE]
    if not near:
        return None
    best = min(near, key=lambda other: abs(other.energy - pole.energy))
    return best if abs(best.energy - pole.energy) < max(2.0 * pole.width, reach) else None


def shifts(E: NDArray[np.float64], pairs: Sequence[tuple[Pole, Pole]]) -> NDArray[np.float64]:
    """Return by how much energies (e,), hartree, are moved to keep their distance from resonances that lie elsewhere.

    Each pair holds a resonance and its counterpart there.  Across a resonance the shift is that of the pair, between two it goes
    evenly from one to the other, and far away it is zero.
    """
    places: list[float] = []
    moves: list[float] = []
    edge = -math.inf
    at = np.array([own.energy.real for own, _ in pairs])
    for k in np.argsort(at):
        own, other = pairs[k]
        half = window(own, np.delete(at, k))
        move = other.energy.real - own.energy.real
        reach = half + GENTLE * abs(move)
        if at[k] - reach > edge:
            places += [edge, at[k] - reach] if math.isfinite(edge) else [at[k] - reach]
            moves += [0.0, 0.0] if math.isfinite(edge) else [0.0]
        places += [at[k] - half, at[k] + half]
        moves += [move, move]
        edge = at[k] + reach
    return np.interp(E, [*places, edge], [*moves, 0.0]) if places else np.zeros(E.shape)


def window(pole: Pole, others: NDArray[np.float64]) -> float:
    """Return the half width, hartree, of the energies that belong to a resonance beside others (p,), hartree."""
    apart = float(np.abs(others - pole.energy.real).min(initial=math.inf))
    return min(AROUND * pole.width, BETWEEN * apart)


def profile(E: NDArray[np.float64], *parameters: float) -> NDArray[np.float64]:
    """Return Fano's profile at some energies: E_r, Gamma, q, sigma_a, sigma_b, and the slope of both per half width."""
    E_r, width, q, a, b, slope = parameters
    eps = (E - E_r) / (0.5 * width)
    return np.asarray((a * (q + eps) ** 2 / (1.0 + eps**2) + b) * (1.0 + slope * eps))


def fit(
    sigma: Callable[[NDArray[np.float64]], NDArray[np.float64]], pole: Pole, start: tuple[float, float]
) -> Fit | None:
    """Fit Fano's profile to a cross section near a pole; None if no fit converges.

    Parameters
    ----------
    sigma : callable
        Cross section (e,), Mb, at some energies, hartree.
    pole : Pole
        Where the fit begins.
    start : (float, float)
        q and sigma_a there.
    """
    fitted = [_fit(sigma, pole, start, window) for window in (WINDOW, *OTHERS)]
    if fitted[0] is None:
        return None
    values, errors = fitted[0]
    # A fit that leaves its pole has found something else: other resonances, or the slope of the continuum.
    if not 1.0 / STRAYED < values[1] / pole.width < STRAYED:
        return None
    others = [np.abs(one[0] - values) for one in fitted[1:] if one is not None]
    change = np.max(others, axis=0) if others else np.full(values.size, np.nan)
    return Fit(values, np.hypot(errors, change))


def _fit(
    sigma: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    pole: Pole,
    start: tuple[float, float],
    window: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Fit within a window, given in widths; return parameters and standard errors scaled by the residual."""
    from scipy.optimize import least_squares

    half, centre = 0.5 * pole.width, pole.energy.real
    # Half widths from the centre are the energies of the fit: all parameters are then of order one. Points are dense
    # where the profile turns.
    eps = 2.0 * window * np.sinh(np.linspace(-3.0, 3.0, POINTS)) / math.sinh(3.0)
    values = sigma(centre + half * eps)
    top = float(np.abs(values).max())
    if not top > 0.0:
        return None

    def difference(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return (profile(eps, x[0], 2.0 * x[1], x[2], *x[3:]) - values) / top

    def slopes(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return _slopes(eps, x) / top

    away = 4.0 * window
    background = max(float(values[0]) - start[1] * (start[0] - away) ** 2 / (1.0 + away**2), 0.0)
    first = np.array([0.0, 1.0, start[0], start[1], background, 0.0])
    scale = [0.1, 0.1, 1.0, max(start[1], 1e-12), top, 0.1]
    found = least_squares(difference, first, jac=slopes, method="lm", x_scale=scale, max_nfev=CALLS)
    if not found.success:
        return None
    free = max(POINTS - first.size, 1)
    covariance = np.linalg.pinv(found.jac.T @ found.jac) * 2.0 * found.cost / free
    errors = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    units = np.array([half, 2.0 * half, 1.0, 1.0, 1.0, 1.0])
    x = found.x * units
    x[0] += centre
    return x, errors * units


def _slopes(eps: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the derivatives (e, 6) of Fano's profile after its parameters, half the width in the place of the width."""
    centre, half, q, a, b, slope = x
    at = (eps - centre) / half
    shape = (q + at) ** 2 / (1.0 + at**2)
    line = 1.0 + slope * at
    # After the distance from the centre in half widths, of which position and width are functions.
    along = 2.0 * a * (q + at) * (1.0 - q * at) / (1.0 + at**2) ** 2 * line + (a * shape + b) * slope
    after_q = 2.0 * a * (q + at) / (1.0 + at**2) * line
    columns = (-along / half, -along * at / half, after_q, shape * line, line, (a * shape + b) * at)
    return np.stack(columns, axis=1)
