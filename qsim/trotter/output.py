"""Quantities and figures of all tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.core.results import quantities
from qsim.core.results.quantities import Failed, Quantity
from qsim.trotter.dynamics import result as dynamics
from qsim.trotter.evolve import result as evolve
from qsim.trotter.figures import FIGURES
from qsim.trotter.floquet import result as floquet
from qsim.trotter.levels import result as levels
from qsim.trotter.spectrum import result as spectrum
from qsim.trotter.thermal import result as thermal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.results.tables import Scalar, Table
    from qsim.trotter.run import AnyResult

__all__ = ["FIGURES", "HEADLINE", "QUANTITIES", "TABLES", "arrays", "scalars", "tables"]

QUANTITIES: dict[str, tuple[Quantity[Any], ...]] = {
    "evolve": evolve.QUANTITIES,
    "spectrum": spectrum.QUANTITIES,
    "dynamics": dynamics.QUANTITIES,
    "levels": levels.QUANTITIES,
    "thermal": thermal.QUANTITIES,
    "floquet": floquet.QUANTITIES,
}
"""Quantities of each task."""

TABLES = quantities.tables(evolve.QUANTITIES)
HEADLINE = quantities.headline(*QUANTITIES.values())


def _declared(result: AnyResult) -> tuple[Quantity[Any], ...]:
    return QUANTITIES[result.task]


def tables(result: AnyResult) -> tuple[Table, ...]:
    """Return the declarations for a result: which sites, pairs and times an array has depends on the deck."""
    return quantities.tables(_declared(result), result)


def arrays(result: AnyResult, failed: Failed | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of the results file by name."""
    return quantities.arrays(_declared(result), result, failed)


def scalars(result: AnyResult, failed: Failed | None = None) -> dict[str, Scalar]:
    """Return the scalars of the results file by name."""
    return quantities.scalars(_declared(result), result, failed)
