"""``system: {type: matrices}``: a system from a file of matrices, refused unless they are what they have to be.

The file holds ``H0``, ``controls/NAME``, and where they are needed ``jumps/NAME`` (square roots of the rates included),
``states/NAME`` and ``observables/NAME``. Bases are taken as given: their truncation has no claimed error.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.core.text import shorten
from qsim.qoc.deck.systems.quantities import Units
from qsim.qoc.models.basis import Basis
from qsim.qoc.models.faults import Faults
from qsim.qoc.models.files import LARGEST, dense_matrix, matrices, read_tree
from qsim.qoc.models.goals import aim, named_states
from qsim.qoc.models.line.jumps import Levels, level_jumps
from qsim.qoc.models.operators import evaluate, require_hermitian, sparse_matrix
from qsim.qoc.models.quantum import ControlTerm, Jump

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.deck.systems.matrices import MatricesSystem, MatrixJump
    from qsim.qoc.models.quantum import QuantumModel

GROUPS = ("controls", "jumps", "states", "observables")
# Arrays that targets and starts read from the same file.
OTHERS = ("gate", "U", "rho", "psi")
# Deviation of the norm of a state of a file from 1: it was written with some ten digits.
SOUND = 1e-8
KEY = "system.file"


def matrices_model(system: MatricesSystem) -> QuantumModel:
    """Return the matrices of a file.

    Parameters
    ----------
    system
        Block of the deck.

    Raises
    ------
    InvalidSystem
        With every mistake: missing or unknown names, shapes that do not match, entries that are not finite, operators that are
        not Hermitian, states that are no unit vectors.
    FileError
        If the file cannot be read.
    """
    units = Units(system.unit)
    faults = Faults()
    found = _contents(system, faults)
    drift = _drift(found, faults)
    size = drift.shape[0]
    with faults.catch():
        require_hermitian(drift, KEY, name="H0")
    square = _operators(found, size, faults)
    states = _states(found, size, faults)
    labels = _labels(system, size, faults)
    controls = _controls(system, square["controls"], units, faults)
    jumps = tuple(Jump(name, operator) for name, operator in square["jumps"].items())
    # Matrices are in the unit of the block, 2 pi included where it is a frequency; jumps carry square roots of rates, and have
    # none.
    energy = sparse_matrix(units.factor * drift)
    observable = _observable(drift, square)
    basis = Basis(labels, energy, energy, units, observable, states)
    faults.stop()
    places = {label: place for place, label in enumerate(labels)}
    with faults.catch():
        _require_levels(system, energy)
    energies = np.asarray(energy.diagonal().real)
    jumps += level_jumps(system.jumps, Levels(energies, places, units, observable), faults)
    for number, entry in enumerate(system.jumps):
        with faults.catch():
            if entry.matrix is not None:
                jumps += (_of_matrix(entry, size, units, f"system.jumps.{number}"),)
    with faults.catch():
        goal = aim(system, basis, lambda gate, start: named_states(gate, start, basis, every=True))
    faults.stop()
    return replace(goal.model(basis, controls, jumps), whole=True)


def _contents(system: MatricesSystem, faults: Faults) -> Mapping[str, csr_array | ComplexArray]:
    """Return the matrices of the file by name, and refuse names without a meaning.

    Raises
    ------
    InvalidSystem
        If an array is damaged: nothing else can be judged then.
    """
    found: dict[str, csr_array | ComplexArray] = {}
    with faults.catch():
        if system.file is None and system.H0 is None:
            raise InvalidInput(KEY, "give a file, or H0 and controls")
        if system.file is not None:
            found = matrices(read_tree(system.file, "matrices H0 and controls/NAME"), KEY)
        found |= matrices(_given(system), "system")
    faults.stop()
    forms = ["H0", *(f"{group}/NAME" for group in GROUPS)]
    for name in found:
        group, _, inner = name.partition("/")
        # A dataset that nothing reads is a slip of the pen more often than not.
        known = name == "H0" or name in OTHERS or (group in GROUPS and inner and "/" not in inner)
        if known:
            continue
        close = difflib.get_close_matches(name, ["H0", *GROUPS], n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}? " if close else ""
        with faults.catch():
            raise InvalidInput(
                KEY, f"unknown dataset {shorten(repr(name))}; {hint}expected {', '.join(forms)}"
            )
    return found


def _given(system: MatricesSystem) -> dict[str, NDArray[Any]]:
    """Return the arrays of the deck itself, by the names that a file has for them.

    Raises
    ------
    InvalidInput
        If the rows of one have several lengths.
    """
    listed: dict[str, Any] = {} if system.H0 is None else {"H0": ("system.H0", system.H0)}
    for name, control in (system.controls or {}).items():
        if control.operator is not None:
            listed[f"controls/{name}"] = (f"system.controls.{name}", control.operator)
    listed |= {f"observables/{k}": (f"system.observables.{k}", v) for k, v in system.observables.items()}
    found: dict[str, NDArray[Any]] = {}
    for name, (key, rows) in listed.items():
        if len({len(row) for row in rows}) > 1:
            raise InvalidInput(key, "the rows of this matrix have several lengths")
        found[name] = np.array(rows, dtype=complex)
    return found


def _drift(found: Mapping[str, csr_array | ComplexArray], faults: Faults) -> csr_array:
    """Return H0.

    Raises
    ------
    InvalidSystem
        If it is missing or no square matrix: nothing else can be judged then.
    """
    drift = sparse_matrix(np.zeros((1, 1)))
    with faults.catch():
        if "H0" not in found:
            raise InvalidInput(KEY, f"no dataset H0; the file holds {', '.join(sorted(found)) or 'nothing'}")
        shape = found["H0"].shape
        if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 2:
            raise InvalidInput(
                KEY, f"H0 has the shape {tuple(shape)}; expected a square matrix of at least 2 states"
            )
        if shape[0] > LARGEST:
            raise InvalidInput(KEY, f"H0 has {shape[0]} states; at most {LARGEST}")
        drift = sparse_matrix(found["H0"])
    faults.stop()
    return drift


def _operators(
    found: Mapping[str, csr_array | ComplexArray], size: int, faults: Faults
) -> dict[str, dict[str, csr_array]]:
    """Return controls, jumps and observables (D, D) by name."""
    square: dict[str, dict[str, csr_array]] = {"controls": {}, "jumps": {}, "observables": {}}
    for name in sorted(found):
        group, _, inner = name.partition("/")
        if group not in square:
            continue
        with faults.catch():
            shape = tuple(found[name].shape)
            if shape != (size, size):
                raise InvalidInput(KEY, f"{name} has the shape {shape}, H0 has ({size}, {size})")
            matrix = sparse_matrix(found[name])
            if group != "jumps":
                require_hermitian(matrix, KEY, name=name)
            square[group][inner] = matrix
    return square


def _states(
    found: Mapping[str, csr_array | ComplexArray], size: int, faults: Faults
) -> dict[str, ComplexArray]:
    """Return the states (D,) of the file by name."""
    states: dict[str, ComplexArray] = {}
    for name in sorted(found):
        if not name.startswith("states/"):
            continue
        with faults.catch():
            vector = dense_matrix(found[name])
            if vector.shape not in ((size,), (size, 1)):
                raise InvalidInput(KEY, f"{name} has the shape {vector.shape}, expected ({size},)")
            norm = float(np.linalg.norm(vector))
            if abs(norm - 1.0) > SOUND:
                raise InvalidInput(KEY, f"{name} is no unit vector: its norm is {norm:.9g}")
            states[name.partition("/")[2]] = vector.ravel() / norm
    return states


def _labels(system: MatricesSystem, size: int, faults: Faults) -> tuple[str, ...]:
    """Return the names of the basis states."""
    if system.labels is None:
        return tuple(map(str, range(size)))
    with faults.catch():
        if len(system.labels) != size:
            raise InvalidInput("system.labels", f"{len(system.labels)} labels for the {size} states of H0")
        if len(set(system.labels)) < size:
            raise InvalidInput("system.labels", "each label may be used once")
    return tuple(system.labels)


def _controls(
    system: MatricesSystem, found: Mapping[str, csr_array], units: Units, faults: Faults
) -> tuple[ControlTerm, ...]:
    """Return the controls in the order of the deck, or by name."""
    # Without a block the order is that of the names.
    chosen: dict[str, Any] = dict.fromkeys(found, None) if system.controls is None else dict(system.controls)
    controls: list[ControlTerm] = []
    with faults.catch():
        if not chosen:
            raise InvalidInput(KEY, "no dataset controls/NAME: nothing can be controlled")
    for name, block in chosen.items():
        with faults.catch():
            if name not in found:
                there = ", ".join(found) or "none"
                raise InvalidInput(
                    f"system.controls.{name}", f"the file has no controls/{name}; controls: {there}"
                )
            if found[name].nnz == 0:
                raise InvalidInput(KEY, f"controls/{name} is 0")
            power = 1 if block is None else block.power
            controls.append(ControlTerm(name, sparse_matrix(units.factor * found[name]), power))
    return tuple(controls)


def _of_matrix(entry: MatrixJump, size: int, units: Units, key: str) -> Jump:
    """Return the jump of a matrix of the deck.

    Raises
    ------
    InvalidInput
        If its shape is not that of H0.
    """
    matrix = (
        np.array(entry.matrix, dtype=complex)
        if len({len(r) for r in entry.matrix or []}) == 1
        else np.zeros((0, 0))
    )
    if matrix.shape != (size, size):
        raise InvalidInput(f"{key}.matrix", f"the shape is not that of H0, ({size}, {size})")
    rate = 1.0 if entry.rate is None else units.rate(entry.rate, f"{key}.rate")
    return Jump(key.removeprefix("system."), sparse_matrix(np.sqrt(rate) * matrix))


def _require_levels(system: MatricesSystem, energy: csr_array) -> None:
    """Refuse jumps between levels, of which the energies count, where basis states are none.

    Raises
    ------
    InvalidInput
        If H0 has elements beside its diagonal.
    """
    between = abs(energy).sum() - np.abs(energy.diagonal()).sum()
    for number, entry in enumerate(system.jumps):
        if between > 0.0 and (entry.bath or entry.lifetimes or entry.temperature):
            text = "the basis states are no levels of H0, which has elements between them; give rates, or operator and rate"
            raise InvalidInput(f"system.jumps.{number}", text)


def _observable(drift: csr_array, square: Mapping[str, Mapping[str, csr_array]]) -> Any:
    """Return the function that makes an observable of a formula: observables by name, H0, controls.NAME, jumps.NAME."""
    named = {"H0": drift, **square["observables"]}
    for group in ("controls", "jumps"):
        named |= {f"{group}.{name}": matrix for name, matrix in square[group].items()}

    def observable(text: str, key: str) -> csr_array:
        return evaluate(text, tuple(named), named.__getitem__, key, drift.shape[0])

    return observable
