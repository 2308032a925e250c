"""Do the task of a deck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.trotter.dynamics import run as dynamics
from qsim.trotter.evolve import run as evolve
from qsim.trotter.evolve.steady import run as steady
from qsim.trotter.fid import run as fid
from qsim.trotter.floquet import run as floquet
from qsim.trotter.levels import run as levels
from qsim.trotter.spectrum import run as spectrum
from qsim.trotter.thermal import run as thermal

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim.core.run.progress import Monitor
    from qsim.trotter.build import AnyProblem
    from qsim.trotter.dynamics.result import DynamicsResult
    from qsim.trotter.evolve.result import Result
    from qsim.trotter.evolve.steady.result import SteadyResult
    from qsim.trotter.fid.result import FidResult
    from qsim.trotter.floquet.result import FloquetResult
    from qsim.trotter.levels.result import LevelsResult
    from qsim.trotter.spectrum.result import SpectrumResult
    from qsim.trotter.thermal.result import ThermalResult

    AnyResult = (
        Result
        | SpectrumResult
        | DynamicsResult
        | ThermalResult
        | LevelsResult
        | FloquetResult
        | FidResult
        | SteadyResult
    )

TASKS: dict[str, Callable[[Any, Monitor], AnyResult]] = {
    "evolve": evolve.run,
    "spectrum": spectrum.run,
    "dynamics": dynamics.run,
    "thermal": thermal.run,
    "levels": levels.run,
    "floquet": floquet.run,
    "fid": fid.run,
    "steady": steady.run,
}


def run(problem: AnyProblem, monitor: Monitor) -> AnyResult:
    """Do the task of a problem."""
    for text in problem.models.notes:
        monitor.note(text)
    return TASKS[problem.task](problem, monitor)
