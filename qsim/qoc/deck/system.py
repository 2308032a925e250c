"""The molecule of a qoc deck, its grid, and its states."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from qsim.core.deck.blocks import Block, Count
from qsim.core.deck.units import Length, Mass
from qsim.qoc.deck.functions import DipoleFunction, Potential
from qsim.qoc.deck.numbers import SIGNED, SIZE
from qsim.qoc.deck.states import InitialState, TargetState

MIN_POINTS = 16


# Types of system with decks of their own (`qsim.qoc.deck.quantum`).
OTHERS = ("model", "matrices", "rotor", "grid2d")


def _grid(value: object) -> object:
    """Refuse a type that is no type of system at all, with all that there are."""
    if value != "grid":
        known = ", ".join(("grid", *OTHERS))
        raise ValueError(f"unknown type {value!r:.60}; types of system: {known}")
    return value


class Grid(Block):
    """Equidistant points, both ends included; the wavefunction vanishes outside."""

    xmin: Annotated[Length, SIGNED] = Field(description="first point")
    xmax: Annotated[Length, SIGNED] = Field(description="last point")
    points: Annotated[Count, Field(ge=MIN_POINTS, le=100_000)] = Field(description="number of points L")


class Pair(Block):
    """One initial state and its target."""

    initial: InitialState = Field(description="level or superposition {level: weight}")
    target: TargetState = Field(description="level, superposition, or list of levels (any of them)")


class System(Block):
    """The molecule, its grid, and the states."""

    # Bare numbers are in atomic units, and so are the fields.
    unit: ClassVar[str] = "hartree"
    fields: ClassVar[bool] = True

    type: Annotated[Literal["grid"], BeforeValidator(_grid)] = Field(
        default="grid", description="one particle on a line; other types have keys of their own"
    )
    mass: Annotated[Mass, SIZE] = Field(
        description="effective mass", json_schema_extra={"example": 1728.468338}
    )
    potential: Potential = Field(
        description="potential energy",
        json_schema_extra={"example": {"type": "morse", "D": 0.1994, "beta": 1.189, "r0": 1.821}},
    )
    dipole: DipoleFunction = Field(
        description="dipole function",
        json_schema_extra={"example": {"type": "mecke", "mu0": 3.088, "rstar": 0.6}},
    )
    grid: Grid = Field(
        description="spatial grid", json_schema_extra={"example": {"xmin": 1.0, "xmax": 5.0, "points": 641}}
    )
    initial: InitialState | None = Field(
        default=None,
        description="initial level or superposition {level: weight}",
        json_schema_extra={"example": 0},
    )
    target: TargetState | None = Field(
        default=None,
        description="target level, superposition, or list of levels (any of them)",
        json_schema_extra={"example": 1},
    )
    pairs: Annotated[list[Pair], Field(min_length=1)] | None = Field(
        default=None, description="several state pairs for one field, instead of initial and target"
    )

    def state_pairs(self) -> tuple[tuple[Any, Any], ...]:
        """Return the (initial, target) pairs as written in the deck."""
        if self.pairs is not None:
            return tuple((p.initial, p.target) for p in self.pairs)
        return ((self.initial, self.target),)
