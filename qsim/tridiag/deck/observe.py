"""Blocks of observables that ``task: propagate`` and ``task: atom`` share."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block
from qsim.core.deck.units import Frequency, Time

__all__ = ["Gabor", "Hhg"]


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
