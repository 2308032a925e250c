"""What the final controls do: the value, the state at T, and how much of it had jumps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.objectives.jumps import expand
from qsim.qoc.quantum.dissipation import first_order_fits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.objectives.jumps import Expansion
    from qsim.qoc.quantum.problem import QuantumProblem

__all__ = ["Outcome", "expansion_of", "outcome_of"]


@dataclass(frozen=True)
class Outcome:
    """Final propagation of the controls.

    Attributes
    ----------
    value : float
        P; of a search without jumps by the Lindbladian, or the middle of the interval that one jump and more leave.
    final : (D, S) or (D^2, S) complex128
        Columns of the search at T.
    density : (D, D) complex128
        Mean density matrix at T, of trace 1 (less what was left out of a mixture).
    populations : (N, D) float64
        At the end of each slot.
    expansion : Expansion or None
        Of a search without jumps.
    """

    value: float
    final: ComplexArray
    density: ComplexArray
    populations: NDArray[np.float64]
    expansion: Expansion | None


def expansion_of(problem: QuantumProblem, fields: NDArray[np.float64]) -> Expansion:
    """Return the expansion in jumps; order 0 alone where order 1 takes too long."""
    searched = problem.objective
    first = first_order_fits(problem.model, problem.duration, fields)
    return expand(
        problem.model, searched.cost, searched.mean_weights(), problem.duration, fields, first_order=first
    )


def outcome_of(problem: QuantumProblem, fields: NDArray[np.float64]) -> Outcome:
    """Propagate the final controls (C, N)."""
    searched, finish = problem.objective, problem.finish
    final, populations = searched.look(fields)
    plain = Outcome(searched.cost.value(final), final, searched.density(final), populations, None)
    if not searched.lossy:
        return plain
    expansion = expansion_of(problem, fields)
    if finish is None:
        density = expansion.density
        trace = float(np.trace(density).real)
        whole = float(searched.mean_weights().sum())
        return replace(plain, value=expansion.middle, density=density * (whole / trace), expansion=expansion)
    columns, populations = finish.look(fields)
    return Outcome(finish.cost.value(columns), final, finish.density(columns), populations, expansion)
