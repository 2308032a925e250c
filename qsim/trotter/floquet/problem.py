"""The problem of a cycle: its steps, and the one sector of its state."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from qsim.core.errors import DeckError
from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.deck.tasks import Floquet
from qsim.trotter.model.frames import FRAMES, Frame
from qsim.trotter.problem import TaskProblem
from qsim.trotter.sectors.parity import parity_obstacle
from qsim.trotter.sectors.selection import mixing, space_with

if TYPE_CHECKING:
    from qsim.trotter.measurement.spaces import PlainSpace, Space
    from qsim.trotter.model.hamiltonian import Model

__all__ = ["FloquetProblem"]


@dataclass
class FloquetProblem(TaskProblem[Floquet]):
    """The problem of a cycle; see :class:`TaskProblem`."""

    @cached_property
    def sectors(self) -> list[Space]:
        """The sector of the state.

        Raises
        ------
        DeckError
            If a step of the cycle does not conserve Sz, or the initial state is not in the sector.
        """
        return [self.space]

    def step_model(self, number: int) -> Model:
        """Return H of a step of a cycle."""
        return self.models.part(self.block.cycle[number].terms)

    @property
    def frame(self) -> Frame:
        """Axes of the deck: the start is written in its strings."""
        return FRAMES["z"]

    @cached_property
    def charged(self) -> bool:
        """True if the state has one Sz, which every step of the cycle conserves."""
        if isinstance(self.sector, SectorBlock):
            return self.sector.parity is None
        return self.sector == "auto" and not any(mixing(step) for step in self._steps)

    @property
    def _steps(self) -> list[Model]:
        return [self.step_model(number) for number in range(len(self.block.cycle))]

    @cached_property
    def space(self) -> PlainSpace:
        """Return the space of a cycle, from the deck or from the start."""
        down = None if self.start is None else self.start.lowered(self.models.system.twos)
        if not self.charged:
            return self._without_sz(down)
        for number, step in enumerate(self._steps):
            if why := mixing(step):
                raise DeckError(f"sector: step {number} of the cycle does not conserve total Sz: {why}")
        if isinstance(self.sector, SectorBlock):
            given = self.quanta - round(self.sector.ups(self.quanta)[0])
            if down is not None and down != given:
                raise DeckError(
                    f"sector: the initial state has Sz = {0.5 * self.quanta - down:g}, the sector Sz = "
                    f"{0.5 * self.quanta - given:g}; use sector: auto"
                )
            return space_with(self._steps[0], given)
        if down is None:
            raise DeckError("sector: the initial state has no single Sz; name one: sector: {sz: ...}")
        return space_with(self._steps[0], down)

    def _without_sz(self, down: int | None) -> PlainSpace:
        """Return the parity that the start has and every step conserves, else all states."""
        why = next((why for step in self._steps if (why := parity_obstacle(step))), "")
        if isinstance(self.sector, SectorBlock):
            odd = int(self.sector.parity == "odd")
            if why:
                raise DeckError(
                    f"sector.parity: a step of the cycle does not conserve the parity: {why}; use sector: full"
                )
            if down is not None and down % 2 != odd:
                raise DeckError(
                    f"sector.parity: the initial state has {down} spins down; use the other parity"
                )
            return space_with(self._steps[0], odd=odd)
        if self.sector != "auto" or why or down is None or self.quanta < 2:
            return space_with(self._steps[0])
        return space_with(self._steps[0], odd=down % 2)
