"""Entanglement of parts of the system: entropies and Schmidt coefficients."""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from qsim.core.deck.blocks import Block, Count, Finding
from qsim.trotter.deck.sites import check_sites
from qsim.trotter.observables.base import (
    Array,
    Final,
    Item,
    Label,
    Needs,
    Observable,
    Setting,
    Task,
    View,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

Sites = Annotated[list[Count], Field(min_length=1)]


class EntropyBlock(Block):
    """Entanglement entropies (natural logarithm) of some sites with the rest."""

    sites: Literal["half"] | Sites | None = Field(
        default=None,
        description="the sites of one part, or half: the first half of them",
        json_schema_extra={"example": [0, 1, 2, 3, 4, 5, 6, 7]},
    )
    cuts: Literal["all"] | None = Field(
        default=None,
        description="all: every cut of the chain, the first 1, 2, ..., N - 1 sites, instead of sites",
    )
    kinds: Annotated[list[Literal["von_neumann", "number", "renyi2"]], Field(min_length=1)] = Field(
        default=["von_neumann"],
        description="what beside the entropy of von Neumann: renyi2, -ln tr rho^2; number, of the distribution of Sz of the "
        "part, in a sector",
    )
    spectrum: Annotated[Count, Field(le=4096)] = Field(
        default=0,
        description="how many of the largest squared Schmidt coefficients to store, in a sector with Sz of the part",
    )

    def parts(self, spins: int) -> list[list[int]]:
        """Return the sites of every part."""
        # every cut of a chain: the first 1 ... N - 1 sites
        if self.cuts is not None:
            return [list(range(count)) for count in range(1, spins)]
        if isinstance(self.sites, list):
            return [self.sites]
        return [list(range(spins // 2))]


def _form(value: object) -> object:
    return {"sites": value} if isinstance(value, list) else value


def _sites_of_parts(observable: "Entropy", task: Task) -> list[list[bool]]:
    sites = range(observable.spins)
    return [[site in cut for site in sites] for cut in observable.cuts]


def entropy(r: "Results") -> "Figure | None":
    """Draw the entropies of the parts against time; time is logarithmic where the output times are."""
    import numpy as np

    from qsim.core.results.plotting import figure
    from qsim.trotter.drawing import CURVES, curve, time_axis, times

    t = times(r)
    if "entropy" not in r or t.size < 2:
        return None
    fig = figure("single")
    ax = fig.subplots()
    values = r["entropy"]
    # a curve for each part, as many as a figure can hold
    for k in range(min(CURVES, 1 if values.ndim == 1 else values.shape[1])):
        sites = np.flatnonzero(r["entropy_sites"][k])
        curve(ax, r, "entropy", t, None if values.ndim == 1 else k, label=f"sites {_site_list(sites)}")
        # ln 2 for each site of the smaller part, drawn where the curve comes near it
        most = min(sites.size, r["site"].size - sites.size) * np.log(2.0)
        if float(np.max(values)) > 0.6 * most:
            ax.axhline(
                most, color="0.6", linestyle=":", linewidth=0.7, label="largest possible" if k == 0 else None
            )
    # other kinds of the single part
    if values.ndim == 1:
        for name, label in (("number_entropy", "of the number"), ("renyi2", "Renyi 2")):
            if name in r:
                curve(ax, r, name, t, None, label=label)
    ax.set_ylim(bottom=0.0)
    ax.set_ylabel("entropy (nat)")
    ax.legend()
    time_axis(ax, t)
    return fig


def _site_list(sites: "NDArray[Any]") -> str:
    """Return ``0-7`` or ``0, 3, 5, ...``."""
    if sites.size > 1 and all(sites[1:] - sites[:-1] == 1):
        return f"{sites[0]}-{sites[-1]}"
    return ", ".join(str(s) for s in sites[:4]) + (", ..." if sites.size > 4 else "")


def cuts(r: "Results") -> "Figure | None":
    """Draw the entropies of the lowest state against the size of the part, and the entanglement spectrum of the middle cut."""
    import numpy as np

    from qsim.core.results.plotting import COLORS, figure
    from qsim.trotter.drawing import FLOOR

    if "sector_sz" not in r or "entropy" not in r or r["entropy"].size < 2:
        return None
    sizes = r["entropy_sites"].sum(axis=1)
    fig = figure("double", 2.6)
    a, b = fig.subplots(1, 2)
    for name, label in (("entropy", "von Neumann"), ("number_entropy", "number"), ("renyi2", "Renyi 2")):
        # a state without a definite Sz has no entropy of its number
        if name in r:
            a.plot(sizes, r[name], marker="o", markersize=2.5, label=label)
    a.set_xlabel("sites of the part")
    a.set_ylabel("entropy (nat)")
    a.set_ylim(bottom=0.0)
    a.legend()
    if "schmidt_sz" not in r:
        b.remove()
        return fig
    middle = int(np.argmin(np.abs(sizes - 0.5 * r["site"].size)))
    values, sz = r["schmidt"][middle], r["schmidt_sz"][middle]
    shown = values > FLOOR
    b.plot(
        sz[shown], -np.log(values[shown]), linestyle="none", marker="_", markersize=9, color=COLORS["blue"]
    )
    b.margins(x=0.2)
    b.locator_params(axis="x", integer=True)
    b.set_xlabel(r"$S^z$ of the part")
    b.set_ylabel(r"$-\ln p$ of the middle cut")
    return fig


def _shifted_entropy(problem: Any, lost: float) -> float:
    """Return how far an entropy moves with a state that is off by `lost`: the bound of Fannes and Audenaert.

    ``|S(rho) - S(sigma)| <= T ln(d - 1) - T ln T - (1 - T) ln(1 - T)`` with the dimension d of the smaller part and the distance
    ``T <= lost`` (Audenaert, J. Phys. A 40, 8127, 2007), up to ``T = 1 - 1 / d``, where it is ln d.
    """
    part = problem.observables.get(Entropy).cuts[0]
    sizes = [float(two + 1) for two in problem.models.system.twos]
    inner = math.prod(sizes[j] for j in part)
    dimension = min(inner, math.prod(sizes) / inner)
    if lost <= 0.0 or dimension < 2.0:
        return 0.0
    if lost >= 1.0 - 1.0 / dimension:
        return math.log(dimension)
    return lost * math.log(dimension - 1.0) - lost * math.log(lost) - (1.0 - lost) * math.log1p(-lost)


class Entropy(Observable):
    """Entropies of all parts that the deck names, with the rest of the system."""

    key = "entropy"
    form = Annotated[EntropyBlock, BeforeValidator(_form, json_schema_input_type=EntropyBlock | list[int])]
    text = "entanglement entropy of some sites"
    example = {"cuts": "all"}
    tasks = ("evolve", "spectrum", "floquet")
    arrays = (
        Array("entropy", "nat", "von Neumann entropy of the sites with the rest", ("cut",)),
        Array("number_entropy", "nat", "entropy of the distribution of Sz of the sites", ("cut",)),
        Array("renyi2", "nat", "Renyi entropy -ln tr rho^2 of the sites with the rest", ("cut",)),
        Array(
            "schmidt",
            "",
            "squared Schmidt coefficients, the largest first",
            ("cut", "schmidt_value"),
            tasks=("evolve", "spectrum"),
        ),
        Array(
            "schmidt_sz",
            "hbar",
            "Sz of the sites, for each Schmidt coefficient",
            ("cut", "schmidt_value"),
            tasks=("evolve", "spectrum"),
        ),
    )
    labels = (
        Label(
            "entropy_sites",
            "",
            "whether a site belongs to the part of this entropy",
            ("cut", "site"),
            _sites_of_parts,
        ),
    )
    finals = (
        Final(
            "entropy_final",
            "nat",
            "entanglement entropy at t_final",
            "entropy",
            index=(-1, 0),
            headline=True,
            error=_shifted_entropy,
        ),
    )
    figures = {"entropy": entropy, "cuts": cuts}

    @cached_property
    def blocks(self) -> list[EntropyBlock]:
        """Blocks of the deck."""
        return [item.value(self.key) for item in self.items]

    @cached_property
    def cuts(self) -> list[list[int]]:
        """Sites of every part."""
        return [cut for block in self.blocks for cut in block.parts(self.spins)]

    @cached_property
    def kinds(self) -> list[str]:
        """Kinds of entropy beside von Neumann's: ``number``, ``renyi2``."""
        named = [kind for block in self.blocks for kind in block.kinds]
        return [kind for kind in ("number", "renyi2") if kind in named]

    @cached_property
    def stored(self) -> int:
        """Number of Schmidt coefficients that are stored of every part."""
        return max(block.spectrum for block in self.blocks)

    @property
    def needs(self) -> Needs:
        """Schmidt coefficients of the parts."""
        return Needs(cuts=tuple(tuple(cut) for cut in self.cuts))

    def values(self, view: View) -> dict[str, Any]:
        """Return the entropies of all parts, and their largest Schmidt coefficients."""
        # the number entropy is that of a definite Sz
        every = ["number", "renyi2"] if view.labelled else ["renyi2"]
        kinds = every if view.complete else self.kinds
        # without kinds and spectra a batch has its entropies already, made for all members together
        if not (kinds or self.stored):
            return {"entropy": view.entropies(self.cuts)}
        spectra = [view.schmidt(cut) for cut in self.cuts]
        arrays: dict[str, Any] = {"entropy": [s.entropy for s in spectra]}
        if "number" in kinds:
            arrays["number_entropy"] = [s.number_entropy for s in spectra]
        if "renyi2" in kinds:
            arrays["renyi2"] = [s.renyi2 for s in spectra]
        if self.stored:
            largest = [s.largest(self.stored) for s in spectra]
            arrays["schmidt"] = [values for values, _ in largest]
            if view.labelled:
                arrays["schmidt_sz"] = [sz for _, sz in largest]
        return arrays

    def axes(self, array: Array, task: Task) -> tuple[str, ...]:
        """Return the axes of an array; in time the axis of the parts only where there are several."""
        return array.axes[1:] if task != "spectrum" and len(self.cuts) == 1 else array.axes

    def column(self, values: "NDArray[Any]") -> "NDArray[Any]":
        """Return the rows without the axis of the parts where there is one part."""
        return values[:, 0] if len(self.cuts) == 1 else values

    @classmethod
    def names(cls, item: Item) -> list[str]:
        """Return nothing: a deck may name several entropies."""
        return []

    @classmethod
    def check(cls, item: Item, key: str, deck: Any) -> Iterator[Finding]:
        """Yield parts that do not exist, and parts without a rest."""
        block, place, spins = item.value(cls.key), f"{key}.{cls.key}", deck.system.spins
        if (block.sites is None) == (block.cuts is None):
            yield Finding(place, "give either sites (half, or a list) or cuts: all")
        if spins < 2:
            yield Finding(place, "a single spin has no other part")
        sites = block.sites if isinstance(block.sites, list) else []
        yield from check_sites(sites, spins, f"{place}.sites")
        if len(set(sites)) >= spins:
            yield Finding(f"{place}.sites", f"leave at least one of the {spins} sites for the other part")
        if deck.task == "floquet" and block.spectrum:
            yield Finding(f"{place}.spectrum", "task: floquet stores no entanglement spectrum; leave it out")

    @classmethod
    def physics(cls, item: Item, key: str, setting: Setting) -> Iterator[Finding]:
        """Yield that there is no number entropy in the whole space."""
        if "number" in item.value(cls.key).kinds and not setting.conserves_sz:
            yield Finding(
                f"{key}.entropy.kinds",
                "the number entropy needs a state of one Sz, but this evolution is in the whole space; leave number out, or make "
                "it possible to use a sector (H that conserves Sz, a start of one Sz, accuracy instead of dt)",
            )
