"""Transitions that a field drives: directly between the states, or on the strongest path of dipole elements."""

from __future__ import annotations

import heapq
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qoc.deck.states import levels_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.deck.model import QocDeck
    from qsim.qoc.models.molecule import Molecule

# Dipole elements below this fraction of the largest count as zero.
WEAK = 1e-8
# a.u.; below, squares underflow.
NO_DIPOLE = 1e-30


def direct_rungs(deck: QocDeck, molecule: Molecule) -> list[tuple[int, int]]:
    """Return the direct transitions between initial and target levels.

    Raises
    ------
    InvalidInput
        If the dipole does not couple any of them.
    """
    weak = max(WEAK * float(np.abs(molecule.dipole_matrix).max()), NO_DIPOLE)
    rungs = {
        (min(a, b), max(a, b))
        for initial, target in deck.system.state_pairs()
        for a in levels_of(initial)
        for b in levels_of(target)
        if a != b and abs(molecule.dipole_matrix[a, b]) > weak
    }
    if not rungs:
        raise InvalidInput(
            "control.guess", "the dipole couples no initial level directly to a target level; use ladder"
        )
    return sorted(rungs)


def ladder_rungs(deck: QocDeck, molecule: Molecule) -> list[tuple[int, int]]:
    """Return the transitions on the strongest paths between initial and target levels.

    Raises
    ------
    InvalidInput
        If no path exists: the system cannot be controlled this way.
    """
    rungs: set[tuple[int, int]] = set()
    for initial, target in deck.system.state_pairs():
        for a in levels_of(initial):
            for b in levels_of(target):
                if a == b:
                    continue
                path = strongest_path(molecule.dipole_matrix, a, b)
                if path is None:
                    raise InvalidInput(
                        "system.dipole",
                        f"level {b} cannot be reached from level {a}: no chain of non-zero dipole elements joins them "
                        f"among the {molecule.energies.size} retained levels",
                    )
                rungs.update((min(p), max(p)) for p in pairwise(path))
    # initial and target share all their levels: only phases differ
    if not rungs:
        levels = sorted({v for pair in deck.system.state_pairs() for s in pair for v in levels_of(s)})
        rungs = {(a, b) for a, b in pairwise(levels)} or {_neighbours(levels[0], molecule)}
    return sorted(rungs)


def _neighbours(level: int, molecule: Molecule) -> tuple[int, int]:
    """Return a level that must only be kept, and the next one: the transition that a field would drive."""
    return (level, level + 1) if level + 1 < molecule.energies.size else (level - 1, level)


def strongest_path(matrix: NDArray[np.float64], start: int, goal: int) -> list[int] | None:
    """Return the path of transitions with the smallest sum of 1/|mu| (Dijkstra), or None."""
    strength = np.abs(matrix)
    weak = max(WEAK * float(strength.max()), NO_DIPOLE)
    best = {start: 0.0}
    queue: list[tuple[float, int, list[int]]] = [(0.0, start, [start])]
    while queue:
        cost, level, path = heapq.heappop(queue)
        if level == goal:
            return path
        if cost > best.get(level, np.inf):
            continue
        for other in range(matrix.shape[0]):
            if other == level or strength[level, other] <= weak:
                continue
            new = cost + 1.0 / float(strength[level, other])
            if new < best.get(other, np.inf):
                best[other] = new
                heapq.heappush(queue, (new, other, [*path, other]))
    return None
