"""The qmc deck: its model, its blocks and its rules."""

from qsim.qmc.deck.model import DECK, EXTENDABLE, references

__all__ = ["DECK", "EXTENDABLE", "references"]
