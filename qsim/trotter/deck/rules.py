"""Rules of the trotter deck: keys that contradict each other, which need no calculation."""

from collections.abc import Iterator

from qsim.core.deck.blocks import Finding
from qsim.trotter.deck.couplings import (
    Dipolar,
    FieldTerm,
    LocalTerm,
    NuclearTerm,
    OrientedTerm,
    Pairs,
    RandomValues,
    Term,
    are_driven,
)
from qsim.trotter.deck.larger import check_larger, check_spins
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.deck.open.rules import check_open
from qsim.trotter.deck.sectors import SectorBlock, check_sector, check_symmetries
from qsim.trotter.deck.task_rules import check_foreign, check_task
from qsim.trotter.deck.term_rules import check_system
from qsim.trotter.observables.echo import Echo
from qsim.trotter.observables.registry import OBSERVABLES

__all__ = ["rules"]

# integrators that take products H psi
EXPANSIONS = ("auto", "chebyshev", "krylov")
# accuracy that single precision can keep
SINGLE = 1e-5


def rules(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield contradictions between the keys of a deck."""
    if deck.run.precision == "mixed":
        yield Finding("run.precision", "trotter runs in double or single precision, not mixed")
    yield from check_system(deck.system)
    if any(check_spins(deck.system, "system")):
        return
    yield from check_larger(deck)
    system = deck.system
    yield from check_sector(deck.sector, system.spins, deck.task, quanta=system.quanta)
    if isinstance(deck.sector, SectorBlock):
        yield from check_symmetries(deck.sector, system.spins, deck.task, quanta=system.quanta)
    yield from _check_observe(deck)
    if deck.task != "evolve":
        yield from check_task(deck)
        return
    given = deck.model_fields_set
    missing = [key for key in ("initial", "evolve") if key not in given]
    for key in missing:
        yield Finding(key, "required key is missing")
    yield from check_foreign(deck)
    if missing:
        return
    yield from deck.initial.check(deck.system.spins, "initial")
    yield from _check_sector(deck)
    yield from deck.initial.check_evolution(deck)
    yield from deck.evolve.check()
    yield from _check_integrator(deck)
    yield from _check_ensemble(deck)
    yield from check_open(deck)


def _check_integrator(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield integrators and accuracies that profiles, precision or an echo exclude."""
    evolve, accuracy = deck.evolve, deck.evolve.accuracy
    echo = Echo.block_in(deck.observe)
    # a Chebyshev series needs one H; Sigma belongs to the way back
    if evolve.integrator == "chebyshev" and (deck.driven or are_driven(echo.sigma if echo else [])):
        yield Finding(
            "evolve.integrator",
            "chebyshev expands the evolution under one constant H, but a term has a time profile; use krylov, bm4, bm6, kl8, ts4",
        )
    if evolve.integrator not in EXPANSIONS:
        yield from _check_formula(deck)
    if deck.run.precision == "single" and accuracy is not None and accuracy < SINGLE:
        yield Finding(
            "evolve.accuracy",
            f"single precision cannot reach {accuracy:g}; ask for {SINGLE:g} or more, or set run.precision: double",
        )

    if evolve.integrator == "ts1" and echo is not None and not echo.overlap:
        yield Finding(
            "evolve.integrator",
            "ts1 does not undo its own steps, so that an echo would show its error alone; use ts2 or better",
        )


def _check_formula(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield why no product formula carries a state where it goes bond by bond: with characters, and if H depends on time."""
    name, echo, sector = deck.evolve.integrator, Echo.block_in(deck.observe), deck.sector
    terms = [*deck.system.terms, *(echo.sigma if echo else [])]
    named = isinstance(sector, SectorBlock)
    if not (named or not deck.system.halves or any(isinstance(term, OrientedTerm) for term in terms)):
        return
    instead = "use chebyshev, krylov or auto with accuracy, or sector: full"
    if isinstance(sector, SectorBlock) and sector.stored:
        yield Finding(
            "evolve.integrator",
            f"{name} goes bond by bond, and a single bond has not the symmetries of all that the sector names; {instead}",
        )
    elif isinstance(sector, SectorBlock) and sector.inversion is not None:
        yield Finding(
            "sector.inversion",
            f"{name} goes bond by bond without the inversion of all spins; leave it out, or {instead}",
        )
    elif are_driven(terms):
        yield Finding(
            "evolve.integrator",
            f"{name} goes bond by bond here, which takes a constant H, but a term has a time profile; use krylov with accuracy",
        )


def _check_sector(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield keys that an evolution in a sector of the deck cannot have."""
    if not isinstance(deck.sector, SectorBlock):
        return
    # observables that the inversion turns over vanish in a sector of it
    observed = [OBSERVABLES[name] for item in deck.observe for name in item.named()]
    odd = next((kind.key for kind in observed if kind.odd_under_inversion), None)
    if odd is not None and deck.sector.inversion is not None:
        yield Finding(
            "sector.inversion", f"Sz of a site, which {odd} takes, changes the sign under the inversion"
        )


def _check_ensemble(deck: TrotterDeck) -> Iterator[Finding]:
    if deck.ensemble.disorder > 1 and not any(_is_disordered(term) for term in deck.system.terms):
        yield Finding(
            "ensemble.disorder",
            f"{deck.ensemble.disorder} realisations, but no term is random: all would be the same; give a term random, or "
            "leave disorder out",
        )
    if deck.ensemble.states > 1 and not deck.initial.is_random:
        yield Finding(
            "ensemble.states",
            f"{deck.ensemble.states} states, but initial: {deck.initial.word} is always the same; use a1, random_phase or "
            "haar, or leave states out",
        )


def _check_observe(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield items that are empty, listed twice or contradictory, and mistakes of their observables."""
    seen: dict[str, int] = {}
    for index, item in enumerate(deck.observe):
        where, named = f"observe.{index}", item.named()
        if not named:
            yield Finding(where, "empty item; name an observable, such as sz")
        if len(named) > 1:
            yield Finding(where, f"one observable per item, found {', '.join(named)}; begin each with a dash")
        # keys that belong to an observable and stand without it
        for kind in OBSERVABLES.values():
            for key in kind.more:
                if item.value(key) is not None and kind.key not in named:
                    yield Finding(
                        f"{where}.{key}", f"goes with {kind.key}, as in {{{kind.key}: zz, {key}: all}}"
                    )
        for name in named:
            for text in OBSERVABLES[name].names(item):
                if seen.setdefault(text, index) != index:
                    several = "; of several components write total: [x, y]" if name == "total" else ""
                    yield Finding(
                        f"{where}.{name}", f"{text} is listed twice; see observe.{seen[text]}{several}"
                    )
            yield from OBSERVABLES[name].check(item, where, deck)


def _is_disordered(term: Term) -> bool:
    if isinstance(term, Dipolar | Pairs | OrientedTerm | LocalTerm | NuclearTerm):
        return False
    return term.random is not None or (isinstance(term, FieldTerm) and isinstance(term.values, RandomValues))
