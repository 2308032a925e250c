"""Potentials of a line: each file of this folder defines one or a few related ones."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Field

from qsim.core.deck.blocks import short_form
from qsim.core.physics.families import members, union
from qsim.tridiag.deck.potentials.base import PotentialBlock

__all__ = ["POTENTIALS", "Potential", "PotentialBlock"]

POTENTIALS = members(__name__, __path__, PotentialBlock, "type")

if TYPE_CHECKING:
    Potential: TypeAlias = PotentialBlock
else:
    Potential = Annotated[union(POTENTIALS), Field(discriminator="type"), short_form]
