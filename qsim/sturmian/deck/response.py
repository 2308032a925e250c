"""Block of a deck for the response of bound states: transitions, polarisabilities, dispersion coefficients, sum rules."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from qsim.core.deck.blocks import Block, Count, DeckPath, PositiveCount
from qsim.core.deck.units import Energy, UnitError, parse_quantity
from qsim.sturmian.deck.blocks import as_list
from qsim.sturmian.deck.collision import Gauge

__all__ = ["MOST_OMEGA", "Response"]

# Frequencies of one run.
MOST_OMEGA = 40
# Highest multipole: dipole 1, quadrupole 2.
HIGHEST = 2
# Atomic units; 1/alpha (CODATA 2022).
SPEED_OF_LIGHT = 137.035999177


def _of_light(value: object) -> object:
    """Return the photon energy, hartree, of a text with a wavelength such as ``532 nm``; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        wavelength = parse_quantity(value, "wavelength")
    except UnitError:
        return value
    # A bare number is an energy.
    try:
        parse_quantity(value, "energy")
    except UnitError:
        return 2.0 * math.pi * SPEED_OF_LIGHT / wavelength if wavelength > 0.0 else value
    return value


Omega = Annotated[Energy, BeforeValidator(_of_light), Field(ge=0.0, lt=1e4)]
Observable = Literal["oscillator_strengths", "lifetimes", "polarisability", "c6", "sum_rules"]


class Response(Block):
    """Response of bound states to light: transitions between them, polarisabilities, forces between two atoms, sum rules."""

    type: Literal["response"]
    observables: Annotated[list[Observable], Field(min_length=1, max_length=5)] = Field(
        default=["oscillator_strengths", "polarisability"],
        description="oscillator_strengths: between all states; lifetimes: against spontaneous emission; polarisability; "
        "c6: dispersion coefficients of pairs of atoms; sum_rules",
    )
    multipoles: Annotated[
        list[Annotated[PositiveCount, Field(le=HIGHEST)]], Field(min_length=1, max_length=HIGHEST)
    ] = Field(default=[1], description="of polarisabilities and transition moments: 1 dipole, 2 quadrupole")
    omega: Omega | Annotated[list[Omega], Field(min_length=1, max_length=MOST_OMEGA)] = Field(
        default=[0.0],
        description="frequency of the field as an energy or vacuum wavelength (532 nm), or a list (polarisability); 0: static",
    )
    gauges: Annotated[list[Gauge], Field(min_length=1, max_length=3)] = Field(
        default=["length", "velocity"],
        description="forms of the dipole operator; polarisabilities have no acceleration, quadrupoles length alone",
    )
    partners: (
        Annotated[
            list[Annotated[list[Annotated[Count, Field(le=199)]], Field(min_length=2, max_length=2)]],
            Field(min_length=1, max_length=100),
        ]
        | None
    ) = Field(
        default=None,
        description="pairs of states whose atoms attract each other, by numbers from 0 (c6); by default all pairs of S states",
    )
    other: DeckPath | Annotated[list[DeckPath], Field(min_length=1, max_length=20)] | None = Field(
        default=None,
        alias="with",
        description="results of other response decks with c6, or a list: C6 of their atoms with the atoms of this deck",
    )
    n_roots: Annotated[PositiveCount, Field(le=20)] = Field(
        default=1, description="number of states of each L and S, from the lowest; not with states"
    )

    @property
    def files(self) -> list[Path]:
        """Results of the decks of other atoms."""
        return [] if self.other is None else as_list(self.other)

    @property
    def frequencies(self) -> list[float]:
        """Frequencies, hartree, in the order of the deck."""
        return [float(value) for value in as_list(self.omega)]
