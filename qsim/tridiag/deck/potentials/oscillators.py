"""Potentials that confine the electron: parabola, double well, polynomial."""

import math
from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.units import Frequency, Length
from qsim.tridiag.deck.numbers import SIGNED, SIZE, Points
from qsim.tridiag.deck.potentials.base import PotentialBlock

__all__ = ["DoubleWell", "Harmonic", "Polynomial"]


class Harmonic(PotentialBlock):
    """``V = omega^2 (x - x0)^2 / 2``."""

    place = 3
    # nothing is free in it: no threshold, no ionisation potential
    limit = math.inf

    type: Literal["harmonic"]
    omega: Annotated[Frequency, SIZE] = Field(
        description="angular frequency", json_schema_extra={"example": 0.1}
    )
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="minimum")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        y = x - self.x0
        return 0.5 * self.omega**2 * y * y

    def dV(self, x: Points) -> Points:
        """Return ``omega^2 (x - x0)`` (n,), hartree/bohr."""
        return self.omega**2 * (x - self.x0)


class DoubleWell(PotentialBlock):
    """``V = lambda ((x - x0)^2 - a^2)^2``, minima at ``x0 +- a``."""

    place = 8
    limit = math.inf

    type: Literal["double_well"]
    lambda_: Annotated[float, SIZE] = Field(
        alias="lambda", description="strength, hartree/bohr^4", json_schema_extra={"example": 0.02}
    )
    a: Annotated[Length, SIZE] = Field(
        description="distance of the minima from the centre", json_schema_extra={"example": 3.0}
    )
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="centre")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        y = x - self.x0
        return self.lambda_ * (y * y - self.a**2) ** 2

    def dV(self, x: Points) -> Points:
        """Return ``4 lambda y (y^2 - a^2)`` (n,), hartree/bohr, with ``y = x - x0``."""
        y = x - self.x0
        return 4.0 * self.lambda_ * y * (y * y - self.a**2)


class Polynomial(PotentialBlock):
    """``sum_n c_n x^n``."""

    place = 10
    limit = math.inf

    type: Literal["polynomial"]
    coefficients: Annotated[list[float], Field(min_length=1)] = Field(
        description="ascending powers of x, atomic units"
    )

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        return np.asarray(np.polynomial.polynomial.polyval(x, np.asarray(self.coefficients, float)))

    def dV(self, x: Points) -> Points:
        """Return ``sum_n n c_n x^(n-1)`` (n,), hartree/bohr."""
        import numpy as np

        rising = np.polynomial.polynomial.polyder(np.asarray(self.coefficients, float))
        return np.asarray(np.polynomial.polynomial.polyval(x, rising), dtype=float)
