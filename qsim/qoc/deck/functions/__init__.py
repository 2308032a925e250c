"""Potentials and dipole functions of a molecule: each file of this folder defines one or a few related ones."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Field

from qsim.core.deck.blocks import short_form
from qsim.core.physics.families import members, union
from qsim.qoc.deck.functions.base import DipoleBlock, FunctionBlock, PotentialBlock

__all__ = ["DIPOLES", "POTENTIALS", "DipoleFunction", "FunctionBlock", "Potential"]

POTENTIALS = members(__name__, __path__, PotentialBlock, "type")
DIPOLES = members(__name__, __path__, DipoleBlock, "type")

if TYPE_CHECKING:
    Potential: TypeAlias = PotentialBlock
    DipoleFunction: TypeAlias = DipoleBlock
else:
    Potential = Annotated[union(POTENTIALS), Field(discriminator="type")]
    DipoleFunction = Annotated[union(DIPOLES), Field(discriminator="type"), short_form]
