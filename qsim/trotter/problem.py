"""The problem of the tasks in sectors: model, sectors, device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from qsim.core.device.device import cpu
from qsim.core.errors import DeckError
from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.deck.tasks import Dynamics, Floquet, Levels, Spectrum, Thermal
from qsim.trotter.kernels.product.forms import form_of
from qsim.trotter.kernels.product.operators import is_real
from qsim.trotter.lattices.momenta import Translations, translations
from qsim.trotter.measurement.spaces import operator_in
from qsim.trotter.model.larger import SpinModel
from qsim.trotter.model.models import Models
from qsim.trotter.observables.registry import Observables
from qsim.trotter.sectors.parity import ParitySector, WholeSpace, parity_obstacle
from qsim.trotter.sectors.selection import frame_of, mixing, space_with, spaces_of
from qsim.trotter.sectors.shared.space import LEAST_BITS, SharedSpace, most_ranks
from qsim.trotter.sectors.symmetric import symmetric_sectors, term_bytes

if TYPE_CHECKING:
    from qsim.core.device.device import Device
    from qsim.core.device.links import Links
    from qsim.trotter.deck.axes import Axis
    from qsim.trotter.deck.model import TrotterDeck
    from qsim.trotter.initial.base import InitialState
    from qsim.trotter.measurement.spaces import Space
    from qsim.trotter.model.frames import Frame
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.sectors.linear import SpaceOperator
    from qsim.trotter.sectors.symmetric import PlainSpace

__all__ = ["GPU_AMPLITUDES", "GPU_STATES", "GPU_TERMS", "TaskProblem"]

# Amplitudes of an evolution from which a GPU is faster than its host (docs/howto/devices.md): with 6.6e4, paper_accuracy and
# ring_echo take half as long on it and autocorrelation_a1 1.2 times as long; disorder_quench with 2e4 1.2 times as long.
GPU_AMPLITUDES = 6e4
# States of a sector: structure_factor with 4.9e4 takes 1.2 times as long on a GPU, heisenberg_ground with 1.8e5 1.6 times.
GPU_STATES = 2e5
# States of a space of characters or of larger spins, whose matrix a host keeps, from which a GPU makes the products by terms.
GPU_TERMS = 1 << 20

# spaces of bits, whose vectors processes can share
SHARED = (WholeSpace, ParitySector)

B = TypeVar("B", Spectrum, Dynamics, Thermal, Levels, Floquet)


@dataclass
class TaskProblem(Generic[B]):
    """The problem of a task that works in sectors.

    Attributes
    ----------
    task : str
        Name of the task.
    models : Models
        Couplings and fields of every realisation of the disorder.
    observables : Observables
        Observables of the deck.
    block : Spectrum, Dynamics, Thermal, Levels or Floquet
        Settings of the task.
    sector : SectorBlock or text
        Sector of the deck.
    device : Device or None
        None in a plan.
    start : InitialState or None
        Initial state of the deck, for a task that has one.
    ring : bool
        Whether the last site is a neighbour of the first.
    lattice : block of a lattice, optional
        That of the deck, to which momenta belong.
    """

    task: str
    models: Models
    observables: Observables
    block: B
    sector: SectorBlock | str
    device: Device | None
    start: InitialState | None = None
    ring: bool = False
    lattice: Any = None

    @classmethod
    def of(cls, deck: TrotterDeck, block: B, device: Device | None) -> Self:
        """Return the problem of a deck whose task has the settings `block`; a plan has no device."""
        return cls(
            task=deck.task,
            models=Models.of(deck),
            observables=deck.observables,
            block=block,
            sector=deck.sector,
            device=device,
            ring=deck.ring,
            lattice=deck.lattice,
        )

    @cached_property
    def translations(self) -> Translations:
        """Shifts that momenta belong to."""
        return translations(self.lattice, self.spins)

    @property
    def spins(self) -> int:
        """Number of spins N."""
        return self.models.spins

    @property
    def quanta(self) -> int:
        """Twice the largest total Sz."""
        return self.models.system.quanta

    @property
    def largest(self) -> float:
        """Largest S of a site."""
        return 0.5 * max(self.models.system.twos)

    @property
    def halves(self) -> bool:
        """True if all spins are 1/2 with couplings and fields alone, whose strings are bits."""
        return self.models.system.halves

    @property
    def hosted(self) -> bool:
        """True if products are those of a CPU: of stored matrices of small spaces, by terms of one and of two sites."""
        by_terms = self.stored or not self.halves
        return by_terms and max(sector.dimension for sector in self.sectors) < GPU_TERMS

    @property
    def place(self) -> Device:
        """The device of a run; the CPU where products are made there alone."""
        assert self.device is not None
        return cpu(self.device.threads) if self.hosted and self.device.is_cuda else self.device

    @property
    def stored(self) -> bool:
        """True if H is a stored matrix: the sectors have symmetries beside Sz and inversion, or inversion without a total Sz.

        Of spins above 1/2 with inversion, too.
        """
        block = self.sector
        return isinstance(block, SectorBlock) and (
            block.stored or (block.inversion is not None and not (self.charged and self.halves))
        )

    def share(self, links: Links) -> None:
        """Let several processes share the vectors of all sectors, which are all states or those of a parity."""
        shared = [SharedSpace(space, links) for space in self.sectors if isinstance(space, SHARED)]
        # functions of `spaces` that this task calls have a case for them
        self.sectors = cast("list[Space]", shared)

    def shared_ranks(self) -> tuple[int, str]:
        """Return the number of processes that can share the vectors, a power of two, and why one alone must have them."""
        needs = self.observables.needs
        reasons = {
            "vectors of one Sz, of characters and of larger spins are not shared; sector: full is": not all(
                isinstance(space, SHARED) for space in self.sectors
            ),
            "couplings of different components have no product over several processes": not self.halves
            or self.model.cross is not None,
            "correlators of unlike components need whole states": bool(needs.unlike),
            f"{self.spins} spins are too few": self.bits <= LEAST_BITS,
        }
        for reason, applies in reasons.items():
            if applies:
                return 1, reason
        return most_ranks(self.bits), ""

    @property
    def bits(self) -> int:
        """Bits of the number of states of the largest sector."""
        return (max(space.dimension for space in self.sectors) - 1).bit_length()

    def operator(self, sector: Space, model: Model) -> SpaceOperator:
        """Return H in a sector of the task."""
        return operator_in(sector, self.place, model)

    @cached_property
    def frame(self) -> Frame:
        """Axes along which the strings of the sectors are written; models and vectors are in this frame."""
        return frame_of(self.models.hamiltonian().at(0.0), self.sector, self.totals)

    @property
    def totals(self) -> str:
        """Axes along which a total spin is of use to the task."""
        if not isinstance(self.block, Dynamics):
            return "zxy"
        # S^x and S^y lead to two of its sectors
        return "" if self.block.operator in ("sx", "sy") or self.block.unlike else "z"

    def of_realisation(self, realisation: int) -> Model:
        """Return H, which is constant, of a member of the ensemble of disorder."""
        return self.frame.turned(self.models.hamiltonian(realisation * self.models.states).at(0.0))

    @cached_property
    def model(self) -> Model:
        """H, which is constant."""
        return self.of_realisation(0)

    @cached_property
    def charged(self) -> bool:
        """True if the sectors have one Sz each."""
        requested = self.sector
        if not isinstance(requested, SectorBlock):
            return requested == "auto" and self.frame.axis in self.totals and not mixing(self.model)
        if requested.parity is not None:
            return False
        return requested.charged or ("z" in self.totals and self.frame.axis == "z" and not mixing(self.model))

    @cached_property
    def sectors(self) -> list[Space]:
        """Spaces of the task, those with the most spins up first.

        Raises
        ------
        DeckError
            If H does not conserve what the sector fixes.
        """
        # a sector of the deck, else every sector that holds the levels of H
        requested: SectorBlock | None = self.sector if isinstance(self.sector, SectorBlock) else None
        quanta = self.quanta
        model: Model = self.model
        axis: Axis = self.frame.axis
        inversion = requested.inversion or 0 if requested is not None else 0
        if self.charged:
            if why := mixing(model, inversion):
                raise DeckError(
                    f"sector: total Sz {'and inversion are' if inversion else 'is'} not conserved: {why}"
                )
            if requested is None:
                return [space_with(model, down, axis=axis) for down in self.downs()]
            if not requested.charged and quanta % 2:
                raise DeckError(
                    f"sector.sz: missing key: Sz of {self.spins} spins is half an odd number, such as 0.5"
                )
            downs = [quanta - round(up) for up in requested.ups(quanta)]
            if not self.stored:
                return [space_with(model, down, inversion=inversion, axis=axis) for down in downs]
            plain: list[PlainSpace] = [space_with(model, down) for down in downs]
        else:
            plain = spaces_of(model, self.sector, axis)
            # the product of all 2 S^x, which turns a parity over where N is odd
            if inversion and (why := parity_obstacle(model, 0)):
                raise DeckError(f"sector.inversion: the inversion of all spins is not conserved: {why}")
            if inversion and quanta % 2:
                plain = [space_with(model)]
            if not self.stored:
                return [*plain]
        if requested is None:
            return [*plain]
        block: SectorBlock = requested
        found: list[Space] = [*symmetric_sectors(block, model, plain, self.translations)]
        return found

    def downs(self) -> range:
        """Return the quanta below all spins up of the sectors in which every level has a member."""
        half = self.quanta // 2
        # fields along z tell Sz from -Sz: every sector counts
        if not self.doubled:
            return range(self.quanta + 1)
        if self.isotropic:
            # every multiplet has a member with the least |Sz|
            return range(half, half + 1)
        # Sz and -Sz have the same levels
        return range(half + 1)

    @cached_property
    def isotropic(self) -> bool:
        """True if levels are multiplets of total spin: H has no field and equal couplings along x, y and z."""
        return self.spin_conserved and not self.model.h.any()

    @cached_property
    def spin_conserved(self) -> bool:
        """True if H conserves the total spin; see :func:`qsim.trotter.measurement.total_spin.conserved`."""
        from qsim.trotter.measurement.total_spin import conserved

        return conserved(self.model)

    @property
    def mirrored(self) -> bool:
        """True if Sz and -Sz have the same levels, and only one of them is looked at."""
        return self.sector == "auto" and self.doubled

    @property
    def multiplets(self) -> bool:
        """True if one sector stands for the whole multiplets of its levels."""
        return self.sector == "auto" and self.isotropic

    @cached_property
    def complete(self) -> bool:
        """True if every level of H has a state in the sectors of the task."""
        requested = self.sector
        if not isinstance(requested, SectorBlock):
            return True
        # one parity, one sign of inversion or reflection, or one character, is a part of the levels
        if (
            requested.parity
            or requested.inversion
            or requested.reflection
            or requested.permutations
            or requested.point_group
        ):
            return False
        if requested.momentum is not None:
            momenta = {k for k in self.translations.numbers(requested.momentum) if k is not None}
            # of a real H, k and -k have the same levels
            if self._real:
                momenta |= {self.translations.negative(k) for k in momenta}
            if len(momenta) < self.translations.count:
                return False
        if not self.charged:
            return True
        # sectors named by the deck, and their mirror images without fields
        named = {self.quanta - round(up) for up in requested.ups(self.quanta)}
        if self.doubled:
            named |= {self.quanta - down for down in named}
        return set(self.downs()) <= named

    @property
    def _real(self) -> bool:
        """True if H is real in the sectors; without a total Sz if it can be made so by a choice of the imaginary axis."""
        cross, h = self.model.cross, self.model.h
        if isinstance(self.model, SpinModel):
            return self.model.real
        if self.charged:
            return cross is None
        return any(not h[a].any() and (cross is None or not cross[a].any()) for a in range(3))

    @property
    def doubled(self) -> bool:
        """True if a sector stands for the sector of -Sz as well."""
        return self.charged and self.model.reversible

    # ---------------------------------------------------------------------------------------- memory

    @property
    def amplitude_bytes(self) -> int:
        """Bytes of an amplitude: complex where H is."""
        if isinstance(self.model, SpinModel):
            real = self.model.real
        else:
            real = self.model.cross is None if self.charged else is_real(self.model)
        characters = all(getattr(sector, "is_real", True) for sector in self.sectors) if self.stored else True
        return 8 if real and characters else 16

    def table_bytes(self, states: int) -> int:
        """Return the bytes of the tables of H in a sector of some states, or of its stored matrix."""
        spins, model = self.spins, self.model
        if self.stored or isinstance(model, SpinModel):
            return term_bytes(model, self.sectors, observed=bool(self.observables) or self.task != "spectrum")
        if not self.charged:
            # work space of a product by frames, on one device or the other
            forms = {form_of(model.J, model.h, cuda=cuda) for cuda in (False, True)}
            work = self.amplitude_bytes * states if "frames" in forms else 0
            # what is observed is taken from three states of all spins
            return work + (48 << spins if self.observables or self.task == "dynamics" else 0)
        # as in `evolve.memory`: ranks, strings and energies of both parts
        tables = (spins + 40) << ((spins + 1) // 2 + 2)
        return tables if model.cross is None else tables + term_bytes(model, self.sectors)
