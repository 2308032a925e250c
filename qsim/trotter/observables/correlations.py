"""Correlations in time and out-of-time-order correlators, from states ``sigma^z_k psi(0)`` that are propagated as well."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Count, Finding, PositiveCount
from qsim.trotter.deck.sites import Sites, check_sites
from qsim.trotter.observables.base import Array, Item, Label, Needs, Observable, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

# points of a curve, beyond which they have no marks
MARKED = 40


def correlations(r: "Results") -> "Figure | None":
    """Draw correlations in time against site and time, and out-of-time-order correlators of every site V."""
    import numpy as np

    from qsim.trotter.drawing import CURVES, color_map, panels, time_axis, times

    t, names = times(r), [name for name in ("time_correlation", "otoc") if name in r]
    if not names or t.size < 2:
        return None
    fig, axes = panels(len(names), 1.9)
    for ax, name in zip(axes, names, strict=True):
        if name == "otoc":
            at = r["otoc_time" if "otoc_time" in r else "time"]
            for k, site in enumerate(r["otoc_site"][:CURVES]):
                ax.plot(at, r["otoc"][:, k], marker="." if at.size < MARKED else "", label=f"v = {site}")
            ax.set_ylabel(r"$F(t)$")
            ax.legend(ncols=2)
        else:
            values = r[name]
            limit = float(np.abs(values).max()) or 0.25
            color_map(
                fig, ax, t, np.arange(values.shape[1]), values, r"$\langle S^z_j(t)S^z_k\rangle$", limit
            )
            ax.set_ylabel("site j")
        time_axis(ax, t)
    return fig


class TimeCorrelation(Observable):
    """``Re <S^z_j(t) S^z_k>`` of all sites j."""

    key = "time_correlation"
    form = Count
    text = (
        "Re <Sz_j(t) Sz_site> of all sites j in the initial state; with haar or random_phase Tr[Sz_j(t) Sz_site]/D, "
        "infinite temperature, of the sector if there is one"
    )
    example = 2
    odd_under_inversion = True
    arrays = (
        Array(
            "time_correlation",
            "hbar^2",
            "Re <Sz_j(t) Sz_k> of the site k that is asked for",
            ("site",),
            note="of random states Tr[Sz_j(t) Sz_k]/D within D^(-1/2)/4",
        ),
    )
    figures = {"correlations": correlations}

    @property
    def site(self) -> int:
        """Site k."""
        return int(self.given)

    @property
    def needs(self) -> Needs:
        """The state of the site."""
        return Needs(vector=True, sigma_sites=frozenset({self.site}))

    @classmethod
    def check(cls, item: Item, key: str, deck: Any) -> Iterator[Finding]:
        """Yield a site that does not exist."""
        yield from check_sites([item.value(cls.key)], deck.system.spins, f"{key}.{cls.key}")


class OtocBlock(Block):
    """Out-of-time-order correlators ``F = Re <W(t) V W(t) V>`` of 2 Sz, W of one site and V of others."""

    w: Count = Field(description="site of W", json_schema_extra={"example": 0})
    v: Sites = Field(description="sites of V", json_schema_extra={"example": [1, 4]})
    times: Literal["all", "output", "final"] | PositiveCount = Field(
        default="all",
        description="at which output times: all (or output), final, or a number of them, evenly chosen",
    )


def _sites_of_v(observable: "Otoc", task: Task) -> list[int]:
    return list(observable.block.v)


class Otoc(Observable):
    """``Re <W(t) V W(t) V>``."""

    key = "otoc"
    form = OtocBlock
    text = (
        "out-of-time-order correlators: one more state forth for each v, and all of them back from every time"
    )
    example = {"w": 0, "v": [1, 4]}
    odd_under_inversion = True
    arrays = (Array("otoc", "", "Re <W(t) V W(t) V>, W and V are 2 Sz of a site", ("otoc_site",)),)
    labels = (Label("otoc_site", "", "sites of V", ("otoc_site",), _sites_of_v),)
    figures = {"correlations": correlations}

    @property
    def block(self) -> OtocBlock:
        """Block of the deck."""
        block: OtocBlock = self.given
        return block

    @property
    def times(self) -> str | int:
        """Output times at which they are taken."""
        return self.block.times

    @property
    def needs(self) -> Needs:
        """The states of the sites of V."""
        return Needs(vector=True, sigma_sites=frozenset(self.block.v))

    @classmethod
    def check(cls, item: Item, key: str, deck: Any) -> Iterator[Finding]:
        """Yield sites that do not exist, and duplicate ones."""
        block, spins = item.value(cls.key), deck.system.spins
        yield from check_sites([block.w], spins, f"{key}.otoc.w")
        yield from check_sites(block.v, spins, f"{key}.otoc.v")
