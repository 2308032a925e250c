"""Evaluate the final controls: the value, the state at T, and how much of it had jumps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.models.quantum import GateTarget
from qsim.qoc.objectives.costs import Several, cost_of, is_quadratic
from qsim.qoc.objectives.jumps import budget, expand
from qsim.qoc.objectives.unravelling import Unravelling
from qsim.qoc.quantum.open.dissipation import first_order_fits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.objectives.cost import Cost
    from qsim.qoc.objectives.jumps import Expansion
    from qsim.qoc.objectives.slots import SlotObjective
    from qsim.qoc.quantum.problem import QuantumProblem

# Bytes of the density matrices on the way that are kept for curves.
MOST_BYTES = 3e8
# Streams of the times of jumps: 0 is that of the search.
OTHER_NOISE = 1


@dataclass(frozen=True)
class Budget:
    """Contributions to a value below 1.

    Attributes
    ----------
    coherent : float
        The value without jumps.
    taken : (K,) float64
        What each jump takes from it, to first order in its rate.
    """

    coherent: float
    taken: NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """Final propagation of the controls.

    Attributes
    ----------
    value : float
        P; of a search without jumps by the Lindbladian, or the middle of the interval that one jump and more leave.
    cost : Cost
        Of the columns that the value is of; phases that were free are those found.
    phases : (k,) float64 or None
        Of gates with free phases.
    charges : float
        What J has less than the value, beside the fluence.
    final : (D, S) or (D^2, S) complex128
        Columns of the search at T.
    density : (D, D) complex128
        Mean density matrix at T, of trace 1 (less what was left out of a mixture).
    populations : (N, D) float64
        At the end of each slot.
    seepage : float or None
        Of a gate: what comes back into the logical space from the mean of all other states.
    expansion : Expansion or None
        Of a search without jumps.
    sampling : float or None
        Standard error of sampled histories.
    budget : Budget or None
        What each jump takes from the value.
    goals : (G,) float64 or None
        The value of each of several goals; None for one goal, and where a part of them is known by an interval alone.
    path : (N, D^2) complex128 or None
        Density matrix that is shown, at the end of each slot, row by row; None of kets, and where it is large.
    """

    value: float
    cost: Cost
    phases: NDArray[np.float64] | None
    charges: float
    final: ComplexArray
    density: ComplexArray
    populations: NDArray[np.float64]
    seepage: float | None
    expansion: Expansion | None
    sampling: float | None = None
    budget: Budget | None = None
    goals: NDArray[np.float64] | None = None
    path: ComplexArray | None = None

    @property
    def after_jumps(self) -> float | None:
        """Mean value of the histories with jumps, 0 to 1, where the Lindbladian tells it; None without an expansion."""
        if self.expansion is None or self.expansion.most > 1.0 or self.expansion.least < 0.0:
            return None
        share = (self.value - self.expansion.zero) / max(1.0 - self.expansion.jump_free, 1e-300)
        return min(max(share, 0.0), 1.0)


def expansion_of(problem: QuantumProblem, fields: NDArray[np.float64]) -> Expansion:
    """Return the expansion in jumps; order 0 alone where order 1 takes too long."""
    searched = problem.objective
    first = first_order_fits(problem.model, problem.duration, fields)
    return expand(
        problem.model, searched.cost, searched.mean_weights(), problem.duration, fields, first_order=first
    )


def outcome_of(problem: QuantumProblem, fields: NDArray[np.float64]) -> Outcome:
    """Propagate the final controls (C, N)."""
    return replace(_propagated(problem, fields), budget=_budget(problem, fields))


def _budget(problem: QuantumProblem, fields: NDArray[np.float64]) -> Budget | None:
    """Return what each jump takes from a probability or fidelity; None without jumps, or where it takes long."""
    made = problem.model
    if problem.dissipation.search == "closed" or made.measured:
        return None
    if not is_quadratic(made) or not first_order_fits(made, problem.duration, fields):
        return None
    # The budget is of kets, whatever the search carried: first order needs no density matrix.
    _, cost = cost_of(made, lindblad=False)
    return Budget(*budget(made, cost, problem.duration, fields))


def _propagated(problem: QuantumProblem, fields: NDArray[np.float64]) -> Outcome:
    """Return the value and the state at T."""
    searched, finish = problem.objective, problem.finish
    if isinstance(searched, Unravelling):
        return _sampled(searched, fields)
    final, populations, path, seepage = _looked_at(searched, fields)
    cost, phases = _at_best_phases(searched.cost, final)
    made = Outcome(
        value=cost.value(final),
        cost=cost,
        phases=phases,
        charges=_charges(searched, fields),
        final=final,
        density=searched.density(final),
        populations=populations,
        seepage=None if searched.by_order else seepage,
        expansion=None,
        path=path,
        goals=None if searched.by_order else _goals(cost, final),
    )
    # A closed system has no jumps, and density matrices have them in the value already.
    if not searched.by_order:
        return made
    # Members of an ensemble end with the Lindbladian, so their nominal system does.
    expansion = None if problem.ensemble is not None else expansion_of(problem, fields)
    if finish is None:
        assert expansion is not None
        density = expansion.density
        whole = float(searched.mean_weights().sum())
        # Two jumps or more are missing from the trace; the rest is taken to be like what is known.
        density = density * (whole / float(np.trace(density).real))
        return replace(made, value=expansion.middle, density=density, expansion=expansion)
    columns, populations, path, seepage = _looked_at(finish, fields)
    # the phases of order 0, as the interval has them
    whole_cost = finish.cost if phases is None else finish.cost.at(phases)
    return replace(
        made,
        value=whole_cost.value(columns),
        cost=whole_cost,
        density=finish.density(columns),
        populations=populations,
        seepage=seepage,
        expansion=expansion,
        path=path,
        goals=_goals(whole_cost, columns),
    )


def _sampled(searched: Unravelling, fields: NDArray[np.float64]) -> Outcome:
    """Return the estimate with times of jumps that the search has not seen."""
    found = searched.sampled(fields, OTHER_NOISE)
    final = searched.propagator.final(fields, searched.start)
    whole = float(searched.mean_weights().sum())
    return Outcome(
        value=found.value,
        cost=searched.cost,
        phases=None,
        charges=0.0,
        final=final,
        density=found.density * (whole / float(np.trace(found.density).real)),
        populations=found.populations,
        seepage=None,
        expansion=None,
        sampling=found.error,
    )


def _at_best_phases(cost: Cost, final: ComplexArray) -> tuple[Cost, NDArray[np.float64] | None]:
    """Return the cost with the phases that are best for columns, and these."""
    if not cost.free:
        return cost, None
    phases = cost.phases(final)
    return cost.at(phases), phases


def _goals(cost: Cost, final: ComplexArray) -> NDArray[np.float64] | None:
    """Return the value of each of several goals."""
    return cost.parts(final) if isinstance(cost, Several) else None


def _charges(searched: SlotObjective, fields: NDArray[np.float64]) -> float:
    """Return what the objective subtracts from the value, beside the fluence."""
    if searched.terms.empty:
        return 0.0
    final, trajectory = searched.propagator.forward(fields, searched.start)
    return searched.charges(final, trajectory)[0]


def _looked_at(
    shown: SlotObjective, fields: NDArray[np.float64]
) -> tuple[ComplexArray, NDArray[np.float64], ComplexArray | None, float | None]:
    """Return the columns at T, the populations, the density matrices on the way, and the seepage.

    Seepage is ``Tr V V+ E((1 - V V+)/(D - d))``; None where there is nothing but logical states, or no gate.
    """
    goal, size = shown.model.goal, shown.model.dimension
    gate = goal if isinstance(goal, GateTarget) and goal.columns.shape[1] < size else None
    if not shown.lindblad:
        final, populations = shown.look(fields)
        if gate is None:
            return final, populations, None, None
        # what has left makes room for as much: unitary maps keep the trace of V V+
        logical = gate.columns.shape[1]
        back = float(logical - np.linalg.norm(gate.columns.conj().T @ final) ** 2)
        return final, populations, None, back / (size - logical)
    inside = np.zeros((size, size), complex)
    outside = None
    if gate is not None:
        inside = np.asarray(gate.columns @ gate.columns.conj().T)
        # One column, the mean of all states outside, written row by row.
        mean = (np.eye(size) - inside).reshape(-1, 1) / (size - gate.columns.shape[1])
        outside = np.asarray(mean, complex)
    final, path, others = shown.passed(fields, outside)
    populations = np.ascontiguousarray(path[:, :: size + 1].real)
    kept = path if path.nbytes <= MOST_BYTES else None
    seepage = None if gate is None else float(np.vdot(inside.ravel(), others[:, 0]).real)
    return final, populations, kept, seepage
