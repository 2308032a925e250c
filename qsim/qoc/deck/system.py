"""The molecule of a qoc deck, its grid, and its states: a level, a list of levels, or a superposition."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from qsim.core.deck.blocks import Block, Count
from qsim.core.deck.units import Length, Mass
from qsim.qoc.deck.functions import DipoleFunction, Potential
from qsim.qoc.deck.numbers import SIGNED, SIZE


def parse_weight(value: object) -> complex:
    """Return a complex weight from a number or a text such as ``0.5i`` or ``1-0.5i``."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"expected a number or a text such as '0.5i', found {value!r}")
    try:
        weight = (
            complex(value.replace(" ", "").replace("i", "j")) if isinstance(value, str) else complex(value)
        )
    except ValueError:
        raise ValueError(f"expected a number or a text such as '0.5i', found {value!r}") from None
    if not (weight == 0 or 1e-12 < abs(weight) < 1e12):
        raise ValueError(
            f"expected a weight between 1e-12 and 1e12 in size (weights are normalised), found {value!r}"
        )
    return weight


def _parse_state(value: object) -> Any:
    """Check a state: a level, a list of levels, or ``{level: weight}``."""
    if isinstance(value, dict):
        if not value:
            raise ValueError("expected {level: weight, ...}, found an empty mapping")
        for key, weight in value.items():
            if not (str(key).isascii() and str(key).isdigit()):
                raise ValueError(f"expected {{level: weight}} with levels 0, 1, 2, ..., found level {key!r}")
            parse_weight(weight)
        if len({int(key) for key in value}) != len(value):
            raise ValueError(f"duplicate level in {value!r}")
        if not any(abs(parse_weight(w)) > 0 for w in value.values()):
            raise ValueError("all weights of the superposition are zero")
        return value
    if isinstance(value, list):
        if not value or not all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in value):
            raise ValueError(f"expected a list of levels 0, 1, 2, ..., found {value!r}")
        if len(set(value)) != len(value):
            raise ValueError(f"duplicate level in {value!r}")
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError(f"expected a level 0, 1, 2, ... or {{level: weight}}, found {value!r}")


def _parse_initial(value: object) -> Any:
    if isinstance(value, list):
        raise ValueError("expected a level or {level: weight}; a list of levels is only allowed as a target")
    return _parse_state(value)


_STATE_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "object", "additionalProperties": {"type": ["number", "string"]}},
    ]
}
InitialState = Annotated[Any, PlainValidator(_parse_initial), WithJsonSchema(_STATE_SCHEMA)]
TargetState = Annotated[
    Any,
    PlainValidator(_parse_state),
    WithJsonSchema({"anyOf": [*_STATE_SCHEMA["anyOf"], {"type": "array", "items": {"type": "integer"}}]}),
]


def levels_of(state: Any) -> tuple[int, ...]:
    """Return the levels that occur in a state of the deck."""
    if isinstance(state, dict):
        return tuple(sorted(int(k) for k in state))
    return tuple(state) if isinstance(state, list) else (int(state),)


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
