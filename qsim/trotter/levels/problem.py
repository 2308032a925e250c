"""The problem of the levels of one sector."""

from __future__ import annotations

from dataclasses import dataclass

from qsim.trotter.deck.tasks import Levels
from qsim.trotter.problem import TaskProblem


@dataclass
class LevelsProblem(TaskProblem[Levels]):
    """The problem of full diagonalisation; see :class:`TaskProblem`."""

    def downs(self) -> range:
        """Return the quanta below all spins up of the largest sector, the one that is diagonalised by default."""
        half = (self.quanta + 1) // 2
        return range(half, half + 1)
