"""Solutions of a bound deck besides its own states: partial waves, scans, and the other curve of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qsim.sturmian.deck.blocks import AUTO, Gsf
from qsim.sturmian.radial import automatic

if TYPE_CHECKING:
    from qsim.sturmian.problem import Problem

__all__ = ["SATELLITES", "Point", "basis_for", "doubted", "points_of", "satellites"]

# Other l_max computed besides, which tell how far the partial waves have converged.
SATELLITES = 2


@dataclass(frozen=True)
class Point:
    """One set of parameters: what changes, and which l_max it has if that is what changes."""

    key: str
    value: float | int
    changes: Mapping[str, float]


def points_of(problem: Problem) -> list[Point]:
    """Return the solutions besides the deck itself: partial waves, the scans, then what a table leaves open."""
    wanted = problem.extrapolate
    if not wanted and not problem.lists_pairs:
        wanted = sorted({l for sector in problem.sectors for l in satellites(sector.pairs)})
    points = [Point("partial", l, {"l_max": l}) for l in wanted]
    for key, values in problem.scan.items():
        points += [Point(key, value, {key: value}) for value in values]
    # last: checkpoints of earlier versions have none
    if doubted(problem) is not None:
        points.append(Point("table", 0, {}))
    return points


def doubted(problem: Problem) -> Problem | None:
    """Return the problem with the other potential that the rows of its table allow, None if they state it."""
    # that of the functions is no error of a state beside what they leave out
    return next((p for p in problem.doubted() if p.radial.system is not problem.radial.system), None)


def basis_for(problem: Problem, ionisation: float) -> dict[str, float]:
    """Return energy and alpha of the functions for an ionisation energy, hartree, as far as the deck leaves them open."""
    basis = problem.radial.basis
    settled: dict[str, float] = {}
    if not isinstance(basis, Gsf):
        return {}
    if basis.energy == AUTO:
        settled["energy"] = automatic.energy(ionisation, basis.generating.type)
        if getattr(basis.generating, "alpha", None) == AUTO:
            settled["alpha"] = automatic.alpha(settled["energy"], basis.generating.type)
    return settled


def satellites(pairs: Sequence[tuple[int, int]]) -> range:
    """Return l_max of the partial waves that tell the error of all pairs up to the largest: smaller ones if there are enough."""
    # An extrapolation needs SATELLITES + 1 values of l_max that all have pairs; where the
    # deck's own is among the lowest, larger ones make up for it.
    top, low = max(max(pair) for pair in pairs), min(max(pair) for pair in pairs)
    first = max(top - SATELLITES, low)
    return range(first, first + SATELLITES + 1)
