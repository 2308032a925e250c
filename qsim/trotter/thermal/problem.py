"""The problem of thermal averages: all sectors count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from qsim.trotter.deck.tasks import Thermal
from qsim.trotter.problem import TaskProblem

if TYPE_CHECKING:
    from qsim.trotter.measurement.spaces import PlainSpace

__all__ = ["ThermalProblem"]


@dataclass
class ThermalProblem(TaskProblem[Thermal]):
    """The problem of thermal averages; see :class:`TaskProblem`."""

    @property
    def plain_sectors(self) -> list[PlainSpace]:
        """The sectors, none of which has a character of permutations: their states are strings."""
        return cast("list[PlainSpace]", self.sectors)

    @property
    def responds(self) -> bool:
        """True if the response to a field is found from all states: H does not commute with the magnetisation along z."""
        return not self.charged and max(s.dimension for s in self.sectors) <= self.block.exact

    def downs(self) -> range:
        """Return the quanta below all spins up of all sectors; where Sz and -Sz have the same levels, of those with Sz >= 0."""
        return range(self.quanta // 2 + 1) if self.doubled else range(self.quanta + 1)
