"""Central potentials that a deck gives by a sum of exponentials, a formula or a table."""

import math
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, DeckPath
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.table_units import (
    INTERPOLATION_KEY,
    UNITS_KEY,
    Column,
    Interpolation,
    RadialUnits,
    Tabulated,
)
from qsim.core.errors import InvalidInput
from qsim.tridiag.deck.central.base import CentralBlock, Charge
from qsim.tridiag.deck.numbers import SIGNED, Points

if TYPE_CHECKING:
    from qsim.core.physics.curves import Curve

__all__ = ["ExponentialTerm", "FormulaAtom", "SumOfExponentials", "TableAtom"]


class ExponentialTerm(Block):
    """``C r^N exp(-A r)``."""

    C: Annotated[float, SIGNED] = Field(description="factor, hartree / bohr^N")
    N: Annotated[int, Field(ge=-1, le=12)] = Field(description="power of r")
    A: Annotated[float, Field(gt=0.0, le=1e4)] = Field(description="decay, 1/bohr")


class SumOfExponentials(CentralBlock):
    """``V = -Z / r + sum C r^N exp(-A r)``: local pseudo-potentials of valence electrons, the same for all l."""

    place = 7

    type: Literal["sum_exp"]
    Z: Charge = Field(default=1.0, description="charge that is seen from far away")
    terms: Annotated[list[ExponentialTerm], Field(min_length=1, max_length=100)] = Field(
        description="what is added to -Z/r",
        json_schema_extra={"example": [{"C": -2.0, "N": -1, "A": 2.0}, {"C": 3.0, "N": 0, "A": 1.5}]},
    )

    def V(self, r: Points) -> Points:
        """Return V (n,), hartree."""
        import numpy as np

        return np.asarray(
            -self.Z / r + sum(one.C * r ** float(one.N) * np.exp(-one.A * r) for one in self.terms)
        )

    def dV(self, r: Points) -> Points:
        """Return dV/dr (n,), hartree/bohr."""
        import numpy as np

        # product rule: (N / r - A) of each term
        slopes = (one.C * r ** float(one.N) * np.exp(-one.A * r) * (one.N / r - one.A) for one in self.terms)
        return np.asarray(self.Z / r**2 + sum(slopes))

    @property
    def nucleus(self) -> float:
        """Charge at the nucleus."""
        # terms with r^-1 add to the charge at the nucleus and die out far away
        return self.Z - sum(one.C for one in self.terms if one.N == -1)

    @property
    def tail(self) -> float:
        """Charge that is seen from far away."""
        return self.Z


class FormulaAtom(CentralBlock):
    """A formula of r in atomic units."""

    place = 8
    analytic = False

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("r")] = Field(
        description="formula of r", json_schema_extra={"example": "-(1 + exp(-2*r))/r"}
    )
    Z: Annotated[float, Field(ge=0.0, le=120.0)] | None = Field(
        default=None, description="charge of the nucleus, -lim r V; by default found from the formula"
    )

    def V(self, r: Points) -> Points:
        """Return V (n,), hartree."""
        from qsim.core.physics.functions import formula

        return formula(self.value, "value", r=r)

    def dV(self, r: Points) -> Points:
        """Return the exact derivative of the formula (n,), hartree/bohr."""
        from qsim.core.physics.functions import formula_slope

        return formula_slope(self.value, "value", "r", r=r)

    @property
    def nucleus(self) -> float:
        """Charge at the nucleus.

        Raises
        ------
        InvalidInput
            If ``-r V`` has no limit at the nucleus, or another one than Z.
        """
        import numpy as np

        # -r V = Z + b r near the nucleus: two radii give Z, a third tells whether that is so
        near = np.array([1e-6, 2e-6, 1e-5])
        values = -near * self.V(near)
        limit = float(2.0 * values[0] - values[1])
        if abs(float(values[2]) - limit) > 1e-3 * (1.0 + abs(limit)):
            raise InvalidInput(
                "value",
                f"-r V is {values[0]:.6g} at r = 1e-6 and {values[2]:.6g} at 1e-5 bohr: no charge at r = 0",
            )
        if limit < -1e-9:
            raise InvalidInput("value", f"-r V tends to {limit:.6g} at the nucleus; it must not be negative")
        # a charge that the formula contradicts would spoil the first row of the Numerov matrix
        if self.Z is not None and abs(self.Z - limit) > 1e-6 * (1.0 + limit):
            raise InvalidInput(
                "Z", f"the formula tends to -{limit:.8g}/r at the nucleus, not to -{self.Z:g}/r"
            )
        return max(limit, 0.0)

    @property
    def tail(self) -> float:
        """Charge that is seen from far away."""
        import numpy as np

        # at 10 000 bohr screening has died out
        return float(-1e4 * self.V(np.array([1e4]))[0])


