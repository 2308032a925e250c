"""From the deck to the problem of its task, and its sizes and memory before that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.core.deck.load import LoadedDeck
from qsim.core.run.stages import Plan
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.dynamics import build as dynamics
from qsim.trotter.evolve import build as evolve
from qsim.trotter.evolve.steady import build as steady
from qsim.trotter.fid import build as fid
from qsim.trotter.floquet import build as floquet
from qsim.trotter.levels import build as levels
from qsim.trotter.spectrum import build as spectrum
from qsim.trotter.thermal import build as thermal

if TYPE_CHECKING:
    from qsim.core.device.device import Device
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.evolve.steady.problem import SteadyProblem
    from qsim.trotter.fid.problem import FidProblem
    from qsim.trotter.problem import TaskProblem

    AnyProblem = Problem | TaskProblem[Any] | FidProblem | SteadyProblem

TASKS = {
    "evolve": evolve,
    "spectrum": spectrum,
    "dynamics": dynamics,
    "thermal": thermal,
    "levels": levels,
    "floquet": floquet,
    "fid": fid,
    "steady": steady,
}


def plan(loaded: LoadedDeck[TrotterDeck]) -> Plan:
    """Estimate memory and steps and check the physics; nothing large is allocated."""
    made: Plan = TASKS[loaded.deck.task].plan(loaded)
    return made


def build(loaded: LoadedDeck[TrotterDeck], device: Device) -> AnyProblem:
    """Set up the problem of the deck; states and couplings are made trajectory by trajectory.

    Raises
    ------
    DeckError
        If the deck asks for a sector that H or the start do not stay in.
    """
    made: AnyProblem = TASKS[loaded.deck.task].build(loaded, device)
    return made
