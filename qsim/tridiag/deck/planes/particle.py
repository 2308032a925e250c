"""``system: {type: particle}``: one particle in a plane."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.units import Mass
from qsim.tridiag.deck.numbers import SIGNED, SIZE
from qsim.tridiag.deck.planes.base import PlaneSystem, Terms
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
