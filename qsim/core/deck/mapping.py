"""Decks given in Python, as mappings instead of files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qsim.core.deck.describe import complex_text, deck_lines
from qsim.core.deck.yaml_marks import MAX_DEPTH, MAX_DIGITS, MAX_NODES, Mark, Node, Source
from qsim.core.errors import DeckError, Diagnostic

__all__ = ["MAPPING", "deck_text", "plain_data", "read_mapping"]

# What messages call a deck that is no file.
MAPPING = "<deck>"


def deck_text(deck: Mapping[str, Any]) -> str:
    """Return a deck as YAML, for the record of a run.

    Parameters
    ----------
    deck
        Keys and values; numbers and arrays of NumPy, tuples, paths and complex numbers are fine.
    """
    return "".join(f"{line}\n" for line in deck_lines(plain_data(deck)))


def _listed(value: object) -> object:
    """Return an array as lists: of NumPy, a sparse matrix of SciPy, or an operator or state of QuTiP; all else as it is."""
    for name in ("full", "toarray"):
        make = getattr(value, name, None)
        if callable(make):
            value = make()
            break
    tolist = getattr(value, "tolist", None)
    return tolist() if callable(tolist) else value


def plain_data(value: object) -> Any:
    """Return a value in types that YAML has; others stay, and are refused with their key when the deck is validated."""
    value = _listed(value)
    if isinstance(value, Mapping):
        return {str(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(item) for item in value]
    return value


def read_mapping(deck: Mapping[str, Any]) -> tuple[Node, list[Diagnostic]]:
    """Return the tree of a deck, and the mistakes that validation could not see.

    Raises
    ------
    DeckError
        If the deck nests too deeply or is too large.
    """
    reader = _Reader()
    root = reader.node(deck, ())
    if root.size > MAX_NODES:
        message = f"more than {MAX_NODES} values; keep large data in files"
        raise DeckError(root.mark.diagnostic("", message))
    return root, reader.diagnostics


class _Reader:
    """Turns Python values into nodes; one instance per deck."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._source = Source(MAPPING, ())
        # a mapping has no lines: nodes are numbered instead, so that messages come in the order of the deck
        self._numbers: Iterator[int] = itertools.count(1)

    def node(self, value: object, path: tuple[str, ...]) -> Node:
        """Return the node of a value at a path of keys."""
        mark = Mark(self._source, next(self._numbers), 1)
        # A list that contains itself would never end.
        if len(path) > MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} levels"
            raise DeckError(mark.diagnostic(".".join(path[:3]), message))
        value = _listed(value)
        if isinstance(value, Mapping):
            children = {str(key): self.node(item, (*path, str(key))) for key, item in value.items()}
            return Node.of(children, mark)
        if isinstance(value, list | tuple):
            items = [self.node(item, (*path, str(index))) for index, item in enumerate(value)]
            return Node.of(items, mark)
        return self._scalar(value, path, mark)

    def _scalar(self, value: object, path: tuple[str, ...], mark: Mark) -> Node:
        """Return the node of a single value; what YAML has no type for becomes text."""
        if value is None or isinstance(value, bool):
            return Node(value, mark, {None: "null", True: "true", False: "false"}[value])
        # A real number that an array of complex numbers made complex.
        if isinstance(value, complex) and value.imag == 0.0:
            value = value.real
        if isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
            self._add(path, mark, f"a number with more than {MAX_DIGITS} digits")
            return Node(0, mark)
        if isinstance(value, int | float):
            return Node(value, mark, repr(value))
        if isinstance(value, complex):
            return Node(complex_text(value), mark)
        text = value.as_posix() if isinstance(value, Path) else str(value)
        if any("\ud800" <= character <= "\udfff" for character in text):
            self._add(path, mark, "the text holds half of a surrogate pair")
            return Node("", mark)
        return Node(text, mark)

    def _add(self, path: tuple[str, ...], mark: Mark, message: str) -> None:
        self.diagnostics.append(mark.diagnostic(".".join(path), message))
