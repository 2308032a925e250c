"""Equal-time correlators of pairs of sites."""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from qsim.core.deck.blocks import Count, Finding
from qsim.trotter.deck.axes import AXES, PAIR_AXES, UNLIKE, PairAxes
from qsim.trotter.deck.sites import check_sites
from qsim.trotter.observables.base import (
    Array,
    Item,
    Label,
    Needs,
    Observable,
    Pair,
    Task,
    View,
    all_pairs,
    without_order,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

Pairs = (
    Literal["all"]
    | Annotated[list[Annotated[list[Count], Field(min_length=2, max_length=2)]], Field(min_length=1)]
)


def _axes_of(item: Item) -> list[PairAxes]:
    """Return the axes of an item, such as ``["zz"]``."""
    given: PairAxes | list[PairAxes] = item.value("correlator")
    return list(given) if isinstance(given, list) else [given]


def _shared_pairs(observable: "Correlator", task: Task) -> list[Pair] | None:
    return next(iter(observable.pairs.values())) if observable.shares(task) else None


def _own_pairs(axes: PairAxes, observable: "Correlator", task: Task) -> list[Pair] | None:
    return None if observable.shares(task) else observable.pairs.get(axes)


def _pairs_label(axes: PairAxes) -> Label:
    name, text = f"pairs_{axes}", f"sites [j, k] of correlator_{axes}"
    return Label(name, "", text, (f"pair_{axes}", "end"), lambda o, task: _own_pairs(axes, o, task))


def correlator(r: "Results") -> "Figure | None":
    """Draw the connected light cone from site 0 where all pairs are known, else curves of the pairs."""
    import numpy as np

    from qsim.trotter.drawing import CURVES, color_map, curve, panels, time_axis, times

    # One panel per axis.
    names = [f"correlator_{a}{a}" for a in AXES if f"correlator_{a}{a}" in r]
    t = times(r)
    if not names or t.size < 2:
        return None
    fig, axes = panels(len(names), 1.9)
    for ax, name in zip(axes, names, strict=True):
        # Correlators of different pairs have a list each, others share one.
        own = f"pairs_{name[-2:]}"
        pairs = r[own] if own in r else r["pairs"]
        # Pairs of the first site: with all of them a map shows the light cone.
        first = np.flatnonzero(pairs[:, 0] == pairs[0, 0])
        label = rf"\langle S^{name[-1]}_{{{int(pairs[0, 0])}}} S^{name[-1]}_j\rangle"
        if first.size > CURVES // 2:
            values, title = _connected(r, name, pairs, first)
            limit = float(np.abs(values).max()) or 1.0
            # The deck may list partners in any order; the map needs them ascending.
            order = np.argsort(pairs[first, 1])
            color_map(fig, ax, t, pairs[first, 1][order], values[:, order], f"${label}{title}$", limit)
            ax.set_ylabel("site j")
        else:
            for k in range(min(len(pairs), CURVES)):
                curve(ax, r, name, t, k, label=f"{pairs[k, 0]}, {pairs[k, 1]}")
            ax.set_ylabel(rf"$\langle S^{name[-1]}_j S^{name[-1]}_k\rangle$")
            ax.legend(title="sites", ncols=2, loc="center left", bbox_to_anchor=(1.0, 0.5))
        time_axis(ax, t)
    return fig


def _connected(
    r: "Results", name: str, pairs: "NDArray[Any]", chosen: "NDArray[Any]"
) -> "tuple[NDArray[Any], str]":
    """Return the correlator of the chosen pairs less the product of the means, where the means of all sites are known."""
    # Means of all sites: the axis of sites is then the whole chain.
    s = f"s{name[-1]}"
    values = r[name][:, chosen]
    # Without them the plain correlator is shown.
    if s not in r or f"site_{s}" in r:
        return values, ""
    means = r[s]
    j, k = pairs[chosen].T
    return values - means[:, j] * means[:, k], "_c"


def _key(axes: PairAxes) -> str:
    """Return the key of a correlator among the needs: one letter for equal components."""
    return axes[0] if axes in PAIR_AXES else axes


class Correlator(Observable):
    """``<S^a_j S^a_k>`` of pairs, and ``<S^a_j S^b_k>`` of unlike components, whose pairs [j, k] have an order."""

    key = "correlator"
    form = PairAxes | Annotated[list[PairAxes], Field(min_length=1)]
    text = "<Sa_j Sb_k> of pairs, of equal components (zz) or unlike ones (xy)"
    more = {"pairs": (Pairs, "with correlator: all, or a list of [j, k]")}
    example = list(PAIR_AXES)
    tasks = ("evolve", "spectrum", "thermal", "floquet", "steady")
    arrays = tuple(
        Array(f"correlator_{axes}", "hbar^2", f"<S{axes[0]}_j S{axes[1]}_k>", (f"pair_{axes}",))
        for axes in (*PAIR_AXES, *UNLIKE)
    )
    labels = (
        *(_pairs_label(axes) for axes in (*PAIR_AXES, *UNLIKE)),
        Label("pairs", "", "sites [j, k] of the correlators", ("pair", "end"), _shared_pairs),
    )
    figures = {"correlator": correlator}

    @cached_property
    def pairs(self) -> dict[PairAxes, list[Pair]]:
        """Pairs of each correlator, by its axes such as ``zz``."""
        # Several entries of a deck may name different axes, each once.
        by_axes: dict[PairAxes, list[Pair]] = {}
        for item in self.items:
            pairs = item.value("pairs")
            for axes in _axes_of(item):
                given = (
                    all_pairs(self.spins) if pairs == "all" or pairs is None else [(j, k) for j, k in pairs]
                )
                by_axes[axes] = without_order(given) if axes in PAIR_AXES else given
        return by_axes

    @property
    def needs(self) -> Needs:
        """The pairs, and the moments along their axes."""
        pairs = {_key(axes): frozenset(some) for axes, some in self.pairs.items()}
        # of unlike components from the amplitudes themselves
        return Needs(
            axes=frozenset(axis for axis in AXES if pairs.get(axis)),
            pairs=pairs,
            vector=any(len(key) == 2 for key in pairs),
        )

    def values(self, view: View) -> dict[str, Any]:
        """Return the correlators of the pairs."""
        return {
            f"correlator_{axes}": view.correlators(_key(axes), pairs) for axes, pairs in self.pairs.items()
        }

    def shares(self, task: Task) -> bool:
        """Return True if all correlators of an evolution have the same pairs, and one axis."""
        # Equal lists share one array of sites in the results file.
        lists = list(self.pairs.values())
        return task == "evolve" and all(pairs == lists[0] for pairs in lists)

    def axes(self, array: Array, task: Task) -> tuple[str, ...]:
        """Return the axis of the pairs."""
        return ("pair",) if self.shares(task) else array.axes

    @classmethod
    def names(cls, item: Item) -> list[str]:
        """Return the correlators of an item, of which a deck may have each once."""
        return [f"correlator {axes}" for axes in _axes_of(item)]

    @classmethod
    def check(cls, item: Item, key: str, deck: Any) -> Iterator[Finding]:
        """Yield pairs of a site with itself, of sites that do not exist, and duplicate ones; a chain without any pair."""
        spins = deck.system.spins
        if spins < 2:
            yield Finding(f"{key}.correlator", "a single spin makes no pair")
        # [a, b] and [b, a] are the same pair.
        seen: dict[Pair, int] = {}
        pairs = item.value("pairs")
        for k, (a, b) in enumerate(pairs if isinstance(pairs, list) else ()):
            place = f"{key}.pairs.{k}"
            if a == b:
                yield Finding(place, f"a pair needs two different sites, found [{a}, {b}]")
            else:
                yield from check_sites([a, b], spins, place)
            if seen.setdefault((min(a, b), max(a, b)), k) != k:
                yield Finding(place, f"duplicate pair [{a}, {b}]")
