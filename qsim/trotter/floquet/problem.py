"""The problem of a cycle: its steps, and the one sector of its state."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.deck.tasks import Floquet
from qsim.trotter.model.frames import FRAMES, Frame
from qsim.trotter.model.hamiltonian import Hamiltonian
from qsim.trotter.problem import TaskProblem
from qsim.trotter.sectors.parity import parity_obstacle
from qsim.trotter.sectors.selection import Asked, mixing, sector_of, space_with

if TYPE_CHECKING:
    from qsim.trotter.measurement.spaces import Space
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
        """Axes along which the strings of the space are written."""
        return FRAMES[self.space.axis]  # type: ignore[index]

    @property
    def charged(self) -> bool:
        """True if the state has one Sz, which every step of the cycle conserves."""
        return not math.isnan(self.space.sz)

    @cached_property
    def space(self) -> Space:
        """The space of the deck, or the smallest that the start has and every step conserves: one Sz, one parity, or all."""
        steps = [self.step_model(number) for number in range(len(self.block.cycle))]
        # the deck has seen to it
        assert self.start is not None
        twos = self.models.system.twos
        down = self.start.lowered(twos)
        if isinstance(self.sector, SectorBlock):
            # steps as the parts of one H, in whatever order they act
            cycle = Hamiltonian(steps[0], tuple((float, step) for step in steps[1:]))
            return sector_of(
                Asked(self.sector, self.start, down, twos, self.lattice, self.observables.needs), cycle
            )
        if self.sector != "auto" or down is None:
            return space_with(steps[0])
        if not any(mixing(step) for step in steps):
            return space_with(steps[0], down)
        odd = None if any(parity_obstacle(step) for step in steps) or self.quanta < 2 else down % 2
        return space_with(steps[0], odd=odd)
