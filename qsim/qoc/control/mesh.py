"""A field between its values, and steps in which controls are followed as functions of time.

Values are constant in each step, or joined by a cubic spline; steps are short where controls change, or where a formula has a
narrow pulse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.physics.splines import cubic_spline
from qsim.core.physics.structure import FormulaProfile, survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

# Rms of what every second value does not tell about the others, in units of the field's rms.
ROUGH = 0.1


def midpoints(steps: int, duration: float) -> NDArray[np.float64]:
    """Return the times (N,) at which the field lives: the middle of every step."""
    return np.asarray((np.arange(steps) + 0.5) * (duration / steps), dtype=float)


def roughness(field: NDArray[np.float64]) -> float:
    """Return the error of a spline through every second value at the values between them (rms over rms); 0 for no field.

    A carrier with n values per period has about ``(4 pi / n)^4 / 384``: 0.05 for 6, 0.0004 for 20; noise has 1 and more.
    """
    size = float(np.sqrt(np.mean(field**2)))
    if size == 0.0:
        return 0.0
    if field.size < 8:
        return np.inf
    known = np.arange(0, field.size, 2)
    between = np.arange(1, known[-1], 2)
    predicted = cubic_spline(known.astype(float), field[known], between.astype(float))
    return float(np.sqrt(np.mean((predicted - field[between]) ** 2))) / size


def way_between(field: NDArray[np.float64], choice: str) -> str:
    """Return ``hold`` or ``cubic``: as the deck says, or by the roughness of the field."""
    if choice != "auto":
        return choice
    return "cubic" if roughness(field) < ROUGH else "hold"


def other_way(between: str) -> str:
    """Return the other of the two definitions."""
    return "hold" if between == "cubic" else "cubic"


def resample(field: NDArray[np.float64], duration: float, steps: int, how: str) -> NDArray[np.float64]:
    """Return the field at the midpoints of another number of steps.

    ``hold`` keeps each value over its step; ``cubic`` draws a spline through the values.
    """
    if steps == field.size:
        return field
    times = midpoints(steps, duration)
    if how == "hold" or field.size < 4:
        return field[np.minimum((times / duration * field.size).astype(np.int64), field.size - 1)]
    return cubic_spline(midpoints(field.size, duration), field, times)


# Of the whole duration: what the integral of all steps over the controls, times their norms, may be off by.
CLOSE = 1e-10
# The same of one step: rounding of its values.
LEAST = 1e-15
# Steps, and halvings of one.
MOST_STEPS = 60_000
ROUNDS = 50
# Steps at least, which see what varies within a slot.
FEWEST = 128
# Of a step: distance of the first and the last value from its ends.
INSIDE = 1e-9
# Of the duration: places that are as close are one.
APART = 1e-13


@dataclass(frozen=True)
class Kinks:
    """Times (n,) between which a table is smooth."""

    places: Array


def means_of(at: Callable[[Array], Array], places: Array, duration: float, steps: int) -> Array:
    """Return the means (C, steps) of controls over each of equal steps; arguments as of `steps_of`."""
    weights = np.ones(len(at(np.zeros(1))))
    edges = steps_of(at, weights, duration, steps, places)
    ends = np.linspace(0.0, duration, steps + 1)
    first = np.searchsorted(edges, ends[:-1] - APART * duration)
    return np.add.reduceat(_integrals(at, edges[:-1], edges[1:]), first, axis=1) * steps / duration


def places_of(profiles: Iterable[FormulaProfile | Kinks], duration: float) -> tuple[Array, int]:
    """Return the times (n,) at which functions are not smooth or have narrow pulses, and how many pulses are not among them."""
    found: list[Array] = []
    formulas: list[FormulaProfile] = []
    for profile in profiles:
        # tables know their kinks
        if isinstance(profile, FormulaProfile):
            formulas.append(profile)
        else:
            found.append(profile.places)
    places, missed = survey(formulas, duration)
    found.append(np.array([t for t, _ in places]))
    times = np.unique(np.concatenate(found))
    return times[(times > 0.0) & (times < duration)], missed


def gauss_points(edges: Array) -> tuple[Array, Array]:
    """Return the two Gauss points (n,) of every step."""
    middle, shift = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges) * np.sqrt(3.0) / 6.0
    return middle - shift, middle + shift


def left_by(at: Callable[[Array], Array], weights: Array, edges: Array) -> float:
    """Return what the Gauss points of steps leave of the integrals over the controls, times the norms of their operators."""
    return float(_off(at, weights, edges[:-1], edges[1:]).sum())


def steps_of(
    at: Callable[[Array], Array],
    weights: Array,
    duration: float,
    slots: int,
    places: Array,
    close: float = CLOSE,
) -> Array:
    """Return the edges (n + 1,) of steps whose Gauss points integrate the controls.

    Parameters
    ----------
    at : callable
        From times (n,) to factors (C, n).
    weights : (C,) float64
        Norms of their operators.
    slots : int
        Slots, at whose edges values that are held change.
    places : (m,) float64
        Times at which a control is not smooth.
    close : float
        What the integrals of all steps, times the norms, may be off by.
    """
    whole = np.linspace(0.0, duration, slots * max(1, -(-FEWEST // slots)) + 1)
    edges = np.unique(np.concatenate([whole, places]))
    # of two edges that differ by rounding one stays, never the end
    apart = np.diff(edges, append=np.inf) > APART * duration
    edges = edges[apart]
    edges[0], edges[-1] = 0.0, duration
    done: list[Array] = []
    low, high = edges[:-1], edges[1:]
    # Every round halves the steps whose halves integrate otherwise than they do.
    for _ in range(ROUNDS):
        off = _off(at, weights, low, high)
        width = high - low
        bad = off > np.maximum(close * width / duration, LEAST * weights.sum() * width)
        done.append(low[~bad])
        count = sum(part.size for part in done)
        low, high = low[bad], high[bad]
        if low.size == 0 or count + 2 * low.size > MOST_STEPS:
            break
        middle = 0.5 * (low + high)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return np.append(np.sort(np.concatenate([*done, low])), duration)


def _off(at: Callable[[Array], Array], weights: Array, low: Array, high: Array) -> Array:
    """Return by how much the integrals over steps differ from other ones, times the norms: (n,).

    The halves see what is narrow, and Simpson's rule, which has values at the ends, a kink beside them.
    """
    if low.size == 0:
        return np.zeros(0)
    middle = 0.5 * (low + high)
    whole, first, second = (_integrals(at, a, b) for a, b in ((low, high), (low, middle), (middle, high)))
    # A jump may be at an end itself.
    inside = INSIDE * (high - low)
    ends = at(np.concatenate([low + inside, middle, high - inside])).reshape(len(weights), 3, -1)
    simpson = (high - low) / 6.0 * (ends[:, 0] + 4.0 * ends[:, 1] + ends[:, 2])
    return np.asarray(weights @ (np.abs(whole - first - second) + np.abs(whole - simpson)))


def _integrals(at: Callable[[Array], Array], low: Array, high: Array) -> Array:
    middle, shift = 0.5 * (low + high), (high - low) * np.sqrt(3.0) / 6.0
    values = at(np.concatenate([middle - shift, middle + shift]))
    return 0.5 * (high - low) * (values[:, : low.size] + values[:, low.size :])
