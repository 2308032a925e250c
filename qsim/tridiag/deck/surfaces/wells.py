"""Softened charges in a plane, and a parabola."""

import math
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AliasChoices, Field, model_validator

from qsim.core.deck.blocks import Block
from qsim.core.deck.units import Frequency, Length
from qsim.tridiag.deck.numbers import SIGNED, SIZE
from qsim.tridiag.deck.surfaces.base import SurfaceBlock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Centre", "HarmonicSurface", "SoftCentres"]


class Centre(Block):
    """A softened charge, ``-Z / sqrt((x - x0)^2 + (y - y0)^2 + a2)``."""

    Z: Annotated[float, SIGNED] = Field(default=1.0, description="charge; negative repels")
    x: Annotated[Length, SIGNED] = Field(default=0.0, description="position")
    y: Annotated[Length, SIGNED] = Field(default=0.0, description="position")
    a2: Annotated[float, SIZE] = Field(default=0.64, description="square of the softening length, bohr^2")


class SoftCentres(SurfaceBlock):
    """A sum of softened charges: an atom or a molecule of one electron in a plane."""

    place = 1
    limit = 0.0

    type: Literal["softcore"]
    centers: Annotated[list[Centre], Field(min_length=1, max_length=100)] = Field(
        validation_alias=AliasChoices("centers", "centres"),
        description="charges and their places (also: centres); of a single one its keys may stand here",
        json_schema_extra={"example": [{"Z": 1.0, "x": -1.0}, {"Z": 1.0, "x": 1.0}]},
    )

    @model_validator(mode="before")
    @classmethod
    def _single(cls, value: object) -> object:
        """Read the keys of a single charge."""
        if isinstance(value, dict) and not {"centers", "centres"} & value.keys():
            own = {key: one for key, one in value.items() if key in Centre.model_fields}
            others = {key: one for key, one in value.items() if key not in own}
            return others | {"centers": [own]}
        return value

    def V(self, x: "NDArray[np.float64]", y: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return V (n1, n2), hartree."""
        import numpy as np

        out = np.zeros((x.size, y.size))
        for one in self.centers:
            out -= one.Z / np.sqrt((x[:, None] - one.x) ** 2 + (y - one.y) ** 2 + one.a2)
        return out

    def dV(
        self, x: "NDArray[np.float64]", y: "NDArray[np.float64]"
    ) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Return ``sum Z (r - r0) / (|r - r0|^2 + a2)^(3/2)`` (n1, n2), hartree/bohr."""
        import numpy as np

        along, across = np.zeros((x.size, y.size)), np.zeros((x.size, y.size))
        for one in self.centers:
            u, v = x[:, None] - one.x, y - one.y
            weight = one.Z / (u * u + v * v + one.a2) ** 1.5
            along += u * weight
            across += v * weight
        return along, across


class HarmonicSurface(SurfaceBlock):
    """``V = omega_x^2 x^2 / 2 + omega_y^2 y^2 / 2`` of a mass of 1."""

    place = 2
    limit = math.inf

    type: Literal["harmonic"]
    omega: Annotated[list[Annotated[Frequency, SIZE]], Field(min_length=2, max_length=2)] = Field(
        default=[1.0, 1.0], description="angular frequencies along x and y"
    )

    def V(self, x: "NDArray[np.float64]", y: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return V (n1, n2), hartree."""
        a, b = self.omega
        return 0.5 * ((a * x[:, None]) ** 2 + (b * y) ** 2)

    def dV(
        self, x: "NDArray[np.float64]", y: "NDArray[np.float64]"
    ) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Return ``omega^2`` times the coordinate (n1, n2), hartree/bohr."""
        a, b = self.omega
        zero = 0.0 * (x[:, None] + y)
        return a * a * x[:, None] + zero, b * b * y + zero
