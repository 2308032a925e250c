"""Potentials that a deck gives by a table or a formula, and none at all."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import DeckPath
from qsim.core.deck.expression import Expression, ExpressionText
from qsim.core.deck.table_units import (
    INTERPOLATION_KEY,
    UNITS_KEY,
    Column,
    Interpolation,
    PotentialUnits,
    Tabulated,
)
from qsim.tridiag.deck.numbers import Points
from qsim.tridiag.deck.potentials.base import PotentialBlock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qsim.core.physics.curves import Curve

__all__ = ["FreeParticle", "PotentialFormula", "PotentialTable"]


class PotentialTable(PotentialBlock, Tabulated):
    """Two columns, x and V, joined by a curve that keeps to its rows."""

    place = 11
    # nothing is known beyond the table: the walls of the grid decide what is free
    limit = None
    in_parts = False

    type: Literal["table"]
    file: DeckPath = Field(description="CSV, white-space or .h5 file, relative to the deck")
    units: PotentialUnits | None = Field(default=None, description=UNITS_KEY)
    interpolation: Interpolation = Field(default="auto", description=INTERPOLATION_KEY)

    def columns(self) -> tuple[Column, ...]:
        """Return x and V."""
        return Column("x", "length"), Column("V", "energy")

    @property
    def analytic(self) -> bool:
        """False: a table has real points alone."""
        return False

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        from qsim.core.physics.functions import chosen

        return np.asarray(chosen(self, self.curve(x))(x))

    def dV(self, x: Points) -> Points:
        """Return the derivative of the curve (n,), hartree/bohr."""
        import numpy as np

        from qsim.core.physics.functions import chosen

        return np.asarray(chosen(self, self.curve(x))(x, 1))

    def curve(self, x: Points) -> "Curve":
        """Return the curve; it must cover the points x."""
        from qsim.core.physics.functions import curve_of

        return curve_of(self, x)


class PotentialFormula(PotentialBlock):
    """A formula of x in atomic units."""

    place = 12
    limit = None
    in_parts = False

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("x")] = Field(description="formula of x")

    @property
    def analytic(self) -> bool:
        """True if the functions of the formula have a meaning for complex x."""
        return Expression(self.value).analytic

    def continued(self, x: "NDArray[np.complex128]") -> "NDArray[np.complex128]":
        """Return the formula at complex points (n,)."""
        return Expression(self.value).continued(x=x)

    def V(self, x: Points) -> Points:
        """Return V (n,), hartree."""
        from qsim.core.physics.functions import formula, in_chunks

        # a formula makes temporaries of the size of its points: parts keep them in the caches
        return in_chunks(lambda part: formula(self.value, "value", x=part), x)

    def dV(self, x: Points) -> Points:
        """Return the exact derivative of the formula (n,), hartree/bohr."""
        from qsim.core.physics.functions import formula_slope, in_chunks

        return in_chunks(lambda part: formula_slope(self.value, "value", "x", x=part), x)


class FreeParticle(PotentialBlock):
    """No potential."""

    place = 13
    in_parts = False
    zero = True

    type: Literal["none", "free"]

    def V(self, x: Points) -> Points:
        """Return zeros (n,)."""
        import numpy as np

        return np.zeros(x.shape)

    def dV(self, x: Points) -> Points:
        """Return zeros (n,)."""
        import numpy as np

        return np.zeros(x.shape)
