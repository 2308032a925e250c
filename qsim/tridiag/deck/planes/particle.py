"""``system: {type: particle}``: one particle in a plane."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.units import Mass
from qsim.tridiag.deck.numbers import SIGNED, SIZE
from qsim.tridiag.deck.planes.base import PlaneSystem, Terms
from qsim.tridiag.deck.planes.condensate import Rotation
from qsim.tridiag.deck.surfaces import Surface

__all__ = ["Particle"]

Pair = Field(min_length=2, max_length=2)


class Particle(PlaneSystem):
    """A particle in a plane, or any two coordinates with a potential V(x, y)."""

    place = 2
    planar = True

    type: Literal["particle"]
    potential: Surface = Field(
        description="potential energy",
        json_schema_extra={"example": {"type": "softcore", "Z": 1.0, "a2": 0.64}},
    )
    masses: Annotated[list[Annotated[Mass, SIZE]], Pair] = Field(
        default=[1.0, 1.0], description="masses of motion along x and y"
    )
    charges: Annotated[list[Annotated[float, SIGNED]], Pair] = Field(
        default=[-1.0, -1.0], description="charges that the field pulls along x and y, units of e"
    )

    rotation: Rotation = 0.0
    magnetic_field: Annotated[float, SIGNED] = Field(
        default=0.0,
        description="magnetic field across the plane, atomic units of 2.3505e5 T; masses and charges are those of x and y",
    )

    @property
    def turning(self) -> tuple[float, float]:
        """``m W + q B / 2`` of a frame of the frequency W, in the symmetric gauge ``A = B (-y, x) / 2`` of the field."""
        first, second = (
            m * self.rotation + 0.5 * q * self.magnetic_field
            for m, q in zip(self.masses, self.charges, strict=True)
        )
        return first, second

    @property
    def centrifugal(self) -> tuple[float, float]:
        """What the squares of these momenta have beyond the energy: ``m W^2 + q W B`` of the other coordinate."""
        w, b = self.rotation, self.magnetic_field
        first, second = (w * (m * w + q * b) for m, q in zip(self.masses, self.charges, strict=True))
        return second, first

    @property
    def weights(self) -> tuple[float, float]:
        """Masses along x and y."""
        return self.masses[0], self.masses[1]

    @property
    def couplings(self) -> tuple[float, float]:
        """Factors of E(t) times x and y: minus the charges."""
        return -self.charges[0], -self.charges[1]

    @property
    def terms(self) -> Terms:
        """V(x, y)."""
        return Terms(surface=self.potential)
