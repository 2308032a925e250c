"""The plan of a task that works in sectors of Sz: their sizes, memory and mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.errors import DeckError
from qsim.core.run.stages import Plan, Size
from qsim.trotter import checks
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.problem import GPU_STATES, TaskProblem


def no_findings(states: int) -> Iterator[Finding]:
    """Yield nothing: any sector will do."""
    yield from ()


def plan_in_sectors(
    deck: TrotterDeck,
    problem: TaskProblem[Any],
    memory: Callable[[int], dict[str, int]],
    findings_of: Callable[[int], Iterator[Finding]] = no_findings,
    gpu: float = GPU_STATES,
) -> Plan:
    """Return the plan of a task.

    Parameters
    ----------
    deck : TrotterDeck
    problem : TaskProblem
        Without a device.
    memory : function
        Returns the bytes by part, of a sector with a number of states.
    findings_of : function
        Yields what makes the largest sector, with that number of states, unfit for the task.
    gpu : float
        States of the largest sector from which a GPU is faster.
    """
    # each check needs what the one before it has found sound: shells, couplings, sectors, their sizes
    findings = list(checks.shells(deck)) or list(checks.couplings(deck, problem.models))
    states = [0]
    if not findings:
        try:
            states = [sector.dimension for sector in problem.sectors]
        except DeckError as error:
            findings = [checks.of_sector(error)]
    if not findings:
        findings = list(findings_of(max(states)))
    if checks.mistaken(findings):
        return Plan(findings=findings)
    # sectors are worked on one after the other: the largest one counts
    parts = memory(max(states))
    sizes = {"spins": problem.spins, "sectors": len(states), "states": max(states)}
    # stored matrices, of momenta and other symmetries, stay on the host
    size = Size(float(max(states)), "states", math.inf if problem.hosted else gpu)
    return Plan(
        memory=Memory(
            device=sum(parts.values()),
            parts=parts,
            reduce="system.spins",
            size=f"{max(states)} states" if max(states) else "",
        ),
        sizes=sizes,
        findings=findings,
        size=size,
    )
