"""Systems of two coordinates: each file of this folder defines one."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Field

from qsim.core.physics.families import members, union
from qsim.tridiag.deck.planes.base import PlaneSystem

__all__ = ["SYSTEMS", "PlaneSystem", "System"]

SYSTEMS = members(__name__, __path__, PlaneSystem, "type")

if TYPE_CHECKING:
    System: TypeAlias = PlaneSystem
else:
    System = Annotated[union(SYSTEMS), Field(discriminator="type")]
