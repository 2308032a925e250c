"""Names, units and figures of a qoc result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.core.results.quantities import Quantity
from qsim.qoc import figures as grid
from qsim.qoc.quantum import curves
from qsim.qoc.quantum import figures as quantum
from qsim.qoc.quantum import result as quantum_result
from qsim.qoc.quantum.ensembles import figures as ensembles
from qsim.qoc.quantum.ensembles import quantities as ensemble_quantities
from qsim.qoc.quantum.fronts.figures import front
from qsim.qoc.quantum.fronts.quantities import FRONT
from qsim.qoc.quantum.open import quantities as jumps
from qsim.qoc.quantum.per_control import CONTROLS
from qsim.qoc.result import QUANTITIES as GRID_QUANTITIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

    Drawing = Callable[[Results], Figure | None]

__all__ = ["FIGURES", "QUANTITIES"]

# Quantities of a molecule on a grid, and of any other quantum system.
QUANTITIES: dict[str, tuple[Quantity[Any], ...]] = {
    "grid": GRID_QUANTITIES,
    "quantum": (
        *quantum_result.QUANTITIES,
        *jumps.QUANTITIES,
        *CONTROLS,
        *curves.QUANTITIES,
        *FRONT,
        *ensemble_quantities.QUANTITIES,
    ),
}

# Figures that any other quantum system has.
QUANTUM: dict[str, Drawing] = {
    "overview": quantum.overview,
    "fields": quantum.fields,
    "spectrum": quantum.spectrum,
    "populations": quantum.populations,
    "convergence": quantum.convergence,
    "gate": quantum.gate,
    "budget": quantum.budget,
    "front": front,
    "bloch": quantum.bloch,
    "goal": quantum.goal,
    "levels": quantum.levels,
    "robustness": ensembles.robustness,
}


def _either(name: str) -> Drawing:
    """Return the figure of this name, whichever kind of system a results file is of."""
    of_grid, of_quantum = grid.FIGURES.get(name), QUANTUM.get(name)

    def draw(r: Results) -> Figure | None:
        chosen = of_quantum if quantum.is_quantum(r) else of_grid
        return None if chosen is None else chosen(r)

    draw.__doc__ = (of_grid or of_quantum or draw).__doc__
    draw.__name__ = name
    return draw


FIGURES: dict[str, Drawing] = {name: _either(name) for name in {**grid.FIGURES, **QUANTUM}}
