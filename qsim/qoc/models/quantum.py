"""A quantum system for control, as plain matrices: ``H(t) = H0 + sum_c u_c(t)^p_c H_c`` with jumps ``L_k``, hbar = 1.

``d rho/dt = -i [H, rho] + sum_k (L_k rho L_k+ - {L_k+ L_k, rho}/2)``. Builders return a `QuantumModel`; what runs reads nothing
else. The basis states of the parts are ordered with the first part slowest, ``|a b> = a * dim(b) + b``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.models.line.levels import Line
    from qsim.qoc.models.plane.levels import Plane

FreePhases: TypeAlias = Literal["none", "global", "local"]
Kept = TypeVar("Kept")


@dataclass(frozen=True)
class ControlTerm:
    """One control u(t) and the operator that it multiplies.

    Attributes
    ----------
    name : str
        Name of the control, as the deck has it.
    operator : csr_array (D, D) complex128
        Hermitian; angular frequency (1/time) per unit of ``u^power``, the unit of the control folded in.
    power : int
        1 or 2: the Hamiltonian gets ``u^power`` times the operator.
    """

    name: str
    operator: csr_array
    power: int = 1


@dataclass(frozen=True)
class Jump:
    """One jump operator of the Lindbladian.

    Attributes
    ----------
    name : str
        Where it comes from, ``"a.T1"``.
    operator : csr_array (D, D) complex128
        The square root of the rate included, 1/sqrt(time).
    """

    name: str
    operator: csr_array


@dataclass(frozen=True)
class StateTarget:
    """States to be reached: ``sum_s w_s ||P_s x_s||^2`` with the projector on the rows.

    Attributes
    ----------
    vectors : tuple of (r, D) complex128
        Orthonormal rows, the conjugate of none of them taken; one array for all columns, or one per column.
    coherent : bool
        True where the phases between the columns count, ``|sum_s w_s <f_s|x_s>|^2``; then r = 1.
    """

    vectors: tuple[ComplexArray, ...]
    coherent: bool = False


@dataclass(frozen=True)
class GateTarget:
    """A unitary to be made on the logical states, ``F = (|t|^2 + ||P X||^2)/(d (d + 1))``, ``t = Tr(U+ V+ X)``.

    Attributes
    ----------
    unitary : (d, d) complex128
        U in the logical basis, first named part slowest.
    columns : (D, d) complex128
        V, the logical basis: an isometry; the starts of the columns, in the order of U.
    free_phases : {"none", "global", "local"}
        Phases that do not count. The average fidelity knows no global phase: ``none`` and ``global`` differ only where a measure
        keeps it (a coherent overlap). ``local``: U may be followed by ``exp(i sum_k phi_k diag(generators[:, k]))``.
    generators : (d, k) int64
        Generators of the free local phases in the logical basis; (d, 0) without.
    process : bool
        True where the process fidelity ``|t|^2/d^2`` is meant instead of the average one.
    family : {"phases", "local", "perfect_entangler"}
        With ``local`` phases, what else counts as the gate: the key of `qsim.qoc.objectives.families.FAMILIES`.
    """

    unitary: ComplexArray
    columns: ComplexArray
    free_phases: FreePhases
    generators: NDArray[np.int64]
    process: bool = False
    family: str = "phases"


@dataclass(frozen=True)
class ObservableTarget:
    """An observable whose mean value at T is maximised.

    Attributes
    ----------
    operator : csr_array (D, D) complex128
        Hermitian.
    """

    operator: csr_array


@dataclass(frozen=True)
class DensityTarget:
    """A density matrix to be reached.

    Attributes
    ----------
    density : (D, D) complex128
        Hermitian, positive, of trace 1.
    """

    density: ComplexArray


@dataclass(frozen=True)
class FunctionalTarget:
    """A formula of mean values and overlaps at T that is maximised.

    Attributes
    ----------
    formula : str
        Of `names`.
    operators : mapping of csr_array (D, D)
        Hermitian, by name.
    overlaps : mapping of (D,) complex128
        States f by name, whose overlaps with the only column are NAME_re and NAME_im.
    """

    formula: str
    operators: Mapping[str, csr_array]
    overlaps: Mapping[str, ComplexArray]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers of the formula."""
        parts = (f"{name}_{part}" for name in self.overlaps for part in ("re", "im"))
        return (*self.operators, *parts)


SingleGoal: TypeAlias = StateTarget | GateTarget | ObservableTarget | DensityTarget | FunctionalTarget


@dataclass(frozen=True)
class SeveralTargets:
    """Goals of different kinds for the same controls, ``P = sum_g w_g P_g``.

    Attributes
    ----------
    goals : tuple of goals
    weights : (G,) float64
        Their sum is 1.
    counts : (G,) tuple of int
        Numbers of start columns of each goal, which follow one another in the model.
    """

    goals: tuple[SingleGoal, ...]
    weights: NDArray[np.float64]
    counts: tuple[int, ...]


Goal: TypeAlias = SingleGoal | SeveralTargets


