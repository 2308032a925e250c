"""What no controls within their bounds can pass: the Mandelstam-Tamm bound of a closed system."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.models.quantum import StateTarget

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.qoc.quantum.problem import QuantumProblem

__all__ = ["most_probable"]

# Levels up to which spectra are found by a dense diagonalisation.
DENSE = 2000


def most_probable(problem: QuantumProblem) -> float | None:
    """Return a bound of P that no controls can pass in the time T; None where none is known.

    A state turns by the angle ``integral Delta H dt`` at most (Mandelstam, Tamm, J. Phys. (USSR) 9, 249 (1945)), and Delta H is
    at most half the spread of the spectrum: ``s_0/2 + sum_c |u_c|^p s_c/2``. So ``P <= cos^2(max(0, theta_0 - angle))`` with
    theta_0 the angle between start and target space. The controls enter by their bounds, or by
    ``integral sum_c s_c |u_c| dt <= sqrt(T F sum_c s_c^2)`` with the largest fluence F.
    """
    model, goal = problem.model, problem.model.goal
    if problem.objective.lindblad or model.jumps or model.dimension > DENSE:
        return None
    if not isinstance(goal, StateTarget) or goal.coherent:
        return None
    angle = 0.5 * problem.duration * _spread(model.drift) + _driven(problem)
    count = model.weights.size
    vectors = list(goal.vectors) if len(goal.vectors) == count else [goal.vectors[0]] * count
    bounds = []
    for start, wanted in zip(model.states.T, vectors, strict=True):
        overlap = min(1.0, float(np.linalg.norm(wanted.conj() @ start)))
        bounds.append(np.cos(max(0.0, np.arccos(overlap) - angle)) ** 2)
    return float(np.dot(model.weights, bounds))


def _driven(problem: QuantumProblem) -> float:
    """Return a bound of ``integral sum_c |u_c|^p s_c/2 dt``; infinite without bounds."""
    spreads = np.array([_spread(c.operator) for c in problem.model.controls])
    powers = np.array([c.power for c in problem.model.controls])
    controls = problem.controls
    tau = problem.duration / problem.times.size
    largest = np.maximum(controls.high, -controls.low)
    for pair in controls.pairs:
        largest[pair.rows] = np.minimum(largest[pair.rows], pair.bound)
    fixed = np.array([line.fixed is not None for line in controls.lines])
    # what is fixed is known, up to what its slots leave
    for row, line in zip(largest, controls.lines, strict=True):
        if line.fixed is not None:
            row[:] = np.abs(line.fixed)
    integrals = 0.5 * tau * spreads * np.sum(largest ** powers[:, None], axis=1)
    driven = np.where(spreads > 0.0, integrals, 0.0)
    total = float(np.sum(driven))
    free = ~fixed
    if controls.most is not None and np.all(powers[free] == 1):
        known = float(np.sum(driven[fixed]))
        by_fluence = 0.5 * np.sqrt(problem.duration * controls.most * np.sum(spreads[free] ** 2))
        total = min(total, known + float(by_fluence))
    return total


def _spread(operator: csr_array) -> float:
    """Return the largest minus the smallest eigenvalue of a Hermitian matrix."""
    if operator.nnz == 0:
        return 0.0
    levels: NDArray[np.float64] = np.linalg.eigvalsh(operator.toarray())
    return float(levels[-1] - levels[0])
