"""Families of blocks: each file of a folder defines a member, and the union of all is what a key of a deck may hold.

A new potential or pulse is a new file in its folder; nothing else names it.
"""

import pkgutil
from collections.abc import Iterable
from importlib import import_module
from typing import Any, TypeVar, Union

from qsim.core.deck.blocks import Block

__all__ = ["members", "union"]

B = TypeVar("B", bound=Block)


def members(package: str, path: Iterable[str], base: type[B], tag: str) -> tuple[type[B], ...]:
    """Return the blocks that the modules of a package define, in the order of their `place`, then of their tags.

    Parameters
    ----------
    package, path
        ``__name__`` and ``__path__`` of the package.
    base
        What all members derive from; it may define ``place``, the position in lists of the documentation.
    tag
        The field that tells members apart; classes without it are bases themselves.
    """
    blocks: list[type[B]] = []
    for info in pkgutil.iter_modules(path):
        module = import_module(f"{package}.{info.name}")
        # Classes of this file alone: imported bases and helpers belong elsewhere.
        blocks += [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, base)
            and value.__module__ == module.__name__
            and tag in value.model_fields
        ]
    return tuple(sorted(blocks, key=lambda block: (getattr(block, "place", 0), block.__name__)))


def union(blocks: Iterable[type[Block]]) -> Any:
    """Return the union of blocks as a type for pydantic."""
    return Union[tuple(blocks)]  # noqa: UP007 - made of a tuple
