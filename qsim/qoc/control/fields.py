"""A field between its values: constant in each step, or a cubic spline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.physics.splines import cubic_spline

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
