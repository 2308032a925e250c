"""Names, units and figures of a sturmian result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from qsim.sturmian.basis import result as basis
from qsim.sturmian.bound import result as bound
from qsim.sturmian.figures import FIGURES
from qsim.sturmian.integrals import result as integrals
from qsim.sturmian.resonances import result as resonances
from qsim.sturmian.response import result as response
from qsim.sturmian.scatter import result as scatter
from qsim.sturmian.scatter.photo import result as photo

if TYPE_CHECKING:
    from qsim.core.results.quantities import Quantity
    from qsim.sturmian.run import Result

__all__ = ["FIGURES", "LISTS", "QUANTITIES", "quantities_of"]

# Keys of the lists that number scalars: sigma_total_0 belongs to the first energy.
LISTS = ("task.energy",)
# Quantities of each task.
QUANTITIES: dict[str, tuple[Quantity[Any], ...]] = {
    "bound": bound.QUANTITIES,
    "response": response.QUANTITIES,
    "basis": basis.QUANTITIES,
    "integrals": integrals.QUANTITIES,
    "collisions": scatter.QUANTITIES,
    "photoionisation": photo.QUANTITIES,
    "resonances": resonances.QUANTITIES,
}


def quantities_of(result: Result) -> tuple[Quantity[Any], ...]:
    """Return the quantities of a result; cross sections have the unit of their process."""
    if result.task == "collisions":
        return scatter.quantities_in(cast("scatter.CollisionResult", result).kinematics[0].unit)
    return QUANTITIES[result.task]
