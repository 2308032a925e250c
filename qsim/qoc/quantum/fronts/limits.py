"""Bound the values that controls of a front can reach: before the search, and by a largest fluence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.models.quantum import GateTarget, StateTarget
from qsim.qoc.objectives.bounds import after_turning

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.qoc.quantum.problem import QuantumProblem

# Levels up to which spectra are found by a dense diagonalisation.
DENSE = 1000


def most_probable(problem: QuantumProblem) -> float | None:
    """Return a bound of the value that no controls can pass; None where none is known."""
    if problem.ensemble is not None:
        # members have bounds of their own
        return None
    limits = problem.limits
    bounds = (limits.connection, limits.mixture, limits.speed, _by_fluence(problem))
    known = [b for b in bounds if b is not None]
    return min(known) if known else None


def _by_fluence(problem: QuantumProblem) -> float | None:
    """Return the largest value that controls of a largest fluence F reach in the time T.

    A state turns by ``integral Delta H dt`` at most (Eq. Q22), and Delta H by at most half the width s of the spectrum:
    ``s_0/2 + sum_c |u_c| s_c/2``, where ``integral sum_c s_c |u_c| dt <= sqrt(T F sum_c s_c^2)`` of the free controls.
    """
    model, controls = problem.model, problem.controls
    powers = np.array([c.power for c in model.controls])
    free = np.array([line.fixed is None for line in controls.lines])
    goal = model.goal
    # The bound is linear in |u| and of fixed targets: squares and free local phases have none.
    plain = isinstance(goal, StateTarget) or (isinstance(goal, GateTarget) and goal.free_phases != "local")
    if controls.most is None or not plain or np.any(powers[free] != 1):
        return None
    if problem.dissipation.search != "closed" or model.dimension > DENSE:
        return None
    widths = np.array([_width(c.operator) for c in model.controls])
    # Three parts of the angle: the drift, the known controls, and the free ones by their fluence.
    turned = 0.5 * problem.duration * _width(model.drift)
    tau = problem.duration / problem.times.size
    for line, width, power in zip(controls.lines, widths, powers, strict=True):
        if line.fixed is not None:
            turned += 0.5 * width * tau * float(np.sum(np.abs(line.fixed) ** power))
    # The inequality of Cauchy and Schwarz, in time and over the controls.
    turned += 0.5 * float(np.sqrt(problem.duration * controls.most * np.sum(widths[free] ** 2)))
    return after_turning(model, turned)


def _width(operator: csr_array) -> float:
    """Return the largest minus the smallest eigenvalue of a Hermitian matrix."""
    levels: NDArray[np.float64] = np.linalg.eigvalsh(operator.toarray())
    return float(levels[-1] - levels[0])
