"""Wells and barriers ``1/cosh^2``, whose reflection is known in closed form."""

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from qsim.core.deck.units import Energy, Length
from qsim.tridiag.deck.numbers import SIGNED, SIZE, Points
from qsim.tridiag.deck.potentials.base import PotentialBlock

__all__ = ["Eckart", "PoschlTeller"]


class PoschlTeller(PotentialBlock):
    """``V = -depth / cosh((x - x0) / a)^2``, with ``depth = n (n + 1) / (2 a^2)`` without reflection."""

    place = 6

    type: Literal["poschl_teller"]
    depth: Annotated[Energy, SIGNED] = Field(
        validation_alias=AliasChoices("depth", "V0"),
        description="depth (also: V0)",
        json_schema_extra={"example": 1.0},
    )
    a: Annotated[Length, SIZE] = Field(default=1.0, description="range")
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="centre")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        return -self.depth * _sech((x - self.x0) / self.a) ** 2

    def dV(self, x: Points) -> Points:
        """Return ``-2 V(x) tanh((x - x0) / a) / a`` (n,), hartree/bohr."""
        return _sech2_slope(-self.depth, self.a, x - self.x0)


class Eckart(PotentialBlock):
    """``V = V0 / cosh((x - x0) / a)^2``, the barrier with a known transmission."""

    place = 7

    type: Literal["eckart"]
    V0: Annotated[Energy, SIGNED] = Field(
        validation_alias=AliasChoices("V0", "height"),
        description="height (also: height)",
        json_schema_extra={"example": 0.8},
    )
    a: Annotated[Length, SIZE] = Field(default=1.0, description="range")
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="centre")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        return self.V0 * _sech((x - self.x0) / self.a) ** 2

    def dV(self, x: Points) -> Points:
        """Return ``-2 V(x) tanh((x - x0) / a) / a`` (n,), hartree/bohr."""
        return _sech2_slope(self.V0, self.a, x - self.x0)


def _sech(y: Points) -> Points:
    """Return 1/cosh without overflow far away."""
    import numpy as np

    # 1 / cosh y = 2 e / (1 + e^2) with e = exp(-|y|), or of the part of complex y that grows, which underflows to 0 far away
    e = np.exp(-y * np.sign(np.real(y)))
    return np.asarray(2.0 * e / (1.0 + e * e))


def _sech2_slope(height: float, a: float, y: Points) -> Points:
    """Return the derivative of ``height / cosh(y / a)^2``."""
    import numpy as np

    return np.asarray(-2.0 * height / a * _sech(y / a) ** 2 * np.tanh(y / a))
