"""The qoc deck: its model, its blocks and its rules."""

from qsim.qoc.deck.model import QocDeck, references, rules

__all__ = ["DECK", "references", "rules"]

DECK = QocDeck
# the loader applies them; the models know none
DECK.rules = rules
