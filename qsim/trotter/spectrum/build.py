"""From the deck of ``task: spectrum`` to its problem, and its memory before that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qsim.core.deck.load import LoadedDeck
from qsim.core.device.parallel import connected
from qsim.core.run.stages import Plan
from qsim.trotter import checks
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.deck.tasks import Spectrum
from qsim.trotter.problem import TaskProblem
from qsim.trotter.sector_plan import plan_in_sectors

if TYPE_CHECKING:
    from qsim.core.device.device import Device

__all__ = ["build", "plan"]


def plan(loaded: LoadedDeck[TrotterDeck]) -> Plan:
    """Return sectors and memory; nothing large is allocated."""
    deck = loaded.deck
    problem, comm = _problem(deck, None), connected()
    made = plan_in_sectors(deck, problem, lambda states: memory(problem, states))
    if checks.mistaken(made.findings):
        return made
    most, alone = problem.shared_ranks()
    made = replace(made, ranks=most, shared="amplitudes", doubling=True, capacity=True, alone=alone)
    if comm is None or comm.size == 1 or made.memory is None:
        return made
    # each process has its part; on a CPU the other parts are on the host, too
    parts = memory(problem, max(space.dimension for space in problem.sectors), min(comm.size, most))
    own = sum(parts.values())
    others = own * (min(comm.size, most) - 1)
    needed = replace(
        made.memory, device=own, host=made.memory.host + others, parts=parts, on_gpu_host=-others
    )
    return replace(made, memory=needed)


def build(loaded: LoadedDeck[TrotterDeck], device: Device) -> TaskProblem[Spectrum]:
    """Return the problem of a deck."""
    return _problem(loaded.deck, device)


def _problem(deck: TrotterDeck, device: Device | None) -> TaskProblem[Spectrum]:
    return TaskProblem[Spectrum].of(deck, deck.spectrum, device)


def memory(problem: TaskProblem[Spectrum], states: int, ranks: int = 1) -> dict[str, int]:
    """Return the bytes of a block of Lanczos vectors in a sector, by part, of one of some processes that share them."""
    block = problem.block
    # two of the recurrence beside the levels, of which the gap takes two; more of them are looked for where they fit
    amplitude, kept = problem.amplitude_bytes, max(block.levels, 1 + block.gap)
    vectors = amplitude * states * (2 + kept)
    if problem.stored and problem.spin_conserved:
        # the total spin takes S^2 psi beside the levels, and strings and a vector of the next Sz
        outer = [getattr(space, "outer", None) for space in problem.sectors]
        next_to = max((space.dimension for space in outer if space is not None), default=0)
        vectors = max(vectors, amplitude * (states * (1 + kept) + next_to) + 20 * next_to)
    if ranks == 1:
        return {"vectors": vectors, "tables": problem.table_bytes(states)}
    # amplitudes of another process; of entropies a state of all spins
    work = amplitude * states + (48 * states if problem.observables.needs.cuts else 0)
    return {"vectors": vectors // ranks, "work": work // ranks}
