"""Checks of a deck that need its lattices or couplings: shells that do not exist, files of couplings, wild sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.errors import DeckError, FileError, NumericsError
from qsim.trotter.deck.couplings import OrientedTerm
from qsim.trotter.deck.profiles import TableProfile
from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.initial.ground import GroundState
from qsim.trotter.lattices.bonds import bonds
from qsim.trotter.lattices.momenta import translations
from qsim.trotter.model.models import GROUND_TERMS
from qsim.trotter.model.profiles import factor
from qsim.trotter.model.tensors import undirected
from qsim.trotter.observables.echo import Echo

if TYPE_CHECKING:
    from qsim.trotter.deck.couplings import System, Term
    from qsim.trotter.deck.model import TrotterDeck
    from qsim.trotter.model.models import Models

MAX_STEPS = 10**12
# up to which `state` is stored
STATE_SPINS = 26
# dt times the local field beyond which a product formula is no approximation
LONG_STEP = 1.0


def of_sector(error: DeckError) -> Finding:
    """Return what is wrong with a sector, at the key that its message begins with."""
    key, _, text = str(error).partition(": ")
    return (
        Finding(key, text)
        if key.startswith(("sector", "initial.")) and text
        else Finding("sector", str(error))
    )


def shells(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield neighbour shells and momenta that lattices do not have, also those of a ground state and of an echo."""
    yield from shells_of_terms(deck.system.terms, deck.system, "system.terms")
    yield from _momentum(deck)
    if deck.task == "evolve" and isinstance(deck.initial, GroundState):
        yield from shells_of_terms(deck.initial.terms, deck.system, "initial.terms")
    for index, item in enumerate(deck.observe):
        for echo in Echo.given_in([item]):
            yield from shells_of_terms(echo.sigma, deck.system, f"observe.{index}.echo.sigma")


def shells_of_terms(terms: Sequence[Term], system: System, key: str) -> Iterator[Finding]:
    """Yield neighbour shells that the lattices of `terms` do not have; the terms stand under `key`."""
    for number, term in enumerate(terms):
        wanted = getattr(term, "shells", None)
        lattice = getattr(term, "lattice", None) or system.lattice
        if lattice is None:
            continue
        try:
            bonds(lattice, system.spins, wanted)
        except ValueError as error:
            yield Finding(f"{key}.{number}.shells", str(error))
            continue
        why = undirected(term, lattice, system.spins) if isinstance(term, OrientedTerm) else ""
        if why:
            yield Finding(f"{key}.{number}.lattice", why)


def _momentum(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield momenta that the lattice of the deck has not, and one that a reflection turns over."""
    sector, spins = deck.sector, deck.system.spins
    if not isinstance(sector, SectorBlock) or sector.momentum is None:
        return
    try:
        moves = translations(deck.lattice, spins)
        momenta = moves.numbers(sector.momentum)
    except ValueError as error:
        yield Finding("sector.momentum", str(error))
        return
    if sector.reflection is None:
        return
    turned = [k for k in momenta if k is not None and moves.negative(k) != k]
    if turned:
        alone = [str(k) for k in range(moves.count) if moves.negative(k) == k]
        yield Finding(
            "sector.reflection",
            f"the reflection turns momentum k into -k, so that only k = {' and '.join(alone)} of {spins} sites goes with it; "
            f"found {turned[0]}",
        )


def couplings(deck: TrotterDeck, models: Models) -> Iterator[Finding]:
    """Yield mistakes that building the couplings shows, term by term: missing numbers in files, duplicate pairs, wild sizes."""
    end = deck.evolve.end if deck.task == "evolve" else 0.0
    first = len(deck.system.terms)
    yield from _couplings(models, deck.system.terms, 0, "system.terms", end)
    yield from _couplings(models, models.ground_terms, GROUND_TERMS, "initial.terms", end)
    for index, item in enumerate(deck.observe):
        for echo in Echo.given_in([item]):
            yield from _couplings(models, echo.sigma, first, f"observe.{index}.echo.sigma", end)


def _couplings(models: Models, terms: Sequence[Term], first: int, key: str, end: float) -> Iterator[Finding]:
    from qsim.trotter.model.hamiltonian import build_hamiltonian

    for number, term in enumerate(terms):
        try:
            part = build_hamiltonian(models.system, seed=models.seed, terms=[term], first=first + number)
            # where every run asks for it
            for t in (0.0, end):
                part.at(t)
            yield from _short_table(term, f"{key}.{number}.profile", end)
        except (DeckError, FileError, NumericsError) as error:
            yield Finding(f"{key}.{number}", str(error))


def _short_table(term: Term, key: str, end: float) -> Iterator[Finding]:
    """Yield a table of a drive that ends before the run does."""
    if not isinstance(term.profile, TableProfile):
        return
    times = factor(term.profile).kinks
    if times and times[-1] < end * (1.0 - 1e-9):
        last = factor(term.profile)(end)
        yield Finding(
            key,
            f"the table ends at t = {times[-1]:g}, before the run does (t_final = {end:g}); its last value, {last:g}, "
            "holds afterwards",
            "warning",
        )


def mistaken(findings: Sequence[Finding]) -> bool:
    """Return True if a finding is an error."""
    return any(finding.severity == "error" for finding in findings)
