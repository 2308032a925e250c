"""The trotter deck: its model, its blocks and its rules."""

from qsim.trotter.deck.model import DECK, references

__all__ = ["DECK", "references"]