@dataclass(frozen=True)
class QuantumModel:
    """The matrices, the starts and the goal of one quantum system.

    Attributes
    ----------
    drift : csr_array (D, D) complex128
        H0, Hermitian; angular frequency, 1/time.
    controls : tuple of ControlTerm
        In the order of the deck.
    jumps : tuple of Jump
        Empty for a closed system.
    labels : tuple of str
        Names of the D basis states or levels.
    shape : tuple of int
        Dimensions of the parts, the first one slowest; their product is D.
    seconds : float or None
        One unit of time in seconds; None where all are numbers with hbar = 1.
    states : (D, S) complex128
        Start vectors, columns of norm 1.
    weights : (S,) float64
        Weights of the columns in the goal; their sum is 1 (with `dropped` for mixtures).
    dropped : float
        Weight of the mixture that was left out: the error of P is at most this.
    goal : Goal
        What is wanted at T.
    plane : Plane or None
        Grid and wavefunctions of two coordinates; None for any other system.
    units : tuple of str
        Of controls and of times, as results have them; empty for plain numbers.
    line : Line or None
        Grid and wavefunctions of one coordinate; None for any other system.
    doubts : mapping
        By key of the deck, numbers that may mean another state.
    spins : tuple of (str, int)
        Name and place in `shape` of every part whose two lowest levels have a Bloch vector.
    revival : float or None
        Time in which the free motion repeats itself; None where it does not.
    whole : bool
        True if the matrices are given as they are, so that no basis was cut.
    """

    drift: csr_array
    controls: tuple[ControlTerm, ...]
    jumps: tuple[Jump, ...]
    labels: tuple[str, ...]
    shape: tuple[int, ...]
    seconds: float | None
    states: ComplexArray
    weights: NDArray[np.float64]
    dropped: float
    goal: Goal
    plane: Plane | None = None
    units: tuple[str, str] = ("", "")
    line: Line | None = None
    doubts: Mapping[str, str] = field(default_factory=dict)
    spins: tuple[tuple[str, int], ...] = ()
    revival: float | None = None
    whole: bool = False

    @cached_property
    def _kept(self) -> dict[object, object]:
        return {}

    def kept(self, key: object, make: Callable[[], Kept]) -> Kept:
        """Return what `make` returned for a key at first: what follows from the matrices is made once for all."""
        if key not in self._kept:
            self._kept[key] = make()
        return cast("Kept", self._kept[key])

    @property
    def dimension(self) -> int:
        """Number D of basis states."""
        return int(self.drift.shape[0])

    @property
    def on_points(self) -> bool:
        """True where the levels are wavefunctions on a grid: their signs, and elements that a symmetry forbids, are rounding."""
        return self.plane is not None or self.line is not None

    def each(self) -> list[tuple[float, QuantumModel]]:
        """Return the weight of every goal, and the same system with this goal and its starts alone."""
        goal = self.goal
        if not isinstance(goal, SeveralTargets):
            return [(1.0, self)]
        ends = list(accumulate(goal.counts))
        found = []
        for weight, end, count, one in zip(goal.weights, ends, goal.counts, goal.goals, strict=True):
            own = slice(end - count, end)
            weights = self.weights[own] / weight
            # what a mixture has less than 1 was left out of it
            dropped = max(0.0, 1.0 - float(weights.sum())) if self.dropped else 0.0
            states = self.states[:, own].copy()
            alone = replace(self, goal=one, states=states, weights=weights, dropped=dropped)
            found.append((float(weight), alone))
        return found

    @property
    def measured(self) -> bool:
        """True if mean values of observables count, so that the value is no probability."""
        return any(isinstance(one.goal, ObservableTarget | FunctionalTarget) for _, one in self.each())


def measured_by(model: QuantumModel, *, process: bool) -> QuantumModel:
    """Return the same system with the process fidelity, or the average one, of every gate among its goals."""

    def turned(goal: SingleGoal) -> SingleGoal:
        return replace(goal, process=process) if isinstance(goal, GateTarget) else goal

    goal = model.goal
    if isinstance(goal, SeveralTargets):
        return replace(model, goal=replace(goal, goals=tuple(map(turned, goal.goals))))
    return replace(model, goal=turned(goal))


def in_phase(model: QuantumModel) -> QuantumModel:
    """Return the same system with the phases between its pairs of states counted, ``|sum_s w_s <f_s|x_s>|^2``.

    Raises
    ------
    ValueError
        If its goal is not a state for each start.
    """
    goal = model.goal
    single = isinstance(goal, StateTarget) and all(len(rows) == 1 for rows in goal.vectors)
    if not isinstance(goal, StateTarget) or not single or len(goal.vectors) != model.weights.size:
        raise ValueError("phases count between several pairs of states, each with one state as its target")
    return replace(model, goal=replace(goal, coherent=True))


def measured_like(model: QuantumModel, other: QuantumModel) -> QuantumModel:
    """Return a system with the measure of another one: the fidelity of its gates, and whether phases between pairs count."""
    made = measured_by(model, process=has_process(other))
    return in_phase(made) if isinstance(other.goal, StateTarget) and other.goal.coherent else made


def has_process(model: QuantumModel) -> bool:
    """Return True if the process fidelity of a gate is meant."""
    return any(isinstance(one.goal, GateTarget) and one.goal.process for _, one in model.each())


def purity_of(density: ComplexArray) -> float:
    """Return Tr rho^2 of a density matrix (D, D)."""
    return float(np.sum(np.abs(density) ** 2))


def leakage_of(goal: object, density: ComplexArray) -> float | None:
    """Return the mean population outside of the logical space of a gate, from the density matrix (D, D) of its mixture."""
    if not isinstance(goal, GateTarget):
        return None
    inside = goal.columns.conj().T @ density @ goal.columns
    return float(1.0 - np.trace(inside).real)
