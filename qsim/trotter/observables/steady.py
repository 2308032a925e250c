"""Correlations in time and emission spectra of a steady state."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Count, Finding
from qsim.trotter.deck.sites import check_sites
from qsim.trotter.deck.tasks import Frequencies
from qsim.trotter.observables.base import Item, Label, Observable

Operator = Literal["sx", "sy", "sz", "sp", "sm"]
Sites = Literal["all"] | Annotated[list[Count], Field(min_length=1)]


class TwoTimeBlock(Block):
    """``<A_j(t) B_j(0)>`` of sites."""

    of: Operator = Field(default="sp", description="A, at the later time")
    with_: Operator = Field(default="sm", alias="with", description="B, at time 0")
    sites: Sites = Field(default="all", description="sites j")
    t_final: Annotated[float, Field(gt=0.0, lt=1e6)] = Field(default=10.0, description="last time, 1/J")
    count: Annotated[int, Field(ge=2, le=100_000)] = Field(default=101, description="times, 0 among them")


class EmissionBlock(Block):
    """``(1/pi) Re int_0^inf exp(-i w t) [<S+_j(t) S-_j> - |<S-_j>|^2] dt``, summed over sites."""

    sites: Sites = Field(default="all", description="sites j")
    omega: Frequencies = Field(
        default=Frequencies.model_validate({"from": -4.0}), description="frequencies", validate_default=True
    )


class _OfSteady(Observable):
    tasks = ("steady",)
    example = None

    @property
    def sites(self) -> list[int]:
        """Sites of the first item."""
        return list(range(self.spins)) if self.given.sites == "all" else list(self.given.sites)

    @classmethod
    def check(cls, item: Item, key: str, deck: Any) -> Iterator[Finding]:
        """Yield sites that do not exist."""
        sites = item.value(cls.key).sites
        if isinstance(sites, list):
            yield from check_sites(sites, deck.system.spins, f"{key}.{cls.key}.sites")


class TwoTime(_OfSteady):
    """Correlations of one site in time."""

    key = "two_time"
    form = TwoTimeBlock
    text = "<A_j(t) B_j(0)> of sites in the steady state: of and with are sx, sy, sz, sp, sm; sites, t_final, count"
    labels = (Label("two_time_site", "", "sites of two_time", ("two_time_site",), lambda o, _: o.sites),)


class Emission(_OfSteady):
    """Spectrum of the light that spins emit."""

    key = "emission"
    form = EmissionBlock
    text = "spectrum of the emission of sites in the steady state, without its elastic line: sites, omega"
