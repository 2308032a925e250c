"""Kernels that the decks of ``inputs/`` need, one table per method: what a run with empty caches is going to compile.

``qsim warmup FOLDER --record`` writes the tables anew, ``<method>/kernels/recorded.json``::

    {
     "kernels": [["module:name", [types of the arguments]], ...],
     "decks": {"hooke": {"features": ["series.vmc.blocks", ...], "cpu": [0, 3, 1]}}
    }

A deck that is in no table gets the kernels of the one that is most like it.  A wrong guess costs nothing but the time of a core
that would be idle.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qsim.core.device.compilers.caches import PACKAGE

__all__ = ["Kernel", "Need", "expected", "features_of", "kernels_of", "merged", "table_path"]

# Blocks of a deck that no kernel depends on.
WITHOUT = ("title", "output", "run")
# Share of its features that a deck must have in common with another one to get its kernels.
LEAST = 0.4


@dataclass(frozen=True)
class Kernel:
    """A kernel for arguments of some types.

    Attributes
    ----------
    place
        ``module:name``.
    types
        Of its arguments, in the words of `qsim.core.device.compilers.signatures`.
    """

    place: str
    types: Any

    @property
    def key(self) -> str:
        """Text by which kernels are compared."""
        return json.dumps([self.place, self.types], separators=(",", ":"))


@dataclass(frozen=True)
class Need:
    """Kernels of a deck on a device, in the order of their first calls."""

    features: frozenset[str]
    device: str
    kernels: tuple[Kernel, ...]


def table_path(method: str) -> Path:
    """Return the file of a method's table."""
    return PACKAGE / method / "kernels" / "recorded.json"


def features_of(data: Mapping[str, Any]) -> frozenset[str]:
    """Return what of a deck decides about kernels: which keys there are, and texts and switches with their values."""
    found = set(_features({key: value for key, value in data.items() if key not in WITHOUT}, ""))
    run = data.get("run")
    precision = run.get("precision", "double") if isinstance(run, Mapping) else "double"
    return frozenset(found | {_precision(precision)})


def _precision(name: object) -> str:
    return f"precision={name}"


def _features(value: object, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _features(below, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for below in value:
            yield from _features(below, path)
    else:
        yield path
        # Numbers do not: a deck of another size needs the same kernels.
        if isinstance(value, str | bool):
            yield f"{path}={value}"


def expected(method: str, data: Mapping[str, Any], device: str) -> list[Kernel]:
    """Return the kernels that a deck is likely to need, in the order of their first calls; none if nothing is known.

    Parameters
    ----------
    method, data
        The deck, as it is written.
    device
        ``"cpu"`` or ``"cuda"``.
    """
    # A table that is damaged costs time and nothing else.
    with suppress(OSError, ValueError, TypeError, AttributeError, LookupError):
        table = json.loads(table_path(method).read_text(encoding="utf-8"))
        return _chosen(table, data, device)
    return []


def _chosen(table: Mapping[str, Any], data: Mapping[str, Any], device: str) -> list[Kernel]:
    """Return the kernels of the deck of a table that is most like another one."""
    wanted = features_of(data)
    precision = next(feature for feature in wanted if feature.startswith(_precision("")))
    # Kernels of another precision are others altogether.
    alike = [
        (_likeness(wanted, set(deck["features"])), name)
        for name, deck in table["decks"].items()
        if device in deck and precision in deck["features"]
    ]
    likeness, name = max(alike, default=(0.0, ""))
    return list(kernels_of(table, name, device)) if likeness >= LEAST else []


def kernels_of(table: Mapping[str, Any], deck: str, device: str) -> tuple[Kernel, ...]:
    """Return the kernels of a deck of a table, in the order of their first calls."""
    chosen: list[int] = table["decks"][deck][device]
    return tuple(Kernel(*table["kernels"][number]) for number in chosen)


def _likeness(some: set[str] | frozenset[str], others: set[str]) -> float:
    """Return the share of features that two decks have in common."""
    return len(some & others) / max(1, len(some | others))


def merged(needs: Iterable[tuple[str, Need]]) -> dict[str, Any]:
    """Return the table of decks, given by name; a deck may come once for each device."""
    numbers: dict[str, int] = {}
    kernels: list[list[Any]] = []
    decks: dict[str, dict[str, Any]] = {}
    for name, need in needs:
        chosen = []
        for kernel in need.kernels:
            number = numbers.setdefault(kernel.key, len(kernels))
            chosen.append(number)
            if number == len(kernels):
                kernels.append([kernel.place, kernel.types])
        deck = decks.setdefault(name, {"features": sorted(need.features)})
        deck[need.device] = chosen
    return {"kernels": kernels, "decks": decks}
