"""``system: {type: grid2d}``: two coordinates, two dipole components."""

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field, model_validator

from qsim.core.deck.blocks import Block, Count
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.table_units import UNITS_KEY, Column, TableOfXY, TablePotentialOfXY, UnitName, UnitsOfXY
from qsim.core.deck.units import Energy, InverseLength, Length, Mass
from qsim.qoc.deck.numbers import SIGNED, SIZE
from qsim.qoc.deck.systems.jumps import LevelJumps
from qsim.qoc.deck.systems.states import Initial, StatePair, Target

DipoleName = Annotated[str, UnitName("dipole")]
Formula = Annotated[str, ExpressionText("x", "y")]


class Interval(Block):
    """Points of one coordinate; the wavefunction vanishes at both ends."""

    min: Annotated[Length, SIGNED] = Field(description="lower wall")
    max: Annotated[Length, SIGNED] = Field(description="upper wall")
    points: Annotated[Count, Field(ge=8, le=256)] = Field(description="points between the walls")


class Axes(Block):
    """The grid of both coordinates."""

    x: Interval
    y: Interval


class FormulaOfXY(Block):
    """A formula of x and y in atomic units."""

    type: Literal["expression"]
    value: Formula = Field(description="formula of x and y", json_schema_extra={"example": "0.5*(x^2 + y^2)"})


class HenonHeiles(Block):
    """V = (x^2 + y^2)/2 + lambda (x^2 y - y^3/3), atomic units."""

    type: Literal["henon_heiles"]
    strength: Annotated[float, SIGNED] = Field(description="lambda; the key lambda is the same")

    @model_validator(mode="before")
    @classmethod
    def _by_letter(cls, value: object) -> object:
        """Read `lambda` as the strength."""
        if isinstance(value, dict) and "lambda" in value and "strength" not in value:
            return {("strength" if key == "lambda" else key): one for key, one in value.items()}
        return value


class TwoMorse(Block):
    """V = D (1 - exp(-beta (x - r0)))^2 + the same of y."""

    type: Literal["two_morse"]
    D: Annotated[Energy, SIZE] = Field(description="depth")
    beta: Annotated[InverseLength, SIZE] = Field(description="inverse width")
    r0: Annotated[Length, SIGNED] = Field(description="position of the minimum")


class DipoleUnitsOfXY(UnitsOfXY):
    """Units of a dipole component as a function of x and y."""

    mu: DipoleName | None = Field(default=None, description="unit of mu", json_schema_extra={"example": "D"})


class TableDipoleOfXY(TableOfXY):
    """Three columns, x, y and mu, on a rectangular grid, interpolated by cubic splines."""

    units: DipoleUnitsOfXY | None = Field(default=None, description=UNITS_KEY)

    def columns(self) -> tuple[Column, ...]:
        """Return x, y and mu."""
        return Column("x", "length"), Column("y", "length"), Column("mu", "dipole")


PotentialOfXY: TypeAlias = Annotated[
    FormulaOfXY | HenonHeiles | TwoMorse | TablePotentialOfXY, Field(discriminator="type")
]


Component: TypeAlias = Annotated[Formula | TableDipoleOfXY, Field(union_mode="left_to_right")]


class Dipoles(Block):
    """Components of the dipole; each is a control, -mu E."""

    x: Component | None = Field(
        default=None, description="formula of x and y, a.u., or {type: table, file: ...}: control x"
    )
    y: Component | None = Field(
        default=None, description="formula of x and y, a.u., or {type: table, file: ...}: control y"
    )


class Grid2dSystem(Block):
    """Two coordinates, H0 = px^2/2m1 + py^2/2m2 + kinetic_coupling px py + V(x, y), in its lowest levels."""

    # Bare numbers are in atomic units, and so are the fields.
    unit: ClassVar[str] = "hartree"
    fields: ClassVar[bool] = True

    type: Literal["grid2d"]
    mass: Annotated[list[Annotated[Mass, SIZE]], Field(min_length=2, max_length=2)] = Field(
        description="masses of x and y"
    )
    kinetic_coupling: Annotated[float, SIGNED] = Field(
        default=0.0, description="factor of px py, 1/mass, a.u."
    )
    potential: PotentialOfXY = Field(
        description="potential energy",
        json_schema_extra={"example": {"type": "henon_heiles", "strength": 0.1118}},
    )
    dipole: Dipoles = Field(description="dipole components")
    grid: Axes = Field(description="walls and points of both coordinates")
    states: Annotated[Count, Field(ge=2, le=400)] = Field(default=60, description="levels kept")
    jumps: LevelJumps = Field(default=[], description="relaxation and dephasing of the levels")
    initial: Initial | None = Field(default=None, description="start: level, superposition, thermal")
    target: Target | None = Field(
        default=None,
        description="goal: level, superposition, list of levels, gate on levels, or observable, a formula of H0, x, y",
    )
    pairs: Annotated[list[StatePair], Field(min_length=1)] | None = Field(
        default=None,
        description="several goals for the same fields, of any kinds and with weights, instead of initial and target",
    )
