"""Costs of propagations, so that the claims of a run never cost much more than the run itself.

The costs are estimated from sizes, not taken from a clock: the same deck claims the same errors on a fast and on a slow machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qsim.qoc.problem import MoleculeProblem

# Seconds that claims may always take.
FLOOR = 2.0
# Of the run's own cost that claims may take beyond the floor.
SHARE = 2.0
# Trajectories that a GPU propagates in the time of one.
PARALLEL = 256
# Seconds of a step in K levels on one core: constant, and per K^2.
LEVEL_STEP = (5e-7, 2.4e-9)
# The same on n points: constant, and per point.
GRID_STEP = (5e-6, 3.6e-8)
# Seconds per K^3: step matrix of one molecule, in extended precision.
LEVEL_SETUP = 9e-8
# Seconds per n^3: levels of one molecule in three sine bases, and what lies between the points.
DENSE = 3e-9
# Of the analysis: guess, final field, populations.
OWN_SWEEPS = 3
VERIFICATION = (
    4,
    8,
)  # steps per step of the run, and levels beyond its own, that a verification takes at least


def step_cost(levels: int, points: int = 0) -> float:
    """Return the seconds of one step of one trajectory: in `levels` levels, or on `points` points if there are any."""
    if points:
        return GRID_STEP[0] + GRID_STEP[1] * points
    return LEVEL_STEP[0] + LEVEL_STEP[1] * levels**2


def trajectories(problem: MoleculeProblem, members: int) -> int:
    """Return the trajectories of ensemble members that are propagated one after the other."""
    count = members * int(problem.initial.shape[0])
    return -(-count // PARALLEL) if problem.device.is_cuda else count


def reference_cost(problem: MoleculeProblem, members: int, molecules: int, levels: int, steps: int) -> float:
    """Return the seconds of one propagation of some members in the levels of a reference."""
    return trajectories(problem, members) * steps * step_cost(levels) + molecules * LEVEL_SETUP * levels**3


def budget(problem: MoleculeProblem, sweeps: int) -> float:
    """Return the seconds that the claims of a run may take, by its number of sweeps."""
    points = 0 if problem.propagator.name == "eigenbasis" else problem.molecule.x.size
    levels = int(problem.initial.shape[1])
    search = (sweeps + OWN_SWEEPS) * step_cost(levels, points)
    verification = VERIFICATION[0] * step_cost(levels + VERIFICATION[1])
    own = trajectories(problem, problem.members.count) * problem.times.size * (search + verification)
    return max(FLOOR, SHARE * own)
