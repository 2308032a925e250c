"""Expansion of an open system in the number of its jumps, with a rigorous interval (Eqs. Q18 to Q20).

``rho = rho_0 + rho_1 + ...`` by the number of jumps, every term positive, traces adding to that of the start. Order 0 are kets
under ``H - i sum_k L_k+ L_k/2``. Order 1 is ``sum_k int ds K_k(s) rho(0) K_k(s)+``, ``K_k(s) = U(T, s) L_k U(s, 0)``: kets X(s)
that go forward, and ``Y(s) = U(T, s)+`` that comes back, without any further propagation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.models.quantum import FunctionalTarget, ObservableTarget
from qsim.qoc.objectives.cost import range_of
from qsim.qoc.propagators.slots import Motion, Slots, row_and_column_norm, total_rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.objectives.cost import Cost
    from qsim.qoc.propagators.slots import Trajectory

# Bytes of the propagators Y(s) that are kept at a time: they stay in the cache.
SEGMENT_BYTES = 6e6
# Equal parts of a panel: Boole's rule, with Simpson's on every second point.
PANEL = 4
BOOLE = np.array([7.0, 32.0, 12.0, 32.0, 7.0]) / 90.0
SIMPSON = np.array([1.0, 0.0, 4.0, 0.0, 1.0]) / 6.0


@dataclass(frozen=True)
class Expansion:
    """Orders 0 and 1 of a value, and what all higher ones can add.

    Attributes
    ----------
    zero, one : float
        Contributions of no jump and of one jump to the value.
    jump_free, one_jump : float
        Probabilities p_0 and p_1 of these histories.
    rest : float
        Bound of the probability of two jumps or more.
    quadrature : float
        Error of the integral over the time of the jump, in the value.
    least, most : float
        Range of the value per probability: 0 and 1 for probabilities and fidelities, the extreme eigenvalues of an observable.
    density : (D, D) complex128
        ``rho_0 + rho_1`` at T.
    """

    zero: float
    one: float
    jump_free: float
    one_jump: float
    rest: float
    quadrature: float
    least: float
    most: float
    density: ComplexArray

    @property
    def lower(self) -> float:
        """Rigorous lower end of the value."""
        return self.zero + self.one - self.quadrature + min(0.0, self.least) * self.rest

    @property
    def upper(self) -> float:
        """Rigorous upper end of the value."""
        return self.zero + self.one + self.quadrature + max(0.0, self.most) * self.rest

    @property
    def middle(self) -> float:
        """Middle of the interval."""
        return 0.5 * (self.lower + self.upper)

    @property
    def half_width(self) -> float:
        """Half of the length of the interval."""
        return 0.5 * (self.upper - self.lower)


def jump_free(columns: ComplexArray, weights: NDArray[np.float64]) -> float:
    """Return p_0, the probability of no jump, from lossy columns (D, S) at T."""
    return float(np.sum(np.abs(columns) ** 2, axis=0) @ weights)


def extremes(model: QuantumModel) -> tuple[float, float]:
    """Return the least and the largest value of any goal: 0 and 1, or the eigenvalues of an observable."""
    least, most = math.inf, -math.inf
    for _, one in model.each():
        low, high = 0.0, 1.0
        if isinstance(one.goal, ObservableTarget):
            values = np.linalg.eigvalsh(one.goal.operator.toarray())
            low, high = float(values[0]), float(values[-1])
        elif isinstance(one.goal, FunctionalTarget):
            low, high, _ = range_of(one.goal)
        least, most = min(least, low), max(most, high)
    return least, most


def largest(model: QuantumModel) -> float:
    """Return the largest value that the goal, or the weighted sum of several, can have."""
    return sum(weight * extremes(one)[1] for weight, one in model.each())


def expand(
    model: QuantumModel,
    cost: Cost,
    weights: NDArray[np.float64],
    duration: float,
    fields: NDArray[np.float64],
    *,
    first_order: bool = True,
) -> Expansion:
    """Return orders 0 and 1 of a quadratic cost.

    Parameters
    ----------
    model : QuantumModel
    cost : Cost
        Of lossy kets, quadratic: a sum over histories is the sum of their values.
    weights : (S,) float64
        Of the columns in the mean state.
    duration : float
        T.
    fields : (C, N) float64
        Controls.
    first_order : bool
        False: all that jumps counts as unknown.
    """
    slots = fields.shape[1]
    kets = Slots(model, Motion(duration, slots, lossy=True))
    final, trajectory = kets.forward(fields, model.states)
    # phases that are free are those of order 0
    cost = cost.frozen(final)
    sums = _FirstOrder(model, cost, weights)
    if not first_order:
        return _collected(model, cost, weights, duration, final, sums)
    for x, y, step in _paths(kets, model, fields, trajectory):
        sums.add(x, y, step)
        del x, y
    return _collected(model, cost, weights, duration, final, sums)


def _paths(
    kets: Slots, model: QuantumModel, fields: NDArray[np.float64], trajectory: Trajectory
) -> Iterator[tuple[ComplexArray, ComplexArray, float]]:
    """Yield X (n + 1, D, S) and ``Y = U(T, s)+`` (n + 1, D, D) at equidistant times, and their distance, from the end.

    Four parts of a slot, or a multiple, so that a panel lies within a slot.
    """
    slots = fields.shape[1]
    parts = PANEL * math.ceil(trajectory.parts / PANEL)
    back = Slots(model, kets.motion, adjoint=True)
    starts = trajectory.at_slots()
    y = np.eye(model.dimension, dtype=complex)
    at_once = max(1, int(SEGMENT_BYTES / (32.0 * y.size * parts)))
    for last in range(slots, 0, -at_once):
        first = max(0, last - at_once)
        piece = np.ascontiguousarray(fields[:, first:last])
        x_end, x_path = kets.forward(piece, starts[first], parts)
        y_start, y_path = back.forward(np.ascontiguousarray(piece[:, ::-1]), y, parts)
        # paths have no phase of the shift, and so must their ends
        x_end, y_start = x_end * kets.turn(last - first), y_start * back.turn(last - first)
        x = np.concatenate([x_path.at_parts(), x_end[None]])
        # Y at the end of the segment first
        backwards = np.concatenate([y_path.at_parts(), y_start[None]])[::-1]
        yield x, backwards, kets.tau / parts
        # the next segment takes the room of this one
        del x, backwards, x_path, y_path
        y = y_start


def path_bytes(levels: int, parts: int, slots: int) -> int:
    """Return the bytes that `_paths` holds at a time: numbers of the kernels, and complex ones while they are put in order."""
    whole = 32 * levels**2 * PANEL * math.ceil(parts / PANEL) * slots
    return 5 * min(whole, int(SEGMENT_BYTES)) // 2


def budget(
    model: QuantumModel, cost: Cost, duration: float, fields: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Return the value without jumps, and what each jump takes from it to first order in its rate (Eq. Q27).

    ``-dP/dg_k`` at g = 0, where every L_k is multiplied by ``sqrt(g_k)``: what no longer arrives because it may jump, less what
    arrives after one jump, ``int ds (Re <D|Y+ L+ L X> - cost(Y+ L X))`` with D = dP/dX* at T.

    Parameters
    ----------
    cost : Cost
        Of kets, quadratic.

    Returns
    -------
    float, (K,) float64
    """
    kets = Slots(model, Motion(duration, fields.shape[1]))
    final, trajectory = kets.forward(fields, model.states)
    cost = cost.frozen(final)
    # in the frame of the paths, which have no phase of the shift
    wanted = cost.derivative(final * kets.turn(fields.shape[1]))
    taken = np.zeros(len(model.jumps))
    for x, y, step in _paths(kets, model, fields, trajectory):
        taken += [_taken(jump.operator, cost, wanted, (x, y), step) for jump in model.jumps]
        del x, y
    return cost.value(final), taken


