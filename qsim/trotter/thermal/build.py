"""From the deck of ``task: thermal`` to its problem, and its memory before that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.load import LoadedDeck
from qsim.core.run.stages import Plan
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.sector_plan import plan_in_sectors
from qsim.trotter.thermal.problem import ThermalProblem

if TYPE_CHECKING:
    from qsim.core.device.device import Device

# of a sector, in memory at once
VECTORS = 4


def plan(loaded: LoadedDeck[TrotterDeck]) -> Plan:
    """Return sectors and memory; nothing large is allocated."""
    deck = loaded.deck
    problem = _problem(deck, None)
    return plan_in_sectors(deck, problem, lambda states: memory(problem, states))


def build(loaded: LoadedDeck[TrotterDeck], device: Device) -> ThermalProblem:
    """Return the problem of a deck."""
    return _problem(loaded.deck, device)


def _problem(deck: TrotterDeck, device: Device | None) -> ThermalProblem:
    return ThermalProblem.of(deck, deck.thermal, device)


def memory(problem: ThermalProblem, states: int) -> dict[str, int]:
    """Return the bytes of the recurrences of random vectors in a sector, by part."""
    size = problem.amplitude_bytes
    parts = {"vectors": size * states * VECTORS, "tables": problem.table_bytes(states)}
    # of the largest sector that is diagonalised: the matrix and its copy in LAPACK, for correlators also eigenvectors and two of
    # work space
    matrices = 5 if problem.observables.needs.pairs else 2
    parts["matrix"] = matrices * size * min(states, problem.block.exact) ** 2
    if problem.sampled_axes:
        # phi and its derivative at all temperatures, the terms that are added at once, and the recurrence; complex along y
        most = max(1, (1 << 26) // max(states, 1))
        vectors = 2 * (min(len(problem.block.grid()), most) + min(16, most)) + 8
        parts["response"] = 16 * states * vectors
    if count := _temperature_vectors(problem, states):
        parts["temperatures"] = size * states * count
    return parts


def _temperature_vectors(problem: ThermalProblem, states: int) -> int:
    """Return the vectors that correlators against temperature take beside the vectors of the recurrence."""
    if not problem.observables.needs.pairs:
        return 0
    # vectors of temperatures, and vectors of the recurrence that are added at once; as in correlators.MOST_NUMBERS and TOGETHER
    most = max(1, (1 << 27) // max(states, 1))
    return min(len(problem.block.grid()), most) + min(16, most) + 3
