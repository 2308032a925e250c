"""Energies, initial state, symmetries and pairs of a collision deck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from qsim.sturmian.deck import symmetry
from qsim.sturmian.deck.blocks import Gsf, as_list
from qsim.sturmian.deck.collision import EnergyRange, Initial, Scatter
from qsim.sturmian.deck.photon import PhotonRange, values_of

if TYPE_CHECKING:
    from qsim.sturmian.deck.blocks import Channels, Grid, System
    from qsim.sturmian.deck.model import Solver, SturmianDeck

__all__ = ["Sector", "Settings", "energies_of", "initial_of", "pairs_of", "sectors_of"]


# Relative residual of a driven equation.
TOLERANCE = 1e-8
# The same where one space serves a list of photon energies, and where it serves a range: totals are off by its square,
# amplitudes by itself, and a narrow resonance between two energies of a list is met by accident alone.
NODES, RANGE = 1e-5, 1e-3
# The same of more than so many energies of electrons, where a curve is wanted.
FEW, MANY = 40, 1e-6


class Sector(NamedTuple):
    """One total angular momentum, spin and parity (``natural``, ``(-1)^L``, ``unnatural``, ``even`` or ``odd``)."""

    L: int
    S: int
    parity: str = "natural"

    @property
    def name(self) -> str:
        """Words for messages."""
        parity = symmetry.parity_of(self.L, self.parity)
        natural = parity == symmetry.parity_of(self.L, "natural")
        return f"L = {self.L}, S = {self.S}" + ("" if natural else f", {parity} parity")

    def pairs(self, l_max: int) -> list[tuple[int, int]]:
        """Return all pairs ``la <= lb`` up to an orbital momentum."""
        return symmetry.pairs(self.L, l_max, parity=self.parity, S=self.S)


@dataclass(frozen=True)
class Settings:
    """Blocks of a deck that define a collision.

    Attributes
    ----------
    system : System
    grid : Grid
    basis : Gsf or None
        Functions; None for the whole grid.
    settled : bool
        Whether the deck names its basis.
    channels : Channels
    task : Scatter
    initial : Initial
        The bound state that a photon or a fast charge meets.
    solver : Solver
    energies : tuple of float
        Impact or excess energies, or the energy of both electrons, hartree.
    photons : tuple of float
        Photon energies, hartree, ascending; empty where `energies` tells them, by the excess of each.
    scan : dict of list
        Keys and values of the convergence scans, without the scan of energies.
    """

    system: System
    grid: Grid
    basis: Gsf | None
    settled: bool
    channels: Channels
    task: Scatter
    initial: Initial
    solver: Solver
    energies: tuple[float, ...]
    photons: tuple[float, ...]
    scan: dict[str, list[float]]

    @classmethod
    def of(cls, deck: SturmianDeck) -> Settings:
        """Return the blocks of a deck."""
        assert isinstance(deck.task, Scatter)
        settled = "basis" in deck.model_fields_set
        scan = {} if deck.scan is None else deck.scan.given()
        return cls(
            deck.system,
            deck.grid,
            deck.basis if settled and isinstance(deck.basis, Gsf) else None,
            settled,
            deck.channels,
            deck.task,
            initial_of(deck),
            solver_of(deck),
            tuple(energies_of(deck)),
            tuple(values_of(deck.task.photon)),
            {key: values for key, values in scan.items() if key != "energy"},
        )


def solver_of(deck: SturmianDeck) -> Solver:
    """Return the solver with the tolerance of a collision where the deck gives none."""
    if "tolerance" in deck.solver.model_fields_set:
        return deck.solver
    tolerance = TOLERANCE
    if isinstance(deck.task, Scatter) and deck.task.by_photons:
        given = deck.task.excess if deck.task.photon is None else deck.task.photon
        tolerance = RANGE if isinstance(given, PhotonRange) else NODES
    elif len(energies_of(deck)) > FEW:
        tolerance = MANY
    return deck.solver.model_copy(update={"tolerance": tolerance})


def energies_of(deck: SturmianDeck) -> list[float]:
    """Return the energies of a deck, from the task or ``scan.energy``: of the impact, the excess, or both ejected electrons."""
    task = deck.task
    assert isinstance(task, Scatter)
    if task.process == "born" and task.ejected is not None:
        return [sum(task.ejected)]
    given = task.energy if task.process == "e_h" else task.excess
    if isinstance(given, EnergyRange | PhotonRange):
        return given.values()
    if given is None and deck.scan is not None and deck.scan.energy:
        return list(deck.scan.energy)
    return [] if given is None else as_list(given)


def initial_of(deck: SturmianDeck) -> Initial:
    """Return the block of the initial state."""
    block = getattr(deck, "initial", None)
    return block if isinstance(block, Initial) else Initial()


def sectors_of(deck: SturmianDeck) -> list[Sector]:
    """Return the symmetries of a deck: of its channels, and for a photon the ones that the dipole reaches."""
    process = getattr(deck.task, "process", "e_h")
    channels, initial = deck.channels, initial_of(deck)
    if process in ("e_h", "resonances"):
        Ls = [0] if channels.L is None else as_list(channels.L)
        default = [0, 1] if process == "e_h" else [0]
        Ss = default if channels.S is None else as_list(channels.S)
        return [Sector(L, S, channels.parity) for S in Ss for L in Ls]
    if isinstance(deck.task, Scatter) and deck.task.by_photons:
        return _reached(channels, initial)
    reached = [1] if process == "photo" else [0, 1, 2]
    Ls = reached if channels.L is None else as_list(channels.L)
    return [Sector(L, initial.S) for L in Ls]


def _reached(channels: Channels, initial: Initial) -> list[Sector]:
    """Return the symmetries that a dipole reaches: L - 1, L, L + 1, all of the parity opposite to that of the initial state.

    L itself then is of unnatural parity.  Those without any pair are left out, unless the deck asks for them, and so are those
    of another parity than a deck that names one.
    """
    parity = "even" if initial.L % 2 else "odd"
    Ls = range(abs(initial.L - 1), initial.L + 2) if channels.L is None else as_list(channels.L)
    sectors = [Sector(L, initial.S, parity) for L in Ls]
    if "parity" in channels.model_fields_set:
        wanted = channels.parity
        named = [one for one in sectors if symmetry.parity_of(one.L, wanted) == parity]
        sectors = named or sectors
    if channels.L is not None:
        return sectors
    return [sector for sector in sectors if pairs_of(channels, sector)] or sectors[-1:]


def pairs_of(channels: Channels, sector: Sector) -> list[tuple[int, int]]:
    """Return the pairs of a symmetry; of a list those that can couple to L."""
    if channels.pairs is not None:
        given = [(min(pair), max(pair)) for pair in channels.pairs]
        return [pair for pair in given if symmetry.allowed(sector.L, *pair, sector.parity)]
    return sector.pairs(symmetry.default_l_max(channels, sector.L))
