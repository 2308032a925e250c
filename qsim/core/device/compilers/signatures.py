"""Types of arguments in words, to write down which kernels a run needs.

==============================================  ==========================================
``"float64"``                                   a number, ``none`` for None
``["array", "float64", 2, "C"]``                an array; ``"readonly"`` may follow
``["tuple", "int64", "float64"]``               a tuple
``["module:Class", "int64", ...]``              a named tuple
``["held", ["module:Class", ...]]``             one that is held by its address
==============================================  ==========================================
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import FunctionType
from typing import Any, TypeAlias

from numba.core import types

from qsim.core.device.jit import Held

__all__ = ["Words", "find", "place_of", "read", "written"]

# A text, or a list of these; recursive, and so JSON.
Words: TypeAlias = Any


def written(kind: types.Type) -> Words:
    """Return a type in words.

    Raises
    ------
    ValueError
        If there are none for it.
    """
    if isinstance(kind, types.Array) and kind.aligned and type(kind) is types.Array:
        return ["array", str(kind.dtype), kind.ndim, kind.layout, *([] if kind.mutable else ["readonly"])]
    if isinstance(kind, Held):
        return ["held", written(kind.record)]
    if isinstance(kind, types.BaseNamedTuple):
        return [place_of(kind.instance_class), *map(written, kind.types)]
    if isinstance(kind, types.BaseTuple):
        return ["tuple", *map(written, kind.types)]
    name = str(kind)
    if getattr(types, name, None) is not kind and _plain(name) != kind:
        raise ValueError(f"no words for the type {kind}")
    return name


def read(words: Words) -> types.Type:
    """Return the type that `written` has put into words.

    Raises
    ------
    ValueError, AttributeError, ImportError
        If there is no such type.
    """
    if isinstance(words, str):
        kind = _plain(words)
        if kind is None:
            raise ValueError(f"no type {words}")
        return kind
    first, *rest = words
    if first == "array":
        return types.Array(read(rest[0]), rest[1], rest[2], readonly="readonly" in rest)
    if first == "held":
        return Held(read(rest[0]))
    inner = tuple(map(read, rest))
    if first == "tuple":
        return types.BaseTuple.from_types(inner)
    return types.BaseTuple.from_types(inner, find(first))


def place_of(thing: type | FunctionType) -> str:
    """Return where a class or a function is defined."""
    return f"{thing.__module__}:{thing.__qualname__}"


def find(place: str) -> Any:
    """Return what is defined at a place.

    Raises
    ------
    AttributeError, ImportError
        If nothing is.
    """
    module, _, name = place.partition(":")
    found: Any = sys.modules.get(module) or import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _plain(name: str) -> Any:
    """Return the type of a number by its name, None if there is none."""
    kind = types.boolean if name == "bool" else getattr(types, name, None)
    return kind if isinstance(kind, types.Type) else None
