"""Error bars that are themselves uncertain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LEVEL", "error_of_mean", "student"]

LEVEL = 3.0  # standard errors that are made to cover as much as a normal law says
# means of blocks, and numbers of a block at least, of the error of a mean of numbers that know their neighbours
BLOCKS, BLOCK = 16, 4
MOST_FACTOR = 10.0  # of the Student factor: beyond, an error bar means nothing


def student(degrees: float, level: float = LEVEL) -> float:
    """Return the factor that makes `level` error bars with few degrees of freedom cover as much as with a normal law."""
    from scipy.special import ndtr, stdtrit

    if not degrees > 0.0:
        return MOST_FACTOR
    return float(min(stdtrit(degrees, ndtr(level)) / level, MOST_FACTOR))


def error_of_mean(values: NDArray[Any]) -> float | None:
    """Return the standard error of the mean of numbers in a row, of which neighbours may be alike; None of too few.

    The spread of the means of up to `BLOCKS` blocks, with the factor of Student for their number.

    Parameters
    ----------
    values : (n,) float64
    """
    import numpy as np

    count = min(BLOCKS, len(values) // BLOCK)
    if count < BLOCK:
        return None
    means = np.array([part.mean() for part in np.array_split(values, count)])
    return float(student(count - 1.0) * means.std(ddof=1) / np.sqrt(count))
