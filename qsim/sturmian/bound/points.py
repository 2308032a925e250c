"""Solutions of a bound deck besides its own states: partial waves and scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qsim.sturmian.problem import Problem

__all__ = ["SATELLITES", "Point", "points_of", "satellites"]

# Other l_max computed besides, which tell how far the partial waves have converged.
SATELLITES = 2


@dataclass(frozen=True)
class Point:
    """One set of parameters: what changes, and which l_max it has if that is what changes."""

    key: str
    value: float | int
    changes: Mapping[str, float]


def points_of(problem: Problem) -> list[Point]:
    """Return the solutions besides the deck itself: partial waves, then the scans."""
    wanted = problem.extrapolate
    if not wanted and not problem.lists_pairs:
        wanted = sorted({l for sector in problem.sectors for l in satellites(sector.pairs)})
    points = [Point("partial", l, {"l_max": l}) for l in wanted]
    for key, values in problem.scan.items():
        points += [Point(key, value, {key: value}) for value in values]
    return points


def satellites(pairs: Sequence[tuple[int, int]]) -> range:
    """Return l_max of the partial waves that tell the error of all pairs up to the largest: smaller ones if there are enough."""
    # An extrapolation needs SATELLITES + 1 values of l_max that all have pairs; where the
    # deck's own is among the lowest, larger ones make up for it.
    top, low = max(max(pair) for pair in pairs), min(max(pair) for pair in pairs)
    first = max(top - SATELLITES, low)
    return range(first, first + SATELLITES + 1)
