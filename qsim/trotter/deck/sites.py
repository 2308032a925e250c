"""Lists of sites in a deck."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from qsim.core.deck.blocks import Count, Finding

__all__ = ["Sites", "check_sites"]

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
