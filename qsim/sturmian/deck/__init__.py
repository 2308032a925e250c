"""The sturmian deck: its model, its blocks and its rules."""

from qsim.sturmian.deck.model import DECK, references

__all__ = ["DECK", "references"]
