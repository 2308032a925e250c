"""Rules of couplings whose two sites are not alike."""

import math
from collections.abc import Iterator

from qsim.core.deck.blocks import Finding
from qsim.trotter.deck.couplings import DM, OrientedTerm, System
from qsim.trotter.deck.lattices import AllToAll


def check_oriented(term: OrientedTerm, system: System, key: str) -> Iterator[Finding]:
    """Yield contradictions in a term of type dm or tensor."""
    name = "D" if isinstance(term, DM) else "J"
    if (term.list is None) == (getattr(term, name) is None):
        yield Finding(key, f"give either {name}, for all bonds of a lattice, or list")
        return
    if term.list is not None:
        for given in ("lattice", "shells"):
            if getattr(term, given) is not None:
                yield Finding(f"{key}.{given}", f"goes with {name}; a list names its pairs")
        yield from _check_rows(term, term.list, system.spins, key)
        return
    lattice = term.lattice if term.lattice is not None else system.lattice
    if lattice is None:
        yield Finding(
            f"{key}.lattice",
            "missing key; give a lattice such as chain, ring, square, kagome or all, here or as system.lattice",
        )
        return
    if isinstance(lattice, AllToAll) and term.shells is not None:
        yield Finding(f"{key}.shells", "lattice all has no shells: every pair is at distance 1")


def _check_rows(term: OrientedTerm, rows: list[list[float]], spins: int, key: str) -> Iterator[Finding]:
    """Yield the first row of a list that names no pair of different sites, or a pair that an earlier row names."""
    seen: dict[tuple[int, int], int] = {}
    for number, row in enumerate(rows):
        where = f"{key}.list.{number}"
        if isinstance(term, DM) and len(row) == 4:
            yield Finding(where, "expected [j, k, Dx, Dy, Dz] or [j, k, Dz], found 4 numbers")
            return
        for site in row[:2]:
            if not (site == math.floor(site) and 0 <= site < spins):
                yield Finding(
                    where, f"site {site:g} does not exist: {spins} spins are sites 0 to {spins - 1}"
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
