"""Symmetries of a response: levels, the sectors that a multipole leads to, and their pairs of orbital momenta.

With pairs up to ``l_max`` in S states, a sector of total L holds those up to ``l_max + L``, and the first-order functions of a
state those up to k more than the state itself: only then does every pair of a state find its partners under ``r^k C^k``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qsim.sturmian.deck.symmetry import pairs
from qsim.sturmian.two_electron.known import is_natural, label, outer, term

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Level", "lower_levels", "reached", "sector_pairs"]


class Level(NamedTuple):
    """A bound level: total momentum, spin, parity of la + lb (``even`` or ``odd``), and its number in this symmetry."""

    L: int
    S: int
    parity: str
    root: int

    @property
    def symmetry(self) -> tuple[int, int, str]:
        """L, S and parity."""
        return self.L, self.S, self.parity

    @property
    def name(self) -> str:
        """Name of the level, such as ``2^3P``."""
        return term(self.L, self.S, self.parity, self.root)

    @property
    def label(self) -> str:
        """The level as a part of the name of a number, such as ``2p_3P``."""
        return label(self.L, self.S, self.parity, self.root)

    @property
    def is_natural(self) -> bool:
        """True if the parity is ``(-1)^L``."""
        return is_natural(self.L, self.parity)


def sector_pairs(L: int, parity: str, l_max: int) -> list[tuple[int, int]]:
    """Return the pairs of a sector with momenta up to ``l_max + L``."""
    return pairs(L, l_max + L, parity=parity)


def reached(level: Level, order: int) -> list[tuple[int, str]]:
    """Return L and parity of the sectors that a multipole of an order leads to."""
    flipped = {"even": "odd", "odd": "even"}[level.parity]
    parity = flipped if order % 2 else level.parity
    momenta = range(abs(level.L - order), level.L + order + 1)
    # a sector L = 0 of odd la + lb has no pairs
    return [(L, parity) for L in momenta if not (L == 0 and parity == "odd")]


def lower_levels(level: Level) -> list[Level]:
    """Return the levels 1s n'l' that may lie below a level 1s nl and have a dipole transition to it.

    Those of the same n are included: which of them lies lower, their energies tell.
    """
    if not level.is_natural:
        return []
    n = outer(level.L, level.S, level.root)
    found = []
    for L in (level.L - 1, level.L + 1):
        if L < 0:
            continue
        parity = "odd" if L % 2 else "even"
        lowest = outer(L, level.S, 0)
        found += [Level(L, level.S, parity, root) for root in range(n - lowest + 1)]
    return found


def roots_of(levels: Iterable[Level]) -> dict[tuple[int, int, str], int]:
    """Return how many roots of each symmetry hold some levels."""
    counts: dict[tuple[int, int, str], int] = {}
    for level in levels:
        counts[level.symmetry] = max(counts.get(level.symmetry, 0), level.root + 1)
    return counts


def all_levels(states: Sequence[Level], *, lifetimes: bool) -> list[Level]:
    """Return the states of a deck, and with lifetimes the levels to which they decay."""
    found = dict.fromkeys(states)
    if lifetimes:
        for state in states:
            found |= dict.fromkeys(lower_levels(state))
    return list(found)
