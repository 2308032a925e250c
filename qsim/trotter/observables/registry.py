"""All observables: the subclasses of :class:`Observable` in the files of this folder; and the observables of a run."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

from qsim.trotter.observables.base import Array, Item, Label, Needs, Observable, Task

K = TypeVar("K", bound=Observable)


def _all_observables() -> dict[str, type[Observable]]:
    """Return the observables by their keys, in the order of their files."""
    # A class is known once its file is imported.
    for module in pkgutil.iter_modules(sys.modules[__package__].__path__):
        name = f"{__package__}.{module.name}"
        if name != __name__:
            importlib.import_module(name)
    kinds: dict[str, type[Observable]] = {}
    # Depth first, so that the order of files and of classes within them is kept.
    waiting = list(Observable.__subclasses__())
    while waiting:
        kind = waiting.pop(0)
        waiting = kind.__subclasses__() + waiting
        if "key" in vars(kind):
            kinds[kind.key] = kind
    return kinds


OBSERVABLES = _all_observables()
"""By key."""


def arrays_of(task: Task) -> list[tuple[type[Observable], Array]]:
    """Return the arrays that observables may leave in the results file of a task."""
    return [
        (kind, array)
        for kind in OBSERVABLES.values()
        for array in kind.arrays
        if task in (kind.tasks if array.tasks is None else array.tasks)
    ]


def labels_of(task: Task) -> list[tuple[type[Observable], Label]]:
    """Return the arrays that label the axes of these."""
    return [(kind, label) for kind in OBSERVABLES.values() if task in kind.tasks for label in kind.labels]


class Observables:
    """The observables that a deck names.

    Parameters
    ----------
    spins : int
        Number of spins N.
    items : sequence of Item
        Entries of the deck, checked.
    lattice : block of a lattice, optional
        Lattice of the deck.
    """

    def __init__(self, spins: int, items: Sequence[Item], lattice: Any = None) -> None:
        self.spins, self.items, self.lattice = spins, items, lattice
        by_key: dict[str, list[Item]] = {}
        # An observable may stand in several entries; its object sees all of them.
        for item in items:
            for key in item.named():
                by_key.setdefault(key, []).append(item)
        self._by_key = {key: OBSERVABLES[key](own, spins, lattice) for key, own in by_key.items()}

    def __iter__(self) -> Iterator[Observable]:
        """Iterate over the observables."""
        return iter(self._by_key.values())

    def __bool__(self) -> bool:
        """Return True if the deck names any."""
        return bool(self._by_key)

    def get(self, kind: type[K]) -> K | None:
        """Return the observable of a class, None if the deck does not name it."""
        observable: Any = self._by_key.get(kind.key)
        return observable

    def __contains__(self, kind: type[Observable]) -> bool:
        """Return True if the deck names an observable of that class."""
        return kind.key in self._by_key

    def axes(self, kind: type[Observable], array: Array, task: Task) -> tuple[str, ...]:
        """Return the axes of an array at one time, or of one level."""
        observable = self._by_key.get(kind.key)
        return array.axes if observable is None else observable.axes(array, task)

    def label(self, kind: type[Observable], label: Label, task: Task) -> Any:
        """Return the array of a label, None where the deck names no such observable or there is no such axis."""
        import numpy as np

        observable = self._by_key.get(kind.key)
        values = None if observable is None else label.value(observable, task)
        return None if values is None else np.array(values)

    @cached_property
    def needs(self) -> Needs:
        """Needs of all of them."""
        # The union of all needs: what one observable measures serves the others.
        together = Needs()
        for observable in self:
            together |= observable.needs
        return together
