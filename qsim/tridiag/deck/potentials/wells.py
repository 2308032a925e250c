"""Wells and barriers with walls."""

import math
from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from qsim.core.deck.units import Energy, Length
from qsim.tridiag.deck.numbers import NOT_NEGATIVE, SIGNED, SIZE, Points
from qsim.tridiag.deck.potentials.base import PotentialBlock

__all__ = ["GaussianWell", "SquareWell"]


class SquareWell(PotentialBlock):
    """``V = -depth`` on an interval, 0 outside; with ``edge`` the walls are error functions of that width."""

    place = 4

    type: Literal["square_well"]
    depth: Annotated[Energy, SIGNED] = Field(
        validation_alias=AliasChoices("depth", "V0"),
        description="depth (also: V0); negative makes a barrier",
        json_schema_extra={"example": 0.5},
    )
    width: Annotated[Length, SIZE] = Field(description="full width", json_schema_extra={"example": 2.0})
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="centre")
    edge: Annotated[Length, NOT_NEGATIVE] = Field(
        default=0.0,
        description="smoothing length of the walls; 0: sharp, and a grid point on a wall feels half the depth",
    )

    @property
    def edges(self) -> bool:
        """True for sharp walls."""
        return self.edge == 0.0

    @property
    def analytic(self) -> bool:
        """False: its edges have no continuation."""
        return False

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree: ``-depth/2 (erf((y + width/2)/edge) - erf((y - width/2)/edge))`` with ``y = |x - x0|``."""
        import numpy as np

        # by |x - x0|, so that V is even to the last bit
        y, half = np.abs(x - self.x0), 0.5 * self.width
        if self.edges:
            inside = np.where(y < half, 1.0, 0.0)
            # The half value on the wall keeps the area right, hence the error of a grid that meets the wall of second order.
            inside[np.abs(y - half) <= 1e-9 * (1.0 + half + abs(self.x0))] = 0.5
            return np.asarray(-self.depth * inside)
        from scipy.special import erf

        return np.asarray(-0.5 * self.depth * (erf((y + half) / self.edge) - erf((y - half) / self.edge)))

    def dV(self, x: Points) -> Points:
        """Return dV/dx (n,), hartree/bohr; of a sharp well, the difference quotient of the grid."""
        import numpy as np

        if self.edges:
            # a jump has no slope: the difference quotient gives the force that the grid sees
            return np.asarray(np.gradient(self.V(x), x))
        y, half = x - self.x0, 0.5 * self.width
        left, right = np.exp(-(((y + half) / self.edge) ** 2)), np.exp(-(((y - half) / self.edge) ** 2))
        return np.asarray(-self.depth / (math.sqrt(math.pi) * self.edge) * (left - right))


class GaussianWell(PotentialBlock):
    """``V = -depth exp(-(x - x0)^2 / (2 width^2))``."""

    place = 5

    type: Literal["gaussian_well"]
    depth: Annotated[Energy, SIGNED] = Field(
        validation_alias=AliasChoices("depth", "V0"),
        description="depth (also: V0); negative makes a barrier",
        json_schema_extra={"example": 0.5},
    )
    width: Annotated[Length, SIZE] = Field(
        description="standard deviation", json_schema_extra={"example": 1.0}
    )
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="centre")

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        return np.asarray(-self.depth * np.exp(-0.5 * ((x - self.x0) / self.width) ** 2))

    def dV(self, x: Points) -> Points:
        """Return ``-V(x) (x - x0) / width^2`` (n,), hartree/bohr."""
        import numpy as np

        y = x - self.x0
        return np.asarray(self.depth * y / self.width**2 * np.exp(-0.5 * (y / self.width) ** 2))
