"""Names, units and figures of a qoc result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.core.results import quantities
from qsim.qoc.figures import FIGURES
from qsim.qoc.result import QUANTITIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.results.quantities import Failed
    from qsim.core.results.tables import Scalar
    from qsim.qoc.result import Result

__all__ = ["FIGURES", "HEADLINE", "QUANTITIES", "TABLES", "arrays", "scalars"]

TABLES = quantities.tables(QUANTITIES)
HEADLINE = quantities.headline(QUANTITIES)


def arrays(result: Result, failed: Failed | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of the results file by name."""
    return quantities.arrays(QUANTITIES, result, failed)


def scalars(result: Result, failed: Failed | None = None) -> dict[str, Scalar]:
    """Return the scalars of the results file by name."""
    return quantities.scalars(QUANTITIES, result, failed)
