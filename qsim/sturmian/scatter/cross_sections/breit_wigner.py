r"""Resonances in a phase: where it rises by pi within a width.

    delta(E) = b + c (E - E_r) + arctan[(Gamma/2) / (E_r - E)]

(G. Breit and E. Wigner, Phys. Rev. 49, 519 (1936)), fitted to phases modulo pi within some widths on either side.  Where the
phase rises fastest its slope is 2/Gamma, which begins the fit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Fitted", "resonances"]

# Widths on either side of the fit, and of those that tell its error.
WINDOW, OTHERS = 5.0, (3.0, 8.0)
# Fewest energies of a fit, and of those within a width on either side of the resonance.
FEWEST, ACROSS = 8, 3
# Slope, over the median one, from which a phase may pass a resonance.
STEEP = 4.0
# Radian: largest root mean square of what a fit leaves.
LEFT = 0.05


class Fitted(NamedTuple):
    """Energy and width of a resonance, hartree, and what other windows and the residuals change of them."""

    energy: float
    width: float
    energy_error: float
    width_error: float


def resonances(E: NDArray[np.float64], delta: NDArray[np.float64]) -> list[Fitted]:
    """Return the resonances that phases (n,), radian modulo pi, pass at ascending energies (n,), hartree."""
    if E.size < FEWEST:
        return []
    slopes = _wrapped(np.diff(delta)) / np.diff(E)
    usual = float(np.median(np.abs(slopes)))
    out: list[Fitted] = []
    for i in np.argsort(-slopes):
        steep = float(slopes[i])
        if steep < STEEP * usual or steep <= 0.0:
            break
        start = 0.5 * float(E[i] + E[i + 1]), 2.0 / steep
        # A maximum within a resonance that is known already is its side.
        if any(abs(start[0] - one.energy) < WINDOW * one.width for one in out):
            continue
        found = _judged(E, delta, start)
        if found is not None:
            out.append(found)
    return sorted(out)


def _wrapped(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return differences of phases modulo pi, between -pi/2 and pi/2."""
    return np.asarray((x + 0.5 * math.pi) % math.pi - 0.5 * math.pi)


def _judged(E: NDArray[np.float64], delta: NDArray[np.float64], start: tuple[float, float]) -> Fitted | None:
    """Return a fit with its errors; None where it does not describe the phases."""
    best = _fit(E, delta, start, WINDOW)
    if best is None:
        return None
    (energy, width), errors = best
    changes = np.zeros(2)
    for window in OTHERS:
        other = _fit(E, delta, (energy, width), window)
        if other is not None:
            changes = np.maximum(changes, np.abs(np.array(other[0]) - np.array(best[0])))
    return Fitted(energy, width, float(errors[0] + changes[0]), float(errors[1] + changes[1]))


def _fit(
    E: NDArray[np.float64], delta: NDArray[np.float64], start: tuple[float, float], window: float
) -> tuple[tuple[float, float], NDArray[np.float64]] | None:
    """Return energy and width of a fit within some widths, and their standard errors; None where there is none."""
    from scipy.optimize import least_squares

    energy, width = start
    chosen = np.abs(E - energy) < window * width
    near = np.abs(E - energy) < width
    if chosen.sum() < FEWEST or near.sum() < ACROSS:
        return None
    x, y = (E[chosen] - energy) / width, delta[chosen]

    def missed(p: NDArray[np.float64]) -> NDArray[np.float64]:
        model = p[2] + p[3] * x + np.arctan2(0.5 * abs(p[1]), p[0] - x)
        return _wrapped(model - y)

    # The background may be anything: the best of some beginnings.
    tries = [
        least_squares(missed, [0.0, 1.0, b, 0.0], xtol=1e-12, ftol=1e-12) for b in (-1.2, -0.6, 0.0, 0.6, 1.2)
    ]
    best = min(tries, key=lambda one: one.cost)
    variance = 2.0 * best.cost / max(1, x.size - 4)
    shift, scale = float(best.x[0]), abs(float(best.x[1]))
    if not (math.sqrt(variance) < LEFT and abs(shift) < 0.5 * window and 0.1 < scale < 10.0):
        return None
    covariance = np.linalg.pinv(best.jac.T @ best.jac) * variance
    errors = width * np.sqrt(np.diag(covariance)[:2])
    return (energy + width * shift, width * scale), np.asarray(errors)
