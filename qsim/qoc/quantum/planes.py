"""Two coordinates beyond their levels: P by a split operator on the grid, and what a results file holds of the plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.qoc.models.plane.motion import GridMotion

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray
    from qsim.qoc.models.plane.levels import Plane
    from qsim.qoc.quantum.problem import QuantumProblem
    from qsim.qoc.quantum.result import QuantumResult

__all__ = ["PLANE", "grid_value"]

# Points times steps times columns on the grid: a minute of one core.
MOST_PRODUCTS = 2e8
# Levels whose wavefunctions are kept in the file beside those of the start and the goal.
SHOWN = 6
# Population from which a level counts as one of start or goal.
SEEN = 1e-3


def grid_value(problem: QuantumProblem, fields: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return P by the motion on the grid, and the error of its steps; None where there is no grid, or it takes too long.

    Parameters
    ----------
    problem
        Problem of the run.
    fields : (C, N) float64
        Held values of the fields.
    """
    plane, objective = problem.model.plane, problem.objective
    if plane is None or objective.lindblad:
        return None
    motion = GridMotion(plane, [c.name for c in problem.model.controls])
    steps = motion.least_steps(objective.tau)
    points = plane.potential.size * objective.start.shape[1]
    if 3.0 * steps * fields.shape[1] * points > MOST_PRODUCTS:
        return None
    coarse, fine = (
        objective.cost.value(motion.amplitudes(objective.start, fields, objective.tau, number * steps))
        for number in (1, 2)
    )
    # Order 4: the error of half the step is a fifteenth of the change; a third is claimed, as steps may be long.
    return fine, abs(fine - coarse) / 3.0


def _plane(value: Callable[[Plane], FloatArray]) -> Callable[[QuantumResult], FloatArray]:
    """Return the function that takes an array from the plane of a result."""

    def taken(result: QuantumResult) -> FloatArray:
        assert result.problem.model.plane is not None
        return value(result.problem.model.plane)

    return taken


def _has_plane(result: QuantumResult) -> bool:
    return result.problem.model.plane is not None


def _shown(result: QuantumResult) -> NDArray[np.int64]:
    """Return the levels whose densities are kept: the lowest ones, and those populated first or last."""
    used = np.maximum(result.populations[0], result.populations[-1]) > SEEN
    used[:SHOWN] = True
    return np.flatnonzero(used)


def _densities(result: QuantumResult) -> FloatArray | None:
    """Return |psi|^2 (levels, n1, n2) of the levels that are kept, 1/bohr^2."""
    plane = result.problem.model.plane
    if plane is None:
        return None
    first, second = plane.axes
    cell = float((first.x[1] - first.x[0]) * (second.x[1] - second.x[0]))
    return np.asarray(plane.states[_shown(result)] ** 2 / cell)


PLANE: tuple[Quantity[QuantumResult], ...] = (
    Quantity(
        "energies", "hartree", "levels of H0", _plane(lambda p: p.energies), ("level",), when=_has_plane
    ),
    Quantity(
        "energies_error",
        "hartree",
        "claimed error of each level",
        _plane(lambda p: p.errors),
        ("level",),
        when=_has_plane,
    ),
    Quantity("x", "bohr", "points of x", _plane(lambda p: p.axes[0].x), ("x",), when=_has_plane),
    Quantity("y", "bohr", "points of y", _plane(lambda p: p.axes[1].x), ("y",), when=_has_plane),
    Quantity(
        "potential",
        "hartree",
        "potential energy",
        _plane(lambda p: p.potential),
        ("x", "y"),
        when=_has_plane,
    ),
    Quantity("level_shown", "", "level whose density is kept", _shown, ("level_shown",), when=_has_plane),
    Quantity(
        "densities",
        "1/bohr^2",
        "probability density of a level, |psi|^2",
        _densities,
        ("level_shown", "x", "y"),
        when=_has_plane,
    ),
)
