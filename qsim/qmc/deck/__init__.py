"""The qmc deck: its model, its blocks and its rules."""

from qsim.qmc.deck.model import EXTENDABLE, QmcDeck, references
from qsim.qmc.deck.rules import rules

__all__ = ["DECK", "EXTENDABLE", "references", "rules"]

DECK = QmcDeck
DECK.rules = rules  # the loader applies them; the models know none
