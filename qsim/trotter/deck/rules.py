"""Rules of the trotter deck: keys that contradict each other, which need no calculation."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from qsim.core.deck.blocks import Finding
from qsim.trotter.deck.couplings import (
    XXZ,
    AllToAll,
    Dipolar,
    FieldTerm,
    Ladder,
    Lattice,
    LatticeTerm,
    OrientedTerm,
    Pairs,
    PlacedTerm,
    Random,
    RandomBox,
    RandomValues,
    Ring,
    Square,
    System,
    Term,
    Triangular,
    _Isotropic,
    plane_shape,
)
from qsim.trotter.deck.initial import (
    A1Initial,
    GroundStateInitial,
    NeelInitial,
    check_initial,
    check_sites,
    is_random,
)
from qsim.trotter.deck.model import Entropy, Observable, TrotterDeck, are_driven, correlator_axes
from qsim.trotter.deck.oriented import check_oriented
from qsim.trotter.deck.profiles import check_profile
from qsim.trotter.deck.sectors import SectorBlock, check_sector, check_symmetries
from qsim.trotter.deck.task_rules import check_foreign, check_task

__all__ = ["check_lattice", "check_system", "check_terms", "pair_problems", "rules"]

EXPANSIONS = ("auto", "chebyshev", "krylov")  # integrators that take products H psi
SINGLE = 1e-5  # accuracy that single precision can keep


def rules(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield contradictions between the keys of a deck."""
    if deck.run.precision == "mixed":
        yield Finding("run.precision", "trotter runs in double or single precision, not mixed")
    yield from check_system(deck.system)
    yield from check_sector(deck.sector, deck.system.spins, several=deck.task in ("spectrum", "dynamics"))
    if isinstance(deck.sector, SectorBlock):
        yield from check_symmetries(deck.sector, deck.system.spins, deck.task)
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
    yield from check_initial(deck.initial, deck.system.spins)
    yield from _check_sector(deck)
    yield from _check_initial(deck)
    yield from deck.evolve.check()
    yield from _check_integrator(deck)
    yield from _check_ensemble(deck)


def _check_initial(deck: TrotterDeck) -> Iterator[Finding]:
    spins = deck.system.spins
    if isinstance(deck.initial, GroundStateInitial):
        yield from check_terms(deck.initial.terms, deck.system, "initial.terms")
        if are_driven(deck.initial.terms):
            yield Finding(
                "initial.terms", "a ground state belongs to a constant H, but a term has a time profile"
            )
    rings = any(
        isinstance(term.lattice or deck.system.lattice, Ring)
        for term in deck.system.terms
        if isinstance(term, LatticeTerm)
    )
    if isinstance(deck.initial, NeelInitial) and rings and spins % 2:
        yield Finding(
            "initial.type",
            f"no Neel state fits on a ring of {spins} sites: sites {spins - 1} and 0 would be parallel; use an even number "
            "of spins, lattice: chain, or initial: {type: basis, bits: ...}",
        )


