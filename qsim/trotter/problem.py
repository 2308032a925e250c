"""What the tasks beside an evolution have in common: model, sectors, device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import numpy as np

from qsim.core.device.device import cpu
from qsim.core.errors import DeckError
from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.deck.tasks import Dynamics, Floquet, Levels, Spectrum, Thermal
from qsim.trotter.model.models import Models
from qsim.trotter.observables.requested import Asked
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.selection import obstacle

if TYPE_CHECKING:
    from qsim.core.device.device import Device
    from qsim.trotter.deck.initial import Initial
    from qsim.trotter.deck.model import TrotterDeck
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model
    from qsim.trotter.sectors.operator import SectorOperator
    from qsim.trotter.sectors.symmetric import AnySector, StoredOperator

__all__ = ["TaskProblem"]

B = TypeVar("B", Spectrum, Dynamics, Thermal, Levels, Floquet)


@dataclass
class TaskProblem(Generic[B]):
    """What a task needs.

    Attributes
    ----------
    task : str
        Name of the task.
    models : Models
        Couplings and fields of every realisation of the disorder.
    asked : Asked
        What is observed.
    block : Spectrum, Dynamics, Thermal, Levels or Floquet
        Settings of the task.
    sector : SectorBlock or text
        Sector that is asked for.
    device : Device or None
        None in a plan.
    start : Initial or None
        Initial state of the deck, for a task that has one.
    ring : bool
        Whether the last site is a neighbour of the first.
    """

    task: str
    models: Models
    asked: Asked
    block: B
    sector: SectorBlock | str
    device: Device | None
    start: Initial | None = None
    ring: bool = False

    @classmethod
    def of(cls, deck: TrotterDeck, block: B, device: Device | None) -> Self:
        """Return the problem of a deck whose task has the settings `block`; a plan has no device."""
        return cls(
            task=deck.task,
            models=Models.of(deck),
            asked=Asked(deck.system.spins, deck.observe),
            block=block,
            sector=deck.sector,
            device=device,
            ring=deck.ring,
        )

    @property
    def spins(self) -> int:
        """Number of spins N."""
        return self.models.spins

    @property
    def place(self) -> Device:
        """The device of a run; the CPU where H is a stored matrix."""
        assert self.device is not None
        return cpu(self.device.threads) if self.stored and self.device.is_cuda else self.device

    @property
    def stored(self) -> bool:
        """Whether the sectors have symmetries beside Sz and inversion."""
        return isinstance(self.sector, SectorBlock) and self.sector.stored

    def operator(self, sector: AnySector, model: Model) -> SectorOperator | StoredOperator:
        """Return H in a sector of the task."""
        from qsim.trotter.sectors.operator import SectorOperator
        from qsim.trotter.sectors.symmetric import StoredOperator, SymmetricSector

        if isinstance(sector, SymmetricSector):
            return StoredOperator(self.place, sector, model)
        return SectorOperator(self.place, sector, model)

    @cached_property
    def hamiltonian(self) -> Hamiltonian:
        """H of the deck."""
        return self.of_realisation(0)

    def of_realisation(self, realisation: int) -> Hamiltonian:
        """Return H of a member of the ensemble of disorder."""
        return self.models.hamiltonian(realisation * self.models.states)

    @cached_property
    def complex(self) -> bool:
        """Whether H is complex in a sector: with Dzyaloshinskii-Moriya couplings."""
        return self.hamiltonian.envelope.cross is not None

    @property
    def model(self) -> Model:
        """H, which is constant."""
        return self.hamiltonian.at(0.0)

    @cached_property
    def sectors(self) -> list[AnySector]:
        """Sectors of the task, those with the most spins up first.

        Raises
        ------
        DeckError
            If H does not conserve what is asked for.
        """
        asked: SectorBlock | None = self.sector if isinstance(self.sector, SectorBlock) else None
        spins = self.spins
        inversion = asked.inversion or 0 if asked is not None else 0
        if why := obstacle(self.hamiltonian, inversion):
            raise DeckError(
                f"sector: total Sz {'and inversion are' if inversion else 'is'} not conserved: {why}"
            )
        if asked is not None:
            if asked.stored:
                from qsim.trotter.sectors.symmetric import symmetric_sectors

                stored: list[AnySector] = []
                stored.extend(symmetric_sectors(asked, self.model))
                return stored
            return [Sector(spins, spins - round(up), inversion) for up in asked.ups(spins)]
        return [Sector(spins, down) for down in self.downs()]

    @property
    def plain_sectors(self) -> list[Sector]:
        """The sectors, of tasks that take no symmetries beside Sz and inversion."""
        return [sector for sector in self.sectors if isinstance(sector, Sector)]

    def downs(self) -> range:
        """Return the numbers of spins down of the sectors in which every level has a member."""
        half = self.spins // 2
        if not self.doubled:
            return range(self.spins + 1)
        if self.isotropic:
            return range(half, half + 1)  # every multiplet has a member with the least |Sz|
        return range(half + 1)  # Sz and -Sz have the same levels

    @cached_property
    def isotropic(self) -> bool:
        """Whether levels are multiplets of total spin: H has no field and equal couplings along x, y and z."""
        model = self.model
        equal = np.array_equal(model.J[0], model.J[2]) and np.array_equal(model.J[0], model.J[1])
        return model.cross is None and not model.h.any() and equal

    @property
    def mirrored(self) -> bool:
        """Whether Sz and -Sz have the same levels, and only one of them is looked at."""
        return self.sector == "auto" and self.doubled

    @property
    def multiplets(self) -> bool:
        """Whether one sector stands for the whole multiplets of its levels."""
        return self.sector == "auto" and self.isotropic

    @cached_property
    def complete(self) -> bool:
        """Whether every level of H has a state in the sectors of the task."""
        asked = self.sector
        if not isinstance(asked, SectorBlock):
            return True
        if asked.inversion or asked.reflection or asked.permutations:
            return False
        momenta = set(asked.momenta(self.spins))
        if momenta != {None}:
            if self.model.cross is None:  # of a real H, k and -k have the same levels
                momenta |= {-k % self.spins for k in momenta if k is not None}
            if len(momenta) < self.spins:
                return False
        named = {self.spins - round(up) for up in asked.ups(self.spins)}
        if self.doubled:
            named |= {self.spins - down for down in named}
        return set(self.downs()) <= named

    @property
    def doubled(self) -> bool:
        """Whether a sector stands for that of -Sz as well."""
        return not self.model.h[2].any()

    # ---------------------------------------------------------------------------------------- memory

    @property
    def amplitude_bytes(self) -> int:
        """Bytes of an amplitude: complex with Dzyaloshinskii-Moriya couplings, and in sectors with symmetries beside Sz."""
        return 16 if self.stored or self.complex else 8

    def table_bytes(self, states: int) -> int:
        """Return the bytes of the tables of H in a sector of some states, or of its stored matrix."""
        spins = self.spins
        if not (self.stored and states):
            return (spins + 40) << ((spins + 1) // 2 + 2)
        from qsim.trotter.sectors.symmetric import flips_of

        pairs = flips_of(self.model)[0].size
        # strings, and the entries of the matrix while they are sorted
        tables = states * (16 + 40 * (1 + pairs))
        # what is observed is taken from the state in the sector of Sz: strings, places, factors, amplitudes
        symmetric = [sector for sector in self.sectors if not isinstance(sector, Sector)]
        return tables + 96 * max(sector.base.dimension for sector in symmetric)
