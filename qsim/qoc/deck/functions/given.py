"""Functions of x from a table or a formula of the user."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import DeckPath
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.table_units import (
    INTERPOLATION_KEY,
    UNITS_KEY,
    Column,
    DipoleUnits,
    Interpolation,
    PotentialUnits,
    Tabulated,
)
from qsim.qoc.deck.functions.base import DipoleBlock, FunctionBlock, Points, PotentialBlock


class _Table(FunctionBlock, Tabulated):
    """Two columns, joined by a curve that keeps to its rows."""

    place = 8

    file: DeckPath = Field(description="CSV, white-space or .h5 file, relative to the deck")
    interpolation: Interpolation = Field(default="auto", description=INTERPOLATION_KEY)

    def at(self, x: Points, mass: float, key: str) -> Points:
        """Return the value of the curve (L,); the mass does not matter."""
        import numpy as np

        from qsim.core.physics.functions import chosen, curve_of

        return np.asarray(chosen(self, curve_of(self, x, f"{key}.file"))(x))


class TablePotential(_Table, PotentialBlock):
    """Two columns, x and V, joined by a curve that keeps to its rows."""

    type: Literal["table"]
    units: PotentialUnits | None = Field(default=None, description=UNITS_KEY)

    def columns(self) -> tuple[Column, ...]:
        """Return x and V."""
        return Column("x", "length"), Column("V", "energy")


class TableDipole(_Table, DipoleBlock):
    """Two columns, x and mu, joined by a curve that keeps to its rows."""

    type: Literal["table"]
    units: DipoleUnits | None = Field(default=None, description=UNITS_KEY)

    def columns(self) -> tuple[Column, ...]:
        """Return x and mu."""
        return Column("x", "length"), Column("mu", "dipole")


class FormulaOfX(PotentialBlock, DipoleBlock):
    """A formula of x in atomic units."""

    place = 9

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("x")] = Field(description="formula of x")

    def at(self, x: Points, mass: float, key: str) -> Points:
        """Return the value of the formula (L,); the mass does not matter."""
        from qsim.core.physics.functions import formula

        return formula(self.value, f"{key}.value", x=x)