def _taken(
    jump: csr_array,
    cost: Cost,
    wanted: ComplexArray,
    paths: tuple[ComplexArray, ComplexArray],
    step: float,
) -> float:
    """Return what a jump takes in one segment, from X (n + 1, D, S) and Y (n + 1, D, D); `wanted` is D (Eq. Q27)."""
    x, y = paths
    rows, jumped = _jumped(jump, x)
    # <D|Y+ L+ L X> = <L Y D|L X>
    seen = _jumped(jump, y @ wanted)[1]
    gone = np.sum(seen.conj() * jumped, axis=(1, 2)).real
    return _integral(gone - cost.values(_arrived(y, rows, jumped)), step)[0]


def _jumped(jump: csr_array, x: ComplexArray) -> tuple[NDArray[np.intp], ComplexArray]:
    """Return the rows that a jump fills, few for a jump between two levels, and these of L X (n, rows, S)."""
    rows = np.flatnonzero(np.diff(jump.indptr))
    flat = x.transpose(1, 0, 2).reshape(x.shape[1], -1)
    return rows, (jump[rows] @ flat).reshape(rows.size, len(x), x.shape[2]).transpose(1, 0, 2)


def _arrived(y: ComplexArray, rows: NDArray[np.intp], jumped: ComplexArray) -> ComplexArray:
    """Return Y+ L X (n, D, S), what one jump at each of the times makes of the start (Eq. Q18), from the rows of L X."""
    return np.asarray(y[:, rows].conj().transpose(0, 2, 1) @ jumped)


