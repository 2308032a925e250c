"""Pairs of angular momenta (l1, l2) of a sector."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qsim.sturmian.deck.model import SturmianDeck
from qsim.sturmian.deck.symmetry import default_l_max

__all__ = ["pairs_of"]


def pairs_of(
    deck: SturmianDeck, L: int, S: int, parity: str, l_max: int | None = None
) -> list[tuple[int, int]]:
    """Return the pairs ``la <= lb`` of a symmetry, those of the deck's list or all up to l_max."""
    from qsim.sturmian.two_electron import angular

    if deck.channels.pairs is not None and l_max is None:
        return [(min(pair), max(pair)) for pair in deck.channels.pairs]
    return angular.pairs(L, default_l_max(deck, L) if l_max is None else l_max, parity=parity, S=S)
