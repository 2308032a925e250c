"""Blocks of the qoc deck that describe the molecule and its states."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, PlainValidator, WithJsonSchema

from qsim.core.deck.blocks import Block, Count, DeckPath, short_form
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.units import DipoleSlope, Frequency, Length, Mass, Quantity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Points: TypeAlias = "NDArray[np.float64]"
MIN_POINTS = 16

# A number in atomic units outside of these ranges is a slip, and products of several such numbers overflow.
SIZE = Field(gt=1e-12, lt=1e12)
SIGNED = Field(gt=-1e12, lt=1e12)


# ------------------------------------------------------------------------------------------- states


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


# ------------------------------------------------------------------------------------------- system


# Of diatomic molecules, CO has the deepest well (0.412 hartree), N2 the largest range parameter (1.42/bohr), H2 the shortest bond
# (1.40 bohr).
WELL = Quantity("energy", ((0.45, 13.0, "eV"), (1e3, 1e6, "cm-1")))
RANGE = Quantity("inverse length", ((1.6, 5.0, "1/angstrom"), (5.0, 50.0, "1/nm")))
DISTANCE = Quantity("length", ((0.5, 1.39, "angstrom"), (70.0, 500.0, "pm")))


class Morse(Block):
    """``V = D (exp(-beta (x - r0)) - 1)^2 - D``, Eq. (8)."""

    type: Literal["morse"]
    D: Annotated[float, WELL, SIZE] = Field(description="well depth")
    beta: Annotated[float, RANGE, SIZE] = Field(description="range parameter")
    r0: Annotated[float, DISTANCE, SIGNED] = Field(description="equilibrium distance")

    def at(self, x: Points, mass: float) -> Points:
        """Return V (L,), hartree, Eq. (8); the mass does not matter."""
        import numpy as np

        return np.asarray(self.D * (np.exp(-self.beta * (x - self.r0)) - 1.0) ** 2 - self.D)


class Polynomial(Block):
    """``sum_n c_n x^n``; Eq. (11) is ``[0, 0, -0.25, 0.00390625, 0.015625]``."""

    type: Literal["polynomial"]
    coefficients: Annotated[list[float], Field(min_length=1)] = Field(
        description="ascending powers of x, atomic units"
    )

    def at(self, x: Points, mass: float) -> Points:
        """Return the value (L,), a.u.; the mass does not matter."""
        import numpy as np

        return np.asarray(np.polynomial.polynomial.polyval(x, np.asarray(self.coefficients, float)))


class Harmonic(Block):
    """``V = m omega^2 (x - x0)^2 / 2``."""

    type: Literal["harmonic"]
    omega: Annotated[Frequency, SIZE] = Field(description="angular frequency")
    x0: Annotated[Length, SIGNED] = Field(default=0.0, description="minimum")

    def at(self, x: Points, mass: float) -> Points:
        """Return V (L,), hartree, of a particle of this mass (electron masses)."""
        return 0.5 * mass * self.omega**2 * (x - self.x0) ** 2


class TableFile(Block):
    """Two columns, x and value in atomic units, interpolated by a cubic spline."""

    type: Literal["table"]
    file: DeckPath = Field(description="CSV or white-space file, relative to the deck")


class FormulaOfX(Block):
    """A formula of x in atomic units."""

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("x")] = Field(description="formula of x")


class Mecke(Block):
    """``mu = mu0 x exp(-x / rstar)``."""

    type: Literal["mecke"]
    mu0: Annotated[DipoleSlope, SIGNED] = Field(description="slope at the origin")
    rstar: Annotated[Length, SIZE] = Field(description="decay length")

    def at(self, x: Points, mass: float) -> Points:
        """Return mu (L,), a.u.; the mass does not matter."""
        import numpy as np

        return np.asarray(self.mu0 * x * np.exp(-x / self.rstar))


class Linear(Block):
    """``mu = slope x``."""

    type: Literal["linear"]
    slope: Annotated[DipoleSlope, SIGNED] = Field(default=1.0, description="effective charge")

    def at(self, x: Points, mass: float) -> Points:
        """Return mu (L,), a.u.; the mass does not matter."""
        return self.slope * x


Potential = Annotated[Morse | Polynomial | Harmonic | TableFile | FormulaOfX, Field(discriminator="type")]
DipoleFunction = Annotated[
    Mecke | Linear | Polynomial | TableFile | FormulaOfX,
    Field(discriminator="type"),
    short_form,
]


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
