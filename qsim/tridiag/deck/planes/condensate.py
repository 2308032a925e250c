"""``system: {type: condensate}``: a Bose-Einstein condensate in a plane."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.units import Frequency
from qsim.tridiag.deck.numbers import SIGNED
from qsim.tridiag.deck.planes.base import PlaneSystem, Terms
from qsim.tridiag.deck.surfaces import Surface

__all__ = ["Condensate", "Rotation"]

Rotation = Annotated[
    Annotated[Frequency, SIGNED],
    Field(
        description="angular frequency of the frame in which x and y, and so the potential, are at rest; positive from x to y",
        json_schema_extra={"example": 0.7},
    ),
]


class Condensate(PlaneSystem):
    """Bosons of mass 1 in a plane: ``i psi_t = (p^2 / 2 + V + g |psi|^2 - rotation L_z) psi``, norm 1 (Gross and Pitaevskii)."""

    place = 4
    planar = True
    charged = False

    type: Literal["condensate"]
    potential: Surface = Field(
        description="trap", json_schema_extra={"example": {"type": "harmonic", "omega": [1.0, 1.0]}}
    )
    # in two dimensions a condensate that attracts itself more than that collapses, at 5.85
    g: Annotated[float, Field(gt=-5.8, lt=1e6)] = Field(
        description="interaction of all particles; positive repels", json_schema_extra={"example": 100.0}
    )
    rotation: Rotation = 0.0

    @property
    def nonlinearity(self) -> float:
        """Factor g of the density."""
        return self.g

    @property
    def turning(self) -> tuple[float, float]:
        """Of the frame: ``p^2/2 - W (x p_y - y p_x) = ((p_x + W y)^2 + (p_y - W x)^2 - W^2 r^2) / 2``."""
        return self.rotation, self.rotation

    @property
    def centrifugal(self) -> tuple[float, float]:
        """The square of the frequency."""
        return self.rotation**2, self.rotation**2

    @property
    def terms(self) -> Terms:
        """The trap."""
        return Terms(surface=self.potential)
