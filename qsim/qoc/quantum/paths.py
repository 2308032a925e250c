"""Record the columns of a run on their way: the value of the goal, Bloch vectors of parts, and free motion after T."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.models.quantum import GateTarget

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from qsim.core.device.arrays import ComplexArray, FloatArray
    from qsim.qoc.objectives.slots import SlotObjective
    from qsim.qoc.quantum.outcome import Outcome
    from qsim.qoc.quantum.problem import QuantumProblem

# Times at which the goal is evaluated; longer paths are left out.
MOST_TIMES = 20_000
# Bytes of columns up to which they are propagated once more.
MOST_BYTES = 3e8
# Of an operator, by its largest element: what its Hermitian part may leave.
HERMITIAN = 1e-12
# Times of the free motion after T, enough for the fast beats of J = 20 in one revival.
FREE_TIMES = 601


@dataclass(frozen=True)
class Paths:
    """Curves over time.

    Attributes
    ----------
    bloch : dict of (n, 3) float64
        Means of sx, sy, sz in the two lowest levels of each part with levels 0, 1, ..., by its name.
    goal : (n,) float64 or None
        Value of the goal at the end of slots; None for gates, which have none before T.
    free_time, free_goal : (m,) float64 or None
        Times from T on, and the value of the goal without controls; None but for rotors, whose motion comes back.
    observed : dict of (n + 1,) float64 or complex128
        Mean values of observables by name, the first one at t = 0; complex where the operator is not Hermitian.
    rho_at : (m, D, D) complex128 or None
        Mean density matrices at the chosen times.
    psi_at : (m, D) complex128 or None
        Kets at the chosen times, where there is one.
    """

    bloch: dict[str, FloatArray] = field(default_factory=dict)
    goal: FloatArray | None = None
    free_time: FloatArray | None = None
    free_goal: FloatArray | None = None
    observed: dict[str, FloatArray | ComplexArray] = field(default_factory=dict)
    rho_at: ComplexArray | None = None
    psi_at: ComplexArray | None = None


def paths_of(problem: QuantumProblem, fields: FloatArray, stride: int, outcome: Outcome) -> Paths:
    """Return the curves of a run; none where they would take more memory than the run.

    Parameters
    ----------
    problem
        Problem of the run.
    fields : (C, N) float64
        Controls.
    stride : int
        Slots from one time to the next.
    outcome : Outcome
        Of the final controls, with the density matrices on the way.
    """
    made = _curves_of(problem, fields, stride, outcome)
    objective = problem.finish or problem.objective
    times = problem.states_at
    if times is None or not times.size or objective.lossy:
        return made
    columns = _columns_at(objective, fields, times)
    alone = not objective.lindblad and objective.start.shape[1] == 1
    rho_at = np.array([objective.density(x) for x in columns])
    return replace(made, rho_at=rho_at, psi_at=np.array([x[:, 0] for x in columns]) if alone else None)


def _columns_at(objective: SlotObjective, fields: FloatArray, times: FloatArray) -> list[ComplexArray]:
    """Return the columns at times (m,), which may lie within slots."""
    slots, order = objective.propagator, np.argsort(times, kind="stable")
    factors = fields ** slots.powers[:, None]
    edges = slots.tau * np.arange(1.0, fields.shape[1])
    x, before = objective.start, 0.0
    found: dict[int, ComplexArray] = {}
    for number in order:
        inner = edges[(edges > before) & (edges < times[number])]
        ends = np.concatenate([[before], inner, [times[number]]])
        if times[number] > before:
            middle = 0.5 * (ends[1:] + ends[:-1])
            slot = np.minimum((middle / slots.tau).astype(np.int64), fields.shape[1] - 1)
            x, _ = slots.unequal(np.diff(ends), np.ascontiguousarray(factors[:, slot]), x)
            before = float(times[number])
        found[int(number)] = x
    return [found[k] for k in range(times.size)]


def _curves_of(problem: QuantumProblem, fields: FloatArray, stride: int, outcome: Outcome) -> Paths:
    """Return the curves over all slots."""
    objective = problem.finish or problem.objective
    start, weights = objective.start, objective.shown_weights()
    goals = [one.goal for _, one in problem.model.each()]
    is_gate = any(isinstance(goal, GateTarget) for goal in goals)
    # Density matrices add up: of a gate, or of one goal, the one that is shown is enough.
    if objective.lindblad and (start.shape[1] == 1 or (is_gate and len(goals) == 1)):
        start, weights = (start @ weights)[:, None], np.ones(1)
    if 16.0 * start.size * fields.shape[1] > MOST_BYTES:
        return Paths()
    if outcome.path is not None and start.shape[1] == 1:
        columns, final = outcome.path[:, :, None], outcome.path[-1][:, None]
    else:
        # The columns at the start of slots, less the first, and those at T are the ends of all slots.
        final, trajectory = objective.propagator.forward(fields, start)
        columns = np.concatenate([trajectory.at_slots()[1:], final[None]])
    columns, cost = columns[stride - 1 :: stride], objective.cost
    goal = free_time = free_goal = None
    # Kets that lose what jumps have a part of the value alone.
    if not is_gate and not objective.lossy and len(columns) <= MOST_TIMES:
        goal = cost.values(columns)
        if problem.model.revival is not None and not objective.lindblad:
            after = np.linspace(0.0, problem.model.revival, FREE_TIMES)
            energies = problem.model.drift.diagonal().real[:, None]
            free_goal = cost.values(np.exp(-1j * energies * after[:, None, None]) * final)
            free_time = problem.duration + after
    curves: dict[str, FloatArray | ComplexArray] = {}
    if not objective.lossy:
        whole = np.concatenate([start[None], columns])
        curves = {
            name: _means(whole, weights, operator, objective.lindblad)
            for name, operator in problem.observed.items()
        }
    reduced = _reduced_density if objective.lindblad else _reduced_kets
    bloch = {
        name: _vector(reduced(columns, weights, problem.model.shape, place))
        for name, place in problem.model.spins
    }
    return Paths(bloch, goal, free_time, free_goal, curves)


def _means(
    columns: ComplexArray, weights: FloatArray, operator: csr_array, lindblad: bool
) -> FloatArray | ComplexArray:
    """Return the mean value (n,) of an observable in the weighted sum of columns (n, rows, S)."""
    size = operator.shape[0]
    if lindblad:
        # Tr(O rho), of density matrices written row by row
        rho = (columns @ weights).reshape(len(columns), size * size)
        found = np.asarray(rho @ operator.T.toarray().ravel())
    else:
        # all times beside each other, for one product
        rows = np.moveaxis(columns, 0, 1)
        moved = (operator @ rows.reshape(size, -1)).reshape(rows.shape)
        found = np.asarray(np.einsum("ins,ins,s->n", rows.conj(), moved, weights))
    off = abs(operator - operator.conj().T)
    return found if off.max() > HERMITIAN * abs(operator).max() else np.asarray(found.real)


def _reduced_kets(
    columns: ComplexArray, weights: FloatArray, shape: tuple[int, ...], place: int
) -> ComplexArray:
    """Return the density matrix (n, 2, 2) of the two lowest levels of a part, the others traced out."""
    before, after = int(np.prod(shape[:place])), int(np.prod(shape[place + 1 :]))
    # Axes: time, parts before, the part, parts after, column. In a basis state the last part is fastest.
    psi = columns.reshape(len(columns), before, shape[place], after, -1)[:, :, :2]
    return np.asarray(np.einsum("nabcs,nadcs,s->nbd", psi, psi.conj(), weights, optimize=True))


def _reduced_density(
    columns: ComplexArray, weights: FloatArray, shape: tuple[int, ...], place: int
) -> ComplexArray:
    """Return the same of density matrices as columns (n, D^2, S)."""
    before, after = int(np.prod(shape[:place])), int(np.prod(shape[place + 1 :]))
    size = shape[place]
    # A density matrix is written row by row: the first three axes are its row, the others its column.
    # Repeated letters of the sum are the trace over all other parts.
    rho = (columns @ weights).reshape(len(columns), before, size, after, before, size, after)
    return np.asarray(np.einsum("nabcadc->nbd", rho[:, :, :2, :, :, :2]))


def _vector(rho: ComplexArray) -> FloatArray:
    """Return the Bloch vectors (n, 3): ``2 Re rho_10, 2 Im rho_10, rho_00 - rho_11``."""
    coherence = 2.0 * rho[:, 1, 0]
    return np.stack([coherence.real, coherence.imag, (rho[:, 0, 0] - rho[:, 1, 1]).real], axis=1)
