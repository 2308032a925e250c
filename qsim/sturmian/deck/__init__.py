"""The sturmian deck: its model, its blocks and its rules."""

from qsim.sturmian.deck.model import SturmianDeck, references
from qsim.sturmian.deck.rules import rules

__all__ = ["DECK", "references", "rules"]

DECK = SturmianDeck
# the loader applies them; the models know none
DECK.rules = rules
