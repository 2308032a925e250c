"""Central potentials of ``task: atom``: each file of this folder defines a few related ones."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Field

from qsim.core.deck.blocks import short_form
from qsim.core.physics.families import members, union
from qsim.tridiag.deck.central.base import CentralBlock

__all__ = ["ATOMS", "Central", "CentralBlock"]

ATOMS = members(__name__, __path__, CentralBlock, "type")

if TYPE_CHECKING:
    Central: TypeAlias = CentralBlock
else:
    Central = Annotated[union(ATOMS), Field(discriminator="type"), short_form]
