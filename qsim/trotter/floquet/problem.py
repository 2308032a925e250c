"""The problem of a cycle: its steps, and the one sector of its state."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from qsim.core.errors import DeckError
from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.deck.tasks import Floquet
from qsim.trotter.problem import TaskProblem
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.selection import mixing

if TYPE_CHECKING:
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.sectors.symmetric import AnySector

__all__ = ["FloquetProblem"]


@dataclass
class FloquetProblem(TaskProblem[Floquet]):
    """The problem of a cycle; see :class:`TaskProblem`."""

    @cached_property
    def sectors(self) -> list[AnySector]:
        """The sector of the state.

        Raises
        ------
        DeckError
            If a step of the cycle does not conserve Sz, or the initial state is not in the sector.
        """
        return [self._sector()]

    def step_model(self, number: int) -> Model:
        """Return H of a step of a cycle."""
        return self.models.part(self.block.cycle[number].terms)

    def _sector(self) -> Sector:
        """Return the sector of a cycle, from the deck or from the start."""
        for number in range(len(self.block.cycle)):
            if why := mixing(self.step_model(number)):
                raise DeckError(f"sector: step {number} of the cycle does not conserve total Sz: {why}")
        down = None if self.start is None else self.start.down(self.spins)
        if isinstance(self.sector, SectorBlock):
            given = self.spins - round(self.sector.ups(self.spins)[0])
            if down is not None and down != given:
                raise DeckError(
                    f"sector: the initial state has Sz = {0.5 * self.spins - down:g}, the sector Sz = "
                    f"{0.5 * self.spins - given:g}; use sector: auto"
                )
            return Sector(self.spins, given)
        if down is None:
            raise DeckError("sector: the initial state has no single Sz; name one: sector: {sz: ...}")
        return Sector(self.spins, down)
