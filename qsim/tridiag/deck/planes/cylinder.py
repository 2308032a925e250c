"""``system: {type: cylinder}``: one electron in the field of nuclei on an axis, along which the laser is polarised."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AliasChoices, Field

from qsim.core.deck.blocks import Block, Finding
from qsim.core.deck.units import Length
from qsim.tridiag.deck.electron import Grid
from qsim.tridiag.deck.numbers import NOT_NEGATIVE, SIGNED
from qsim.tridiag.deck.planes.base import PlaneSystem, Terms
from qsim.tridiag.deck.surfaces.base import SurfaceBlock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Cylinder", "CylinderSurface", "Nucleus"]

# softening lengths in units of the spacing up to which a lattice does not resolve a nucleus
SHARP = 2.0


class Nucleus(Block):
    """A charge on the axis, ``-Z / sqrt(rho^2 + (z - z0)^2 + a2)``."""

    Z: Annotated[float, SIGNED] = Field(default=1.0, description="charge; negative repels")
    z: Annotated[Length, SIGNED] = Field(default=0.0, description="position on the axis")
    a2: Annotated[float, NOT_NEGATIVE] = Field(
        default=0.0, description="square of the softening length, bohr^2; 0: a point charge"
    )


class CylinderSurface(SurfaceBlock):
    """The potential energy of nuclei on the axis."""

    limit = 0.0

    centers: list[Nucleus]

    def V(self, x: "NDArray[np.float64]", y: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return V (n1, n2), hartree, at distances x from the axis."""
        import numpy as np

        out = np.zeros((x.size, y.size))
        for one in self.centers:
            out -= one.Z / np.sqrt(x[:, None] ** 2 + (y - one.z) ** 2 + one.a2)
        return out

    def dV(
        self, x: "NDArray[np.float64]", y: "NDArray[np.float64]"
    ) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Return the slopes along rho and z (n1, n2), hartree/bohr."""
        import numpy as np

        along, across = np.zeros((x.size, y.size)), np.zeros((x.size, y.size))
        for one in self.centers:
            v = y - one.z
            weight = one.Z / (x[:, None] ** 2 + v * v + one.a2) ** 1.5
            along += x[:, None] * weight
            across += v * weight
        return along, across


class Cylinder(PlaneSystem):
    """An electron without angular momentum about an axis, in three dimensions: ``p^2 / 2 + V(rho, z)``, and the field along z.

    An atom, or a molecular ion with fixed nuclei along the field.
    """

    place = 5
    coordinates = ("rho", "z")
    radial = True

    type: Literal["cylinder"]
    centers: Annotated[list[Nucleus], Field(min_length=1, max_length=100)] = Field(
        validation_alias=AliasChoices("centers", "centres"),
        description="nuclei on the axis (also: centres)",
        json_schema_extra={"example": [{"Z": 1.0, "z": -1.0}, {"Z": 1.0, "z": 1.0}]},
    )

    @property
    def couplings(self) -> tuple[float, float]:
        """Factors of E(t): the field is along z."""
        return 0.0, 1.0

    @property
    def terms(self) -> Terms:
        """V(rho, z)."""
        return Terms(surface=CylinderSurface(centers=self.centers), keys=("", "", "", "centers"))

    def sharp(self, spacing: float) -> bool:
        """Return True if a nucleus is so sharp that errors fall slower than with the square of the spacing."""
        return any(one.Z and math.sqrt(one.a2) < SHARP * spacing for one in self.centers)

    def check(self, key: str, grids: tuple[Grid, Grid]) -> Iterator[Finding]:
        """Yield a radius that does not begin at the axis."""
        if grids[0].xmin != 0.0:
            yield Finding("grid.rho.xmin", f"rho begins at the axis: 0 is expected, found {grids[0].xmin:g}")
