"""Lists of sites and of pairs of sites in a deck."""

import math
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from qsim.core.deck.blocks import Count, Finding

Sites = Annotated[list[Count], Field(min_length=1)]


def check_sites(sites: list[int] | None, spins: int, key: str) -> Iterator[Finding]:
    """Yield sites that do not exist or are listed twice."""
    seen: set[int] = set()
    for k, site in enumerate(sites or ()):
        if site >= spins:
            yield Finding(
                f"{key}.{k}", f"site {site} does not exist: {spins} spins are sites 0 to {spins - 1}"
            )
            return
        if site in seen:
            yield Finding(f"{key}.{k}", f"duplicate site {site}")
            return
        seen.add(site)


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
