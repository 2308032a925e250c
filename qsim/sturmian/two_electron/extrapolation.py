r"""Partial-wave limits: energies at some l_max, extrapolated to all angular momenta.

The electrons' cusp makes the contribution of the angular momentum l fall like a power of l + 1/2, the leading one known from
theory (Hill, J. Chem. Phys. 83, 1173 (1985); Kutzelnigg and Morgan, J. Chem. Phys. 96, 4484 (1992)):

    E(l_max) = E - sum_{l > l_max} [A_0 (l + 1/2)^-p + A_1 (l + 1/2)^-q + ...]

with p = 4 for singlets and 6 for triplets of natural parity, 6 for triplets and 8 for singlets of the other one.  The sums are
Hurwitz zeta functions.

Singlet S states go on with p + 1, p + 2, ....  In all others the odd powers, which come from the third order in 1/Z, are weak,
and p + 2, p + 4, ... are better (measured: P states of helium by a factor of three to ten).  With L > 0 the pairs that come with
l_max have momenta from l_max - L to l_max, and l stands for their mean, l_max - L/2: P states gain another factor of five.
In the other parity they begin with l_max - L + 1, and the mean is l_max - (L - 1)/2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# More are fitted to rounding errors.
TERMS = 4
# The error in what other fits differ by, and in what the largest l_max lacks, as fits may agree by chance.  Of the limits of 3 to
# 6 l_max up to 6 (singlet S states of H- to C4+, 3S and 1P of He and Be2+) one in fifty is off by more than 0.7 claims, the worst
# by 1.1 (one by 1.3 at 3e-9 hartree), half of them by less than 0.3.
DOUBT, BY_CHANCE = 2.0, 0.01
# Mean momenta of the first missing pairs beyond l_max, where two symmetries take part.
SHIFTS = (0.0, 0.25, 0.5)


def leading_power(S: int, *, natural: bool = True) -> int:
    """Return the power p with which increments fall, see the module."""
    if S:
        return 6
    return 4 if natural else 8


def partial_wave_limit(
    l_max: Sequence[int],
    energies: ArrayLike,
    *,
    L: int,
    S: int,
    parity: str = "natural",
    uncertainty: float = 0.0,
) -> tuple[float, float, NDArray[np.float64]]:
    """Return the limit of energies for l_max to infinity.

    Parameters
    ----------
    l_max : sequence of int
        At least two, ascending.
    energies : (k,) float64
        Energies at them, hartree.
    L, S : int
        Total orbital angular momentum and spin.
    parity : {"natural", "even", "odd"}
        Parity of la + lb.
    uncertainty : float
        Error of every energy, hartree, from anything but l_max.

    Returns
    -------
    limit : float
        Hartree.
    error : float
        `DOUBT` times the change (with three points: half of it) when the last term and the lowest l_max are left out, and, with
        four points and more, the change when the powers grow by the other step; with two points the change when the power is
        raised by one; and `BY_CHANCE` of what the limit adds to the last energy, all added as squares.  To that comes the
        uncertainty of the energies as the fit enlarges it.
    coefficients : (m,) float64
        A_0, A_1, ... with m = min(k - 1, 4), of the powers p, q, ...; negative ones lower the energy.

    Raises
    ------
    ValueError
        If there are fewer than two points, or they do not ascend.
    """
    points, values = np.asarray(l_max), np.asarray(energies, float)
    if points.size < 2 or points.shape != values.shape or np.any(np.diff(points) <= 0):
        raise ValueError(
            f"an extrapolation needs two or more ascending l_max with one energy each, not {l_max}"
        )
    # Increments of the partial waves fall like (l + 1/2)^-p: p is 4 for singlets of natural parity, 6 for triplets,
    # 8 for other singlets. The tail beyond l_max is a sum of Hurwitz zeta functions.
    natural = parity == "natural" or (L % 2 == 0) == (parity == "even")
    first = leading_power(S, natural=natural)
    terms = min(points.size - 1, TERMS)
    step = 1 if L == S == 0 else 2
    powers = [first + step * k for k in range(terms)]
    # the first missing increment, counted from the mean momentum of a pair
    start = points + 1.5 - 0.5 * (L if natural else L - 1)
    limit, coefficients, weights = _fit(start, values, powers)
    if terms > 1:
        # what the last term and the lowest point change tells how far the expansion has converged
        other, _, _ = _fit(start[-terms:], values[-terms:], powers[:-1])
        error = (0.5 if terms == 2 else 1.0) * abs(limit - other)
        # two fits that agree by chance: the powers themselves are uncertain beyond the first
        if terms > 2:
            other, _, _ = _fit(start, values, [first + (3 - step) * k for k in range(terms)])
            error = math.hypot(error, limit - other)
    else:
        other, _, _ = _fit(start, values, [first + 1])
        error = abs(limit - other)
    error = math.hypot(DOUBT * error, BY_CHANCE * (limit - values[-1]))
    return limit, error + uncertainty * float(np.linalg.norm(weights)), coefficients


def response_limit(
    l_max: Sequence[int], values: ArrayLike, *, S: int, uncertainty: float = 0.0
) -> tuple[float, float]:
    """Return the limit of a transition strength or a polarisability for l_max to infinity.

    Second derivatives of an energy with respect to a field fall like the energy.  Two symmetries take part, with pairs of mean
    momentum ``l_max`` and up to ``l_max + 1``, and how the powers go on is not known: the limit is the mean over both steps
    of the powers and three mean momenta.

    Parameters
    ----------
    l_max : sequence of int
        At least three, ascending, of S states.
    values : (k,) float64
    S : int
        Total spin.
    uncertainty : float
        Error of every value from anything but l_max.

    Returns
    -------
    limit, error : float
        The error adds as squares `DOUBT` times the largest distance of one of these fits, the change (with three points: half
        of it) when the last term and the lowest l_max are left out, and `BY_CHANCE` of what the limit adds to the last value;
        to that comes the uncertainty of the values as the fit enlarges it.

    Raises
    ------
    ValueError
        If there are fewer than three points, or they do not ascend.
    """
    points, known = np.asarray(l_max), np.asarray(values, float)
    if points.size < 3 or points.shape != known.shape or np.any(np.diff(points) <= 0):
        raise ValueError(f"three or more ascending l_max with one value each are needed, not {l_max}")
    first, terms = leading_power(S), min(points.size - 1, TERMS)
    fits, shorter, weights = [], [], np.zeros(points.size)
    for step in (1, 2):
        powers = [first + step * k for k in range(terms)]
        for shift in SHIFTS:
            start = points + 1.5 + shift
            found, _, weight = _fit(start, known, powers)
            fits.append(found)
            weights = weights + weight / (2 * len(SHIFTS))
            shorter.append(_fit(start[-terms:], known[-terms:], powers[:-1])[0])
    limit = float(np.mean(fits))
    spread = DOUBT * max(abs(limit - found) for found in fits)
    dropped = (0.5 if terms == 2 else 1.0) * abs(limit - float(np.mean(shorter)))
    error = math.hypot(spread, dropped, BY_CHANCE * (limit - float(known[-1])))
    return limit, error + uncertainty * float(np.linalg.norm(weights))


def _fit(
    start: NDArray[np.float64], values: NDArray[np.float64], powers: Sequence[int]
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Return the limit, the coefficients, and the weight of every energy in the limit; least squares, exact if it can be."""
    from scipy.special import zeta

    # sum_{l > l_max} (l + 1/2)^-p is the Hurwitz zeta function zeta(p, l_max + 3/2).
    tails = np.stack([zeta(power, start) for power in powers], axis=1)
    # Columns of comparable size: high powers are smaller by many orders, and the pseudoinverse
    # would drop them as rounding.
    scale = tails[-1]
    inverse = np.linalg.pinv(np.concatenate((np.ones((start.size, 1)), tails / scale), axis=1), rcond=1e-14)
    # differences are fitted, so that the common digits of the energies are not lost in rounding
    shift = values[-1]
    solution = inverse @ (values - shift)
    return float(shift + solution[0]), -solution[1:] / scale, inverse[0]
