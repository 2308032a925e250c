"""Goal of a deck: initial and target states in levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.deck.states import levels_of, parse_weight

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.deck.states import InitialState, TargetState


@dataclass(frozen=True)
class Goal:
    """Goal of the field: ``J = P - alpha integral eps^2 dt``, Eq. (6), until P reaches the threshold.

    Attributes
    ----------
    transfers : tuple of pairs
        Initial state and target of each pair, in levels.
    alpha : float
        Fluence penalty, a.u.
    coherent : bool
        Whether the overlaps of the pairs are averaged with their phases.
    threshold : float
        Probability that ends the search.
    """

    transfers: tuple[tuple[InitialState, TargetState], ...]
    alpha: float
    coherent: bool
    threshold: float

    @property
    def top(self) -> int:
        """Highest level of the initial and target states."""
        return max(max(levels_of(i) + levels_of(t)) for i, t in self.transfers)

    def initial(self, levels: int) -> NDArray[np.complex128]:
        """Return the initial amplitudes (pairs, K) in K = `levels` levels."""
        return np.array([amplitudes(i, levels) for i, _ in self.transfers])

    def targets(self, levels: int) -> list[NDArray[np.complex128]]:
        """Return the orthonormal target vectors (r, K) of each pair in K = `levels` levels."""
        return [target_vectors(t, levels) for _, t in self.transfers]


def amplitudes(state: InitialState, levels: int) -> NDArray[np.complex128]:
    """Return the normalised level amplitudes (K,) of a level or a superposition."""
    vector = np.zeros(levels, complex)
    if isinstance(state, dict):
        for key, weight in state.items():
            vector[int(key)] = parse_weight(weight)
        return vector / np.linalg.norm(vector)
    vector[int(state)] = 1.0
    return vector


def target_vectors(state: TargetState, levels: int) -> NDArray[np.complex128]:
    """Return the orthonormal target vectors (r, K): one for a state, one per level for a list of levels."""
    if isinstance(state, list):
        return np.eye(levels, dtype=complex)[state]
    return amplitudes(state, levels)[None]
