"""From the deck of ``task: steady`` to its problem, and its memory before that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.deck.load import LoadedDeck
from qsim.core.device.device import Memory, cpu
from qsim.core.errors import DeckError, FileError
from qsim.core.run.stages import Plan
from qsim.trotter import checks
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.evolve.open.spaces import MOST_ELEMENTS
from qsim.trotter.evolve.steady.problem import SteadyProblem
from qsim.trotter.model.models import Models
from qsim.trotter.model.open.channels import channels_of
from qsim.trotter.sectors.digits.liouville import space_of

if TYPE_CHECKING:
    from qsim.core.device.device import Device

# of the search, and for each mode; bytes of the evolution between jumps, per element
VECTORS, FOR_EACH, BETWEEN = 60, 4, 56


def build(loaded: LoadedDeck[TrotterDeck], device: Device | None) -> SteadyProblem:
    """Return the problem of a deck.

    Raises
    ------
    DeckError, FileError
        If rates are mistaken.
    """
    deck = loaded.deck
    channels = channels_of(deck.dissipation, deck.system)
    return SteadyProblem(
        Models.of(deck),
        channels,
        deck.steady,
        deck.observables,
        cpu() if device is None else cpu(device.threads),
        deck.sector == "full",
    )


def plan(loaded: LoadedDeck[TrotterDeck]) -> Plan:
    """Return sizes and memory, and what keeps a deck from having a steady state; nothing large is allocated."""
    deck = loaded.deck
    try:
        problem = build(loaded, None)
    except (DeckError, FileError) as error:
        key, _, text = str(error).partition(": ")
        known = key.startswith("dissipation") and text
        return Plan(findings=[Finding(key, text) if known else Finding("dissipation", str(error))])
    findings = list(checks.shells(deck)) or list(checks.couplings(deck, problem.models))
    if not findings and not problem.channels:
        findings = [Finding("dissipation", "all rates are 0: every state may be steady")]
    if checks.mistaken(findings):
        return Plan(findings=findings)
    twos = problem.models.system.twos
    space = space_of(twos, problem.order)
    if space.spins * space.bits > 62 or space.dimension > MOST_ELEMENTS:
        findings.append(
            Finding(
                "system.spins",
                f"a density matrix of {float(space.dimension):.3g} elements is too large, at most {MOST_ELEMENTS:.1g}; an "
                "average over long trajectories, task: evolve, has a statistical error",
            )
        )
        return Plan(findings=findings)
    elements = space.dimension
    row = 2 + 2 * len(problem.hamiltonian.static.pairs()) + len(problem.channels)
    vectors = VECTORS + FOR_EACH * deck.steady.modes
    parts = {
        "generator": 20 * row * elements,
        "between jumps": BETWEEN * elements,
        "vectors": 16 * vectors * elements,
    }
    return Plan(
        memory=Memory(
            device=sum(parts.values()), parts=parts, reduce="system.spins", size=f"{elements} elements"
        ),
        sizes={"spins": len(twos), "elements": elements},
        findings=findings,
        cpu_only="task: steady",
    )