def _check_integrator(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield integrators and accuracies that profiles, precision or an echo exclude."""
    evolve, accuracy = deck.evolve, deck.evolve.accuracy
    echo = deck.observed("echo")
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
    evolve, echo = deck.evolve, deck.observed("echo")
    terms = [*deck.system.terms, *(echo.sigma if echo else [])]
    name = next((term.type for term in terms if isinstance(term, OrientedTerm)), None)
    if name is None or (isinstance(deck.sector, SectorBlock) and deck.sector.parity is None):
        return  # in a sector of Sz bonds are rotated, and no layers
    if evolve.dt is not None or evolve.integrator not in EXPANSIONS:
        yield Finding(
            "evolve.integrator",
            f"{evolve.integrator} is a product of layers along x, y and z, which a term of type {name} is none of; use "
            "chebyshev, krylov or auto with accuracy",
        )


def _check_formula(deck: TrotterDeck, sector: SectorBlock) -> Iterator[Finding]:
    """Yield why no product formula carries a state in a sector: it goes bond by bond, with a constant H and Sz alone."""
    name, echo = deck.evolve.integrator, deck.observed("echo")
    instead = "in this sector use chebyshev, krylov or auto with accuracy, or sector: full"
    if sector.parity is not None:
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
    """Yield what an evolution in a sector that is asked for cannot do."""
    if not isinstance(deck.sector, SectorBlock):
        return
    if deck.evolve.integrator not in EXPANSIONS:
        yield from _check_formula(deck, deck.sector)
    turned = next((name for name in ("time_correlation", "otoc") if deck.observed(name) is not None), None)
    if turned is not None and deck.sector.inversion is not None:
        yield Finding(
            "sector.inversion", f"Sz of a site, which {turned} takes, changes the sign under the inversion"
        )
    if deck.observed("fidelity") is not None:
        yield Finding("sector", "fidelity compares with a state of all 2^N amplitudes; use sector: full")


def _check_ensemble(deck: TrotterDeck) -> Iterator[Finding]:
    if deck.ensemble.disorder > 1 and not any(_is_disordered(term) for term in deck.system.terms):
        yield Finding(
            "ensemble.disorder",
            f"{deck.ensemble.disorder} realisations, but no term is random: all would be the same; give a term random, or "
            "leave disorder out",
        )
    if deck.ensemble.states > 1 and not is_random(deck.initial):
        yield Finding(
            "ensemble.states",
            f"{deck.ensemble.states} states, but initial: {deck.initial.type} is always the same; use a1, random_phase or "
            "haar, or leave states out",
        )


def _check_observe(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield items that are empty, listed twice or contradictory, and mistakes of their sites and terms."""
    seen: dict[str, int] = {}
    many = ("correlator", "entropy")
    for index, item in enumerate(deck.observe):
        where, named = f"observe.{index}", item.named()
        if not named:
            yield Finding(where, "empty item; name an observable, such as sz")
        if len(named) > 1:
            yield Finding(where, f"one observable per item, found {', '.join(named)}; begin each with a dash")
        if item.pairs is not None and item.correlator is None:
            yield Finding(f"{where}.pairs", "goes with correlator, as in {correlator: zz, pairs: all}")
        for name in named:
            names = [name] if name not in many else []
            if name == "correlator":
                names = [f"correlator {axes}" for axes in correlator_axes(item)]
            for text in names:
                if seen.setdefault(text, index) != index:
                    yield Finding(f"{where}.{name}", f"{text} is listed twice; see observe.{seen[text]}")
        yield from _check_item_sites(item, where, deck.system.spins)
        if item.echo is not None:
            yield from check_terms(item.echo.sigma, deck.system, f"{where}.echo.sigma")
        if item.autocorrelation is not None and not (
            isinstance(deck.initial, A1Initial) and deck.initial.up == [item.autocorrelation]
        ):
            yield Finding(
                f"{where}.autocorrelation",
                f"needs the infinite-temperature state of that site, initial: {{type: a1, up: [{item.autocorrelation}]}}",
            )


def _is_disordered(term: Term) -> bool:
    if isinstance(term, Dipolar | Pairs | OrientedTerm):
        return False
    return term.random is not None or (isinstance(term, FieldTerm) and isinstance(term.values, RandomValues))


def _check_item_sites(item: Observable, where: str, spins: int) -> Iterator[Finding]:
    """Yield sites that do not exist, and duplicate sites."""
    for name in ("sx", "sy", "sz"):
        if isinstance(value := getattr(item, name), list):
            yield from check_sites(value, spins, f"{where}.{name}")
    if item.entropy is not None:
        yield from _check_entropy(item.entropy, f"{where}.entropy", spins)
    if item.echo is not None and item.echo.local is not None:
        yield from check_sites(item.echo.local, spins, f"{where}.echo.local")
        if item.echo.scheme == "overlap":
            yield Finding(f"{where}.echo.scheme", "local sites are seen after the return; use scheme: return")
    if item.time_correlation is not None:
        yield from check_sites([item.time_correlation], spins, f"{where}.time_correlation")
    if item.otoc is not None:
        yield from check_sites([item.otoc.w], spins, f"{where}.otoc.w")
        yield from check_sites(item.otoc.v, spins, f"{where}.otoc.v")
    if item.autocorrelation is not None:
        yield from check_sites([item.autocorrelation], spins, f"{where}.autocorrelation")
    yield from _check_item_pairs(item, where, spins)


def _check_item_pairs(item: Observable, where: str, spins: int) -> Iterator[Finding]:
    """Yield pairs of a site with itself, of sites that do not exist, and duplicate ones; correlators without any pair."""
    if item.correlator is not None and spins < 2:
        yield Finding(f"{where}.correlator", "a single spin makes no pair")
    seen: dict[tuple[int, int], int] = {}
    for k, (a, b) in enumerate(item.pairs if isinstance(item.pairs, list) else ()):
        key = f"{where}.pairs.{k}"
        if a == b:
            yield Finding(key, f"a pair needs two different sites, found [{a}, {b}]")
        else:
            yield from check_sites([a, b], spins, key)
        if seen.setdefault((min(a, b), max(a, b)), k) != k:
            yield Finding(key, f"duplicate pair [{a}, {b}]")


def _check_entropy(item: Entropy, where: str, spins: int) -> Iterator[Finding]:
    """Yield parts that do not exist, and parts without a rest."""
    if (item.sites is None) == (item.cuts is None):
        yield Finding(where, "give either sites (half, or a list) or cuts: all")
    if spins < 2:
        yield Finding(where, "a single spin has no other part")
    sites = item.sites if isinstance(item.sites, list) else []
    yield from check_sites(sites, spins, f"{where}.sites")
    if len(set(sites)) >= spins:
        yield Finding(f"{where}.sites", f"leave at least one of the {spins} sites for the other part")


# ------------------------------------------------------------------------------------------- the system


def check_system(system: System, key: str = "system") -> Iterator[Finding]:
    """Yield what contradicts itself in the lattice and the terms of a system."""
    if system.lattice is not None:
        yield from check_lattice(system.lattice, system.spins, f"{key}.lattice")
    yield from check_terms(system.terms, system, f"{key}.terms")


def check_terms(terms: Sequence[Term], system: System, key: str) -> Iterator[Finding]:
    """Yield what is wrong with terms of `system`, also with those of an echo."""
    for number, term in enumerate(terms):
        yield from _check_term(term, system, f"{key}.{number}")


def _check_term(term: Term, system: System, key: str) -> Iterator[Finding]:
    if term.profile is not None:
        yield from check_profile(term.profile, f"{key}.profile")
    if isinstance(term, FieldTerm):
        yield from _check_field(term, system.spins, key)
    elif isinstance(term, Pairs):
        yield from _check_pairs(term, system.spins, key)
    elif isinstance(term, OrientedTerm):
        yield from check_oriented(term, system, key)
    else:
        yield from _check_coupling(term, system, key)
    if not isinstance(term, Dipolar | Pairs | OrientedTerm):
        yield from _check_random(term.random, f"{key}.random")


def _check_random(random: Random | None, key: str) -> Iterator[Finding]:
    if isinstance(random, RandomBox) and (random.width is None) == (random.W is None):
        yield Finding(key, "give either width (the full width) or W (half of it)")


def _check_coupling(term: LatticeTerm, system: System, key: str) -> Iterator[Finding]:
    """Yield what contradicts itself in a coupling between the sites of a lattice, or between positions."""
    lattice = term.lattice if term.lattice is not None else system.lattice
    positions = term.positions if isinstance(term, PlacedTerm) else None
    if positions is not None:
        yield from _check_positions(term, positions, system.spins, key)
    elif lattice is None:
        yield Finding(
            f"{key}.lattice",
            "missing key; give chain, ring, square, triangular, ladder or all, here or as system.lattice",
        )
    if term.lattice is not None:
        yield from check_lattice(term.lattice, system.spins, f"{key}.lattice")
    if isinstance(lattice, AllToAll) and isinstance(term, Dipolar) and positions is None:
        yield Finding(f"{key}.lattice", "lattice all has no positions; give positions or another lattice")
    yield from _check_shells(term, lattice, key)
    yield from _check_components(term, key)


def _check_positions(
    term: LatticeTerm, positions: Path | list[list[float]], spins: int, key: str
) -> Iterator[Finding]:
    """Yield keys that positions exclude, a wrong number of them, and the first two sites at one place."""
    if term.lattice is not None:
        yield Finding(f"{key}.positions", "give either positions or a lattice")
    if term.shells is not None:
        yield Finding(f"{key}.shells", "shells belong to a lattice; with positions every pair is coupled")
    if isinstance(positions, Path):  # read by the plan
        return
    if len(positions) != spins:
        yield Finding(f"{key}.positions", f"{len(positions)} positions, but system.spins = {spins}")
        return
    places: dict[tuple[float, ...], int] = {}
    for site, place in enumerate(positions):
        if (other := places.setdefault(tuple(place), site)) != site:
            yield Finding(
                f"{key}.positions.{site}", f"sites {other} and {site} are at the same place, {place}"
            )
            return


def _check_components(term: LatticeTerm, key: str) -> Iterator[Finding]:
    """Yield strengths and axes of a coupling that do not fit together."""
    if isinstance(term, _Isotropic) and isinstance(term.J, list):
        expected = len(term.shells) if term.shells is not None else 1
        if len(term.J) != expected:
            yield Finding(
                f"{key}.J", f"{len(term.J)} strengths for {expected} shells; give one for each of the shells"
            )
    if isinstance(term, XXZ) and (term.Jz is None) == (term.delta is None):
        yield Finding(key, "give either Jz or delta = Jz / Jxy")
    if isinstance(term, Dipolar) and isinstance(term.axis, list) and not any(term.axis):
        yield Finding(f"{key}.axis", "the axis is the zero vector")


def _check_shells(term: LatticeTerm, lattice: Lattice | None, key: str) -> Iterator[Finding]:
    if term.shells is None or lattice is None:
        return
    if isinstance(lattice, AllToAll):
        yield Finding(f"{key}.shells", "lattice all has no shells: every pair is at distance 1")
        return
    if len(set(term.shells)) < len(term.shells):
        yield Finding(f"{key}.shells", f"duplicate shell in {term.shells}")


def _check_field(term: FieldTerm, spins: int, key: str) -> Iterator[Finding]:
    if term.values is not None and term.file is not None:
        yield Finding(f"{key}.file", "give either values or file")
    if term.values is None and term.file is None and term.random is None:
        yield Finding(f"{key}.values", "missing key; give a number, a list, a formula of j, random or file")
    if isinstance(term.values, RandomValues):
        yield from _check_random(term.values.random, f"{key}.values.random")
        if term.random is not None:
            yield Finding(f"{key}.random", "random is given twice, here and in values")
    yield from check_sites(term.sites, spins, f"{key}.sites")
    expected, what = (len(term.sites), "sites lists") if term.sites else (spins, "system.spins =")
    if isinstance(term.values, list) and len(term.values) != expected:
        yield Finding(f"{key}.values", f"{len(term.values)} values, but {what} {expected}")


def _check_pairs(term: Pairs, spins: int, key: str) -> Iterator[Finding]:
    given = [name for name in ("list", "file", "matrix") if getattr(term, name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        yield Finding(key, f"give exactly one of list, file and matrix; found {found}")
    if "model" in term.model_fields_set and term.matrix is None:
        yield Finding(f"{key}.model", "model belongs to matrix; list and file give the components themselves")
    for problem in pair_problems(term.list or [], spins):
        yield Finding(f"{key}.list.{problem[0]}", problem[1])


def pair_problems(rows: list[list[float]], spins: int) -> Iterator[tuple[int, str]]:
    """Yield (row, message) of the first mistake of a list of pairs: sites unknown, equal, or coupled twice."""
    seen: dict[tuple[int, int], int] = {}
    for number, row in enumerate(rows):
        if len(row) not in (3, 5):
            yield number, f"expected [j, k, Jx, Jy, Jz] or [j, k, J], found {len(row)} numbers"
            return
        for site in row[:2]:
            if not (site == math.floor(site) and 0 <= site < spins):
                yield number, f"site {site:g} does not exist: {spins} spins are sites 0 to {spins - 1}"
                return
        j, k = sorted((int(row[0]), int(row[1])))
        if j == k:
            yield number, f"site {j} is coupled to itself; S^2 of a spin 1/2 is a constant"
            return
        if (j, k) in seen:
            yield (
                number,
                f"the pair ({j}, {k}) is listed twice, as entries {seen[j, k]} and {number}; pairs count once, add "
                "the couplings up or use two terms",
            )
            return
        seen[j, k] = number


def check_lattice(lattice: Lattice, spins: int, key: str) -> Iterator[Finding]:
    """Yield contradictions between a lattice and the number of its sites."""
    if isinstance(lattice, Square | Triangular):
        shape = plane_shape(lattice, spins)
        if isinstance(shape, str):
            yield Finding(key, shape)
    elif isinstance(lattice, Ladder) and spins % lattice.legs:
        yield Finding(key, f"{spins} spins are not made of {lattice.legs} legs of equal length")
    elif isinstance(lattice, Ring) and spins < 2:
        yield Finding(key, "a ring needs 2 sites, system.spins = 1; use chain")
