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
    yield from _check_layers(deck)
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


def _check_layers(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield product formulas for couplings that have no layers."""
    evolve, echo = deck.evolve, Echo.block_in(deck.observe)
    terms = [*deck.system.terms, *(echo.sigma if echo else [])]
    # terms of unlike components are diagonal in no frame
    name = next((term.type for term in terms if isinstance(term, OrientedTerm)), None)
    if name is None or (isinstance(deck.sector, SectorBlock) and deck.sector.parity is None):
        # in a sector of Sz bonds are rotated, and no layers
        return
    if evolve.dt is not None or evolve.integrator not in EXPANSIONS:
        yield Finding(
            "evolve.integrator",
            f"{evolve.integrator} is a product of layers along x, y and z, which a term of type {name} is none of; use "
            "chebyshev, krylov or auto with accuracy",
        )


def _check_formula(deck: TrotterDeck, sector: SectorBlock) -> Iterator[Finding]:
    """Yield why no product formula carries a state in a sector: it goes bond by bond, with a constant H and Sz alone."""
    name, echo = deck.evolve.integrator, Echo.block_in(deck.observe)
    instead = "in this sector use chebyshev, krylov or auto with accuracy, or sector: full"
    if sector.parity is not None or sector.stored:
        yield Finding(
            "evolve.integrator",
            f"{name} is a product formula in the whole space or in a sector of Sz; {instead}",
        )
    elif sector.inversion is not None:
        yield Finding(
            "sector.inversion",
            f"{name} goes bond by bond in a sector of Sz alone, without the inversion of all spins; leave inversion out, or use "
            "chebyshev, krylov or auto with accuracy",
        )
    elif deck.driven or are_driven(echo.sigma if echo else []):
        yield Finding(
            "evolve.integrator",
            f"{name} takes a constant H in a sector, but a term has a time profile; use krylov with accuracy, or sector: full",
        )


def _check_sector(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield keys that an evolution in a sector of the deck cannot have."""
    if not isinstance(deck.sector, SectorBlock):
        return
    if deck.evolve.integrator not in EXPANSIONS:
        yield from _check_formula(deck, deck.sector)
    # observables that the inversion turns over vanish in a sector of it
    observed = [OBSERVABLES[name] for item in deck.observe for name in item.named()]
    odd = next((kind.key for kind in observed if kind.odd_under_inversion), None)
    if odd is not None and deck.sector.inversion is not None:
        yield Finding(
            "sector.inversion", f"Sz of a site, which {odd} takes, changes the sign under the inversion"
        )
    for key in dict.fromkeys(kind.key for kind in observed if kind.whole_space):
        yield Finding("sector", f"{key} compares with a state of all 2^N amplitudes; use sector: full")


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
