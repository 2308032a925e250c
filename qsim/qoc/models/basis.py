"""States of a system by name, and its starts: labels, levels of H0, superpositions, and mixtures as weighted columns."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.core.text import shorten
from qsim.qoc.deck.systems.states import Level, StateArray, StateFile, Thermal
from qsim.qoc.models.files import array_of

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.arrays import ComplexArray, FloatArray, IndexArray
    from qsim.qoc.deck.systems.quantities import Units

# Gap, relative to the width of the spectrum, below which the states of two levels are a matter of choice.
DEGENERATE = 1e-10
# Weight that two names of a state may differ by.
SAME = 1e-6
# Largest dimension whose levels are computed: dense, 16 D^2 bytes and 10 D^3 flops.
MOST_LEVELS = 3000


@dataclass(frozen=True)
class Basis:
    """Names of the states and operators of a system.

    Attributes
    ----------
    labels : tuple of str
        Names of the D basis states.
    energy : csr_array (D, D)
        H0 in the laboratory, whose levels 0, 1, ... are meant; angular frequency.
    uncoupled : csr_array (D, D)
        H0 of the parts alone.
    units : Units
    observable : callable
        Returns the operator (D, D) of a formula and a key.
    vectors : mapping of (D,) complex128
        Further states by name, of norm 1.
    errors : (D,) float64 or None
        Errors of the levels, angular frequency: neighbours closer than the sum of theirs are one group; None: of rounding alone.
    cut_at : str
        Key of the number of levels kept, where there are more above; empty where these are all.
    inside : (D,) bool or None
        The states that the deck keeps, of a basis with more; None: all.
    doubts : dict
        By key of the deck, numbers that are a level and the label of another state: filled as states are asked for.
    """

    labels: tuple[str, ...]
    energy: csr_array
    uncoupled: csr_array
    units: Units
    observable: Callable[[str, str], csr_array]
    vectors: Mapping[str, ComplexArray] = field(default_factory=dict)
    errors: FloatArray | None = None
    cut_at: str = ""
    inside: NDArray[np.bool_] | None = None
    doubts: dict[str, str] = field(default_factory=dict)

    @property
    def dimension(self) -> int:
        """Number D of basis states."""
        return len(self.labels)

    def widened(self, array: ComplexArray) -> ComplexArray:
        """Return a vector or a matrix of a file, of the states that the deck keeps, with zeros for all others."""
        if self.inside is None or self.inside.all():
            return array
        places = np.flatnonzero(self.inside)
        if set(array.shape) != {places.size}:
            return array
        wide = np.zeros((self.dimension,) * array.ndim, dtype=np.complex128)
        wide[np.ix_(*[places] * array.ndim)] = array
        return wide

    @cached_property
    def index(self) -> dict[str, int]:
        """Numbers of the basis states by label."""
        return {label: k for k, label in enumerate(self.labels)}

    @cached_property
    def levels(self) -> tuple[FloatArray, ComplexArray]:
        """Eigenvalues (D,) of H0, ascending, and eigenvectors (D, D) as columns."""
        return eigenstates(self.energy)

    def place(self, label: str, key: str) -> int:
        """Return the number of a basis state.

        Raises
        ------
        InvalidInput
            If no basis state has this label.
        """
        found = self.index.get(label)
        if found is None:
            raise InvalidInput(key, self._unknown(label))
        return found

    def _unknown(self, label: str) -> str:
        known = [*self.vectors, *self.labels]
        # A product of many parts has more labels than a comparison of texts can go through.
        close = difflib.get_close_matches(label, known[:2000], n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
        return f"unknown state {shorten(repr(label))}; {hint}states: {shown}"

    def vector(self, state: Any, key: str) -> ComplexArray:
        """Return a state (D,) of norm 1: a label, a level or its number, or {label: weight}.

        Raises
        ------
        InvalidInput
            If it is unknown, or one of a group of degenerate levels.
        """
        if isinstance(state, dict):
            # Weights are amplitudes, of any norm.
            total = sum(weight * self.vector(label, key) for label, weight in state.items())
            norm = float(np.linalg.norm(total))
            if norm < 1e-10:
                raise InvalidInput(key, "the states of the superposition cancel each other")
            return np.asarray(total / norm, dtype=np.complex128)
        if isinstance(state, Level):
            return self.level_rows([state.level], key)[0]
        if isinstance(state, int):
            found = self.level_rows([state], key)[0]
            self._doubt(state, found, key)
            return found
        # States of a file come before labels: they were named on purpose.
        if state in self.vectors:
            return self.vectors[state]
        unit = np.zeros(self.dimension, dtype=np.complex128)
        unit[self.place(state, key)] = 1.0
        return unit

    def _doubt(self, number: int, level: ComplexArray, key: str) -> None:
        """Note a level whose number is the label of another state."""
        place = self.index.get(str(number))
        if place is None or abs(level[place]) ** 2 > 1.0 - SAME:
            return
        self.doubts[key] = (
            f'{number} is level {number} of H0, of which the basis state "{number}" is {abs(level[place]) ** 2:.3g}; write '
            f'{{level: {number}}} for the level, or "{number}" in quotes for the basis state'
        )

    def rows(self, states: list[Any], key: str) -> ComplexArray:
        """Return an orthonormal basis (r, D) of what several labels or levels span.

        Raises
        ------
        InvalidInput
            If one is unknown, they depend on each other, or levels cut a degenerate group.
        """
        numbers = [state for state in states if isinstance(state, int)]
        if any(str(number) in self.index for number in numbers):
            self._doubt_all(numbers, key)
        vectors = [self.vector(state, key) for state in states if not isinstance(state, int)]
        found = np.array([*vectors, *(self.level_rows(numbers, key) if numbers else [])])
        values, basis = np.linalg.svd(found, full_matrices=False)[1:]
        # The least singular value is the distance of the states from being dependent.
        if values[-1] < 1e-8:
            raise InvalidInput(key, "the states of the list depend on each other")
        # Orthonormal rows stay as they are: the decomposition would mix them.
        orthonormal = bool(np.abs(found @ found.conj().T - np.eye(len(found))).max() < 1e-12)
        return found if orthonormal else np.asarray(basis, dtype=np.complex128)

    def _doubt_all(self, numbers: list[int], key: str) -> None:
        """Note levels of a list that span other states than the labels of the same numbers."""
        places = [self.index[str(number)] for number in numbers if str(number) in self.index]
        inside = float(np.sum(np.abs(self.level_rows(numbers, key)[:, places]) ** 2))
        if inside < len(numbers) - SAME:
            text = ", ".join(map(str, numbers))
            self.doubts[key] = (
                f"[{text}] are levels of H0, of which the basis states of these labels are {inside / len(numbers):.3g}; write "
                f"the labels in quotes for the basis states"
            )

    def level_rows(self, numbers: list[int], key: str) -> ComplexArray:
        """Return eigenvectors (r, D) of H0.

        Raises
        ------
        InvalidInput
            If a level does not exist, or belongs to a degenerate group of which others are left out.
        """
        energies, vectors = self.levels_for(key)
        # Rounding of eigenvalues is relative to the width of the spectrum.
        width = max(float(energies[-1] - energies[0]), 1e-300)
        chosen = set(numbers)
        for number in numbers:
            if number >= self.dimension:
                text = (
                    f"there is no level {number}: levels 0 to {self.dimension - 1} (labels stand in quotes)"
                )
                raise InvalidInput(key, text)
            group = self._group(energies, number, DEGENERATE * width)
            if not set(group) <= chosen:
                raise InvalidInput(key, self._not_apart(energies, number, group))
        return np.ascontiguousarray(vectors[:, numbers].T)

    def _group(self, energies: FloatArray, number: int, gap: float) -> list[int]:
        """Return the levels around one that follow each other closer than a gap, or than their errors."""
        errors = np.zeros(energies.size) if self.errors is None else self.errors
        close = np.diff(energies) <= np.maximum(gap, errors[1:] + errors[:-1])
        first = last = number
        while first > 0 and close[first - 1]:
            first -= 1
        while last + 1 < energies.size and close[last]:
            last += 1
        return list(range(first, last + 1))

    def _not_apart(self, energies: FloatArray, number: int, group: list[int]) -> str:
        """Return why a level of a group cannot be named alone."""
        told = ", ".join(map(str, group))
        if self.errors is None:
            quoted = f'"{number}"' if str(number) in self.index else "its label"
            return (
                f"level {number} is one of the degenerate levels {told}, whose states are a matter of choice; "
                f"name a basis state by {quoted} (a text, with quotes), or all of them, [{told}], as a target"
            )
        gap = self.units.text(float(np.diff(energies[group]).min()))
        error = self.units.text(float(self.errors[group].max()))
        return (
            f"level {number} is one of the levels {told}, which lie {gap} apart with errors up to {error}: they are not told "
            f"apart; name all of them, [{told}], as a target, or add points"
        )

    def levels_for(self, key: str) -> tuple[FloatArray, ComplexArray]:
        """Return `levels`, refused where they would take too long.

        Raises
        ------
        InvalidInput
            If there are more than `MOST_LEVELS` basis states.
        """
        if self.dimension > MOST_LEVELS:
            text = f"levels of {self.dimension} basis states are not computed, at most {MOST_LEVELS}; name states by labels"
            raise InvalidInput(key, text)
        return self.levels


def connected(matrix: csr_array) -> tuple[int, NDArray[np.int64]]:
    """Return how many blocks there are, and the block (D,) of each basis state, in the order of their first states.

    As ``scipy.sparse.csgraph.connected_components``, whose import loads half of SciPy.

    Parameters
    ----------
    matrix : (D, D) sparse
        Two states are in the same block if an entry is stored between them, or a chain of such entries.
    """
    rows, columns = matrix.tocoo().coords
    # Each state knows a state of its block that comes before it, in the end the first one.
    least = np.arange(matrix.shape[0])
    while True:
        one, other = least[rows], least[columns]
        first = np.minimum(one, other)
        near = least.copy()
        # Those known at both ends of an entry learn of each other, so that chains of any length take a few rounds.
        for each in (one, other, rows, columns):
            np.minimum.at(near, each, first)
        near = near[near]
        if np.array_equal(near, least):
            break
        least = near
    names, block_of = np.unique(least, return_inverse=True)
    return names.size, np.asarray(block_of, np.int64)


def eigenstates(matrix: csr_array) -> tuple[FloatArray, ComplexArray]:
    """Return the eigenvalues (D,), ascending, and eigenvectors (D, D) as columns of a Hermitian matrix.

    A matrix whose blocks do not couple keeps its blocks: eigenvectors do not mix them even where levels coincide. The largest
    component of each vector is real and positive.
    """
    size = matrix.shape[0]
    count, block_of = connected(abs(matrix))
    energies = np.zeros(size)
    vectors = np.zeros((size, size), dtype=np.complex128)
    filled = 0
    for block in range(count):
        inside = np.flatnonzero(block_of == block)
        values, columns = np.linalg.eigh(matrix[inside][:, inside].toarray())
        places = slice(filled, filled + inside.size)
        energies[places] = values
        vectors[inside, places] = columns
        filled += inside.size
    largest = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(size)]
    vectors *= (np.abs(largest) / largest)[None, :]
    order = np.argsort(energies, kind="stable")
    return energies[order], vectors[:, order]


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
