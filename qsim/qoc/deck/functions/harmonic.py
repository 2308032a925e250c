"""The harmonic oscillator."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.units import Frequency, Length
from qsim.qoc.deck.functions.base import Points, PotentialBlock
from qsim.qoc.deck.numbers import SIGNED, SIZE


class Harmonic(PotentialBlock):
    """``V = m omega^2 (x - x0)^2 / 2``."""

    place = 3

    type: Literal["harmonic"]
    omega: Annotated[Frequency, SIZE] = Field(description="angular frequency")
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="minimum")

    def at(self, x: Points, mass: float, key: str) -> Points:
        """Return V (L,), hartree, of a particle of this mass (electron masses)."""
        return 0.5 * mass * self.omega**2 * (x - self.x0) ** 2
