"""Block of ``task: steady``."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Count


class Steady(Block):
    """How the steady state of an open system and its slowest modes are found."""

    tau: Literal["auto"] | Annotated[float, Field(gt=1e-6, lt=1e6)] = Field(
        default="auto",
        description="time of one step by which the slowest modes grow out of a random start; auto: what a short series reaches, "
        "and small systems are diagonalised",
        json_schema_extra={"example": 2.0},
    )
    tolerance: Annotated[float, Field(gt=1e-15, lt=1e-2)] = Field(
        default=1e-10, description="largest norm of d rho / dt"
    )
    modes: Annotated[Count, Field(le=20)] = Field(
        default=2, description="slowest rates beside the steady state that are told"
    )
    counting: bool = Field(
        default=False,
        description="whether the Fano factor of the jumps of every entry of dissipation, and of all, is told",
    )
