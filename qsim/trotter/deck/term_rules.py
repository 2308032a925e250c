"""Rules of the system: lattices, couplings and fields, also of an echo and of a ground state."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from qsim.core.deck.blocks import Finding
from qsim.trotter.deck.couplings import (
    XXZ,
    Dipolar,
    FieldTerm,
    LatticeTerm,
    LocalTerm,
    NuclearTerm,
    OrientedTerm,
    Pairs,
    PlacedTerm,
    Random,
    RandomBox,
    RandomValues,
    System,
    Term,
    _Isotropic,
)
from qsim.trotter.deck.larger import check_local, check_spins
from qsim.trotter.deck.lattices import AllToAll, Crystal, Ladder, Lattice, Ring, cells_of
from qsim.trotter.deck.nmr.rules import check_nuclear, check_nuclei
from qsim.trotter.deck.oriented import check_oriented
from qsim.trotter.deck.profiles import check_profile
from qsim.trotter.deck.sites import check_sites, pair_problems


def check_system(system: System, key: str = "system") -> Iterator[Finding]:
    """Yield contradictions in the lattice and the terms of a system."""
    if system.lattice is not None:
        yield from check_lattice(system.lattice, system.spins, f"{key}.lattice")
    # what is said of terms takes spins that exist
    wrong = [*check_nuclei(system, key), *check_spins(system, key)]
    yield from wrong or check_terms(system.terms, system, f"{key}.terms")


def check_terms(terms: Sequence[Term], system: System, key: str) -> Iterator[Finding]:
    """Yield the mistakes in terms of `system` and of an echo."""
    for number, term in enumerate(terms):
        yield from _check_term(term, system, f"{key}.{number}")


def _check_term(term: Term, system: System, key: str) -> Iterator[Finding]:
    """Yield the mistakes in one term, by its kind."""
    if term.profile is not None:
        yield from check_profile(term.profile, f"{key}.profile")
    if isinstance(term, FieldTerm):
        yield from _check_field(term, system.spins, key)
    elif isinstance(term, Pairs):
        yield from _check_pairs(term, system.spins, key)
    elif isinstance(term, OrientedTerm):
        yield from check_oriented(term, system, key)
    elif isinstance(term, LocalTerm):
        yield from check_local(term, system, key)
    elif isinstance(term, NuclearTerm):
        yield from check_nuclear(term, system, key)
    else:
        yield from _check_coupling(term, system, key)
    if not isinstance(term, Dipolar | Pairs | OrientedTerm | LocalTerm | NuclearTerm):
        yield from _check_random(term.random, f"{key}.random")


def _check_random(random: Random | None, key: str) -> Iterator[Finding]:
    if isinstance(random, RandomBox) and (random.width is None) == (random.W is None):
        yield Finding(key, "give either width (the full width) or W (half of it)")


def _check_coupling(term: LatticeTerm, system: System, key: str) -> Iterator[Finding]:
    """Yield contradictions in a coupling between the sites of a lattice, or between positions."""
    lattice = term.lattice if term.lattice is not None else system.lattice
    positions = term.positions if isinstance(term, PlacedTerm) else None
    if positions is not None:
        yield from _check_positions(term, positions, system.spins, key)
    elif lattice is None:
        yield Finding(
            f"{key}.lattice",
            "missing key; give a lattice such as chain, ring, square, kagome or all, here or as system.lattice",
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
    # read by the plan
    if isinstance(positions, Path):
        return
    if len(positions) != spins:
        yield Finding(f"{key}.positions", f"{len(positions)} positions, but system.spins = {spins}")
        return
    # the first site at each place
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
        keys = " and ".join(given) or "none of them"
        yield Finding(key, f"give exactly one of list, file and matrix; found {keys}")
    if "model" in term.model_fields_set and term.matrix is None:
        yield Finding(f"{key}.model", "model belongs to matrix; list and file give the components themselves")
    for problem in pair_problems(term.list or [], spins):
        yield Finding(f"{key}.list.{problem[0]}", problem[1])


def check_lattice(lattice: Lattice, spins: int, key: str) -> Iterator[Finding]:
    """Yield contradictions between a lattice and the number of its sites."""
    if isinstance(lattice, Crystal):
        shape = cells_of(lattice, spins)
        if isinstance(shape, str):
            yield Finding(key, shape)
    elif isinstance(lattice, Ladder) and spins % lattice.legs:
        yield Finding(key, f"{spins} spins are not made of {lattice.legs} legs of equal length")
    elif isinstance(lattice, Ring) and spins < 2:
        yield Finding(key, "a ring needs 2 sites, system.spins = 1; use chain")
