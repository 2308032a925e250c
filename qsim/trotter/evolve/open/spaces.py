"""Spaces in which trajectories are carried: all states, or sectors of Sz between which jumps lead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.core.errors import DeckError
from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.evolution.integrators import METHODS
from qsim.trotter.model.open.channels import charge_of, decays_of
from qsim.trotter.observables.state import State
from qsim.trotter.sectors.digits.liouville import space_of
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.selection import lowered_of, obstacle

if TYPE_CHECKING:
    from qsim.trotter.deck.model import TrotterDeck
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.measurement.spaces import Space

__all__ = ["AS_CLOSED", "by_trajectories", "open_space", "why_mixing"]

#: The space is that of the closed evolution.
AS_CLOSED: Any = object()
# spins up to which layers over all states beat matrices of a sector
MOST_LAYERED = 14
# elements of a density matrix at most, which take some 500 bytes with their generator and the Krylov space
MOST_ELEMENTS = 6_000_000
# spread of a spin over trajectories, by which an error asked for is a number of them
SPREAD = 0.5


def why_mixing(problem: Problem) -> str:
    """Return why H or a jump leads from one total Sz to several others, ``""`` if none does."""
    if why := obstacle(problem.hamiltonian()):
        return why
    for channel in problem.channels:
        if charge_of(channel) is None:
            return f"dissipation.{channel.entry} leads from one total Sz to several"
    return ""


def open_space(deck: TrotterDeck, problem: Problem) -> Space | None:
    """Return the space in which the trajectories of a deck begin; None for all states in layers.

    Raises
    ------
    DeckError
        If the deck names a sector of Sz that H or the jumps do not keep apart from others.
    """
    system, block = deck.system, deck.sector
    twos, decays = system.twos, decays_of(problem.channels, system.twos)
    charges = {charge_of(channel) for channel in problem.channels}
    constant = all(decay.is_constant for decay in decays) and system.halves
    local = all(channel.local for channel in problem.channels)
    # closed evolutions serve between jumps that come at times of their own and lead nowhere else
    if constant and local and charges == {0}:
        return AS_CLOSED
    named = isinstance(block, SectorBlock) and block.charged
    why = why_mixing(problem)
    down = lowered_of(problem.models, deck.initial)
    if named:
        assert isinstance(block, SectorBlock)
        if why:
            raise DeckError(f"sector: total Sz is not conserved: {why}; use sector: full")
        given = system.quanta - round(block.ups(system.quanta)[0])
        if down is not None and down != given:
            raise DeckError(
                f"sector: the initial state has Sz = {0.5 * system.quanta - down:g}; use sector: auto"
            )
        return DigitSpace(twos, given)
    plain = system.halves and not problem.has_tensors and all(d.model.cross is None for d in decays)
    chosen = deck.evolve.integrator in METHODS or deck.evolve.dt is not None
    charged = block == "auto" and not why and not chosen
    if down is not None and charged and (not plain or system.spins > MOST_LAYERED):
        return DigitSpace(twos, down)
    if plain:
        return None
    return DigitSpace(twos)


def by_trajectories(deck: TrotterDeck, problem: Problem) -> bool:
    """Return True if an open system is carried by trajectories, False for its density matrix.

    A density matrix has as many elements as trajectories have amplitudes, where these are some 2^(N + 1).

    Raises
    ------
    DeckError
        If the deck asks for a density matrix that does not fit, or for what is a property of one trajectory.
    """
    twos, block, needs = deck.system.twos, deck.open, problem.observables.needs
    charged = lowered_of(problem.models, deck.initial) is not None and not why_mixing(problem)
    elements = space_of(twos, 0 if charged else None).dimension
    alone = bool(needs.cuts) or State in problem.observables or block.counting is not None
    large = elements > MOST_ELEMENTS or 2 * len(twos) * DigitSpace(twos).bits > 62
    if block.method == "density_matrix":
        if alone:
            raise DeckError(
                "open.method: entropies and states are those of single trajectories; use method: trajectories, or leave them out"
            )
        if large:
            raise DeckError(
                f"open.method: a density matrix of {elements:.3g} elements is too large, at most {MOST_ELEMENTS:.1g}; use "
                "method: trajectories"
            )
        return False
    if block.method == "trajectories" or alone or large:
        return True
    count = block.trajectories if block.target_error is None else (SPREAD / block.target_error) ** 2
    states = 2.0 ** len(twos) if problem.sector is None else problem.sector.dimension
    return bool(elements > 0.5 * count * states * deck.ensemble.states)
