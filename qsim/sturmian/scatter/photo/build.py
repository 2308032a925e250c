"""From a deck with photon energies to its problem, and its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.deck.columns import read_rows
from qsim.core.errors import FileError
from qsim.core.run.stages import Plan
from qsim.sturmian.deck.collision_symmetry import Settings, sectors_of
from qsim.sturmian.driven.automatic import numbers_of
from qsim.sturmian.driven.plan import Demands
from qsim.sturmian.driven.plan import plan as equations
from qsim.sturmian.scatter.photo.problem import Photoionisation
from qsim.sturmian.scatter.photo.spectrum import MOST, TOGETHER

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.sturmian.deck.model import SturmianDeck


def plan(loaded: LoadedDeck[SturmianDeck]) -> Plan:
    """Estimate sizes and memory of photoionisation over many energies, and check its physics."""
    task = Settings.of(loaded.deck).task
    if task.compare is not None:
        try:
            _measured(task.compare)
        except FileError as error:
            return Plan(findings=[Finding("task.compare", str(error))])
    # Every direction of the model is kept with its product with H; a batch of them is made at a time.
    most = min(MOST, loaded.deck.solver.max_iterations)
    return equations(
        loaded,
        Demands(
            rounds=1 + 2 * bool(task.errors), directions=TOGETHER, sources=len(task.gauges), kept=2 * most
        ),
    )


def build(loaded: LoadedDeck[SturmianDeck], device: Device) -> Photoionisation:
    """Settle a deck with photon energies."""
    settings = Settings.of(loaded.deck)
    numbers, notices = numbers_of(settings)
    path = settings.task.compare
    measured = None if path is None else _measured(path)
    return Photoionisation(device, settings, numbers, sectors_of(loaded.deck), notices, measured)


def _measured(path: Path) -> NDArray[np.float64]:
    """Return the measured cross sections of a file: photon energy in eV, Mb, and the error where there is a third column."""
    rows = np.array(read_rows(path, "photon energy in eV, cross section in Mb, and its error", (2, 3)))
    return rows[np.argsort(rows[:, 0])]
