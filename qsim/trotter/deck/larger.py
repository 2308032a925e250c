"""Rules of spins above 1/2, and of terms that are matrices between the states of one site or of two."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.trotter.deck.couplings import Anisotropy, Biquadratic, BondMatrix, LocalTerm, System
from qsim.trotter.deck.lattices import AllToAll
from qsim.trotter.deck.sites import check_sites

if TYPE_CHECKING:
    from qsim.trotter.deck.model import TrotterDeck

__all__ = ["check_larger", "check_local", "check_spins"]

# of a string, which is a signed number of 64
MOST_BITS = 62


def check_spins(system: System, key: str) -> Iterator[Finding]:
    """Yield mistakes of the sizes of the spins."""
    given = system.spin if isinstance(system.spin, list) else [system.spin]
    for number, spin in enumerate(given):
        if 2.0 * spin != round(2.0 * spin):
            where = f"{key}.spin.{number}" if isinstance(system.spin, list) else f"{key}.spin"
            yield Finding(where, f"expected a whole or half number such as 1 or 1.5, found {spin:g}")
            return
    if isinstance(system.spin, list) and len(given) != system.spins:
        yield Finding(f"{key}.spin", f"{len(given)} values, but system.spins = {system.spins}")
        return
    if not system.halves and system.operators == "pauli":
        yield Finding(
            f"{key}.operators", "Pauli matrices belong to spins 1/2; larger ones take operators: spin"
        )
    bits = 1 << max(0, (max(system.twos).bit_length() - 1).bit_length())
    if not system.halves and bits * system.spins > MOST_BITS:
        yield Finding(
            f"{key}.spins",
            f"at most {MOST_BITS // bits} sites with spins up to {0.5 * max(system.twos):g}, found {system.spins}",
        )


def check_larger(deck: "TrotterDeck") -> Iterator[Finding]:
    """Yield starts, sectors, observables and integrators that spins above 1/2 cannot have."""
    yield from _check_m(deck)
    if deck.system.halves:
        return
    what = "spins above 1/2" if set(deck.system.twos) != {1} else "terms of type bond_matrix"
    if deck.task in ("evolve", "floquet"):
        yield from _check_evolution(deck, what)
    if getattr(deck.sector, "up", None) is not None:
        yield Finding("sector.up", f"counts spins 1/2; of {what} give sz, such as 0")


def _check_m(deck: "TrotterDeck") -> Iterator[Finding]:
    """Yield an Sz of a site that its spin has not."""
    m = getattr(deck.initial, "m", None) if deck.task in ("evolve", "floquet") else None
    if m is None or len(m) != deck.system.spins:
        return
    for j, (two, value) in enumerate(zip(deck.system.twos, m, strict=True)):
        if abs(2.0 * value) > two or (two - 2.0 * value) % 2.0:
            yield Finding(
                f"initial.m.{j}",
                f"Sz of a spin {0.5 * two:g} is {0.5 * two:g}, {0.5 * two - 1.0:g}, ..., {-0.5 * two:g}; found {value:g}",
            )
            return


def _check_evolution(deck: "TrotterDeck", what: str) -> Iterator[Finding]:
    """Yield what a state of larger spins in time cannot have."""
    if getattr(deck.initial, "up", None) is not None and deck.initial.word == "ground_state":
        yield Finding("initial.up", f"counts spins 1/2; of {what} the ground state is that of the least |Sz|")


def check_local(term: LocalTerm, system: System, key: str) -> Iterator[Finding]:
    """Yield contradictions in a term of matrices of one site or of two."""
    if system.halves:
        yield Finding(
            key,
            f"a term of type {term.type} goes with spins above 1/2 (system.spin) in system.terms"
            if isinstance(term, BondMatrix)
            else _constant(term),
        )
    elif isinstance(term, Anisotropy):
        yield from _check_anisotropy(term, system, key)
    else:
        yield from _check_bonds(term, system, key)


def _constant(term: LocalTerm) -> str:
    """Return what a term is between spins 1/2."""
    if isinstance(term, Biquadratic):
        return "(S_j . S_k)^2 of two spins 1/2 is 3/16 - S_j . S_k / 2: give it as a heisenberg term"
    return "(S^a)^2 of a spin 1/2 is the constant 1/4; leave the term out, or give system.spin"


def _check_anisotropy(term: Anisotropy, system: System, key: str) -> Iterator[Finding]:
    """Yield strengths that do not fit together, and sites whose anisotropy is a constant."""
    if (term.A is None) == (term.D is None and term.E is None):
        yield Finding(key, "give either A, or D and E (one of them or both)")
    if term.A is not None:
        for a, b in ((0, 1), (0, 2), (1, 2)):
            if term.A[a][b] != term.A[b][a]:
                yield Finding(
                    f"{key}.A",
                    f"A is symmetric, but A{'xyz'[a]}{'xyz'[b]} = {term.A[a][b]:g} and A{'xyz'[b]}{'xyz'[a]} = {term.A[b][a]:g}",
                )
                return
    yield from check_sites(term.sites, system.spins, f"{key}.sites")
    large = [j for j, two in enumerate(system.twos) if two > 1]
    sites = large if term.sites is None else term.sites
    small = [(n, j) for n, j in enumerate(sites) if j < system.spins and j not in large]
    if small:
        yield Finding(f"{key}.sites.{small[0][0]}", f"site {small[0][1]}: {_constant(term)}")
    elif not large:
        yield Finding(key, _constant(term))
    for name in ("D", "E"):
        value = getattr(term, name)
        if isinstance(value, list) and len(value) != len(sites):
            what = "sites lists" if term.sites is not None else "the sites with a spin above 1/2 are"
            yield Finding(f"{key}.{name}", f"{len(value)} values, but {what} {len(sites)}")


def _check_bonds(term: Biquadratic | BondMatrix, system: System, key: str) -> Iterator[Finding]:
    """Yield matrices that are none, and bonds that are not named."""
    if isinstance(term, BondMatrix) and (term.matrix is None) == (term.file is None):
        yield Finding(key, "give either matrix or file")
    if isinstance(term, BondMatrix) and term.matrix is not None:
        for number, row in enumerate(term.matrix):
            if len(row) != len(term.matrix):
                yield Finding(
                    f"{key}.matrix.{number}",
                    f"expected {len(term.matrix)} numbers, as many as rows, found {len(row)}",
                )
                return
    if isinstance(term, Biquadratic) and set(system.twos) == {1}:
        yield Finding(key, _constant(term))
        return
    lattice = term.lattice if term.lattice is not None else system.lattice
    if term.list is None:
        if lattice is None:
            yield Finding(
                f"{key}.lattice",
                "missing key; give a lattice such as chain, ring, square, kagome or all, here or as system.lattice, or a list",
            )
        elif isinstance(lattice, AllToAll) and term.shells is not None:
            yield Finding(f"{key}.shells", "lattice all has no shells: every pair is at distance 1")
        return
    for given in ("lattice", "shells"):
        if getattr(term, given) is not None:
            yield Finding(f"{key}.{given}", "goes without list, which names its pairs")
    yield from _check_pairs(term, system, key)


def _check_pairs(term: Biquadratic | BondMatrix, system: System, key: str) -> Iterator[Finding]:
    """Yield the first row of a list that names no pair of different sites, or a pair that an earlier row names."""
    seen: dict[tuple[int, int], int] = {}
    rows: Sequence[Sequence[float]] = term.list or []
    for number, row in enumerate(rows):
        where = f"{key}.list.{number}"
        if isinstance(term, Biquadratic) and len(row) != 3:
            yield Finding(where, f"expected [j, k, B], found {len(row)} numbers")
            return
        for site in row[:2]:
            if not (site == math.floor(site) and 0 <= site < system.spins):
                yield Finding(
                    where,
                    f"site {site:g} does not exist: {system.spins} spins are sites 0 to {system.spins - 1}",
                )
                return
        j, k = sorted((int(row[0]), int(row[1])))
        if j == k:
            yield Finding(where, f"site {j} is coupled to itself")
            return
        if (first := seen.setdefault((j, k), number)) != number:
            yield Finding(
                where, f"the pair ({j}, {k}) is listed twice, as entries {first} and {number}; add them up"
            )
            return
