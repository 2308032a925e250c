"""From the deck of ``task: floquet`` to its problem, and its memory before that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.deck.load import LoadedDeck
from qsim.core.run.stages import Plan
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.deck.tasks import Floquet
from qsim.trotter.floquet.problem import FloquetProblem
from qsim.trotter.sector_plan import plan_in_sectors

if TYPE_CHECKING:
    from qsim.core.device.device import Device

# states of a cycle that is diagonalised: a minute
MOST_QUASI = 4000
# of a sector, in memory at once
VECTORS = 12


def plan(loaded: LoadedDeck[TrotterDeck]) -> Plan:
    """Return the sector and memory; nothing large is allocated."""
    deck = loaded.deck
    problem = _problem(deck, None)
    return plan_in_sectors(
        deck, problem, lambda states: memory(problem, states), lambda states: _sizes(deck.floquet, states)
    )


def build(loaded: LoadedDeck[TrotterDeck], device: Device) -> FloquetProblem:
    """Return the problem of a deck."""
    return _problem(loaded.deck, device)


def _problem(deck: TrotterDeck, device: Device | None) -> FloquetProblem:
    problem = FloquetProblem.of(deck, deck.floquet, device)
    problem.start = deck.initial
    return problem


def _sizes(block: Floquet, states: int) -> Iterator[Finding]:
    """Yield why a sector is too large to diagonalise a cycle in it."""
    if block.quasienergies and states > MOST_QUASI:
        yield Finding(
            "floquet.quasienergies",
            f"{states} states are too many to diagonalise a cycle, at most {MOST_QUASI}; leave quasienergies out",
        )


def memory(problem: FloquetProblem, states: int) -> dict[str, int]:
    """Return the bytes of the state and the expansions of a cycle, or of the matrix of one, by part."""
    tables = problem.table_bytes(states)
    if problem.block.quasienergies:
        # the cycle, H of a step, its eigenvectors, the same with phases and conjugate, and the step
        return {"matrix": 6 * 16 * states**2, "tables": tables}
    return {"vectors": problem.amplitude_bytes * states * VECTORS, "tables": tables}
