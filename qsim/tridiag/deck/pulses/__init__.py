"""Pulses of a laser: each file of this folder defines one or a few related ones."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Field

from qsim.core.physics.families import members, union
from qsim.tridiag.deck.pulses.base import CarrierPulse, PulseBlock

__all__ = ["PULSES", "CarrierPulse", "Pulse", "PulseBlock"]

PULSES = members(__name__, __path__, PulseBlock, "shape")

if TYPE_CHECKING:
    Pulse: TypeAlias = PulseBlock
else:
    Pulse = Annotated[union(PULSES), Field(discriminator="shape")]
