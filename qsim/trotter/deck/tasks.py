"""Blocks of the tasks beside the evolution of a state."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, PositiveCount

__all__ = ["TASKS", "Spectrum"]

TASKS = Literal["evolve", "spectrum"]


class Spectrum(Block):
    """Lowest or highest levels of each sector."""

    levels: Annotated[PositiveCount, Field(le=200)] = Field(
        default=1, description="how many of each sector", json_schema_extra={"example": 4}
    )
    which: Literal["lowest", "highest"] = Field(default="lowest", description="end of the spectrum")
    tolerance: Annotated[float, Field(ge=1e-14, le=1e-2)] = Field(
        default=1e-10,
        description="largest residual ||H psi - E psi||: an energy lies within it; what rounding leaves is accepted",
    )
