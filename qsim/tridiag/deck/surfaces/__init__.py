"""Potentials of two coordinates: each file of this folder defines one or a few related ones."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Field

from qsim.core.deck.blocks import short_form
from qsim.core.physics.families import members, union
from qsim.tridiag.deck.surfaces.base import SurfaceBlock

__all__ = ["SURFACES", "Surface", "SurfaceBlock"]

SURFACES = members(__name__, __path__, SurfaceBlock, "type")

if TYPE_CHECKING:
    Surface: TypeAlias = SurfaceBlock
else:
    Surface = Annotated[union(SURFACES), Field(discriminator="type"), short_form]
