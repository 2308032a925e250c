"""From the deck of ``task: dynamics`` to its problem, and its memory before that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.deck.load import LoadedDeck
from qsim.core.run.stages import Plan
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.deck.tasks import Dynamics
from qsim.trotter.problem import TaskProblem
from qsim.trotter.sector_plan import plan_in_sectors
from qsim.trotter.sectors.selection import mixing

if TYPE_CHECKING:
    from qsim.core.device.device import Device

# of a sector, in memory at once
VECTORS = 9


def plan(loaded: LoadedDeck[TrotterDeck]) -> Plan:
    """Return sectors and memory; nothing large is allocated."""
    deck = loaded.deck
    problem = _problem(deck, None)
    return plan_in_sectors(
        deck, problem, lambda states: memory(problem, states), lambda states: _findings(problem)
    )


def build(loaded: LoadedDeck[TrotterDeck], device: Device) -> TaskProblem[Dynamics]:
    """Return the problem of a deck."""
    return _problem(loaded.deck, device)


def _problem(deck: TrotterDeck, device: Device | None) -> TaskProblem[Dynamics]:
    return TaskProblem[Dynamics].of(deck, deck.dynamics, device)


def _findings(problem: TaskProblem[Dynamics]) -> Iterator[Finding]:
    """Yield why an operator has no meaning in the spaces of the task."""
    if problem.block.operator == "current" and not problem.charged:
        yield Finding(
            "dynamics.operator", f"there is no current of Sz, which is not conserved: {mixing(problem.model)}"
        )


def memory(problem: TaskProblem[Dynamics], states: int) -> dict[str, int]:
    """Return the bytes of the recurrences in a sector, by part."""
    return {"vectors": problem.amplitude_bytes * states * VECTORS, "tables": problem.table_bytes(states)}
