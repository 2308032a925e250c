"""Check a deck as a run would, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from qsim.core.deck.load import load_deck
from qsim.core.run.stages import stage, unknown_figures

if TYPE_CHECKING:
    from qsim.core.deck.load import DeckSource, LoadedDeck
    from qsim.core.errors import Diagnostic

__all__ = ["examine"]


def examine(method: str, source: DeckSource, overrides: Sequence[str] = ()) -> list[Diagnostic]:
    """Return the warnings about a valid deck: keys, values, units and physics.

    Parameters
    ----------
    method
        Method of the deck, which must be there.
    source
        The deck.
    overrides
        Texts ``KEY=VALUE``.

    Raises
    ------
    DeckError
        If the deck is mistaken; it lists every mistake.
    FileError
        If a file cannot be read.
    """
    loaded: LoadedDeck[Any] = load_deck(source, stage(method, "deck").DECK, overrides)
    # In the order in which a run would find them: keys, forgotten units, figures, physics.
    findings = [
        *loaded.deck.check(),
        *loaded.doubts(),
        *unknown_figures(loaded.deck, stage(method, "output")),
        *stage(method, "build").plan(loaded).findings,
    ]
    loaded.raise_for(findings)
    return [loaded.diagnostic(finding) for finding in findings]
