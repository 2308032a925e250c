"""Goals of a system: what a deck's `target` and `pairs` mean as vectors, operators and unitaries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.expression import Expression
from qsim.core.errors import InvalidInput
from qsim.qoc.deck.systems.states import AnyOperator, Density, Formula, Gate, Observable, StateArray
from qsim.qoc.models.basis import Start, read_density, start
from qsim.qoc.models.files import array_of
from qsim.qoc.models.operators import require_hermitian
from qsim.qoc.models.quantum import (
    DensityTarget,
    FunctionalTarget,
    GateTarget,
    ObservableTarget,
    QuantumModel,
    SeveralTargets,
    StateTarget,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.deck.systems.states import StatePair
    from qsim.qoc.models.basis import Basis
    from qsim.qoc.models.quantum import ControlTerm, FreePhases, Goal, Jump

# |U+ U - 1| allowed: matrices of files that were written with ten digits.
UNITARY = 1e-9

_H = np.array([[1, 1], [1, -1]]) / np.sqrt(2.0)
_SINGLE = {
    "id": np.eye(2),
    "x": np.array([[0, 1], [1, 0]]),
    "y": np.array([[0, -1j], [1j, 0]]),
    "z": np.diag([1, -1]),
    "h": _H,
    "s": np.diag([1, 1j]),
    "sdg": np.diag([1, -1j]),
    "t": np.diag([1, np.exp(0.25j * np.pi)]),
    "tdg": np.diag([1, np.exp(-0.25j * np.pi)]),
    "sqrt_x": 0.5 * np.array([[1 + 1j, 1 - 1j], [1 - 1j, 1 + 1j]]),
    "sqrt_y": 0.5 * (1 + 1j) * np.array([[1, -1], [1, 1]]),
}


def _exchange(angle: float) -> ComplexArray:
    """Return ``exp(i angle (XX + YY)/2)``: pi/2 is iswap, pi/4 its square root."""
    gate = np.eye(4, dtype=complex)
    gate[1:3, 1:3] = [[np.cos(angle), 1j * np.sin(angle)], [1j * np.sin(angle), np.cos(angle)]]
    return gate


def _permutation(size: int, first: int, second: int) -> ComplexArray:
    """Return the matrix that exchanges two basis states."""
    gate = np.eye(size, dtype=complex)
    gate[[first, second]] = gate[[second, first]]
    return gate


def named_gate(name: str) -> ComplexArray:
    """Return the unitary (d, d) of a name of `qsim.qoc.deck.systems.states.GATES`."""
    # Controls come first and are the slower bits: cnot exchanges 10 and 11.
    several = {
        "cnot": _permutation(4, 2, 3),
        "cx": _permutation(4, 2, 3),
        "cy": _controlled(_SINGLE["y"]),
        "cz": np.diag([1, 1, 1, -1]),
        "ch": _controlled(_H),
        "cs": np.diag([1, 1, 1, 1j]),
        "swap": _permutation(4, 1, 2),
        "sqrt_swap": _controlled_middle(_SINGLE["sqrt_x"]),
        "iswap": _exchange(0.5 * np.pi),
        "sqrt_iswap": _exchange(0.25 * np.pi),
        # any gate that takes some product state to a Bell state; this one stands for all
        "perfect_entangler": _permutation(4, 2, 3),
        "toffoli": _permutation(8, 6, 7),
        "ccz": np.diag([1] * 7 + [-1]),
        "fredkin": _permutation(8, 5, 6),
    }
    return np.asarray((_SINGLE | several)[name], dtype=np.complex128)


def _controlled(gate: ComplexArray) -> ComplexArray:
    """Return a gate on the second qubit where the first one is 1."""
    result = np.eye(4, dtype=complex)
    result[2:, 2:] = gate
    return result


def _controlled_middle(gate: ComplexArray) -> ComplexArray:
    """Return a gate on the states 01 and 10."""
    result = np.eye(4, dtype=complex)
    result[1:3, 1:3] = gate
    return result


def require_unitary(gate: ComplexArray, key: str) -> None:
    """Refuse a matrix that is not unitary.

    Raises
    ------
    InvalidInput
        With the distance, the largest entry of ``|U+ U - 1|``.
    """
    # Written so that a NaN is refused, too.
    distance = float(np.abs(gate.conj().T @ gate - np.eye(len(gate))).max())
    if not distance <= UNITARY:
        raise InvalidInput(key, f"gate is not unitary by {distance:.3g}; at most {UNITARY:g} is allowed")


# Overlap of logical states of a file: they were written with some ten digits.
SOUND = 1e-8


@dataclass(frozen=True)
class Logical:
    """The states between which a gate acts.

    Attributes
    ----------
    columns : (D, d) complex128
        Orthonormal.
    name : str
        How messages call their space: "a, b".
    """

    columns: ComplexArray
    name: str


@dataclass(frozen=True)
class Aim:
    """Starts and goal of a system."""

    start: Start
    goal: Goal

    def model(
        self,
        basis: Basis,
        controls: Iterable[ControlTerm],
        jumps: tuple[Jump, ...],
        *,
        drift: csr_array | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> QuantumModel:
        """Return the system of a basis that has them.

        Parameters
        ----------
        basis, controls, jumps
            Of the system.
        drift : csr_array (D, D), optional
            H0 in a frame; by default that of the basis.
        shape : tuple of int, optional
            Dimensions of the parts; by default there is one.
        """
        units = basis.units
        return QuantumModel(
            drift=basis.energy if drift is None else drift,
            controls=tuple(controls),
            jumps=jumps,
            labels=basis.labels,
            shape=shape or (basis.dimension,),
            seconds=units.seconds,
            units=(units.of_controls, units.of_times.strip()),
            states=self.start.states,
            weights=self.start.weights,
            dropped=self.start.dropped,
            goal=self.goal,
            doubts=basis.doubts,
        )


def aim(system: Any, basis: Basis, logical: Callable[[Gate, Any], Logical]) -> Aim:
    """Return starts and goal of a block `system`.

    Parameters
    ----------
    system
        A block with the keys `initial`, `target` and `pairs`.
    basis
        States by name.
    logical
        Returns the logical states of a gate and the label of the start, which says where the other parts are.

    Raises
    ------
    InvalidInput
        If keys are missing or contradict each other, or a state, file or gate is mistaken.
    """
    if system.pairs is not None:
        if system.initial is not None or system.target is not None:
            raise InvalidInput("system.pairs", "give either pairs, or initial and target, not both")
        return _several(system.pairs, basis, logical)
    if system.target is None:
        raise InvalidInput("system.target", 'missing key; give a label such as "11", or {gate: cnot}')
    return _single(system, basis, logical)


def _single(block: Any, basis: Basis, logical: Callable[[Gate, Any], Logical]) -> Aim:
    """Return start and goal of a block with `initial` and `target`."""
    if isinstance(block.target, Gate):
        return _gate(block.target, logical(block.target, block.initial))
    if block.initial is None:
        raise InvalidInput("system.initial", 'missing key; give a label such as "00", or a level such as 0')
    return Aim(start(block.initial, basis, "system.initial"), _goal(block.target, basis, "system.target"))


def _goal(target: Any, basis: Basis, key: str) -> Goal:
    """Return the goal that is no gate."""
    if isinstance(target, Observable):
        operator = basis.observable(target.observable, f"{key}.observable")
        if not isinstance(target, AnyOperator):
            require_hermitian(operator, f"{key}.observable", target.observable)
        return ObservableTarget(operator)
    if isinstance(target, Formula):
        return _functional(target, basis, key)
    if isinstance(target, Density):
        return DensityTarget(read_density(target.density, basis, f"{key}.density"))
    return StateTarget((_rows(target, basis, key),))


def _functional(target: Formula, basis: Basis, key: str) -> FunctionalTarget:
    """Return a formula of mean values and overlaps.

    Raises
    ------
    InvalidInput
        If the formula is mistaken, or does not use a name, or a state or an observable is unknown.
    """
    operators, overlaps = {}, {}
    for name, one in target.values.items():
        where = f"{key}.values.{name}"
        if isinstance(one, Observable):
            operators[name] = basis.observable(one.observable, f"{where}.observable")
            require_hermitian(operators[name], f"{where}.observable", one.observable)
        else:
            overlaps[name] = basis.vector(one.overlap, f"{where}.overlap")
    made = FunctionalTarget(target.formula, operators, overlaps)
    try:
        used = Expression(target.formula, made.names).names
    except ValueError as problem:
        raise InvalidInput(f"{key}.formula", str(problem)) from None
    for name in target.values:
        if not {name, f"{name}_re", f"{name}_im"} & set(used):
            raise InvalidInput(
                f"{key}.values.{name}", f"{name} does not occur in the formula {target.formula!r}"
            )
    return made


def _rows(target: Any, basis: Basis, key: str) -> ComplexArray:
    """Return orthonormal target states (r, D)."""
    if isinstance(target, list):
        return basis.rows(target, key)
    if isinstance(target, StateArray):
        # as a start, whose norm and length are judged
        return start(target, basis, key).states.T.copy()
    return basis.vector(target, key)[None, :]


def _several(pairs: list[StatePair], basis: Basis, logical: Callable[[Gate, Any], Logical]) -> Aim:
    """Return the starts and the goals of all pairs, with their weights.

    Raises
    ------
    InvalidInput
        If a start or a goal is mistaken, at its own key.
    """
    found = []
    for number, pair in enumerate(pairs):
        try:
            found.append(_single(pair, basis, logical))
        except InvalidInput as problem:
            # A pair is read as a block of its own; its mistakes are told where it stands.
            key = problem.key.replace("system.", f"system.pairs.{number}.", 1)
            raise InvalidInput(key, str(problem)) from None
    # Only ratios of weights mean anything: their sum is made 1, so that P stays a probability.
    shares = np.array([pair.weight for pair in pairs])
    shares = shares / shares.sum()
    states = np.concatenate([one.start.states for one in found], axis=1)
    weights = np.concatenate([w * one.start.weights for w, one in zip(shares, found, strict=True)])
    dropped = float(shares @ [one.start.dropped for one in found])
    starts, goals = Start(states, weights, dropped), [one.goal for one in found]
    # Pairs of states are one goal, whose columns have targets of their own.
    if all(isinstance(goal, StateTarget) for goal in goals) and weights.size == len(pairs):
        vectors = (goal.vectors[0] for goal in goals if isinstance(goal, StateTarget))
        return Aim(starts, StateTarget(tuple(vectors)))
    singles = tuple(goal for goal in goals if not isinstance(goal, SeveralTargets))
    counts = tuple(one.start.weights.size for one in found)
    return Aim(starts, SeveralTargets(singles, shares, counts))


def _gate(target: Gate, logical: Logical) -> Aim:
    """Return the logical states as columns, and the gate.

    Raises
    ------
    InvalidInput
        If the matrix does not fit the logical space, is not unitary, or local phases have no meaning there.
    """
    key = "system.target.gate"
    unitary = _unitary(target, key)
    # The file or the name must have the dimension of the logical space, before its unitarity means anything.
    size = logical.columns.shape[1]
    if unitary.shape != (size, size):
        shape = " x ".join(map(str, unitary.shape))
        raise InvalidInput(key, f"{shape} but the logical space of {logical.name} is {size}")
    require_unitary(unitary, key)
    family = _family(target, size)
    # Phases of each part include the global one.
    free: FreePhases = "none"
    if target.free:
        free = "local" if "z" in target.free else "global"
    generators = np.zeros((size, 0), dtype=np.int64)
    if family != "phases":
        free = "local"
    elif free == "local":
        generators = _local_generators(size)
    goal = GateTarget(unitary, logical.columns, free, generators, family=family)
    return Aim(Start(logical.columns, np.full(size, 1.0 / size)), goal)


def _family(target: Gate, size: int) -> str:
    """Return what counts as the gate beside phases of the parts.

    Raises
    ------
    InvalidInput
        If local gates do not count, and there are no two qubits.
    """
    family = "local" if "local" in target.free else "phases"
    if target.gate == "perfect_entangler":
        family = "perfect_entangler"
    if family != "phases" and size != 4:
        key = "system.target.free" if family == "local" else "system.target.gate"
        raise InvalidInput(key, f"{family} is of two qubits, a logical space of 4 states, not {size}")
    return family


def _unitary(target: Gate, key: str) -> ComplexArray:
    """Return the matrix of a gate, by name, as a permutation, as it is given, or from a file."""
    if isinstance(target.gate, list) and isinstance(target.gate[0], list):
        if {len(row) for row in target.gate} != {len(target.gate)}:
            raise InvalidInput(key, "expected a square matrix")
        return np.array(target.gate, dtype=np.complex128)
    if isinstance(target.gate, list):
        permutation = np.zeros((len(target.gate),) * 2, dtype=np.complex128)
        permutation[np.array(target.gate, dtype=np.int64), np.arange(len(target.gate))] = 1.0
        return permutation
    if isinstance(target.gate, Path):
        matrix = array_of(target.gate, ("gate", "U"), key)[1]
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InvalidInput(key, f"the gate has the shape {matrix.shape}; expected a square matrix")
        return matrix
    return named_gate(target.gate)


def _local_generators(size: int) -> NDArray[np.int64]:
    """Return the excitation (0 or 1) of each qubit in each logical state, (d, k).

    Raises
    ------
    InvalidInput
        If the logical space is no space of qubits.
    """
    qubits = size.bit_length() - 1
    if size != 1 << qubits:
        text = f"local phases need a logical space of qubits, 2, 4, 8, ... states, not {size}"
        raise InvalidInput("system.target.free", text)
    # Bit q of a logical state, the first part slowest, is the excitation of its qubit.
    numbers = np.arange(size)[:, None]
    return (numbers >> np.arange(qubits - 1, -1, -1)) & 1


def named_states(gate: Gate, start: Any, basis: Basis, *, every: bool = False) -> Logical:
    """Return the logical states of a gate, which `on` names; `every`: all basis states without.

    Raises
    ------
    InvalidInput
        If they are unknown or not orthonormal, or a start is given as well.
    """
    if start is not None:
        raise InvalidInput(
            "system.initial", "a gate starts from its logical states, target.on; leave initial out"
        )
    if gate.on is None and not every:
        text = 'name the logical states, such as on: ["0", "1"]'
        raise InvalidInput("system.target.on", text)
    names = list(basis.labels) if gate.on is None else gate.on
    columns = np.array([basis.vector(name, "system.target.on") for name in names]).T
    # Fidelities are those of an isometry: states that overlap would count twice.
    overlap = np.abs(columns.conj().T @ columns - np.eye(len(names)))
    if overlap.max() > SOUND:
        first, second = np.unravel_index(int(np.argmax(overlap)), overlap.shape)
        text = f"the logical states {names[first]} and {names[second]} are not orthogonal, by {overlap.max():.3g}"
        raise InvalidInput("system.target.on", text)
    return Logical(np.ascontiguousarray(columns), ", ".join(names))
