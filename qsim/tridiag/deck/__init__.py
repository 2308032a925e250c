"""The tridiag deck: its model, its blocks and its rules."""

from qsim.tridiag.deck.model import DECK, references

__all__ = ["DECK", "references"]
