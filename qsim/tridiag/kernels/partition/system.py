"""A tridiagonal system as the kernels take it."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Cut", "System"]


class System(NamedTuple):
    """Diagonal a, lower diagonal b, upper diagonal c and right-hand side d; ``b[0]`` and ``c[-1]`` do not count."""

    a: Any
    b: Any
    c: Any
    d: Any


class Cut(NamedTuple):
    """Rows of a system, rows of a chunk, and rows that a chunk reads beyond its own on either side."""

    length: Any
    chunk: Any
    halo: Any
