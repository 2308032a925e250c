"""The qoc deck: its model, its blocks and its rules."""

from qsim.qoc.deck.model import DECK, references

__all__ = ["DECK", "references"]
