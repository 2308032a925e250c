"""Costs of final columns X (D, S), each with its derivative: ``dJ = 2 Re sum conj(dJ/dX*) dX``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qoc.models.quantum import (
    DensityTarget,
    FunctionalTarget,
    GateTarget,
    ObservableTarget,
    SeveralTargets,
    StateTarget,
)
from qsim.qoc.objectives.cost import Cost, functional_cost
from qsim.qoc.objectives.families import family_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray as Columns
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.objectives.families import Family

__all__ = [
    "FreeGate",
    "GateCost",
    "Linear",
    "Mean",
    "Overlap",
    "Several",
    "column_count",
    "cost_of",
    "is_mixed",
    "is_quadratic",
    "kind_of",
]

# Purity below which a density matrix is no state.
PURE = 1.0 - 1e-9


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
        # All trials at once, column by column: one product of matrices each.
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
    """Average fidelity of a gate, ``(|t|^2 + ||P X||^2)/(d (d + 1))`` with ``t = Tr(U+ V+ X)``, or ``|t|^2/d^2`` of the process.

    Pedersen, Moller, Molmer, Phys. Lett. A 367, 47 (2007).

    Attributes
    ----------
    wanted : (D, d) complex128
        V U.
    logical : (D, d) complex128
        V, the logical basis.
    process : bool
        True for the process fidelity.
    """

    wanted: Columns
    logical: Columns
    process: bool = False

    @property
    def _scale(self) -> float:
        d = self.logical.shape[1]
        return 1.0 / (d * d if self.process else d * (d + 1))

    @property
    def _kept(self) -> float:
        """Factor of ``||P X||^2``."""
        return 0.0 if self.process else 1.0

    def value(self, x: Columns) -> float:
        """Return F."""
        # ||P X||^2 is d where nothing has leaked.
        kept = self._kept * np.linalg.norm(self.logical.conj().T @ x) ** 2
        return float(np.abs(np.vdot(self.wanted, x)) ** 2 + kept) * self._scale

    def derivative(self, x: Columns) -> Columns:
        """Return ``(t V U + P X)/(d (d + 1))``, or ``t V U/d^2``."""
        inside = self._kept * (self.logical @ (self.logical.conj().T @ x))
        return np.asarray((np.vdot(self.wanted, x) * self.wanted + inside) * self._scale)

    def values(self, stack: Columns) -> NDArray[np.float64]:
        """Return F (n,) of columns (n, D, d), the parts of one channel."""
        count = stack.shape[0]
        # t = Tr(U+ V+ X) of each part as one product of a matrix and a vector.
        overlaps = stack.reshape(count, -1) @ self.wanted.conj().ravel()
        # The part that stays in the logical space counts with the average fidelity.
        kept = self._kept * np.sum(np.abs(self.logical.conj().T @ stack) ** 2, axis=(1, 2))
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


@dataclass(frozen=True)
class FreeGate(Cost):
    """Average fidelity of the best gate of a family.

    The derivative is that at the best gate, which does not move to first order.

    Attributes
    ----------
    family : Family
    logical : (D, d) complex128
        V.
    process : bool
        True for the process fidelity.
    """

    family: Family
    logical: Columns
    process: bool = False

    @property
    def free(self) -> int:
        """Number k of the numbers of a gate of the family."""
        return self.family.count

    def phases(self, x: Columns) -> NDArray[np.float64]:
        """Return the numbers (k,) of the best gate for final columns (D, d)."""
        return self.family.best_of(self.logical.conj().T @ x)

    def at(self, phases: NDArray[np.float64]) -> Cost:
        """Return the fidelity of one gate."""
        return GateCost(self.logical @ self.family.gate(phases), self.logical, self.process)

    def value(self, x: Columns) -> float:
        """Return F."""
        return self.frozen(x).value(x)

    def derivative(self, x: Columns) -> Columns:
        """Return dF/dX*."""
        return self.frozen(x).derivative(x)


class FreeOpenGate(FreeGate):
    """The same of density matrices (D^2, d^2) that started as Hermitian units of the logical space."""

    def phases(self, x: Columns) -> NDArray[np.float64]:
        """Return the numbers (k,) of the best gate: ``R_(ai)(bj) = <a|E(|i><j|)|b>``."""
        size, d = self.logical.shape
        inside = np.einsum(
            "xa,xys,yb->sab", self.logical.conj(), x.reshape(size, size, -1), self.logical, optimize=True
        )
        # from the Hermitian units to the matrix units |i><j|
        turn = hermitian_units(np.eye(d, dtype=complex))
        units = np.einsum("us,sab->uab", turn.conj(), inside)
        return self.family.best(units.reshape(d, d, d, d))

    def at(self, phases: NDArray[np.float64]) -> Cost:
        """Return the fidelity of one gate."""
        return Linear(open_gate_rows(self.logical, self.logical @ self.family.gate(phases), self.process))


@dataclass(frozen=True)
class Closeness(Cost):
    """``1 - ||rho - sigma||^2/2`` (Hilbert and Schmidt) of a mixture and a mixed density matrix: ``|<f|x>|^2`` if both are pure.

    Attributes
    ----------
    density : (D, D) complex128
        sigma.
    weights : (S,) float64 or None
        Of kets as columns; None: the only column is rho, row by row.
    """

    density: Columns
    weights: NDArray[np.float64] | None

    def _difference(self, x: Columns) -> Columns:
        """Return sigma less rho."""
        if self.weights is None:
            return np.asarray(self.density - x[:, 0].reshape(self.density.shape))
        return np.asarray(self.density - (x * self.weights) @ x.conj().T)

    def value(self, x: Columns) -> float:
        """Return J."""
        return 1.0 - 0.5 * float(np.linalg.norm(self._difference(x)) ** 2)

    def derivative(self, x: Columns) -> Columns:
        """Return ``w_s (sigma - rho) x_s``, or half of ``sigma - rho``."""
        difference = self._difference(x)
        if self.weights is None:
            return 0.5 * difference.reshape(-1, 1)
        return np.asarray(difference @ (x * self.weights))


@dataclass(frozen=True)
class Several(Cost):
    """``sum_g w_g J_g`` of goals that have columns of their own, one group after another.

    Attributes
    ----------
    costs : tuple of Cost
    weights : (G,) float64
    columns : tuple of slice
        Of each goal.
    """

    costs: tuple[Cost, ...]
    weights: NDArray[np.float64]
    columns: tuple[slice, ...]

    @property
    def free(self) -> int:
        """Number k of phases that do not count, of all goals together."""
        return sum(cost.free for cost in self.costs)

    def parts(self, x: Columns) -> NDArray[np.float64]:
        """Return the value (G,) of every goal."""
        return np.array([cost.value(x[:, own]) for cost, own in zip(self.costs, self.columns, strict=True)])

    def value(self, x: Columns) -> float:
        """Return J."""
        return float(self.weights @ self.parts(x))

    def derivative(self, x: Columns) -> Columns:
        """Return dJ/dX*, the weighted derivatives beside each other."""
        groups = zip(self.weights, self.costs, self.columns, strict=True)
        return np.concatenate([w * cost.derivative(x[:, own]) for w, cost, own in groups], axis=1)

    def values(self, stack: Columns) -> NDArray[np.float64]:
        """Return J (n,) of columns (n, D, S)."""
        groups = zip(self.costs, self.columns, strict=True)
        return np.asarray(self.weights @ [cost.values(stack[:, :, own]) for cost, own in groups])

    def phases(self, x: Columns) -> NDArray[np.float64]:
        """Return the best phases (k,), goal after goal."""
        return np.concatenate([c.phases(x[:, own]) for c, own in zip(self.costs, self.columns, strict=True)])

    def at(self, phases: NDArray[np.float64]) -> Cost:
        """Return the cost with given phases."""
        ends = np.cumsum([cost.free for cost in self.costs])
        each = np.split(phases, ends[:-1])
        fixed = tuple(cost.at(own) for cost, own in zip(self.costs, each, strict=True))
        return Several(fixed, self.weights, self.columns)


def is_mixed(model: QuantumModel) -> bool:
    """Return True if the goal, or one of several, is a density matrix that is no pure state."""
    goal = model.goal
    if isinstance(goal, SeveralTargets):
        return any(is_mixed(one) for _, one in model.each())
    return isinstance(goal, DensityTarget) and float(np.sum(np.abs(goal.density) ** 2)) < PURE


def kind_of(made: QuantumModel) -> str:
    """Return the name of what is maximised: fidelity, observable, closeness, probability, or goals for several kinds."""
    if isinstance(made.goal, SeveralTargets):
        return "goals"
    if isinstance(made.goal, GateTarget):
        return "fidelity_process" if made.goal.process else "fidelity"
    if is_mixed(made):
        return "closeness"
    if isinstance(made.goal, FunctionalTarget):
        return "functional"
    return "observable" if isinstance(made.goal, ObservableTarget) else "probability"


def column_count(model: QuantumModel, lindblad: bool) -> int:
    """Return the number of columns that `cost_of` starts from."""
    goal, count = model.goal, model.states.shape[1]
    if isinstance(goal, SeveralTargets):
        return sum(column_count(one, lindblad) for _, one in model.each())
    if not lindblad:
        return count
    if isinstance(goal, GateTarget):
        return count**2
    several = isinstance(goal, StateTarget) and len(goal.vectors) > 1
    return count if several else 1


def is_quadratic(model: QuantumModel) -> bool:
    """Return True if the value of the goal is linear in the mean density matrix: contributions of histories add up."""
    goal = model.goal
    if isinstance(goal, SeveralTargets):
        return all(is_quadratic(one) for _, one in model.each())
    return not (
        isinstance(goal, FunctionalTarget)
        or (isinstance(goal, StateTarget) and goal.coherent)
        or is_mixed(model)
    )


def cost_of(model: QuantumModel, lindblad: bool) -> tuple[Columns, Cost]:
    """Return the columns at t = 0 and the cost of those at T.

    Raises
    ------
    InvalidInput
        If the goal has no cost of this kind.
    """
    goal = model.goal
    if isinstance(goal, SeveralTargets):
        return _several(model, lindblad)
    if isinstance(goal, FunctionalTarget):
        return functional_cost(model, goal, lindblad)
    if isinstance(goal, GateTarget):
        start = hermitian_units(goal.columns) if lindblad else goal.columns
        if goal.free_phases == "local":
            free = FreeOpenGate if lindblad else FreeGate
            return start, free(family_of(goal), goal.columns, goal.process)
        wanted = goal.columns @ goal.unitary
        return start, (
            Linear(open_gate_rows(goal.columns, wanted, goal.process))
            if lindblad
            else GateCost(wanted, goal.columns, goal.process)
        )
    if isinstance(goal, StateTarget) and goal.coherent:
        if lindblad:
            raise InvalidInput("dissipation", "phases between pairs of states are lost with jumps; use none")
        vectors = _for_columns(goal.vectors, model.weights.size)
        targets = np.array([v[0] for v in vectors]).T * model.weights
        return model.states, Overlap(np.asarray(targets, complex))
    mean = (model.states * model.weights) @ model.states.conj().T
    if is_mixed(model):
        assert isinstance(goal, DensityTarget)
        if lindblad:
            return mean.reshape(-1, 1), Closeness(goal.density, None)
        return model.states, Closeness(goal.density, model.weights)
    operators = _operators(model)
    if not lindblad:
        return model.states, Mean(operators, model.weights)
    if all(o is operators[0] for o in operators):
        # one goal for the whole mixture: its density matrix is enough
        return mean.reshape(-1, 1), Linear(operators[0].reshape(-1, 1))
    starts = np.array([np.outer(x, x.conj()).ravel() for x in model.states.T]).T
    rows = np.array([w * o.ravel() for o, w in zip(operators, model.weights, strict=True)]).T
    return starts, Linear(rows)


def _several(model: QuantumModel, lindblad: bool) -> tuple[Columns, Cost]:
    """Return the columns of all goals beside each other, and the sum of their costs."""
    made = [(weight, *cost_of(one, lindblad)) for weight, one in model.each()]
    ends = np.cumsum([start.shape[1] for _, start, _ in made])
    columns = tuple(
        slice(int(e) - start.shape[1], int(e)) for e, (_, start, _) in zip(ends, made, strict=True)
    )
    cost = Several(tuple(c for _, _, c in made), np.array([w for w, _, _ in made]), columns)
    return np.concatenate([start for _, start, _ in made], axis=1), cost


def _operators(model: QuantumModel) -> list[Columns]:
    """Return the operator of each column whose mean value is wanted."""
    goal, count = model.goal, model.weights.size
    if isinstance(goal, ObservableTarget):
        return [goal.operator.toarray()] * count
    if isinstance(goal, DensityTarget):
        return [goal.density] * count
    assert isinstance(goal, StateTarget)
    # rows are the vectors themselves: P = sum_r |f_r><f_r|
    made = [np.asarray(v.T @ v.conj(), complex) for v in goal.vectors]
    return made if len(made) == count else [made[0]] * count


def _for_columns(vectors: tuple[Columns, ...], count: int) -> list[Columns]:
    return list(vectors) if len(vectors) == count else [vectors[0]] * count


def open_gate_rows(logical: Columns, wanted: Columns, process: bool = False) -> Columns:
    """Return W (D^2, d^2) of ``F = (d F_pro + 1 - leak)/(d + 1)`` or of F_pro, for matrices that started as Hermitian units.

    ``F_pro = sum_ij <i|U+ E(|i><j|) U|j>/d^2``, ``1 - leak = sum_i Tr P E(|i><i|)/d``.
    """
    d = logical.shape[1]
    if process:
        return hermitian_units(wanted) / d**2
    inside = logical @ logical.conj().T
    rows = hermitian_units(wanted) / (d * (d + 1))
    diagonal = np.arange(d) * (d + 1)
    rows[:, diagonal] += inside.ravel()[:, None] / (d * (d + 1))
    return rows


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
