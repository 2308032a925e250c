"""The problem of thermal averages: all sectors count, or those of the deck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qsim.trotter.deck.axes import AXES, Axis
from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.deck.tasks import Thermal
from qsim.trotter.problem import TaskProblem

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["ThermalProblem"]


@dataclass
class ThermalProblem(TaskProblem[Thermal]):
    """The problem of thermal averages; see :class:`TaskProblem`."""

    @property
    def totals(self) -> str:
        """Axes along which a total spin is of use: none where the response leads from one sector to others."""
        return "zxy" if self.block.response == "auto" or isinstance(self.sector, SectorBlock) else ""

    @property
    def exact(self) -> bool:
        """True if every sector is diagonalised."""
        return max(s.dimension for s in self.sectors) <= self.block.exact

    @property
    def response_axes(self) -> Sequence[Axis]:
        """Axes of the deck along which the response to a field is found, of an H that conserves no total spin."""
        # a field leads from one of the sectors of a deck to others
        if self.charged or isinstance(self.sector, SectorBlock):
            return ()
        if self.block.response == "auto":
            return AXES if self.exact else ()
        return [axis for axis in AXES if axis in self.block.response]

    @property
    def sampled_axes(self) -> Sequence[Axis]:
        """Those along which it comes from random vectors."""
        return () if self.exact else self.response_axes

    def downs(self) -> range:
        """Return the quanta below all spins up of all sectors; where Sz and -Sz have the same levels, of those with Sz >= 0."""
        return range(self.quanta // 2 + 1) if self.doubled else range(self.quanta + 1)
