"""What can be computed at all: elements of matrices, and parts of slots, before anything is allocated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qoc.propagators.slots import LONGEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.qoc.models.quantum import QuantumModel

# Elements whose squares and products stay within double precision.
LARGEST = 1e100
# Below this a control is as good as none, and what it takes for a turn is beyond double precision.
LEAST = 1e-100
# Parts of all slots that a propagation may have: hours to days of a core.
MOST_PARTS = 1e9


def require_computable(model: QuantumModel, duration: float, guess: NDArray[np.float64]) -> None:
    """Refuse matrices and durations that cannot be computed with.

    Parameters
    ----------
    model : QuantumModel
    duration : float
    guess : (C, N) float64
        First values of the controls.

    Raises
    ------
    InvalidInput
        Naming the matrix and its largest element, or what makes the parts of the slots so many.
    """
    for name, matrix in _named(model):
        _require_elements(name, matrix, least=LEAST if name.startswith("the control") else 0.0)
    sizes = {"H0": _norm(model.drift - _middle(model.drift))}
    for control, values in zip(model.controls, guess, strict=True):
        sizes[f"the control {control.name}"] = _norm(control.operator) * np.abs(values).max() ** control.power
    for jump in model.jumps:
        sizes[f"the jump {jump.name}"] = _norm(jump.operator) ** 2
    parts = sum(sizes.values()) * duration / LONGEST
    if math.isfinite(parts) and parts <= MOST_PARTS:
        return
    worst = max(sizes, key=lambda name: sizes[name])
    raise InvalidInput(
        "time.T",
        f"{worst} has the norm {sizes[worst]:.3g} per unit of time: {sizes[worst] * duration:.3g} in T, so that the slots need "
        f"{parts:.2g} parts, at most {MOST_PARTS:.0e}; lower T or {worst}, or choose a frame in which it is small",
    )


def _named(model: QuantumModel) -> Iterator[tuple[str, csr_array]]:
    """Yield the matrices of a model by the names of messages."""
    yield "H0", model.drift
    yield from ((f"the control {control.name}", control.operator) for control in model.controls)
    yield from ((f"the jump {jump.name}", jump.operator) for jump in model.jumps)


def _require_elements(name: str, matrix: csr_array, least: float) -> None:
    """Refuse a matrix by its largest element.

    Raises
    ------
    InvalidInput
        Naming the element.
    """
    entries = matrix.tocoo()
    if entries.nnz == 0:
        return
    sizes = np.maximum(np.abs(entries.data.real), np.abs(entries.data.imag))
    worst = int(np.argmax(sizes))
    if least <= sizes[worst] <= LARGEST:
        return
    row, column = (int(k[worst]) for k in entries.coords)
    beyond = f"beyond {LARGEST:.0e}" if sizes[worst] > LARGEST else f"below {least:.0e}"
    raise InvalidInput(
        "system",
        f"the largest element of {name}, at ({row}, {column}), is {sizes[worst]:.3g}, {beyond}; rescale the units",
    )


def _norm(matrix: csr_array) -> float:
    """Return the norm by rows."""
    return float(abs(matrix).sum(axis=1).max(initial=0.0))


def _middle(drift: csr_array) -> csr_array:
    """Return the middle of the diagonal, a phase alone, as a matrix."""
    from scipy.sparse import eye_array

    diagonal = drift.diagonal().real
    return 0.5 * float(diagonal.min() + diagonal.max()) * eye_array(drift.shape[0], format="csr")
