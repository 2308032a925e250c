"""Blocks of observables that ``task: propagate`` and ``task: atom`` share."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Protocol

from pydantic import Field

from qsim.core.deck.blocks import Block, Finding
from qsim.core.deck.units import Frequency, Time
from qsim.tridiag.deck.laser import CarrierPulse

__all__ = ["Gabor", "Hhg", "without_fundamental"]


class Hhg(Block):
    """Harmonic spectrum ``|int s(t) w(t) exp(-i h omega t) dt|^2`` over the whole run."""

    form: Literal["dipole", "velocity", "acceleration"] = Field(default="acceleration", description="s(t)")
    window: Literal["none", "hann", "sin2", "blackman", "gauss"] = Field(default="sin2", description="w(t)")
    max_order: Annotated[float, Field(gt=0, le=10_000)] | Literal["auto"] = Field(
        default="auto",
        description="highest harmonic order; auto: 1.6 times the classical cutoff, at least 30",
    )
    omega: Annotated[Frequency, Field(gt=0)] | None = Field(
        default=None, description="fundamental; by default that of the first pulse with a carrier"
    )


class Gabor(Block):
    """Time-frequency map of the acceleration."""

    width: Annotated[Time, Field(gt=0)] | None = Field(
        default=None, description="standard deviation of the window; by default a tenth of a cycle"
    )
    max_order: Annotated[float, Field(gt=0, le=10_000)] | Literal["auto"] = Field(
        default="auto", description="highest harmonic order"
    )
    omega: Annotated[Frequency, Field(gt=0)] | None = Field(
        default=None, description="fundamental; by default that of the first pulse with a carrier"
    )


class Harmonic(Protocol):
    """An entry of ``observe`` that may ask for harmonics."""

    @property
    def hhg(self) -> Hhg | None:
        """Harmonic spectrum."""

    @property
    def gabor(self) -> Gabor | None:
        """Time-frequency map."""


def without_fundamental(pulses: Sequence[Block], observe: Sequence[Harmonic]) -> Iterator[Finding]:
    """Yield harmonics that have no fundamental frequency."""
    if any(isinstance(pulse, CarrierPulse) for pulse in pulses):
        return
    for index, item in enumerate(observe):
        for name, block in (("hhg", item.hhg), ("gabor", item.gabor)):
            if block is not None and block.omega is None:
                yield Finding(
                    f"observe.{index}.{name}",
                    "harmonics of what? No pulse has a carrier frequency; add a laser, or give omega here",
                )
