"""The sturmian deck: its model, its blocks and its rules."""

from collections.abc import Iterator

from qsim.core.deck.blocks import Finding
from qsim.sturmian.deck import rules
from qsim.sturmian.deck.model import SturmianDeck as _Model
from qsim.sturmian.deck.model import references

__all__ = ["DECK", "references"]


class SturmianDeck(_Model):
    """Two electrons and a nucleus in generalised Sturmian functions."""

    def check(self) -> Iterator[Finding]:
        """Yield contradictions that need no calculation."""
        yield from rules.of_deck(self)


DECK = SturmianDeck
