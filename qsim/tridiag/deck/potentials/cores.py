"""Attraction of a softened charge, bare or screened."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.units import Length
from qsim.tridiag.deck.numbers import SIGNED, SIZE, Points
from qsim.tridiag.deck.potentials.base import PotentialBlock

__all__ = ["SoftCore", "Yukawa"]


class SoftCore(PotentialBlock):
    """``V = -Z / sqrt((x - x0)^2 + a2)``; with Z = 1 and a2 = 2 the ground state lies at -0.5 hartree."""

    place = 1

    type: Literal["softcore"]
    Z: Annotated[float, SIGNED] = Field(default=1.0, description="charge; negative repels")
    a2: Annotated[float, SIZE] = Field(default=2.0, description="square of the softening length, bohr^2")
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="position of the charge")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        y = x - self.x0
        return -self.Z / np.sqrt(y * y + self.a2)

    def dV(self, x: Points) -> Points:
        """Return ``Z y / (y^2 + a2)^(3/2)`` (n,), hartree/bohr, with ``y = x - x0``."""
        y = x - self.x0
        return self.Z * y / (y * y + self.a2) ** 1.5


class Yukawa(PotentialBlock):
    """``V = -Z exp(-r / range) / r`` with ``r = sqrt((x - x0)^2 + a2)``: a soft core of short range."""

    place = 9

    type: Literal["yukawa"]
    Z: Annotated[float, SIGNED] = Field(default=1.0, description="charge; negative repels")
    range: Annotated[Length, SIZE] = Field(description="screening length", json_schema_extra={"example": 5.0})
    a2: Annotated[float, SIZE] = Field(default=2.0, description="square of the softening length, bohr^2")
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="position of the charge")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        y = x - self.x0
        r = np.sqrt(y * y + self.a2)
        return np.asarray(-self.Z * np.exp(-r / self.range) / r)

    def dV(self, x: Points) -> Points:
        """Return ``-V y/r (1/r + 1/range)`` (n,), hartree/bohr, with ``y = x - x0``."""
        import numpy as np

        y = x - self.x0
        # chain rule with dr/dx = y / r
        r = np.sqrt(y * y + self.a2)
        return np.asarray(self.Z * np.exp(-r / self.range) * y / (r * r) * (1.0 / r + 1.0 / self.range))
