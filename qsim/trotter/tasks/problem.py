"""What the tasks beside an evolution have in common: model, sectors, device."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import DeckError
from qsim.trotter.deck.model import TrotterDeck, correlator_axes
from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.model.hamiltonian import build_hamiltonian
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.choice import obstacle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model

__all__ = ["TaskProblem", "scale_of", "task_memory"]


@dataclass
class TaskProblem:
    """What a task needs.

    Attributes
    ----------
    deck : TrotterDeck
    device : Device or None
        None in a plan.
    seed : int
        Seed of the run.
    """

    deck: TrotterDeck
    device: Device | None
    seed: int
    notices: list[str] = field(default_factory=list)

    @property
    def spins(self) -> int:
        """Number of spins N."""
        return self.deck.system.spins

    @property
    def place(self) -> Device:
        """The device of a run."""
        assert self.device is not None
        return self.device

    @cached_property
    def hamiltonian(self) -> Hamiltonian:
        """H of the deck."""
        return self.of_realisation(0)

    def of_realisation(self, realisation: int) -> Hamiltonian:
        """Return H of a member of the ensemble of disorder."""
        return build_hamiltonian(self.deck.system, seed=self.seed, realisation=realisation)

    @property
    def model(self) -> Model:
        """H, which is constant."""
        return self.hamiltonian.at(0.0)

    @cached_property
    def sectors(self) -> list[Sector]:
        """Sectors of the task, those with the most spins up first.

        Raises
        ------
        DeckError
            If H does not conserve what is asked for.
        """
        asked, spins = self.deck.sector, self.spins
        inversion = asked.inversion or 0 if isinstance(asked, SectorBlock) else 0
        if why := obstacle(self.hamiltonian, inversion):
            raise DeckError(
                f"sector: total Sz {'and inversion are' if inversion else 'is'} not conserved: {why}"
            )
        if isinstance(asked, SectorBlock):
            return [Sector(spins, spins - round(up), inversion) for up in asked.ups(spins)]
        if self.deck.task == "levels":
            return [Sector(spins, (spins + 1) // 2)]
        return [Sector(spins, down) for down in self._downs()]

    def _downs(self) -> range:
        """Return the numbers of spins down of the sectors in which every level has a member."""
        model, half = self.model, self.spins // 2
        if self.deck.task == "thermal":  # all states count
            return range(half + 1) if self.doubled else range(self.spins + 1)
        if model.h[2].any():
            return range(self.spins + 1)
        if np.array_equal(model.J[0], model.J[2]) and np.array_equal(model.J[0], model.J[1]):
            return range(half, half + 1)  # every multiplet has a member with the least |Sz|
        return range(half + 1)  # Sz and -Sz have the same levels

    @property
    def mirrored(self) -> bool:
        """Whether Sz and -Sz have the same levels, and only one of them is looked at."""
        return self.deck.sector == "auto" and not self.model.h[2].any()

    @property
    def doubled(self) -> bool:
        """Whether a sector stands for that of -Sz as well."""
        return not self.model.h[2].any()

    @property
    def temperatures(self) -> NDArray[np.float64]:
        """Temperatures of thermal averages."""
        block = self.deck.thermal.temperatures
        if isinstance(block, list):
            return np.array(block)
        make = np.geomspace if block.spacing == "log" else np.linspace
        return np.asarray(make(block.first, block.to, block.count), np.float64)

    @property
    def wave_numbers(self) -> list[float]:
        """Wave numbers of the spectral functions, in units of pi."""
        given = self.deck.dynamics.q
        return [2.0 * m / self.spins for m in range(self.spins)] if given == "all" else list(given)

    @property
    def frequencies(self) -> NDArray[np.float64]:
        """Frequencies of the spectral functions."""
        block = self.deck.dynamics.omega
        return np.linspace(block.first, block.to, block.count)

    @cached_property
    def pairs(self) -> dict[str, list[tuple[int, int]]]:
        """Pairs of each correlator, by its axes."""
        found = {}
        everything = [(j, k) for j in range(self.spins) for k in range(j + 1, self.spins)]
        for item in self.deck.observe:
            for axes in correlator_axes(item):
                given = item.pairs if isinstance(item.pairs, list) else everything
                found[axes] = [(min(j, k), max(j, k)) for j, k in given]
        return found

    @property
    def cuts(self) -> list[list[int]]:
        """Sites of every entropy that is asked for."""
        found = [item.entropy.parts(self.spins) for item in self.deck.observe if item.entropy is not None]
        return [cut for cuts in found for cut in cuts]


def scale_of(model: Any) -> float:
    """Return a bound of the size of the spectrum: the sum of all couplings and fields."""
    return 0.25 * float(np.abs(np.triu(model.J, 1)).sum()) + 0.5 * float(np.abs(model.h).sum()) or math.ulp(
        1.0
    )


def task_memory(deck: TrotterDeck, states: int) -> dict[str, int]:
    """Return the bytes of a task in a sector of so many states, by part."""
    tables = (deck.system.spins + 40) << ((deck.system.spins + 1) // 2 + 2)
    if deck.task == "levels":
        return {"matrix": 3 * 8 * states**2, "tables": tables}
    vectors = {"spectrum": 3 + deck.spectrum.levels, "dynamics": 9, "thermal": 4}[deck.task]
    return {"vectors": 8 * states * vectors, "tables": tables}