def _collected(
    model: QuantumModel,
    cost: Cost,
    weights: NDArray[np.float64],
    duration: float,
    final: ComplexArray,
    sums: _FirstOrder,
) -> Expansion:
    """Return the expansion from its integrals."""
    total, none = float(weights.sum()), jump_free(final, weights)
    # what is left of the trace
    rest = max(0.0, total - none - sums.chance) + sums.chance_error
    if sums.chance > 0.0:
        # and another jump follows the first with at most the largest rate
        rest = min(rest, (total - none) * -math.expm1(-duration * row_and_column_norm(total_rate(model))))
    least, most = extremes(model)
    return Expansion(
        zero=cost.value(final),
        one=sums.value,
        jump_free=none,
        one_jump=sums.chance,
        rest=rest,
        quadrature=sums.value_error,
        least=least,
        most=most,
        density=(final * weights) @ final.conj().T + sums.density,
    )


class _FirstOrder:
    """Integrals over the time of one jump, panel by panel."""

    def __init__(self, model: QuantumModel, cost: Cost, weights: NDArray[np.float64]) -> None:
        self.jumps = [jump.operator for jump in model.jumps]
        self.cost, self.weights = cost, weights
        self.value = self.value_error = 0.0
        self.chance = self.chance_error = 0.0
        self.density = np.zeros((model.dimension, model.dimension), complex)

    def add(self, x: ComplexArray, y: ComplexArray, step: float) -> None:
        """Add the integral over X (n + 1, D, S) and Y (n + 1, D, D) at equidistant times."""
        count, size = x.shape[:2]
        values, chances = np.zeros(count), np.zeros(count)
        nodes = step * PANEL * _weights(BOOLE, count)
        for jump in self.jumps:
            # Y+ is U(T, s), which carries what has jumped at s to the end
            made = _arrived(y, *_jumped(jump, x))
            values += self.cost.values(made)
            chances += np.sum(np.abs(made) ** 2, axis=1) @ self.weights
            weighted = (made * (nodes[:, None, None] * self.weights)).transpose(1, 0, 2).reshape(size, -1)
            self.density += weighted @ made.transpose(1, 0, 2).reshape(size, -1).conj().T
        value, error = _integral(values, step)
        self.value, self.value_error = self.value + value, self.value_error + error
        chance, error = _integral(chances, step)
        self.chance, self.chance_error = self.chance + chance, self.chance_error + error


def _weights(rule: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the weights (count,) of a composite rule, in panels."""
    nodes = np.zeros(count)
    for k, w in enumerate(rule):
        nodes[k : k + count - PANEL : PANEL] += w
    return nodes


def _integral(values: NDArray[np.float64], step: float) -> tuple[float, float]:
    """Return Boole's integral, and the sum over the panels of its distance from Simpson's."""
    panels = np.stack([values[k : k + values.size - PANEL : PANEL] for k in range(PANEL + 1)], axis=1)
    better, worse = panels @ BOOLE, panels @ SIMPSON
    width = PANEL * step
    return width * float(better.sum()), width * float(np.abs(better - worse).sum())
