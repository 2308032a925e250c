"""The problem of thermal averages: all sectors count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from qsim.trotter.deck.tasks import Thermal
from qsim.trotter.problem import TaskProblem

if TYPE_CHECKING:
    from qsim.trotter.sectors.basis import Sector
    from qsim.trotter.sectors.parity import ParitySector, WholeSpace

__all__ = ["ThermalProblem"]


@dataclass
class ThermalProblem(TaskProblem[Thermal]):
    """The problem of thermal averages; see :class:`TaskProblem`."""

    @property
    def plain_sectors(self) -> list[WholeSpace | ParitySector | Sector]:
        """The sectors, none of which has a character of permutations: their states are strings."""
        return cast("list[WholeSpace | ParitySector | Sector]", self.sectors)

    @property
    def responds(self) -> bool:
        """True if the response to a field is found from all states: H does not commute with the magnetisation along z."""
        return not self.charged and max(s.dimension for s in self.sectors) <= self.block.exact

    def downs(self) -> range:
        """Return the numbers of spins down of all sectors; where Sz and -Sz have the same levels, of those with Sz >= 0."""
        return range(self.spins // 2 + 1) if self.doubled else range(self.spins + 1)
