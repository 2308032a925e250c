"""Quantum numbers of the deck: sectors and their pairs of orbital momenta, by the selection rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.sturmian.deck.blocks import as_list

if TYPE_CHECKING:
    from qsim.sturmian.deck.blocks import Channels
    from qsim.sturmian.deck.model import SturmianDeck

__all__ = [
    "allowed",
    "default_l_max",
    "exchange_sign",
    "pairs",
    "pairs_of",
    "parity_of",
    "sectors",
    "states_of",
    "triangle",
]

NAMES = ("even", "odd")


def sectors(deck: SturmianDeck) -> dict[tuple[int, int, str], tuple[int, ...]]:
    """Return the roots that are wanted of each (L, S, parity), in the order of the deck; parity may be ``natural``."""
    if deck.states is not None:
        listed: dict[tuple[int, int, str], list[int]] = {}
        for state in deck.states:
            listed.setdefault((state.L, state.S, parity_of(state.L, state.parity)), []).append(state.root)
        return {key: tuple(roots) for key, roots in listed.items()}
    roots = tuple(range(getattr(deck.task, "n_roots", 1)))
    Ls = [0] if deck.channels.L is None else as_list(deck.channels.L)
    Ss = [0] if deck.channels.S is None else as_list(deck.channels.S)
    return {(L, S, parity_of(L, deck.channels.parity)): roots for L in Ls for S in Ss}


def states_of(deck: SturmianDeck) -> list[tuple[int, int, str, int]]:
    """Return (L, S, parity, root) of all states that are wanted, in the order of the deck."""
    if deck.states is not None:
        return [(s.L, s.S, parity_of(s.L, s.parity), s.root) for s in deck.states]
    return [(*symmetry, root) for symmetry, roots in sectors(deck).items() for root in sorted(roots)]


def parity_of(L: int, parity: str) -> str:
    """Return ``even`` or ``odd`` for ``natural``, ``(-1)^L``, and ``unnatural``, the other one, too."""
    if parity in NAMES:
        return parity
    return NAMES[(L + (parity == "unnatural")) % 2]


def default_l_max(channels: Channels, L: int) -> int:
    """Return the largest orbital momentum of a symmetry: given by the deck, or 4, or L + 2."""
    given = channels.l_max
    return max(4, L + 2) if given is None else given


def pairs_of(
    channels: Channels, L: int, S: int, parity: str, l_max: int | None = None
) -> list[tuple[int, int]]:
    """Return the pairs ``la <= lb`` of a symmetry: from the deck's list, or all up to l_max."""
    if channels.pairs is not None and l_max is None:
        return [(min(pair), max(pair)) for pair in channels.pairs]
    return pairs(L, default_l_max(channels, L) if l_max is None else l_max, parity=parity, S=S)


# ----------------------------------------------------------------------------------- selection rules


def triangle(a: int, b: int, c: int) -> bool:
    """Return whether three angular momenta can add up to zero."""
    return abs(a - b) <= c <= a + b


def exchange_sign(la: int, lb: int, L: int, S: int) -> int:
    """Return the sign that ties the component (lb, la) to the transpose of (la, lb): ``(-1)^(la + lb - L + S)``."""
    return -1 if (la + lb + L + S) % 2 else 1


def allowed(L: int, la: int, lb: int, parity: str | None = "natural") -> bool:
    """Return whether a pair can couple to L with the given parity.

    Parameters
    ----------
    L : int
        Total orbital angular momentum.
    la, lb : int
        Angular momenta of the electrons.
    parity : {"natural", "unnatural", "even", "odd"}, optional
        Parity of the state, ``(-1)^(la + lb)``; by default the natural one, ``(-1)^L``.
    """
    wanted = NAMES.index(parity_of(L, parity or "natural"))
    return triangle(la, lb, L) and (la + lb) % 2 == wanted


def pairs(L: int, l_max: int, *, parity: str | None = "natural", S: int = 0) -> list[tuple[int, int]]:
    """Return all pairs ``la <= lb <= l_max`` that couple to L, by ascending la + lb, then la.

    Parameters
    ----------
    L : int
        Total orbital angular momentum.
    l_max : int
        Largest angular momentum of one electron.
    parity : {"natural", "unnatural", "even", "odd"}, optional
        See `allowed`.
    S : {0, 1}
        Total spin.  Both spins have the same pairs: for la = lb it decides the symmetry of the component, not its presence.

    Returns
    -------
    list of (int, int)
        Empty if l_max is too small.
    """
    if S not in (0, 1):
        raise ValueError(f"two electrons have S = 0 or 1, not {S}")
    coupled = [(la, lb) for lb in range(l_max + 1) for la in range(lb + 1) if allowed(L, la, lb, parity)]
    return sorted(coupled, key=lambda pair: (sum(pair), pair[0]))
