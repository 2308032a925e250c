"""Names, units and figures of a qoc result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.qoc.figures import FIGURES
from qsim.qoc.quantum import curves
from qsim.qoc.quantum import result as quantum_result
from qsim.qoc.quantum.curves import CONTROLS
from qsim.qoc.quantum.molecule_result import MOLECULE
from qsim.qoc.quantum.quantities import FRONT, JUMPS, MEMBERS

if TYPE_CHECKING:
    from qsim.core.results.quantities import Quantity

__all__ = ["FIGURES", "QUANTITIES"]

# Quantities of a molecule on a grid, and of any other quantum system; many are the same.
QUANTITIES: dict[str, tuple[Quantity[Any], ...]] = {
    "grid": MOLECULE,
    "quantum": (
        *quantum_result.QUANTITIES,
        *JUMPS,
        *CONTROLS,
        *curves.QUANTITIES,
        *FRONT,
        *MEMBERS,
    ),
}
