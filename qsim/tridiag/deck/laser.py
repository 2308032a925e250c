"""The laser of a tridiag deck: a sum of pulses, which are in :mod:`qsim.tridiag.deck.pulses`."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Finding
from qsim.tridiag.deck.pulses import Pulse

__all__ = ["Laser"]


class Laser(Block):
    """The field that drives the electron: the sum of all pulses."""

    gauge: Literal["length", "velocity"] = Field(
        default="length", description="length: + x E(t); velocity: p + A(t), A = -integral of E"
    )
    pulses: Annotated[list[Pulse], Field(min_length=1, max_length=1000)] = Field(
        description="pulses, added up",
        json_schema_extra={
            "example": [{"shape": "sin2", "wavelength": "800 nm", "intensity": "1e14 W/cm2", "cycles": 6}]
        },
    )

    def check(self, key: str = "laser") -> Iterator[Finding]:
        """Yield what contradicts itself in the pulses."""
        for index, pulse in enumerate(self.pulses):
            yield from pulse.check(f"{key}.pulses.{index}")
