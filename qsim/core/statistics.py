"""Error bars that are themselves uncertain."""

from __future__ import annotations

__all__ = ["LEVEL", "student"]

LEVEL = 3.0  # standard errors that are made to cover as much as a normal law says
MOST_FACTOR = 10.0  # of the Student factor: beyond, an error bar means nothing


def student(degrees: float, level: float = LEVEL) -> float:
    """Return the factor that makes `level` error bars with few degrees of freedom cover as much as with a normal law."""
    from scipy.special import ndtr, stdtrit

    if not degrees > 0.0:
        return MOST_FACTOR
    return float(min(stdtrit(degrees, ndtr(level)) / level, MOST_FACTOR))
