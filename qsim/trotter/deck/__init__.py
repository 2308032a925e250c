"""The trotter deck: its model, its blocks and its rules."""

from qsim.trotter.deck.model import DECK as DECK
from qsim.trotter.deck.model import references as references
from qsim.trotter.deck.rules import rules

__all__ = ["DECK", "references", "rules"]

# the loader applies them; the models know none
DECK.rules = rules