class TableAtom(CentralBlock, Tabulated):
    """Two columns, r and V; the rows of r V are joined by a curve that keeps to them, and it goes on as ``-Zc / r`` outside."""

    place = 9
    analytic = False

    type: Literal["table"]
    file: DeckPath = Field(description="CSV, white-space or .h5 file, relative to the deck")
    units: RadialUnits | None = Field(default=None, description=UNITS_KEY)
    interpolation: Interpolation = Field(default="auto", description=INTERPOLATION_KEY)

    def columns(self) -> tuple[Column, ...]:
        """Return r and V."""
        return Column("r", "length"), Column("V", "energy")

    @cached_property
    def curve(self) -> "Curve":
        """The curve of ``r V``, read once.

        Raises
        ------
        InvalidInput
            If the table does not begin near the nucleus, or does not end in a Coulomb tail.
        """
        from qsim.core.deck.columns import by_first_column
        from qsim.core.deck.tables import read_table
        from qsim.core.physics.curves import table_curve

        # r V instead of V: it is smooth at the nucleus, where V diverges, and constant in the tail
        table = by_first_column(self.file, read_table(self, distinct="r"), "r")
        r, product = table[:, 0], table[:, 0] * table[:, 1]
        if r[0] < 0.0 or r.size < 8:
            raise InvalidInput(
                "file", f"expected at least 8 radii from 0 on, found {r.size} from {r[0]:g} bohr"
            )
        # r V is continued by its first value to the nucleus: an error within 0.01 bohr only
        if r[0] > 0.01:
            raise InvalidInput(
                "file", f"the table begins at r = {r[0]:g} bohr; V is needed from 0.01 bohr on"
            )
        # the potential goes on as -Zc / r: the table must have reached that form
        if abs(product[-1] - product[-2]) > 1e-3 * (1.0 + abs(product[-1])):
            raise InvalidInput(
                "file",
                f"no Coulomb tail: r V is {product[-2]:.6g} and {product[-1]:.6g} at the last two radii",
            )
        return table_curve(self.file, r, product, self.interpolation)

    def _product(self, r: Points, derivative: int) -> Points:
        import numpy as np

        from qsim.core.physics.functions import chosen

        curve = chosen(self, self.curve)
        radii = curve.x
        values = np.asarray(curve(np.clip(r, radii[0], radii[-1]), derivative))
        # constant outside of the table, so that the slope is zero there
        return np.where((r < radii[0]) | (r > radii[-1]), 0.0, values) if derivative else values

    def V(self, r: Points) -> Points:
        """Return V (n,), hartree."""
        return self._product(r, 0) / r

    def dV(self, r: Points) -> Points:
        """Return dV/dr (n,), hartree/bohr."""
        return (self._product(r, 1) - self.V(r)) / r

    @property
    def nucleus(self) -> float:
        """Charge at the nucleus."""
        from qsim.core.physics.functions import chosen

        curve = chosen(self, self.curve)
        return max(-float(curve(min(float(curve.x[0]), 0.0))), 0.0)

    @property
    def tail(self) -> float:
        """Charge that is seen from far away."""
        import numpy as np

        return -float(self._product(np.array([math.inf]), 0)[0])
