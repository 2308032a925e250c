"""``system: {type: condensate}``: a Bose-Einstein condensate in a plane."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.tridiag.deck.planes.base import PlaneSystem, Terms
from qsim.tridiag.deck.surfaces import Surface

__all__ = ["Condensate"]


class Condensate(PlaneSystem):
    """Bosons of mass 1 in a plane: ``i psi_t = (p^2 / 2 + V + g |psi|^2) psi``, with the norm 1 (Gross and Pitaevskii)."""

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

    @property
    def nonlinearity(self) -> float:
        """Factor g of the density."""
        return self.g

    @property
    def terms(self) -> Terms:
        """The trap."""
        return Terms(surface=self.potential)
