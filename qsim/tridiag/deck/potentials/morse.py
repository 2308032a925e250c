"""The Morse potential of a diatomic molecule."""

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from qsim.core.deck.units import Energy, InverseLength, Length
from qsim.tridiag.deck.numbers import SIGNED, SIZE, Points
from qsim.tridiag.deck.potentials.base import PotentialBlock

__all__ = ["Morse"]


class Morse(PotentialBlock):
    """``V = D (exp(-beta (x - r0)) - 1)^2 - D``."""

    place = 2

    type: Literal["morse"]
    D: Annotated[Energy, SIZE] = Field(description="well depth", json_schema_extra={"example": 0.1994})
    beta: Annotated[InverseLength, SIZE] = Field(
        validation_alias=AliasChoices("beta", "a"),
        description="range parameter (also: a)",
        json_schema_extra={"example": 1.189},
    )
    r0: Annotated[Length, SIGNED] = Field(
        default=0.0,
        validation_alias=AliasChoices("r0", "x0"),
        description="equilibrium distance (also: x0)",
    )

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        # expm1 keeps the digits near the minimum
        return np.asarray(self.D * np.expm1(-self.beta * (x - self.r0)) ** 2 - self.D)

    def dV(self, x: Points) -> Points:
        """Return ``2 D beta e (1 - e)`` (n,), hartree/bohr, with ``e = exp(-beta (x - r0))``."""
        import numpy as np

        e = np.exp(-self.beta * (x - self.r0))
        return np.asarray(2.0 * self.D * self.beta * e * (1.0 - e))
