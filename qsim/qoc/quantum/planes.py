"""Two coordinates beyond their levels: P by a split operator on the grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.qoc.models.plane.motion import GridMotion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qsim.qoc.quantum.problem import QuantumProblem

__all__ = ["grid_value"]

# Points times steps times columns on the grid: a minute of one core.
MOST_PRODUCTS = 2e8


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
    # the grid knows no jumps
    if plane is None or objective.lindblad or objective.lossy:
        return None
    motion = GridMotion(plane, [c.name for c in problem.model.controls])
    # Steps per slot that keep the phases of the largest kinetic energies small.
    steps = motion.least_steps(objective.tau)
    points = plane.potential.size * objective.start.shape[1]
    # Two runs follow, with one and two times these steps: three parts in all.
    if 3.0 * steps * fields.shape[1] * points > MOST_PRODUCTS:
        return None
    coarse, fine = (
        objective.cost.value(motion.amplitudes(objective.start, fields, objective.tau, number * steps))
        for number in (1, 2)
    )
    # Order 4: the error of half the step is a fifteenth of the change; a third is claimed, as steps may be long.
    return fine, abs(fine - coarse) / 3.0
