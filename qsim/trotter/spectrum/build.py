"""From the deck of ``task: spectrum`` to its problem, and its memory before that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.load import LoadedDeck
from qsim.core.run.stages import Plan
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.deck.tasks import Spectrum
from qsim.trotter.problem import TaskProblem
from qsim.trotter.sector_plan import plan_in_sectors

if TYPE_CHECKING:
    from qsim.core.device.device import Device


def plan(loaded: LoadedDeck[TrotterDeck]) -> Plan:
    """Return sectors and memory; nothing large is allocated."""
    deck = loaded.deck
    problem = _problem(deck, None)
    return plan_in_sectors(deck, problem, lambda states: memory(problem, states))


def build(loaded: LoadedDeck[TrotterDeck], device: Device) -> TaskProblem[Spectrum]:
    """Return the problem of a deck."""
    return _problem(loaded.deck, device)


def _problem(deck: TrotterDeck, device: Device | None) -> TaskProblem[Spectrum]:
    return TaskProblem[Spectrum].of(deck, deck.spectrum, device)


def memory(problem: TaskProblem[Spectrum], states: int) -> dict[str, int]:
    """Return the bytes of a block of Lanczos vectors in a sector, by part."""
    block = problem.block
    # three of the recurrence beside the levels that are kept, and the one beyond them
    vectors = 3 + block.levels + block.gap
    return {"vectors": problem.amplitude_bytes * states * vectors, "tables": problem.table_bytes(states)}
