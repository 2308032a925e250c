"""Costs of final columns X (D, S), each with its derivative: ``dJ = 2 Re sum conj(dJ/dX*) dX``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qoc.models.quantum import DensityTarget, GateTarget, ObservableTarget, StateTarget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray as Columns
    from qsim.qoc.models.quantum import QuantumModel

__all__ = [
    "Cost",
    "GateCost",
    "Linear",
    "Mean",
    "Overlap",
    "column_count",
    "cost_of",
    "hermitian_units",
    "is_quadratic",
]

# Purity below which a density matrix is no state.
PURE = 1.0 - 1e-9


class Cost(ABC):
    """A real function of the final columns."""

    @abstractmethod
    def value(self, x: Columns) -> float:
        """Return J."""

    @abstractmethod
    def derivative(self, x: Columns) -> Columns:
        """Return dJ/dX* (D, S)."""

    def values(self, stack: Columns) -> NDArray[np.float64]:
        """Return J (n,) of columns (n, D, S)."""
        return np.array([self.value(x) for x in stack])


@dataclass(frozen=True)
class Mean(Cost):
    """``sum_s w_s <x_s|O_s|x_s>``: probabilities of states or levels, mixtures, observables.

    Attributes
    ----------
    operators : list of (D, D) complex128
        O_s of each column, Hermitian.
    weights : (S,) float64
    """

    operators: list[Columns]
    weights: NDArray[np.float64]

    def value(self, x: Columns) -> float:
        """Return J."""
        return float(np.sum(x.conj() * self.derivative(x)).real)

    def derivative(self, x: Columns) -> Columns:
        """Return ``w_s O_s x_s``."""
        columns = [
            w * (o @ x[:, s]) for s, (o, w) in enumerate(zip(self.operators, self.weights, strict=True))
        ]
        return np.array(columns).T

    def values(self, stack: Columns) -> NDArray[np.float64]:
        """Return J (n,) of columns (n, D, S)."""
        pairs = enumerate(zip(self.operators, self.weights, strict=True))
        parts = [w * np.sum(stack[:, :, s].conj() * (stack[:, :, s] @ o.T), axis=1) for s, (o, w) in pairs]
        return np.asarray(np.sum(parts, axis=0).real)


@dataclass(frozen=True)
class Overlap(Cost):
    """``|sum_s w_s <f_s|x_s>|^2``: pairs of states whose phases count.

    Attributes
    ----------
    targets : (D, S) complex128
        f_s as columns, times w_s.
    """

    targets: Columns

    def value(self, x: Columns) -> float:
        """Return J."""
        return float(np.abs(np.vdot(self.targets, x)) ** 2)

    def derivative(self, x: Columns) -> Columns:
        """Return ``w_s f_s`` times the sum of the overlaps."""
        return np.asarray(self.targets * np.vdot(self.targets, x))


@dataclass(frozen=True)
class GateCost(Cost):
    """Average fidelity of a gate, ``(|t|^2 + ||P X||^2)/(d (d + 1))`` with ``t = Tr(U+ V+ X)``.

    Pedersen, Moller, Molmer, Phys. Lett. A 367, 47 (2007).

    Attributes
    ----------
    wanted : (D, d) complex128
        V U.
    logical : (D, d) complex128
        V, the logical basis.
    """

    wanted: Columns
    logical: Columns

    @property
    def _scale(self) -> float:
        d = self.logical.shape[1]
        return 1.0 / (d * (d + 1))

    def value(self, x: Columns) -> float:
        """Return F."""
        kept = np.linalg.norm(self.logical.conj().T @ x) ** 2
        return float(np.abs(np.vdot(self.wanted, x)) ** 2 + kept) * self._scale

    def derivative(self, x: Columns) -> Columns:
        """Return ``(t V U + P X)/(d (d + 1))``."""
        inside = self.logical @ (self.logical.conj().T @ x)
        return np.asarray((np.vdot(self.wanted, x) * self.wanted + inside) * self._scale)

    def values(self, stack: Columns) -> NDArray[np.float64]:
        """Return F (n,) of columns (n, D, d), the parts of one channel."""
        count = stack.shape[0]
        overlaps = stack.reshape(count, -1) @ self.wanted.conj().ravel()
        kept = np.sum(np.abs(self.logical.conj().T @ stack) ** 2, axis=(1, 2))
        return np.asarray((np.abs(overlaps) ** 2 + kept) * self._scale)


@dataclass(frozen=True)
class Linear(Cost):
    """``Re sum_s <W_s|X_s>``: every cost of density matrices that are columns (D^2,).

    Attributes
    ----------
    rows : (D^2, S) complex128
        W.
    """

    rows: Columns

    def value(self, x: Columns) -> float:
        """Return J."""
        return float(np.vdot(self.rows, x).real)

    def derivative(self, x: Columns) -> Columns:
        """Return W/2, whatever X."""
        return 0.5 * self.rows


def column_count(model: QuantumModel, lindblad: bool) -> int:
    """Return the number of columns that `cost_of` starts from."""
    goal, count = model.goal, model.states.shape[1]
    if not lindblad:
        return count
    if isinstance(goal, GateTarget):
        return count**2
    several = isinstance(goal, StateTarget) and len(goal.vectors) > 1
    return count if several else 1


def is_quadratic(model: QuantumModel) -> bool:
    """Return True if the value of the goal is linear in the mean density matrix: contributions of histories add up."""
    return not (isinstance(model.goal, StateTarget) and model.goal.coherent)


def cost_of(model: QuantumModel, lindblad: bool) -> tuple[Columns, Cost]:
    """Return the columns at t = 0 and the cost of those at T.

    Raises
    ------
    InvalidInput
        If the goal has no cost of this kind.
    """
    goal = model.goal
    if isinstance(goal, GateTarget):
        if goal.free_phases == "local":
            raise InvalidInput(
                "system.target.free", "local phases of a gate cannot be left free yet; leave it out"
            )
        wanted = goal.columns @ goal.unitary
        return (
            _open_gate(goal.columns, wanted) if lindblad else (goal.columns, GateCost(wanted, goal.columns))
        )
    if isinstance(goal, StateTarget) and goal.coherent:
        if lindblad:
            raise InvalidInput("dissipation", "phases between pairs of states are lost with jumps; use none")
        vectors = _for_columns(goal.vectors, model.weights.size)
        targets = np.array([v[0] for v in vectors]).T * model.weights
        return model.states, Overlap(np.asarray(targets, complex))
    operators = _operators(model)
    if not lindblad:
        return model.states, Mean(operators, model.weights)
    if all(o is operators[0] for o in operators):
        # one goal for the whole mixture: its density matrix is enough
        mean = (model.states * model.weights) @ model.states.conj().T
        return mean.reshape(-1, 1), Linear(operators[0].reshape(-1, 1))
    starts = np.array([np.outer(x, x.conj()).ravel() for x in model.states.T]).T
    rows = np.array([w * o.ravel() for o, w in zip(operators, model.weights, strict=True)]).T
    return starts, Linear(rows)


def _operators(model: QuantumModel) -> list[Columns]:
    """Return the operator of each column whose mean value is wanted."""
    goal, count = model.goal, model.weights.size
    if isinstance(goal, ObservableTarget):
        return [goal.operator.toarray()] * count
    if isinstance(goal, DensityTarget):
        purity = float(np.sum(np.abs(goal.density) ** 2))
        if purity < PURE:
            raise InvalidInput(
                "system.target", f"a density matrix of purity {purity:.6g}; only pure ones (1) can be a goal"
            )
        return [goal.density] * count
    assert isinstance(goal, StateTarget)
    # rows are the vectors themselves: P = sum_r |f_r><f_r|
    made = [np.asarray(v.T @ v.conj(), complex) for v in goal.vectors]
    return made if len(made) == count else [made[0]] * count


def _for_columns(vectors: tuple[Columns, ...], count: int) -> list[Columns]:
    return list(vectors) if len(vectors) == count else [vectors[0]] * count


def _open_gate(logical: Columns, wanted: Columns) -> tuple[Columns, Cost]:
    """Return Hermitian starts (D^2, d^2), and ``F = (d F_pro + 1 - leak)/(d + 1)`` as a linear cost.

    ``F_pro = sum_ij <i|U+ E(|i><j|) U|j>/d^2``, ``1 - leak = sum_i Tr P E(|i><i|)/d``.
    """
    d = logical.shape[1]
    inside = logical @ logical.conj().T
    starts = hermitian_units(logical)
    rows = hermitian_units(wanted) / (d * (d + 1))
    diagonal = np.arange(d) * (d + 1)
    rows[:, diagonal] += inside.ravel()[:, None] / (d * (d + 1))
    return starts, Linear(rows)


def hermitian_units(vectors: Columns) -> Columns:
    """Return an orthonormal Hermitian basis (D^2, d^2) of what ``|i><j|`` of vectors (D, d) span.

    At ``i d + j``: ``|i><i|``; ``(|i><j| + |j><i|)/sqrt 2`` for i < j, and ``i (|j><i| - |i><j|)/sqrt 2`` for i > j. A map
    between two such bases is the one between the matrix units: both are turned by the same unitary.
    """
    d = vectors.shape[1]
    made = []
    for i in range(d):
        for j in range(d):
            unit = np.outer(vectors[:, i], vectors[:, j].conj())
            if i < j:
                unit = np.sqrt(0.5) * (unit + unit.conj().T)
            elif i > j:
                unit = 1j * np.sqrt(0.5) * (unit.conj().T - unit)
            made.append(unit.ravel())
    return np.array(made).T
