"""Functions of x from a table or a formula of the user."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import DeckPath
from qsim.core.deck.expression import ExpressionText
from qsim.qoc.deck.functions.base import DipoleBlock, Points, PotentialBlock

__all__ = ["FormulaOfX", "TableFile"]


class TableFile(PotentialBlock, DipoleBlock):
    """Two columns, x and value in atomic units, interpolated by a cubic spline."""

    place = 8

    type: Literal["table"]
    file: DeckPath = Field(description="CSV or white-space file, relative to the deck")

    def at(self, x: Points, mass: float, key: str) -> Points:
        """Return the value of the spline (L,); the mass does not matter."""
        import numpy as np

        from qsim.core.physics.functions import spline

        return np.asarray(spline(self.file, "x", x, f"{key}.file")(x))


class FormulaOfX(PotentialBlock, DipoleBlock):
    """A formula of x in atomic units."""

    place = 9

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("x")] = Field(description="formula of x")

    def at(self, x: Points, mass: float, key: str) -> Points:
        """Return the value of the formula (L,); the mass does not matter."""
        from qsim.core.physics.functions import formula

        return formula(self.value, f"{key}.value", x=x)
