"""Starts of a system: states and mixtures as weighted columns, and what was left out of a mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qoc.deck.systems.arrays import StateArray
from qsim.qoc.deck.systems.states import StateFile, Thermal
from qsim.qoc.models.basis import eigenstates
from qsim.qoc.models.files import array_of

if TYPE_CHECKING:
    from pathlib import Path

    from qsim.core.device.arrays import ComplexArray, FloatArray, IndexArray
    from qsim.qoc.models.basis import Basis

# Deviations of a density matrix of a file from Hermitian, positive and trace 1: it was written with some ten digits.
SOUND = 1e-8
# Weight above the levels kept that no result shows.
LEAST = 1e-12
# Error of a sum of weights, per member.
ROUNDING = 4e-16


@dataclass(frozen=True)
class Start:
    """Weighted columns.

    Attributes
    ----------
    states : (D, S) complex128
        Columns of norm 1.
    weights : (S,) float64
        Their sum is 1 less `dropped`.
    dropped : float
        Weight that was left out.
    """

    states: ComplexArray
    weights: FloatArray
    dropped: float = 0.0


def boltzmann(energies: FloatArray, temperature: float) -> FloatArray:
    """Return the populations (n,) of levels, ``exp(-E/kT)/Z``; energies and kT in the same unit."""
    with np.errstate(over="ignore"):
        weights = np.exp(-(energies - energies.min()) / temperature)
    return np.asarray(weights / weights.sum(), dtype=float)


def kept(weights: FloatArray, below: float, total: float = 1.0) -> tuple[IndexArray, float]:
    """Return the numbers of the fewest members of a mixture that leave out at most `below`, and the weight left out.

    Parameters
    ----------
    weights : (n,) float64
        Their sum is at most `total`.
    below : float
        Largest weight that may be left out; all are kept where that is not enough.
    total : float
        Weight of all members, those of which nothing is known included.
    """
    order = np.argsort(-weights, kind="stable")
    rest = total - np.cumsum(weights[order])
    count = min(int(np.argmax(rest <= below)) + 1 if np.any(rest <= below) else weights.size, weights.size)
    chosen = np.sort(order[:count])
    unknown = max(0.0, total - float(weights.sum()))
    # Rounding of a sum is no weight.
    unknown = unknown if unknown > ROUNDING * weights.size else 0.0
    return chosen, float(np.delete(weights, chosen).sum()) + unknown


def start(initial: Any, basis: Basis, key: str) -> Start:
    """Return the start of a deck: a state as one column, a mixture as several.

    Raises
    ------
    InvalidInput
        If a state is unknown, or a file holds no density matrix of these states.
    """
    if isinstance(initial, Thermal):
        return _thermal(initial, basis, key)
    if isinstance(initial, StateFile):
        name, array = array_of(initial.file, ("rho", "psi"), f"{key}.file")
        return _from_array(name, array, initial.below, basis, f"{key}.file")
    if isinstance(initial, StateArray):
        name, array = array_of_block(initial, key)
        return _from_array(name, array, LEAST, basis, f"{key}.{name}")
    return Start(basis.vector(initial, key)[:, None], np.ones(1))


def _thermal(initial: Thermal, basis: Basis, key: str) -> Start:
    """Return a thermal mixture of the levels of H0 in the laboratory, or of the uncoupled parts."""
    temperature = basis.units.temperature(initial.thermal, f"{key}.thermal")
    if initial.coupled:
        energies, vectors = basis.levels_for(key)
    else:
        energies, vectors = eigenstates(basis.uncoupled)
    weights = boltzmann(energies, temperature)
    # Levels above those kept: their number per energy grows, and their weights fall at least as those of the last ones.
    missing = float(weights[-1]) * weights.size
    if basis.cut_at and missing > max(initial.below, LEAST):
        text = f"the thermal start puts about {missing:.2g} into levels above the {weights.size} kept; raise them, or below"
        raise InvalidInput(basis.cut_at, text)
    chosen, dropped = kept(weights, initial.below)
    return Start(np.ascontiguousarray(vectors[:, chosen]), weights[chosen], dropped)


def array_of_block(state: StateArray, key: str) -> tuple[str, ComplexArray]:
    """Return the name, psi or rho, and the array of a state that stands in the deck.

    Raises
    ------
    InvalidInput
        If the rows of a density matrix have several lengths.
    """
    if state.rho is None:
        return "psi", np.array(state.psi, dtype=np.complex128)
    if len({len(row) for row in state.rho}) > 1:
        raise InvalidInput(f"{key}.rho", "the rows of this matrix have several lengths")
    return "rho", np.array(state.rho, dtype=np.complex128)


def _from_array(name: str, array: ComplexArray, below: float, basis: Basis, key: str) -> Start:
    """Return the state ``psi`` or the eigenvectors of the density matrix ``rho``."""
    array, size = basis.widened(array), basis.dimension
    if name == "psi" or (name == "" and array.ndim == 1):
        if array.shape != (size,):
            raise InvalidInput(key, f"psi has the shape {array.shape}, expected ({size},)")
        norm = float(np.linalg.norm(array))
        if abs(norm - 1.0) > SOUND:
            raise InvalidInput(key, f"psi is no unit vector: its norm is {norm:.9g}")
        return Start((array / norm)[:, None], np.ones(1))
    values, vectors = np.linalg.eigh(require_density(array, size, key))
    weights = np.clip(values, 0.0, None) / np.clip(values, 0.0, None).sum()
    chosen, dropped = kept(weights, below)
    return Start(np.ascontiguousarray(vectors[:, chosen]), weights[chosen], dropped)


def read_density(given: Path | list[list[complex]], basis: Basis, key: str) -> ComplexArray:
    """Return the density matrix ``rho`` (D, D) of the deck or of a file.

    Raises
    ------
    InvalidInput
        If it is no density matrix of D states.
    """
    array = (
        array_of_block(StateArray(rho=given), key)[1]
        if isinstance(given, list)
        else array_of(given, ("rho",), key)[1]
    )
    return require_density(basis.widened(array), basis.dimension, key)


def require_density(array: ComplexArray, size: int, key: str) -> ComplexArray:
    """Return a density matrix, Hermitian to the last bit and of trace 1.

    Raises
    ------
    InvalidInput
        If the shape is wrong, or it is not Hermitian, not positive, or its trace is not 1, beyond rounding.
    """
    if array.shape != (size, size):
        raise InvalidInput(key, f"rho has the shape {array.shape}, expected ({size}, {size})")
    skew = float(np.abs(array - array.conj().T).max())
    if skew > SOUND:
        raise InvalidInput(key, f"rho is not Hermitian: |rho - rho+| = {skew:.3g}")
    rho = 0.5 * (array + array.conj().T)
    trace = float(np.trace(rho).real)
    if abs(trace - 1.0) > SOUND:
        raise InvalidInput(key, f"the trace of rho is {trace:.9g}, expected 1")
    least = float(np.linalg.eigvalsh(rho)[0])
    if least < -SOUND:
        raise InvalidInput(key, f"rho has the negative eigenvalue {least:.3g}")
    return np.asarray(rho / trace, dtype=np.complex128)
