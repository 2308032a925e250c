"""Phase error of the Crank-Nicolson step: the number of steps and the zero of energy that keep it small."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.models.molecule import Molecule
    from qsim.qoc.propagators.propagator import Members

# Rad over T, of `steps: auto` for Crank-Nicolson.
PHASE_ERROR = 1e-3


def phase_steps(nominal: Molecule, top: int, duration: float, error: float = PHASE_ERROR) -> int:
    """Return the Crank-Nicolson steps that keep the phase error ``E^3 tau^2 T / 12`` of the levels in use below ``error``.

    Energies count from the middle of the levels (``energy_shift: auto``); one level above the highest target is included.
    """
    energies = nominal.energies[: min(top + 2, nominal.energies.size)]
    half = 0.5 * float(energies[-1] - energies[0])
    tau = math.sqrt(12.0 * error / (duration * half**3)) if half > 0 else duration
    return max(200, math.ceil(duration / tau))


def energy_shifts(members: Members, top: int, choice: float | str) -> NDArray[np.float64]:
    """Return the energy added to each molecule: as given, or minus the middle of the levels in use."""
    if not isinstance(choice, str):
        return np.full(len(members.molecules), float(choice))
    return np.array(
        [-0.5 * (m.energies[0] + m.energies[min(top, m.energies.size - 1)]) for m in members.molecules]
    )
