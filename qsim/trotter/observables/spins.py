"""Expectation values of the spins: of sites, and of all together."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from qsim.core.deck.blocks import Count, Finding
from qsim.trotter.deck.axes import AXES, Axis
from qsim.trotter.deck.sites import check_sites
from qsim.trotter.observables.base import Array, Final, Item, Label, Needs, Observable, Task, View, shifted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

WhichSites = Literal["all", "total"] | Annotated[list[Count], Field(min_length=1)]
BITS = "site j is bit j of the basis index, site 0 the least significant; bit 0 is up (+1/2), bit 1 is down"


def _own_sites(observable: "Spins", task: Task) -> list[int] | None:
    """Return the sites that have an axis of their own: fewer than all, of an evolution."""
    return observable.sites if observable.own_axis(task) else None


def sz_map(r: "Results") -> "Figure | None":
    """Draw the local magnetisation against site and time, for each component that was observed."""
    import numpy as np

    from qsim.trotter.drawing import color_map, panels, time_axis, times

    names = [f"s{a}" for a in AXES if f"s{a}" in r and r[f"s{a}"].shape[1:] > (1,)]
    t = times(r)
    if not names or t.size < 2:
        return None
    fig, axes = panels(len(names), 1.9)
    for ax, name in zip(axes, names, strict=True):
        values = r[name]
        own = f"site_{name}"
        sites = r[own] if own in r else r["site"]
        limit = float(np.abs(values).max()) or 0.5
        color_map(fig, ax, t, np.arange(sites.size), values, rf"$\langle S^{name[1]}_j\rangle$", limit)
        # even steps
        shown = np.arange(0, sites.size, -(-sites.size // 9))
        ax.set_yticks(shown, [str(sites[k]) for k in shown])
        ax.set_ylabel("site")
        time_axis(ax, t)
    return fig


class Spins(Observable):
    """``<S^a_j>`` of sites along one axis, and their sum over all sites."""

    axis: Axis
    form = WhichSites
    word = "all"
    example = "all"

    @property
    def sites(self) -> list[int] | None:
        """Sites whose values are stored; None if only the total is."""
        if self.given == "total":
            return None
        return list(range(self.spins)) if self.given == "all" else list(self.given)

    @property
    def needs(self) -> Needs:
        """The moments along the axis."""
        return Needs(axes=frozenset({self.axis}))

    def values(self, view: View) -> dict[str, Any]:
        """Return ``<S^a_j>`` of the sites, and the total."""
        name, spins = f"s{self.axis}", view.spins(self.axis)
        # a level is stored with all sites, and without the total
        if view.complete:
            return {name: spins}
        totals = {f"total_{name}": math.fsum(spins)}
        return totals if self.sites is None else totals | {name: spins[self.sites]}

    def own_axis(self, task: Task) -> bool:
        """Return True if the sites are not all sites."""
        return task == "evolve" and self.sites is not None and len(self.sites) < self.spins

    def axes(self, array: Array, task: Task) -> tuple[str, ...]:
        """Return the axis of the sites."""
        return (f"site_s{self.axis}",) if self.own_axis(task) else array.axes

    @classmethod
    def check(cls, item: Item, key: str, deck: Any) -> Iterator[Finding]:
        """Yield sites that do not exist, and duplicate sites."""
        sites = item.value(cls.key)
        if isinstance(sites, list):
            yield from check_sites(sites, deck.system.spins, f"{key}.{cls.key}")


def _arrays(axis: Axis) -> tuple[Array, ...]:
    return (Array(f"s{axis}", "hbar", f"<S{axis}> of the sites", ("site",), note=BITS),)


def _labels(axis: Axis) -> tuple[Label, ...]:
    return (Label(f"site_s{axis}", "", f"sites of s{axis}", (f"site_s{axis}",), _own_sites),)


class Sx(Spins):
    """``<S^x_j>``."""

    key, axis = "sx", "x"
    text = "<Sx>: all, total, or a list of sites"
    tasks = ("evolve", "spectrum", "floquet", "steady")
    arrays, labels = _arrays("x"), _labels("x")
    figures = {"sz_map": sz_map}


class Sy(Spins):
    """``<S^y_j>``."""

    key, axis = "sy", "y"
    text = "<Sy>: all, total, or a list of sites"
    tasks = ("evolve", "spectrum", "floquet", "steady")
    arrays, labels = _arrays("y"), _labels("y")
    figures = {"sz_map": sz_map}


class Sz(Spins):
    """``<S^z_j>``."""

    key, axis = "sz", "z"
    text = "<Sz>: all, total, or a list of sites"
    tasks = ("evolve", "spectrum", "floquet", "steady")
    arrays, labels = _arrays("z"), _labels("z")
    figures = {"sz_map": sz_map}


def total(r: "Results") -> "Figure | None":
    """Draw the components of the total spin."""
    from qsim.core.results.plotting import figure
    from qsim.trotter.drawing import curve, time_axis, times

    t = times(r)
    names = [f"total_s{a}" for a in AXES if f"total_s{a}" in r]
    if len(names) < 2 or t.size < 2:
        return None
    fig = figure("single")
    ax = fig.subplots()
    for name in names:
        curve(ax, r, name, t, label=rf"$S^{name[-1]}$")
    ax.set_ylabel("total spin")
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.1)
    time_axis(ax, t)
    return fig


def _shifted_total(problem: Any, lost: float) -> float:
    """Return how far the total spin moves; it is N / 2 at most, or the sum of S."""
    return shifted(0.5 * problem.models.system.quanta, lost)


class Total(Observable):
    """``sum_j <S^a_j>``; along z it is stored by every evolution."""

    key = "total"
    form = Literal["all"] | Axis | Annotated[list[Axis], Field(min_length=1)]
    text = "total spin along x, y, z, or all three"
    word = "all"
    example = "all"
    tasks = ("evolve", "floquet", "steady")
    arrays = tuple(Array(f"total_s{a}", "hbar", f"total S{a}") for a in AXES)
    finals = (Final("total_sz_final", "hbar", "total Sz at t_final", "total_sz", -1, True, _shifted_total),)
    figures = {"total": total}

    @property
    def along(self) -> Sequence[Axis]:
        """Axes whose totals are stored."""
        return AXES if self.given == "all" else [axis for axis in AXES if axis in self.given]

    @property
    def needs(self) -> Needs:
        """The moments along the axes."""
        return Needs(axes=frozenset(self.along))

    def values(self, view: View) -> dict[str, Any]:
        """Return the totals."""
        return {f"total_s{axis}": math.fsum(view.spins(axis)) for axis in self.along}
