"""Tables of functions of two coordinates: three columns on a rectangular grid."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from qsim.core.deck.blocks import DeckPath
from qsim.core.deck.table_units import UNITS_KEY, Column, LengthUnits, Tabulated, UnitName

__all__ = ["PotentialUnitsOfXY", "TableOfXY", "TablePotentialOfXY", "UnitsOfXY"]

LengthName = Annotated[str, UnitName("length")]
EnergyName = Annotated[str, UnitName("energy")]


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
