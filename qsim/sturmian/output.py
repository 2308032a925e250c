"""Names, units and figures of a sturmian result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from qsim.core.results import quantities
from qsim.sturmian.basis import result as basis
from qsim.sturmian.bound import result as bound
from qsim.sturmian.figures import FIGURES
from qsim.sturmian.integrals import result as integrals
from qsim.sturmian.resonances import result as resonances
from qsim.sturmian.scatter import result as scatter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.results.quantities import Failed, Quantity
    from qsim.core.results.tables import Scalar, Table
    from qsim.sturmian.run import Result

__all__ = ["FIGURES", "HEADLINE", "QUANTITIES", "TABLES", "arrays", "scalars", "tables"]

QUANTITIES: dict[str, tuple[Quantity[Any], ...]] = {
    "bound": bound.QUANTITIES,
    "basis": basis.QUANTITIES,
    "integrals": integrals.QUANTITIES,
    "collisions": scatter.QUANTITIES,
    "resonances": resonances.QUANTITIES,
}
"""Quantities of each task."""

TABLES = quantities.tables(bound.QUANTITIES)
HEADLINE = quantities.headline(*QUANTITIES.values())


def _declared(result: Result) -> tuple[Quantity[Any], ...]:
    """Return the quantities of a result; cross sections have the unit of their process."""
    if result.task == "collisions":
        return scatter.quantities_in(cast("scatter.CollisionResult", result).kinematics[0].unit)
    return QUANTITIES[result.task]


def tables(result: Result) -> tuple[Table, ...]:
    """Return the declarations for a result."""
    return quantities.tables(_declared(result), result)


def arrays(result: Result, failed: Failed | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of the results file by name."""
    return quantities.arrays(_declared(result), result, failed)


def scalars(result: Result, failed: Failed | None = None) -> dict[str, Scalar]:
    """Return the scalars of the results file by name."""
    return quantities.scalars(_declared(result), result, failed)
