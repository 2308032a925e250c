"""Blocks of a deck of driven equations, settled: what collisions and resonances both need."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from qsim.sturmian.deck.collision_symmetry import pairs_of
from qsim.sturmian.driven.setup import Setup
from qsim.sturmian.radial import potentials

if TYPE_CHECKING:
    from qsim.core.device.device import Device
    from qsim.sturmian.deck.collision import Scatter
    from qsim.sturmian.deck.collision_symmetry import Sector, Settings
    from qsim.sturmian.driven.numbers import Numbers
    from qsim.sturmian.driven.operator import Driven

# Residual that rounding leaves, over the condition of the contour.
ROUNDING = 1e-14
LARGEST_ROUNDING = 1e-6


@dataclass
class Problem:
    """Symmetries, energies and grid of some driven equations.

    Attributes
    ----------
    device : Device
    settings : Settings
        Typed blocks of the deck.
    numbers : Numbers
        Contour, grid and basis.
    sectors : list of Sector
    notices : list of str
        What the deck left open and how it was settled.
    """

    device: Device
    settings: Settings
    numbers: Numbers
    sectors: list[Sector]
    notices: list[str] = field(default_factory=list)

    @property
    def task(self) -> Scatter:
        """The deck's task."""
        return self.settings.task

    @property
    def process(self) -> str:
        """Name of the process."""
        return self.task.process

    @cached_property
    def potential(self) -> potentials.OneBody:
        """One-body potential as a function of the radius."""
        system = self.settings.system
        return potentials.OneBody(system.potential, system.Z)

    @property
    def errors(self) -> bool:
        """True if coarser solutions tell the errors."""
        return self.task.errors

    def pairs(self) -> list[list[tuple[int, int]]]:
        """Return the pairs of every sector."""
        return [pairs_of(self.settings.channels, sector) for sector in self.sectors]

    @property
    def l_max(self) -> int:
        """Largest orbital momentum of a pair."""
        return max(b for pairs in self.pairs() for _, b in pairs)

    def other_pairs(self) -> list[list[tuple[int, int]]] | None:
        """Return other pairs, which tell the error of the largest momentum: up to one less, or to one more.

        Of resonances always to one more: the first momenta move them by far more than what follows.  None where the deck lists
        its pairs: then they are a model.
        """
        if self.settings.channels.pairs is not None:
            return None
        out = []
        for sector, pairs in zip(self.sectors, self.pairs(), strict=True):
            top = max(b for _, b in pairs)
            kept = [pair for pair in pairs if pair[1] < top]
            # For electrons the pair (0, L) holds the incident wave itself, and must not be left
            # out.
            lost = self.process == "e_h" and (0, sector.L) not in kept
            if not kept or lost or self.process == "resonances":
                kept = sector.pairs(top + 1)
            out.append(kept)
        return out

    @property
    def beyond(self) -> float:
        """Error of the momenta that are left out over the change by `other_pairs`.

        A decay like l^-4 leaves l_max/3 times the last step after it, and from the next step on l_max/3 + 1 times
        that one.
        """
        other = self.other_pairs()
        if other is None:
            return 0.0
        more = any(
            max(b for _, b in new) > max(b for _, b in own)
            for new, own in zip(other, self.pairs(), strict=True)
        )
        return max(1.5, self.l_max / 3.0 + 1.0) if more else max(1.0, self.l_max / 3.0)

    def setup(self, *, coarser: bool = False) -> Setup:
        """Return grid and operators; the coarser grid, which tells the errors, has another curve through the rows of a table."""
        Z = float(self.settings.system.Z)
        if coarser:
            return Setup(self.device, self.numbers.coarser(Z), Z, self.potential.doubted(), coarser)
        return Setup(self.device, self.numbers, Z, self.potential)

    def rounding(self, operator: Driven) -> float:
        """Return the residual that the condition of the contour allows."""
        worst = max(orbital.condition for orbital in operator.orbitals.values())
        return min(LARGEST_ROUNDING, ROUNDING * worst)
