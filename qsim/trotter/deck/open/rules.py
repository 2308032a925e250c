"""Rules of open systems: what goes with dissipation, and what it has no meaning for."""

from collections.abc import Iterator

from qsim.core.deck.blocks import Finding
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.deck.open.dissipation import are_driven, check_dissipation
from qsim.trotter.deck.sectors import SectorBlock

__all__ = ["check_open", "check_steady"]

# observables of a way back, or of two states that evolve under one H
CLOSED = ("echo", "otoc", "time_correlation")


def check_open(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield contradictions of an open evolution."""
    if not deck.dissipation:
        if "open" in deck.model_fields_set:
            yield Finding("open", "goes with dissipation, which the deck does not have")
        return
    yield from check_dissipation(deck.dissipation, deck.open, deck.system.spins)
    for index, item in enumerate(deck.observe):
        for name in item.named():
            if name in CLOSED:
                yield Finding(f"observe.{index}.{name}", "an open evolution has no way back; leave it out")
            elif name == "fidelity" and deck.open.method == "density_matrix":
                yield Finding(f"observe.{index}.{name}", "is taken of trajectories; method: trajectories")
    yield from _check_counting(deck)
    if deck.evolve.verify:
        yield Finding(
            "evolve.verify",
            "steps of an open system are compared with half of them by the pilot; leave it out",
        )
    if deck.run.precision == "single":
        yield Finding("run.precision", "open systems run in double precision")
    sector = deck.sector
    if isinstance(sector, SectorBlock) and (sector.stored or sector.parity or sector.inversion is not None):
        yield Finding(
            "sector",
            "a jump of one site leads out of a sector of momenta, permutations, inversion or parity: the jumps that follow each "
            "other have no such symmetry; use sector: auto, full or one of Sz",
        )


def _check_counting(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield what keeps jumps from being counted in windows."""
    if (block := deck.open.counting) is None:
        return
    if deck.open.method == "density_matrix":
        yield Finding(
            "open.counting", "jumps are those of trajectories; method: trajectories, or task: steady"
        )
    end = deck.evolve.end
    if block.after + block.window > end * (1.0 + 1e-12):
        yield Finding(
            "open.counting.window",
            f"a window of {block.window:g} from t = {block.after:g} on ends after t_final = {end:g}",
        )
    entries = len(deck.dissipation)
    for number, entry in enumerate(block.jumps if block.jumps != "all" else []):
        if entry >= entries:
            yield Finding(
                f"open.counting.jumps.{number}",
                f"entry {entry} of dissipation, which has entries 0 to {entries - 1}",
            )


def check_steady(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield contradictions of a steady state."""
    if not deck.dissipation:
        yield Finding("dissipation", "required key is missing: without it every eigenstate of H is steady")
        return
    if deck.open.counting is not None:
        yield Finding(
            "open.counting", "counts jumps of trajectories; of a steady state, steady: {counting: true}"
        )
    yield from check_dissipation(deck.dissipation, deck.open, deck.system.spins)
    if are_driven(deck.dissipation):
        yield Finding("dissipation", "task: steady needs constant rates, but an entry has a time profile")
    if isinstance(deck.sector, SectorBlock):
        yield Finding(
            "sector", "a steady state is one of all Sz; leave sector out, or sector: full for all coherences"
        )
