"""Time and propagation of the state."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AliasChoices, Field

from qsim.core.deck.blocks import Block, Count, short_form
from qsim.core.deck.units import Energy, Time
from qsim.qoc.deck.numbers import SIGNED, SIZE, Positive


class TimeGrid(Block):
    """Duration and steps; the field has one value per step, at its midpoint."""

    OLD_NAMES: ClassVar[Mapping[str, str]] = {"tau": "dt"}

    T: Annotated[Time, SIZE] = Field(description="duration", json_schema_extra={"example": 30000})
    steps: Annotated[Count, Field(ge=1, le=100_000_000)] | Literal["auto"] | None = Field(
        default=None,
        description="number of intervals N (the paper's N time points are N - 1 intervals); auto: from the spectrum",
        json_schema_extra={"example": 6000},
    )
    dt: Annotated[Time, SIZE] | None = Field(
        default=None, validation_alias=AliasChoices("dt", "tau"), description="time step, instead of steps"
    )


class EigenbasisPropagator(Block):
    """Strang splitting in the lowest eigenstates; checks its own truncation."""

    type: Literal["eigenbasis"]
    states: Annotated[Count, Field(ge=2, le=400)] | Literal["auto"] = Field(
        default="auto", description="retained levels K"
    )
    truncation_tolerance: Positive = Field(
        default=1e-6, description="warn when the highest retained levels hold more population than this"
    )


class CrankNicolsonPropagator(Block):
    """The paper's propagator, Eq. (4), on the grid."""

    type: Literal["crank_nicolson"]
    energy_shift: Annotated[Energy, SIGNED] | Literal["auto"] = Field(
        default="auto",
        description="added to the potential; auto puts the zero between the states, 0.0 is the paper's Eq. (4)",
    )
    memory: Literal["auto", "store", "reverse"] = Field(
        default="auto", description="keep the trajectory for the gradient, or recover it by time reversal"
    )


Propagator = Annotated[
    EigenbasisPropagator | CrankNicolsonPropagator, Field(discriminator="type"), short_form
]
