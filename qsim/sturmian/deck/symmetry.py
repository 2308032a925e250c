"""Quantum numbers of the deck: sectors, parity, and the partial waves that are taken if the deck names none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.sturmian.deck.blocks import as_list

if TYPE_CHECKING:
    from qsim.sturmian.deck.model import SturmianDeck

__all__ = ["default_l_max", "parity_of", "sectors"]


def sectors(deck: SturmianDeck) -> dict[tuple[int, int, str], tuple[int, ...]]:
    """Return the roots that are wanted of each (L, S, parity), in the order of the deck; parity may be ``natural``."""
    if deck.states is not None:
        found: dict[tuple[int, int, str], list[int]] = {}
        for state in deck.states:
            found.setdefault((state.L, state.S, parity_of(state.L, state.parity)), []).append(state.root)
        return {key: tuple(roots) for key, roots in found.items()}
    roots = tuple(range(getattr(deck.task, "n_roots", 1)))
    Ls = [0] if deck.channels.L is None else as_list(deck.channels.L)
    Ss = [0] if deck.channels.S is None else as_list(deck.channels.S)
    return {(L, S, parity_of(L, deck.channels.parity)): roots for L in Ls for S in Ss}


def parity_of(L: int, parity: str) -> str:
    """Return ``even`` or ``odd`` for ``natural`` too."""
    return ("odd" if L % 2 else "even") if parity == "natural" else parity


def default_l_max(deck: SturmianDeck, L: int) -> int:
    """Return the largest orbital momentum of a symmetry: that of the deck, or 4, or L + 2."""
    given = deck.channels.l_max
    return max(4, L + 2) if given is None else given
