"""``system: {type: model}``: named parts put together, ``H0 = sum_p H_p + sum_t v_t T_t``, in a rotating frame if there is one.

In the frame of the generator ``G = sum_p f_p n_p`` the parts lose ``f_p n_p``. A term of H0 must commute with G, or it would
rotate; the operators of controls are those in the frame, and a jump may only turn as a whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from qsim.core.errors import InvalidInput
from qsim.qoc.deck.systems.model import Damped, Transmon
from qsim.qoc.deck.systems.quantities import Units
from qsim.qoc.deck.systems.states import Gate
from qsim.qoc.models.basis import Basis
from qsim.qoc.models.faults import Faults
from qsim.qoc.models.goals import Logical, aim
from qsim.qoc.models.operators import embedded, evaluate, reach, require_hermitian, sparse_matrix
from qsim.qoc.models.parts import STEPS, PartMatrices, part_matrices
from qsim.qoc.models.quantum import ControlTerm, Jump

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.arrays import FloatArray, IndexArray
    from qsim.qoc.deck.systems.model import ModelSystem
    from qsim.qoc.models.quantum import QuantumModel

# Largest dimension D of a product of parts.
LARGEST = 50_000
# Rotation, relative to the fastest one of a frame, that counts as none.
STILL = 1e-9


@dataclass(frozen=True)
class Space:
    """The product space of all parts, the first one slowest.

    Attributes
    ----------
    parts : tuple of PartMatrices
    kinds : tuple
        Name, type and size of each part: spaces of the same kinds have the same operators, whatever their energies.
    kept : tuple of int
        Levels of each part in the deck, which may be fewer.
    """

    parts: tuple[PartMatrices, ...] = field(compare=False)
    kinds: tuple[tuple[object, ...], ...]
    kept: tuple[int, ...] = field(compare=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions of the parts."""
        return tuple(part.levels for part in self.parts)

    @property
    def dimension(self) -> int:
        """Number D of basis states."""
        return math.prod(self.shape)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all operators, ``part.operator``."""
        return tuple(f"{part.name}.{name}" for part in self.parts for name in part.operators)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """``"01"``: one digit per part; with commas where a part has more than 10 levels in the deck, and in states beyond it."""
        sign = "" if max(self.kept) <= 10 else ","
        inside = self.inside
        return tuple(
            (sign if here else ",").join(map(str, numbers))
            for numbers, here in zip(product(*map(range, self.shape)), inside, strict=True)
        )

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """Which basis states (D,) the deck keeps."""
        numbers = np.indices(self.shape).reshape(len(self.shape), -1)
        return np.all(numbers < np.array(self.kept)[:, None], axis=0)

    def matrix(self, name: str) -> csr_array:
        """Return the operator (D, D) of a name."""
        owner, _, operator = name.partition(".")
        place = next(k for k, part in enumerate(self.parts) if part.name == owner)
        return embedded(self.parts[place].operators[operator], place, self.shape)

    def formula(self, text: str, key: str) -> csr_array:
        """Return the operator (D, D) of a formula.

        Raises
        ------
        InvalidInput
            If the formula is mistaken.
        """
        return _formula(self, text, key)

    def sum_over_parts(self, values: Sequence[FloatArray]) -> FloatArray:
        """Return ``sum_p values_p`` on the product basis, (D,)."""
        total = np.zeros(self.shape)
        for place, part in enumerate(values):
            axes = [1] * len(self.shape)
            axes[place] = -1
            total = total + np.asarray(part, dtype=float).reshape(axes)
        return np.asarray(total.ravel())


# members of an ensemble, and numbers of a sweep, have the same formulas
@lru_cache(maxsize=512)
def _formula(space: Space, text: str, key: str) -> csr_array:
    """Return the operator (D, D) of a formula; nobody changes it."""
    return evaluate(text, space.names, space.matrix, key, space.dimension)


def composite_model(system: ModelSystem, extra: int = 0) -> QuantumModel:
    """Return the matrices of named parts.

    Parameters
    ----------
    system
        Block of the deck.
    extra : int
        How often all that a coupling reaches from the levels is added in each transmon, ladder and rotor: the change of the
        result is the error of the levels kept.

    Raises
    ------
    InvalidSystem
        With every mistake of the block.
    """
    units = Units(system.unit)
    faults = Faults()
    space = _space(system, units, faults, extra)
    frame = np.zeros(space.dimension)
    with faults.catch():
        frame = _frame(system, units, space)
    # Parts are diagonal in their own levels, so that all of them together are one vector.
    uncoupled = _diagonal(space.sum_over_parts([part.energies for part in space.parts]))
    coupling = _terms(system, units, space, frame, faults)
    controls = _controls(system, units, space, faults)
    jumps = _jumps(system, units, space, frame, faults)
    energy = sparse_matrix(uncoupled + coupling)
    # Levels and thermal weights are those of the laboratory: the frame comes off the drift alone, below.
    basis = Basis(space.labels, energy, uncoupled, units, space.formula, inside=space.inside)
    with faults.catch():
        goal = aim(system, basis, lambda gate, start: _logical(gate, start, space, basis))
        _require_guard_levels(system)
    faults.stop()
    drift = sparse_matrix(energy - _diagonal(frame))
    made = goal.model(basis, controls, jumps, drift=drift, shape=space.shape)
    spins = ((part.name, place) for place, part in enumerate(system.parts) if isinstance(part, Damped))
    return replace(made, spins=tuple(spins))


def _space(system: ModelSystem, units: Units, faults: Faults, extra: int) -> Space:
    """Return the product space.

    Raises
    ------
    InvalidSystem
        If a part is mistaken, two have one name, or the product is too large: nothing else can be judged then.
    """
    parts: list[PartMatrices] = []
    seen: set[str] = set()
    for number, part in enumerate(system.parts):
        key = f"system.parts.{number}"
        with faults.catch():
            if part.name in seen:
                raise InvalidInput(f"{key}.name", f"duplicate part {part.name!r}")
            seen.add(part.name)
            parts.append(part_matrices(part, units, key))
    kept = tuple(part.levels for part in parts)
    # Numbers of parts and lengths differ where a part is mistaken, and then nothing is added.
    for number, more in enumerate(_reach(system, parts) * extra if extra else ()):
        parts[number] = part_matrices(system.parts[number], units, f"system.parts.{number}", int(more))
    # What decides about operators and labels: two members of an ensemble that differ in their frequencies share these.
    kinds = tuple(
        (p.name, m.type, p.levels, getattr(m, "M", 0)) for p, m in zip(parts, system.parts, strict=False)
    )
    space = Space(tuple(parts), kinds, kept)
    if parts and space.dimension > LARGEST:
        with faults.catch():
            told = " x ".join(map(str, space.shape))
            text = f"the parts have {told} = {space.dimension} states together, at most {LARGEST}; lower their levels"
            raise InvalidInput("system.parts", text)
    faults.stop()
    return space


def _reach(system: ModelSystem, parts: Sequence[PartMatrices]) -> IndexArray:
    """Return by how many levels a term of H0, a control or a jump can change the level of each part, at least 1, (parts,)."""
    still = np.eye(len(parts), dtype=int)
    steps = {
        f"{part.name}.{name}": still[place] * STEPS.get(name, 0)
        for place, part in enumerate(parts)
        for name in part.operators
    }
    formulas = [term.operator for term in system.terms]
    formulas += [control.operator for control in system.controls.values()]
    formulas += [jump.operator for jump in system.jumps]
    # A bath changes a level by 1.
    return np.max([np.ones(len(parts), int), *(reach(text, steps) for text in formulas)], axis=0)


def _frame(system: ModelSystem, units: Units, space: Space) -> FloatArray:
    """Return the generator ``sum_p f_p n_p`` (D,) of the rotating frame; 0 without.

    Raises
    ------
    InvalidInput
        If a part is unknown, or counts no quanta.
    """
    if system.frame is None:
        return np.zeros(space.dimension)
    known = {part.name: part for part in space.parts}
    # One number is the frequency of every part.
    given = system.frame if isinstance(system.frame, dict) else dict.fromkeys(known, system.frame)
    turning = {name: np.zeros(part.levels) for name, part in known.items()}
    for name, value in given.items():
        key = f"system.frame.{name}" if isinstance(system.frame, dict) else "system.frame"
        if name not in known:
            raise InvalidInput(key, f"unknown part {name!r}; parts: {', '.join(known)}")
        charge = known[name].charge
        if charge is None:
            raise InvalidInput(
                key, f"{name} is a rotor, which counts no quanta; name the other parts: {{part: frequency}}"
            )
        # A frame at f turns level n by n f: it counts quanta.
        turning[name] = units.frequency(value, key) * charge
    return space.sum_over_parts(list(turning.values()))


def _rotations(operator: csr_array, frame: FloatArray) -> FloatArray:
    """Return the angular frequency ``G_row - G_column`` with which each entry of an operator turns in the frame."""
    # In the frame entry (a, b) gets the phase exp(i (G_a - G_b) t).
    entries = operator.tocoo()
    rows, columns = entries.coords
    return np.asarray(frame[rows] - frame[columns])


def _terms(system: ModelSystem, units: Units, space: Space, frame: FloatArray, faults: Faults) -> csr_array:
    """Return the sum of the terms of H0 beside the parts."""
    total = _nothing(space.dimension)
    scale = float(np.abs(frame).max(initial=0.0))
    for number, term in enumerate(system.terms):
        key = f"system.terms.{number}"
        with faults.catch():
            operator = space.formula(term.operator, f"{key}.operator")
            require_hermitian(operator, f"{key}.operator", term.operator)
            turning = np.abs(_rotations(operator, frame)).max(initial=0.0)
            # Dropping what rotates is an approximation that nobody asked for, so it is refused with its rate.
            if turning > STILL * scale:
                told = f"term {term.operator} rotates at {units.text(float(turning))} in this frame"
                raise InvalidInput("system.frame", f"{told}; drop it or leave the frame out")
            total = sparse_matrix(total + units.frequency(term.value, f"{key}.value") * operator)
    return total


def _diagonal(values: FloatArray) -> csr_array:
    """Return the diagonal matrix (D, D) of values (D,)."""
    return sparse_matrix(sparse.diags_array(values))


def _nothing(dimension: int) -> csr_array:
    """Return the zero matrix (D, D)."""
    return sparse.csr_array((dimension, dimension), dtype=np.complex128)


def _controls(system: ModelSystem, units: Units, space: Space, faults: Faults) -> tuple[ControlTerm, ...]:
    """Return the controls; one unit of a control is one unit of the block (GHz: 2 pi per ns)."""
    controls: list[ControlTerm] = []
    for name, control in system.controls.items():
        key = f"system.controls.{name}"
        with faults.catch():
            operator = space.formula(control.operator, key)
            require_hermitian(operator, key, control.operator)
            # A formula may cancel, as sz*sx + sx*sz does.
            if operator.nnz == 0:
                raise InvalidInput(key, f"the operator {control.operator} is 0")
            controls.append(ControlTerm(name, sparse_matrix(units.factor * operator), control.power))
    return tuple(controls)


def _jumps(
    system: ModelSystem, units: Units, space: Space, frame: FloatArray, faults: Faults
) -> tuple[Jump, ...]:
    """Return the jumps of the parts, then those of the deck."""
    jumps = [
        Jump(name, embedded(operator, place, space.shape))
        for place, part in enumerate(space.parts)
        for name, operator in part.jumps
    ]
    scale = float(np.abs(frame).max(initial=0.0))
    for number, jump in enumerate(system.jumps):
        key = f"system.jumps.{number}"
        with faults.catch():
            operator = space.formula(jump.operator, f"{key}.operator")
            turning = _rotations(operator, frame)
            # A common phase of all entries leaves L rho L+ as it is.
            if turning.size and float(np.ptp(turning)) > STILL * scale:
                told = f"jump {jump.operator} has entries that rotate apart by {units.text(float(np.ptp(turning)))}"
                raise InvalidInput("system.frame", f"{told} in this frame; divide it, or leave the frame out")
            # Rates are per time, and not angular: no 2 pi.
            rate = units.rate(jump.rate, f"{key}.rate")
            if rate > 0:
                jumps.append(Jump(f"jumps.{number}", sparse_matrix(math.sqrt(rate) * operator)))
    return tuple(jumps)


def _logical(gate: Gate, start: Any, space: Space, basis: Basis) -> Logical:
    """Return the basis states in which the named parts are 0 or 1, and the others as in the start (0 without).

    Raises
    ------
    InvalidInput
        If a part is unknown or named twice, or the start is no basis state.
    """
    known = [part.name for part in space.parts]
    names = gate.on if gate.on is not None else known
    for name in names:
        if name not in known:
            raise InvalidInput("system.target.on", f"unknown part {name!r}; parts: {', '.join(known)}")
    if len(set(names)) < len(names):
        raise InvalidInput("system.target.on", "each part may be named once")
    if len(names) > 10:
        raise InvalidInput("system.target.on", f"a gate of {len(names)} parts; at most 10")
    # Parts that the gate does not name keep the level of the start.
    others = [0] * len(known)
    if start is not None:
        if not isinstance(start, str):
            text = (
                "a gate starts from its logical states; give the label of a basis state for the other parts, in quotes, "
                f'such as "{"0" * len(known)}", or nothing; found {start}'
            )
            raise InvalidInput("system.initial", text)
        others = [int(k) for k in np.unravel_index(basis.place(start, "system.initial"), space.shape)]
    columns = np.zeros((space.dimension, 2 ** len(names)), dtype=np.complex128)
    # The first named part is the slowest bit, whatever its place in the product.
    for place, bits in enumerate(product((0, 1), repeat=len(names))):
        numbers = list(others)
        for name, bit in zip(names, bits, strict=True):
            numbers[known.index(name)] = bit
        columns[np.ravel_multi_index(numbers, space.shape), place] = 1.0
    return Logical(columns, ", ".join(names))


def _require_guard_levels(system: ModelSystem) -> None:
    """Refuse a transmon without a level above those that the deck names: its leakage would have nowhere to go.

    Raises
    ------
    InvalidInput
        Naming the levels that are needed.
    """
    goals: list[Any] = [system.target, *(pair.target for pair in system.pairs or [])]
    gates = [goal for goal in goals if isinstance(goal, Gate)]
    named = [0] * len(system.parts)
    for label in _labels_of(system):
        # Labels have commas where a part has more than ten levels.
        digits = label.split(",") if "," in label else list(label)
        if len(digits) == len(named) and all(digit.isdigit() for digit in digits):
            named = [max(top, int(digit)) for top, digit in zip(named, digits, strict=True)]
    for number, part in enumerate(system.parts):
        top = named[number]
        # A gate uses level 1 of its parts.
        if any(gate.on is None or part.name in gate.on for gate in gates):
            top = max(top, 1)
        if isinstance(part, Transmon) and part.levels < top + 2:
            text = f"transmon {part.name} has {part.levels} levels, and level {top} is used; keep at least {top + 2}"
            raise InvalidInput(f"system.parts.{number}.levels", text)


def _labels_of(system: ModelSystem) -> list[str]:
    """Return all labels that starts and goals name."""
    states = [system.initial, system.target]
    for pair in system.pairs or []:
        states += [pair.initial, pair.target]
    labels: list[str] = []
    for state in states:
        if isinstance(state, str):
            labels.append(state)
        elif isinstance(state, dict | list):
            labels += [label for label in state if isinstance(label, str)]
    return labels
