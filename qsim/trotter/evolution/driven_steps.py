"""Steps under a Hamiltonian that depends on time.

Time is taken as one more coordinate, whose "layer" is a shift of the clock: a half map ``chi_c`` moves the clock by ``c dt`` and
then runs through the axes at that time, its adjoint runs through the axes and then moves the clock.  The extended system is
autonomous, so that every method keeps its order for smooth profiles (Blanes and Moan, J. Comput. Appl. Math. 142, 313); two half
maps are the midpoint rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from qsim.trotter.evolution.integrators import METHODS, ORDER, Layer

if TYPE_CHECKING:
    from qsim.trotter.evolution.distributed import SharedEvolver
    from qsim.trotter.evolution.layers import Evolver
    from qsim.trotter.model.hamiltonian import Hamiltonian

# of the time: a kink so close to the end of a step is there, but for rounding
NEAR = 2e-15


def stages(method: str, start: float, dt: float) -> list[tuple[float, tuple[float, ...]]]:
    """Return the stages of a step: the time at which the couplings are taken, and the one or two half maps made there."""
    halves, t = METHODS[method].halves, start
    plan: list[tuple[float, tuple[float, ...]]] = []
    # the middle of the step is as good as its end, and better by one order for the field alone
    if len(halves) == 1:
        return [(start + 0.5 * dt, halves)]
    # a map chi_c moves the clock by c dt and takes the couplings
    # of that time; its adjoint takes them first: one time for both
    for k in range(0, len(halves), 2):
        first, second = halves[k], halves[k + 1]
        plan.append((t + first * dt, (first, second)))
        t += (first + second) * dt
    return plan


def advance(
    evolver: Evolver | SharedEvolver,
    hamiltonian: Hamiltonian,
    method: str,
    dt: float,
    steps: int,
    start: float,
    kinks: Sequence[float] = (),
) -> None:
    """Make steps from a time on; dt may be negative.

    Parameters
    ----------
    evolver : Evolver or SharedEvolver
        Its model is exchanged from stage to stage.
    start : float
        Time of the state, 1/J.
    kinks : sequence of float
        Ascending times at which steps are cut, since no method keeps its order across a kink or a jump.
    """
    for step in range(steps):
        for begin, length in pieces(start + step * dt, dt, kinks):
            for time, halves in stages(method, begin, length):
                # merged within a stage only: H differs between stages
                evolver.set_model(hamiltonian.at(time))
                evolver.apply(half_maps(evolver.present, halves, length))


def half_maps(axes: tuple[int, ...], halves: tuple[float, ...], dt: float) -> list[Layer]:
    """Return the layers of one or two half maps: through the axes and back, neighbours merged."""
    forward = [axis for axis in ORDER if axis in axes]
    if len(halves) == 1 or not forward:
        return [(axis, halves[0] * dt) for axis in forward]
    first, second = halves
    # the last axis of the way forward is the first of the way back
    return [
        *((axis, first * dt) for axis in forward[:-1]),
        (forward[-1], (first + second) * dt),
        *((axis, second * dt) for axis in forward[-2::-1]),
    ]


def pieces(start: float, dt: float, places: Sequence[float]) -> list[tuple[float, float]]:
    """Return (start, length) of the parts of a step between kinks; dt may be negative.

    Parameters
    ----------
    places
        Times of kinks, ascending.
    """
    low, high = min(start, start + dt), max(start, start + dt)
    # relative to the times, whose rounding decides on which side of a kink a step ends
    near = NEAR * max(abs(low), abs(high))
    left = int(np.searchsorted(places, low + near, "right"))
    right = int(np.searchsorted(places, high - near, "left"))
    if left >= right:
        return [(start, dt)]
    inside = [float(t) for t in places[left:right]]
    edges = [start, *(inside if dt > 0 else inside[::-1]), start + dt]
    return [(a, b - a) for a, b in pairwise(edges)]
