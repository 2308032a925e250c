"""Steps of quantum trajectories and their error: pilot trajectories with a step and half of it, and the same random numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.trotter.evolution.accuracy import Choice
from qsim.trotter.evolution.integrators import METHODS, layers
from qsim.trotter.evolve.open.carrier import Carrier
from qsim.trotter.evolve.open.members import drift_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.trotter.evolve.problem import Problem

# trajectories of a pilot
PILOTS = 3
# of an error that a few trajectories show: others may have more
SAFETY = 3.0
# share of the accuracy that a Krylov exponential may have, all together
SHARE = 0.5
TRIES = 12
# of the first step that is tried, over the largest field
FIRST = 0.5
# of what rounding leaves in a state
ROUNDING = 1e-13


def open_choice(problem: Problem, monitor: Monitor) -> Choice:
    """Return integrator and step of trajectories whose norm falls between jumps, with the error of their states.

    Raises
    ------
    NumericsError
        If no step reaches the accuracy.
    """
    block = problem.evolution
    accuracy = block.accuracy if block.accuracy is not None else 1e-8
    end = problem.times[-1]
    # exponentials: of every interval, and of every jump and its way back
    rate = sum(float((np.abs(channel.w) ** 2).sum()) for channel in problem.channels)
    tolerance = SHARE * accuracy / (4.0 * len(problem.times) + 4.0 * rate * end)
    method = block.integrator if block.integrator in METHODS else "bm4"
    if problem.drift == "sparse" and not _driven(problem):
        return Choice("krylov", None, accuracy, 1, 0.0, max(tolerance, 1e-15))
    axes = (2, 0, 1)
    each = len(layers(axes, method, 1.0)) if problem.drift == "layers" else 4
    name = method if problem.drift == "layers" else "krylov"
    order = METHODS[method].order if problem.drift == "layers" else 4

    def choice(dt: float, error: float) -> Choice:
        return Choice(name, dt, error, each, each * end / dt, max(tolerance, 1e-15))

    if end == 0.0:
        return choice(1.0, 0.0)
    if (given := block.dt) is not None:
        error = monitor.judged(
            "the error of the states", lambda: _error(problem, choice, given, order), math.nan
        )
        return choice(given, error)
    strength = max(problem.hamiltonian().peak(end).strongest, 1e-12)
    dt = min(FIRST / strength, end)
    kept = SHARE * accuracy if name == "krylov" else 0.0
    for _ in range(TRIES):
        error = _error(problem, choice, dt, order) + kept
        if error <= accuracy:
            return choice(dt, error)
        # the order shows only once steps are short
        ratio = (accuracy - kept) / max(error - kept, 1e-300)
        dt *= min(max(0.85 * ratio ** (1.0 / order), 0.1), 0.7)
        if error < 100.0 * ROUNDING:
            break
    raise NumericsError(
        f"no step reaches an error of {accuracy:.2g}: one of {dt:.2g} has {error:.2g}",
        hint="ask for a larger evolve.accuracy, or sector: full with integrator bm6 or kl8",
    )


def _driven(problem: Problem) -> bool:
    return problem.models.driven or any(channel.factor is not None for channel in problem.channels)


def _error(problem: Problem, choice: Any, dt: float, order: int) -> float:
    """Return the largest distance of states at any output time, of pilot trajectories with a step and with half of it."""
    worst, compared = 0.0, 0
    for member in range(min(PILOTS, problem.members)):
        states, jumps = _carried(problem, choice(dt, 0.0), member)
        halves, same = _carried(problem, choice(0.5 * dt, 0.0), member)
        for number, (psi, phi) in enumerate(zip(states, halves, strict=True)):
            # where a jump takes another channel, or its time crosses an output, states have nothing in common
            if psi.shape != phi.shape or jumps[number] != same[number]:
                break
            worst = max(worst, float(np.linalg.norm(psi - phi)))
            compared += 1
    if compared == 0:
        return 2.0
    return min(2.0, SAFETY * worst / (1.0 - 0.5**order) + ROUNDING * len(problem.times))


def _carried(problem: Problem, how: Choice, member: int) -> tuple[list[NDArray[Any]], list[tuple[int, ...]]]:
    """Return the normalised states at all times, and the channels of the jumps until then."""
    drift = drift_of(problem, member, how)
    drift.begin(problem.initial(member))
    carrier = Carrier(drift, problem.models.seed, member)
    states, jumps = [], []
    for k in range(len(problem.times) - 1):
        _, dt = problem.steps(k, how.dt)
        carrier.advance(problem.times[k], problem.times[k + 1], min(dt, problem.longest))
        psi = drift.psi
        states.append(psi / np.linalg.norm(psi))
        jumps.append(tuple(channel for _, channel in carrier.jumps))
    return states, jumps
