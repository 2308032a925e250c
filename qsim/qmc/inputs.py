"""The complaint about a value of the deck that shows to be wrong only when it is used."""

from __future__ import annotations

__all__ = ["InvalidInput"]


class InvalidInput(ValueError):
    """A value of the deck that shows to be wrong only when it is used; the stages turn it into a located deck error.

    Parameters
    ----------
    key
        Dotted key of the deck, ``"system.atoms"``.
    message
        What is wrong, what was found, what is allowed.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key
