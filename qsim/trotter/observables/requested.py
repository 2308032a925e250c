"""What is observed of a state: sites, pairs and cuts of the entries under ``observe``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

from qsim.trotter.deck.axes import AXES
from qsim.trotter.deck.model import correlator_axes

if TYPE_CHECKING:
    from qsim.trotter.deck.model import Echo, Observable, Otoc

__all__ = ["Asked"]


@dataclass
class Asked:
    """The observables of a run.

    Attributes
    ----------
    spins : int
        Number of spins N.
    items : sequence of Observable
        Entries of the deck, checked.
    """

    spins: int
    items: Sequence[Observable]

    def block(self, name: str) -> Any:
        """Return the settings of the first observable of that name, None if it is not asked for."""
        given = (getattr(item, name) for item in self.items)
        return next((v for v in given if v is not None and v is not False), None)  # site 0 is one

    def sites(self, axis: str) -> list[int] | None:
        """Return the sites whose S along an axis is stored, None if it is not."""
        asked = self.block(f"s{axis}")
        if asked is None or asked == "total":
            return None
        return list(range(self.spins)) if asked == "all" else list(asked)

    @cached_property
    def totals(self) -> list[str]:
        """Axes along which the total spin is stored; z always."""
        asked = self.block("total")
        found = {"z"} | {a for a in AXES if self.block(f"s{a}") is not None}
        if asked is not None:
            found |= set(AXES) if asked == "all" else set(asked)
        return [a for a in AXES if a in found]

    @cached_property
    def pairs(self) -> dict[str, list[tuple[int, int]]]:
        """Pairs [j, k] of each correlator, by its axes such as ``zz``."""
        found: dict[str, list[tuple[int, int]]] = {}
        for item in self.items:
            for axes in correlator_axes(item):
                if isinstance(item.pairs, list):
                    found[axes] = [(min(j, k), max(j, k)) for j, k in item.pairs]
                else:
                    found[axes] = list(combinations(range(self.spins), 2))
        return found

    @property
    def shared_pairs(self) -> bool:
        """True if all correlators have the same pairs."""
        lists = list(self.pairs.values())
        return all(pairs == lists[0] for pairs in lists)

    @property
    def autocorrelation_site(self) -> int | None:
        """Site of the autocorrelation, None if it is not asked for."""
        found = (item.autocorrelation for item in self.items)
        return next((site for site in found if site is not None), None)

    @cached_property
    def cuts(self) -> list[list[int]]:
        """Sites of every entropy that is asked for."""
        found = [item.entropy.parts(self.spins) for item in self.items if item.entropy is not None]
        return [cut for cuts in found for cut in cuts]

    @cached_property
    def entropies(self) -> list[str]:
        """Kinds of entropy beside that of von Neumann: ``number``, ``renyi2``."""
        kinds = [kind for item in self.items if item.entropy is not None for kind in item.entropy.kinds]
        return [kind for kind in ("number", "renyi2") if kind in kinds]

    @cached_property
    def schmidt(self) -> int:
        """How many Schmidt values are stored of every cut; 0 for none."""
        return max((item.entropy.spectrum for item in self.items if item.entropy is not None), default=0)

    @property
    def correlated_site(self) -> int | None:
        """Site of the correlations in time, None if they are not asked for."""
        found = (item.time_correlation for item in self.items)
        return next((site for site in found if site is not None), None)

    @property
    def otoc(self) -> Otoc | None:
        """The block of out-of-time-order correlators, None if they are not asked for."""
        found: Otoc | None = self.block("otoc")
        return found

    @property
    def otoc_everywhere(self) -> bool:
        """True if the out-of-time-order correlators are taken at every output time."""
        return self.otoc is None or self.otoc.times in ("all", "output")

    @cached_property
    def turned_sites(self) -> list[int]:
        """Sites whose Pauli matrix along z acts on a state at t = 0 that is carried as well."""
        found = set(self.otoc.v) if self.otoc is not None else set()
        return sorted(found | ({self.correlated_site} if self.correlated_site is not None else set()))

    @property
    def echo(self) -> Echo | None:
        """The echo block, None if no echo is asked for."""
        found: Echo | None = self.block("echo")
        return found

    @property
    def echo_sigma(self) -> bool:
        """True if the way back differs from the way forward."""
        return self.echo is not None and bool(self.echo.sigma)

    @property
    def echo_local(self) -> list[int]:
        """Sites of the local echo; none if it is not asked for."""
        return list(self.echo.local or ()) if self.echo is not None else []

    @property
    def echo_everywhere(self) -> bool:
        """True if the echo is taken at every output time."""
        return self.echo is None or self.echo.times in ("all", "output")
