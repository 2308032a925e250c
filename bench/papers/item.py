"""Parts of a reproduction: an item is one figure or table of a paper; its data are computed once and kept as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bench.papers.work import Work

__all__ = [
    "ITEMS",
    "Data",
    "Item",
    "Line",
    "Number",
    "item",
    "items_of",
    "number",
    "paper",
    "papers",
    "scheme",
]

Data = dict[str, Any]
NUMBERS = Path(__file__).with_name("numbers.yaml")


@dataclass(frozen=True)
class Number:
    """What a paper prints.

    Attributes
    ----------
    value
        The number.
    source
        Where it stands.
    about
        Whether the paper calls it approximate.
    """

    value: float
    source: str
    about: bool = False
    unit: str = ""

    def __str__(self) -> str:
        return f"{'about ' if self.about else ''}{self.value:g}{' ' + self.unit if self.unit else ''}"


@dataclass(frozen=True)
class Line:
    """One row of the table of a paper.

    Attributes
    ----------
    what
        The quantity.
    paper
        What the paper says, with the place.
    here
        What qsim gives on this machine.
    gpu
        What it gives on a GPU, or why that is not known.
    why
        Why the two differ, or "match".
    """

    what: str
    paper: str
    here: str
    gpu: str = ""
    why: str = ""


@dataclass(frozen=True)
class Item:
    """One figure or table of a paper.

    Attributes
    ----------
    paper, name, title
        Method, ``fig1`` or ``table3``, and what it shows.
    seconds
        About how long it takes on one core of a shared server; 0 for a scheme.
    compute
        Makes the data; None where the paper shows a scheme without numbers.
    draw, compare
        Make the figure and the rows of the table from the data.
    note
        What a reader must know: how this differs from the paper's figure, or what the scheme shows.
    """

    paper: str
    name: str
    title: str
    seconds: float
    compute: Callable[[Work], Data] | None
    draw: Callable[[Data], Figure] | None
    compare: Callable[[Data], list[Line]] | None
    note: str = ""

    @property
    def key(self) -> str:
        """Name on the command line."""
        return f"{self.paper}/{self.name}"


ITEMS: dict[str, Item] = {}


def item(
    key: str,
    title: str,
    seconds: float,
    draw: Callable[[Data], Figure],
    compare: Callable[[Data], list[Line]],
    note: str = "",
) -> Callable[[Callable[[Work], Data]], Callable[[Work], Data]]:
    """Register the function that computes the data of ``paper/name``."""

    def register(compute: Callable[[Work], Data]) -> Callable[[Work], Data]:
        name, _, number_ = key.partition("/")
        ITEMS[key] = Item(name, number_, title, seconds, compute, draw, compare, note)
        return compute

    return register


def scheme(key: str, title: str, note: str) -> None:
    """Register a figure that shows no numbers."""
    name, _, number_ = key.partition("/")
    ITEMS[key] = Item(name, number_, title, 0.0, None, None, None, note)


def items_of(chosen: list[str]) -> list[Item]:
    """Return the items of names such as ``all``, ``qoc`` or ``qoc/fig6``.

    Raises
    ------
    KeyError
        If a name is none of these.
    """
    found: dict[str, Item] = {}
    for name in chosen or ["all"]:
        some = {key: each for key, each in ITEMS.items() if name in ("all", each.paper, key)}
        if not some:
            raise KeyError(name)
        found |= some
    return sorted(found.values(), key=lambda each: (list(papers()).index(each.paper), each.name))


@cache
def papers() -> dict[str, Any]:
    """Return what the papers print, as read from ``numbers.yaml``."""
    return yaml.safe_load(NUMBERS.read_text(encoding="utf-8"))


def paper(name: str) -> dict[str, Any]:
    """Return title, reference and numbers of one paper."""
    return papers()[name]


def number(name: str, key: str) -> Number:
    """Return one number of a paper."""
    return Number(**paper(name)["numbers"][key])
