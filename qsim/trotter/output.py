"""Quantities and figures of all tasks."""

from __future__ import annotations

from typing import Any

from qsim.core.results.quantities import Quantity
from qsim.trotter.dynamics import result as dynamics
from qsim.trotter.evolve import result as evolve
from qsim.trotter.evolve.steady import result as steady
from qsim.trotter.fid import result as fid
from qsim.trotter.figures import FIGURES as FIGURES
from qsim.trotter.floquet import result as floquet
from qsim.trotter.levels import result as levels
from qsim.trotter.spectrum import result as spectrum
from qsim.trotter.thermal import result as thermal

__all__ = ["FIGURES", "QUANTITIES"]

# Quantities of each task.
QUANTITIES: dict[str, tuple[Quantity[Any], ...]] = {
    "evolve": evolve.QUANTITIES,
    "spectrum": spectrum.QUANTITIES,
    "dynamics": dynamics.QUANTITIES,
    "levels": levels.QUANTITIES,
    "thermal": thermal.QUANTITIES,
    "floquet": floquet.QUANTITIES,
    "fid": fid.QUANTITIES,
    "steady": steady.QUANTITIES,
}
