"""Tables that a deck names: units of their columns, the key ``units`` beside ``file``, and functions of two coordinates."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, Field, PrivateAttr

from qsim.core.deck.blocks import Block, DeckPath
from qsim.core.deck.units import BARE, UNITS, UnitError, unit_named

if TYPE_CHECKING:
    from typing import Self

    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

__all__ = [
    "INTERPOLATION_KEY",
    "UNITS_KEY",
    "Column",
    "DipoleUnits",
    "FieldUnits",
    "Interpolation",
    "LengthUnits",
    "PotentialUnits",
    "PotentialUnitsOfXY",
    "RadialUnits",
    "TableOfXY",
    "TablePotentialOfXY",
    "Tabulated",
    "UnitName",
    "UnitsOfXY",
    "doubted",
]

UNITS_KEY = "units of the columns, if the header of the file does not name them"
INTERPOLATION_KEY = (
    "curve between the rows; auto: a cubic spline where they are dense enough, else straight or monotone"
)
Interpolation = Literal["auto", "monotone", "linear", "cubic"]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name
        As the key ``units`` calls it, ``"V"``.
    kind
        A key of `UNITS`; empty for a number that has one unit only.
    bare
        Unit of the numbers where nothing else is said.
    ignored
        True where the unit does not matter, as for a state that is normalised.
    """

    name: str
    kind: str = ""
    unit: str = ""
    ignored: bool = False

    @property
    def bare(self) -> str:
        """Unit of a number without one."""
        return self.unit or BARE.get(self.kind, "atomic units")


@dataclass(frozen=True)
class UnitName:
    """The mark of a deck field that holds the name of a unit, of any spelling.

    Attributes
    ----------
    kind
        A key of `UNITS`.
    """

    kind: str

    def _parse(self, value: str) -> str:
        from pydantic_core import PydanticCustomError

        try:
            return unit_named(value, self.kind)[0]
        except UnitError as error:
            expected = f"one of {', '.join(UNITS[self.kind])}"
            # `specific`: the message itself is shown, for it tells more than what was expected.
            context = {"text": str(error), "expected": expected, "specific": True}
            raise PydanticCustomError("quantity", "{text}", context) from None

    def __get_pydantic_core_schema__(self, source: object, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        """Validate a text as the name of a unit."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self._parse, core_schema.str_schema())

    def __get_pydantic_json_schema__(self, schema: "CoreSchema", handler: object) -> dict[str, Any]:
        """Describe a text, with the names that there are."""
        names = list(UNITS[self.kind])
        return {"type": "string", "examples": names, "description": "one of " + ", ".join(names)}


LengthName = Annotated[str, UnitName("length")]
EnergyName = Annotated[str, UnitName("energy")]


class LengthUnits(Block):
    """Unit of the first column; other columns may have any."""

    x: LengthName | None = Field(
        default=None,
        validation_alias=AliasChoices("x", "r", "R"),
        description="unit of x (also: r, R)",
        json_schema_extra={"example": "angstrom"},
    )


class PotentialUnits(LengthUnits):
    """Units of a potential as a function of x."""

    V: EnergyName | None = Field(default=None, description="unit of V", json_schema_extra={"example": "eV"})


class RadialUnits(Block):
    """Units of a potential as a function of r."""

    r: LengthName | None = Field(
        default=None,
        validation_alias=AliasChoices("r", "x", "R"),
        description="unit of r (also: x, R)",
        json_schema_extra={"example": "angstrom"},
    )
    V: EnergyName | None = Field(default=None, description="unit of V", json_schema_extra={"example": "eV"})


class DipoleUnits(LengthUnits):
    """Units of a dipole moment as a function of x."""

    mu: Annotated[str, UnitName("dipole")] | None = Field(
        default=None, description="unit of mu", json_schema_extra={"example": "D"}
    )


class FieldUnits(Block):
    """Units of an electric field as a function of time."""

    t: Annotated[str, UnitName("time")] | None = Field(
        default=None, description="unit of t", json_schema_extra={"example": "fs"}
    )
    E: Annotated[str, UnitName("electric field")] | None = Field(
        default=None, description="unit of E", json_schema_extra={"example": "V/m"}
    )


class Tabulated(Block):
    """A block whose key ``file`` names a table."""

    _doubted: bool = PrivateAttr(default=False)

    def doubted(self) -> "Self | None":
        """Return the block with another curve that its rows allow, for its error; None if the rows state the curve."""
        if getattr(self, "interpolation", "linear") == "linear":
            return None
        # without what the block has kept of its own curve
        copy = self.model_copy()
        for name in set(copy.__dict__) - set(type(self).model_fields):
            del copy.__dict__[name]
        copy._doubted = True
        return copy

    def columns(self) -> tuple[Column, ...]:
        """Return the columns that are read, in their order."""
        raise NotImplementedError

    def table_file(self) -> Path | None:
        """Return the path of the table; None if this block does not hold one."""
        path = getattr(self, "file", None)
        return path if isinstance(path, Path) else None

    def given_units(self) -> dict[str, str]:
        """Return the units that the key ``units`` names, by column."""
        units = getattr(self, "units", None)
        # A block without the key, and a column that the key leaves out, say nothing.
        given = {} if units is None else dict(units)
        return {name: unit for name, unit in given.items() if unit is not None}


def doubted(block: Block) -> Any:
    """Return a block with another curve that the rows of its table allow; None where it has no such table."""
    return block.doubted() if isinstance(block, Tabulated) else None


class UnitsOfXY(LengthUnits):
    """Units of the coordinates of a table."""

    y: LengthName | None = Field(
        default=None, description="unit of y", json_schema_extra={"example": "angstrom"}
    )


class PotentialUnitsOfXY(UnitsOfXY):
    """Units of a potential as a function of x and y."""

    V: EnergyName | None = Field(default=None, description="unit of V", json_schema_extra={"example": "eV"})


class TableOfXY(Tabulated):
    """Three columns on a rectangular grid, interpolated by cubic splines."""

    # the only one: its rows allow others, which tell the error
    interpolation: ClassVar[str] = "cubic"

    type: Literal["table"]
    file: DeckPath = Field(description="CSV, white-space or .h5 file, relative to the deck")


class TablePotentialOfXY(TableOfXY):
    """Three columns, x, y and V, on a rectangular grid, interpolated by cubic splines."""

    units: PotentialUnitsOfXY | None = Field(default=None, description=UNITS_KEY)

    def columns(self) -> tuple[Column, ...]:
        """Return x, y and V."""
        return Column("x", "length"), Column("y", "length"), Column("V", "energy")
