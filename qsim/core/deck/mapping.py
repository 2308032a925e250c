"""Decks given in Python, as mappings instead of files: written as the YAML text that a file would hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qsim.core.deck.describe import deck_lines

__all__ = ["MAPPING", "deck_text"]

MAPPING = "<deck>"
"""What messages call a deck that is no file."""


def deck_text(deck: Mapping[str, Any]) -> str:
    """Return a deck as YAML.

    Parameters
    ----------
    deck
        Keys and values; numbers and arrays of NumPy, tuples, paths and complex numbers are fine.
    """
    return "".join(f"{line}\n" for line in deck_lines(_plain(deck)))


def _plain(value: Any) -> Any:
    """Return a value in types that YAML has; others stay, and are refused with their key when the deck is validated."""
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
