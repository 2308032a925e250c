"""Transitions that a control drives from the start towards the goal: directly, or on the strongest path, for first values."""

from __future__ import annotations

import heapq
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qoc.deck.system import levels_of
from qsim.qoc.models.quantum import GateTarget, StateTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray, FloatArray
    from qsim.qoc.deck.model import QocDeck
    from qsim.qoc.models.molecule import Molecule
    from qsim.qoc.models.quantum import QuantumModel

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


# Population from which a level counts as one of a start or goal.
SEEN = 1e-3
# Weight of a column of a mixture, relative to the largest one, from which its levels count as well.
SHARE = 0.1
# Levels up to which paths are looked for.
MOST = 1000


class Rungs:
    """Transitions of a model.

    Parameters
    ----------
    model : QuantumModel
    """

    def __init__(self, model: QuantumModel) -> None:
        self.model = model

    @cached_property
    def _levels(self) -> tuple[FloatArray, ComplexArray]:
        """Energies (D,) and eigenvectors (D, D) of H0, in the order of the basis where it is diagonal."""
        drift = self.model.drift
        diagonal = drift.diagonal()
        if (abs(drift).sum() - np.abs(diagonal).sum()) == 0.0:
            return np.asarray(diagonal.real), np.eye(diagonal.size, dtype=complex)
        # loaded for systems alone whose H0 has other levels than its basis
        from qsim.qoc.models.basis import eigenstates

        return eigenstates(drift)

    def of(self, number: int, key: str, *, direct: bool = False) -> list[tuple[float, float]]:
        """Return the angular frequency and the element of each transition that a control drives, from its strongest paths.

        Parameters
        ----------
        number : int
            Of the control.
        key : str
            Of the first values in the deck.
        direct : bool
            Only transitions between levels of start and goal themselves.

        Raises
        ------
        InvalidInput
            If the control joins no levels of start and goal.
        """
        if self.model.dimension > MOST:
            raise InvalidInput(
                key, f"paths among {self.model.dimension} levels are not looked for, at most {MOST}"
            )
        energies, vectors = self._levels
        operator = vectors.conj().T @ (self.model.controls[number].operator @ vectors)
        strength = np.abs(operator - np.diag(np.diag(operator)))
        found: set[tuple[int, int]] = set()
        for a, b in self._ends(strength):
            path = [a, b] if direct else strongest_path(strength, a, b)
            if path is not None and all(strength[pair] > self._weak(strength) for pair in pairwise(path)):
                found |= {(min(pair), max(pair)) for pair in pairwise(path)}
        if not found:
            name = self.model.controls[number].name
            text = f"the control {name} joins no level of the start to one of the goal; give another guess"
            raise InvalidInput(key, text)
        return [(abs(float(energies[b] - energies[a])), float(strength[a, b])) for a, b in sorted(found)]

    def _weak(self, strength: FloatArray) -> float:
        return max(WEAK * float(strength.max()), NO_DIPOLE)

    def _ends(self, strength: FloatArray) -> Iterator[tuple[int, int]]:
        """Yield levels of a start and of its goal; where the goal is no state, a level and what it couples to most."""
        vectors = self._levels[1]
        found = False
        for _, one in self.model.each():
            if isinstance(one.goal, GateTarget):
                logical = [self._seen(vectors.conj().T @ x)[0] for x in one.goal.columns.T]
                found = found or len(logical) > 1
                yield from pairwise(logical)
                continue
            for number, column in enumerate(one.states.T):
                if one.weights[number] < SHARE * one.weights.max():
                    continue
                for a in self._seen(vectors.conj().T @ column):
                    for b in self._goals(one, number, a, strength):
                        found = found or a != b
                        if a != b:
                            yield a, b
        if not found:
            # start and goal share their levels, of which phases alone differ
            a = self._seen(vectors.conj().T @ self.model.states[:, 0])[0]
            yield a, int(np.argmax(strength[a]))

    def _goals(self, one: QuantumModel, number: int, start: int, strength: FloatArray) -> list[int]:
        """Return the levels of the goal of a column."""
        if not isinstance(one.goal, StateTarget):
            return [int(np.argmax(strength[start]))]
        rows = one.goal.vectors[min(number, len(one.goal.vectors) - 1)]
        return sorted({k for row in rows for k in self._seen(self._levels[1].conj().T @ row)})

    def _seen(self, amplitudes: ComplexArray) -> list[int]:
        """Return the levels of a state, the most populated one first."""
        populations = np.abs(amplitudes) ** 2
        chosen: NDArray[np.int64] = np.flatnonzero(populations > SEEN)
        return [int(k) for k in chosen[np.argsort(-populations[chosen], kind="stable")]]
