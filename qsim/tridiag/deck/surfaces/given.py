"""Potentials of two coordinates that a deck gives by a formula or a table, and none at all."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.table_units import TablePotentialOfXY
from qsim.tridiag.deck.surfaces.base import SurfaceBlock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FormulaSurface", "FreeSurface", "TableSurface", "formula_of_two"]


def formula_of_two(
    text: str, key: str, x: "NDArray[np.float64]", y: "NDArray[np.float64]", slope: str = ""
) -> "NDArray[np.float64]":
    """Return a formula of x and y on a grid (n1, n2), or its derivative with respect to one of them.

    Raises
    ------
    InvalidInput
        If it is not finite somewhere.
    """
    import numpy as np

    from qsim.core.physics.functions import formula, formula_slope

    at = {"x": x[:, None] + 0.0 * y, "y": 0.0 * x[:, None] + y}
    found = formula_slope(text, key, slope, **at) if slope else formula(text, key, **at)
    return np.array(np.broadcast_to(found, (x.size, y.size)))


class FormulaSurface(SurfaceBlock):
    """A formula of x and y in atomic units."""

    place = 3

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("x", "y")] = Field(
        description="formula of x and y", json_schema_extra={"example": "0.5*(x^2 + y^2)"}
    )

    def V(self, x: "NDArray[np.float64]", y: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return the formula (n1, n2)."""
        return formula_of_two(self.value, "value", x, y)

    def dV(
        self, x: "NDArray[np.float64]", y: "NDArray[np.float64]"
    ) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Return the exact derivatives of the formula (n1, n2)."""
        return formula_of_two(self.value, "value", x, y, "x"), formula_of_two(self.value, "value", x, y, "y")


class TableSurface(SurfaceBlock, TablePotentialOfXY):
    """Three columns, x, y and V, on a rectangular grid, interpolated by cubic splines."""

    place = 4

    def V(self, x: "NDArray[np.float64]", y: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return the spline (n1, n2), hartree."""
        from qsim.core.physics.surfaces import tabulated

        return tabulated(self, x, y, "file")

    def dV(
        self, x: "NDArray[np.float64]", y: "NDArray[np.float64]"
    ) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Return the derivatives of the spline (n1, n2), hartree/bohr."""
        from qsim.core.physics.surfaces import tabulated

        return tabulated(self, x, y, "file", (1, 0)), tabulated(self, x, y, "file", (0, 1))


class FreeSurface(SurfaceBlock):
    """No potential."""

    place = 5
    limit = 0.0

    type: Literal["none", "free"]

    def V(self, x: "NDArray[np.float64]", y: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Return zeros (n1, n2)."""
        import numpy as np

        return np.zeros((x.size, y.size))

    def dV(
        self, x: "NDArray[np.float64]", y: "NDArray[np.float64]"
    ) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Return zeros (n1, n2)."""
        return self.V(x, y), self.V(x, y)
