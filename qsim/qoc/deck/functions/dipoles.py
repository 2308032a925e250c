"""Dipole functions of diatomic molecules and of a charge."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.units import DipoleSlope, Length
from qsim.qoc.deck.functions.base import DipoleBlock, Points
from qsim.qoc.deck.numbers import SIGNED, SIZE


class Mecke(DipoleBlock):
    """``mu = mu0 x exp(-x / rstar)``."""

    place = 0

    type: Literal["mecke"]
    mu0: Annotated[DipoleSlope, SIGNED] = Field(description="slope at the origin")
    rstar: Annotated[Length, SIZE] = Field(description="decay length")

    def at(self, x: Points, mass: float, key: str) -> Points:
        """Return mu (L,), a.u.; the mass does not matter."""
        import numpy as np

        return np.asarray(self.mu0 * x * np.exp(-x / self.rstar))


class Linear(DipoleBlock):
    """``mu = slope x``."""

    place = 1

    type: Literal["linear"]
    slope: Annotated[DipoleSlope, SIGNED] = Field(default=1.0, description="effective charge")

    def at(self, x: Points, mass: float, key: str) -> Points:
        """Return mu (L,), a.u.; the mass does not matter."""
        return self.slope * x
