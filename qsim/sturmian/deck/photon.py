"""Photon energies of a deck: one, a list, or a range."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from qsim.core.deck.blocks import Block, PositiveCount
from qsim.core.deck.units import CollisionEnergy

__all__ = ["DETAILS", "MOST_PHOTONS", "Excess", "ExcessRange", "Photon", "PhotonRange", "values_of"]

# Photon energies of one run, those near resonances apart.
MOST_PHOTONS = 2000
# What photon energies have beside total cross sections, and collisions do not.
DETAILS = ("partial", "beta", "phases", "fano", "sum_rules")
# Energies of a range that names neither count nor step.
COUNT = 100

Photon = Annotated[CollisionEnergy, Field(gt=0.0, lt=1e4)]
# Photon energy minus that of double ionisation.
Excess = Annotated[CollisionEnergy, Field(gt=-1e4, lt=1e5)]


class PhotonRange(Block):
    """An even grid of photon energies."""

    first: Photon = Field(alias="from", description="first")
    to: Photon = Field(description="last")
    count: Annotated[PositiveCount, Field(ge=2, le=MOST_PHOTONS)] | None = Field(
        default=None,
        description=f"how many; {COUNT} unless a step is given",
        validation_alias=AliasChoices("count", "points"),
    )
    step: Photon | None = Field(default=None, description="distance of two energies, instead of count")
    refine: Literal["resonances", "none"] = Field(
        default="resonances", description="resonances: more energies across every resonance that is found"
    )

    def values(self) -> list[float]:
        """Return the energies, hartree, ascending."""
        import numpy as np

        count = self.count or COUNT
        if self.step is not None:
            # The last step may be shorter, so that the range ends where the deck says.
            count = math.ceil((self.to - self.first) / self.step * (1.0 - 1e-12)) + 1
        return [float(value) for value in np.linspace(self.first, self.to, count)]


class ExcessRange(PhotonRange):
    """An even grid of energies of the two electrons far away."""

    first: Excess = Field(alias="from", description="first")
    to: Excess = Field(description="last")


def values_of(given: float | list[float] | PhotonRange | None) -> list[float]:
    """Return the energies that a deck gives, hartree, ascending; empty if it gives none."""
    if given is None:
        return []
    if isinstance(given, PhotonRange):
        return given.values()
    return sorted(given) if isinstance(given, list) else [given]
