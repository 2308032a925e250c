"""From the deck of ``task: fid`` to its problem, and its memory before that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.deck.load import LoadedDeck
from qsim.core.device.device import Memory
from qsim.core.run.stages import Plan
from qsim.trotter import checks
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.fid.problem import FidProblem
from qsim.trotter.model.models import Models
from qsim.trotter.sectors.selection import mixing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.core.device.device import Device

__all__ = ["build", "plan"]

# states of a space that is diagonalised with its vectors: half a minute of a core
MOST_STATES = 5000
# elements between states whose I^z differs by 1, of a generator that is not Hermitian: six coupled protons have 792
MOST_COHERENCES = 1000


def build(loaded: LoadedDeck[TrotterDeck], device: Device | None) -> FidProblem:
    """Return the problem of a deck; a plan has no device."""
    deck = loaded.deck
    return FidProblem(Models.of(deck), deck.fid, deck.relaxation, device)


def plan(loaded: LoadedDeck[TrotterDeck]) -> Plan:
    """Return sizes and memory, and what keeps a deck from having lines; nothing large is allocated."""
    deck, problem = loaded.deck, build(loaded, None)
    findings = list(checks.shells(deck)) or list(checks.couplings(deck, problem.models))
    if checks.mistaken(findings):
        return Plan(findings=findings)
    findings += _findings(problem)
    if checks.mistaken(findings):
        return Plan(findings=findings)
    states = problem.largest
    samples = deck.fid.points * deck.fid.zero_fill
    # two spaces with their vectors, work space of LAPACK, and the elements between them; a decay and its transform
    item = 8 if all(one.model.real for one in problem.choices) else 16
    if deck.relaxation.own:
        item = 16
    parts = {"matrices": 8 * item * states**2, "decay and spectrum": 80 * samples}
    return Plan(
        memory=Memory(
            device=sum(parts.values()), parts=parts, reduce="system.spins", size=f"{states} states"
        ),
        sizes={"spins": problem.models.spins, "groups": len(problem.groups), "states": states},
        findings=findings,
        cpu_only="task: fid",
    )


def _findings(problem: FidProblem) -> Iterator[Finding]:
    """Yield an H without a total I^z, and spaces that are too large."""
    if why := mixing(problem.model):
        yield Finding("system.terms", f"lines need a conserved total Iz: {why}")
        return
    states = problem.largest
    if problem.relaxation.own and states > MOST_COHERENCES:
        yield Finding(
            "relaxation",
            f"{states} coherences of a part of the molecule are too many to relax each in its way, at most {MOST_COHERENCES}; "
            "leave T1 and dipolar out and give one T2, or leave out nuclei that couple weakly",
        )
    elif states > MOST_STATES:
        groups = len(problem.groups)
        yield Finding(
            "system.spins",
            f"{states} states of one total Iz are too many to diagonalise, at most {MOST_STATES}: {problem.models.spins} nuclei "
            f"in {groups} groups of equivalent ones; leave out nuclei that couple weakly",
        )
