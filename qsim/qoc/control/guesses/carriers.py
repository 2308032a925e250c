"""Carriers at transition frequencies: one transition, or a ladder of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.control.transitions import direct_rungs, ladder_rungs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.control.guesses.pulse import Pulse
    from qsim.qoc.deck.control import LadderGuess, ResonantGuess

# Pi, per rung, of the weak field that takes the place of a zero one.
SEED_AREA = 0.1


def resonant(block: ResonantGuess, pulse: Pulse) -> NDArray[np.float64]:
    """Return carriers on the direct transitions between the states."""
    return carriers(pulse, direct_rungs(pulse.deck, pulse.molecule), block.area)


def ladder(block: LadderGuess, pulse: Pulse) -> NDArray[np.float64]:
    """Return carriers on the strongest path of transitions."""
    rungs = ladder_rungs(pulse.deck, pulse.molecule)
    area = block.area
    if area == "auto":
        # of one rung half a pi pulse, where the slope of P = sin^2(area / 2) is largest
        area = 0.5 if len(rungs) == 1 else 1.0
    return carriers(pulse, rungs, area * np.sqrt(len(rungs)))


def weak_seed(pulse: Pulse) -> NDArray[np.float64]:
    """Return a weak resonant field (N,) on the transitions between the states, a.u."""
    rungs = ladder_rungs(pulse.deck, pulse.molecule)
    return carriers(pulse, rungs, SEED_AREA * math.sqrt(len(rungs)))


def carriers(pulse: Pulse, rungs: list[tuple[int, int]], area: float) -> NDArray[np.float64]:
    """Return ``sum_rungs A cos(omega (t - T/2)) S(t)`` with ``mu A integral S dt = area pi`` on every rung (Eq. Q12).

    In the rotating-wave approximation the Rabi angle of a rung is ``mu A integral S dt``, so area = 1 inverts a two-level system.
    """
    molecule, times, shape = pulse.molecule, pulse.times, pulse.shape
    tau = float(times[1] - times[0]) if times.size > 1 else 2.0 * float(times[0])
    length = float(shape.sum()) * tau
    centre = 0.5 * (times[0] + times[-1])
    field = np.zeros(times.size)
    for a, b in rungs:
        omega = abs(molecule.energies[b] - molecule.energies[a])
        amplitude = area * np.pi / (abs(molecule.dipole_matrix[a, b]) * length)
        field += amplitude * np.cos(omega * (times - centre))
    return field * shape
