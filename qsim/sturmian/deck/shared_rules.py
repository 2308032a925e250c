"""Rules of the sturmian deck that hold for bound states and collisions alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.core.deck.blocks import Finding
from qsim.sturmian.deck.blocks import as_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from qsim.sturmian.deck.model import SturmianDeck

__all__ = ["UNDERFLOW", "numbers_and_grid", "scanned", "symmetries", "underflow"]

# Exponent of exp(-alpha R) below which a double has no digits left for the generating potential.
UNDERFLOW = 600.0


def numbers_and_grid(deck: SturmianDeck) -> Iterator[Finding]:
    """Yield a precision that sturmian does not have, and contradictions of the grid."""
    if deck.run.precision != "double":
        yield Finding("run.precision", f"sturmian runs in double precision, not {deck.run.precision}")
    yield from deck.grid.check()


def symmetries(deck: SturmianDeck) -> Iterator[Finding]:
    """Yield pairs that are given in two ways, and duplicates of L and S."""
    channels = deck.channels
    if channels.pairs is not None and channels.l_max is not None:
        yield Finding("channels.l_max", "give either l_max or a list of pairs, not both")
    for name in ("L", "S"):
        values = as_list(getattr(channels, name))
        for k, value in enumerate(values):
            if value in values[:k]:
                yield Finding(f"channels.{name}.{k}", f"{name} = {value} is a duplicate")


def scanned(deck: SturmianDeck, given: Mapping[str, list[Any]]) -> Iterator[Finding]:
    """Yield duplicates of scanned values, and keys that the deck has fixed: R by its elements, l_max by its pairs."""
    for key, values in given.items():
        for k, value in enumerate(values):
            if value in values[:k]:
                yield Finding(f"scan.{key}.{k}", f"the value {value:g} is a duplicate")
    if "R" in given and isinstance(deck.grid.elements, list):
        yield Finding("scan.R", "the bounds of the elements are given, and R with them; give their number")
    if "l_max" in given and deck.channels.pairs is not None:
        yield Finding("scan.l_max", "channels lists its pairs; give channels.l_max")


def underflow(alpha: float, R: float) -> Iterator[Finding]:
    """Yield a generating potential exp(-alpha r) that a double cannot hold at the end of the box; 1/bohr and bohr."""
    if alpha * R > UNDERFLOW:
        yield Finding(
            "basis.generating.alpha",
            f"exp(-alpha R) underflows: alpha R = {alpha * R:.4g}; give alpha below {UNDERFLOW / R:.3g} or a smaller R",
        )
