"""Matrices of the named parts: qubits, transmons, ladders, spins and rotors, with their baths.

Level 0 is the lowest one. ``b|n> = sqrt(n)|n-1>``, ``x = b + b+``, ``y = i(b+ - b)``; for a qubit b is ``sm = |0><1|``,
``sz = |0><0| - |1><1|``, and x, y are the Pauli matrices sx, sy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from qsim.core.errors import InvalidInput
from qsim.qoc.deck.systems.model import Ladder, Qubit, RotorPart, Spin, Transmon
from qsim.qoc.models.operators import sparse_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.device.arrays import FloatArray
    from qsim.qoc.deck.systems.model import Part
    from qsim.qoc.deck.systems.quantities import Units

STEPS = {"b": 1, "bd": 1, "x": 1, "y": 1, "cos": 1, "cos2": 2}
"""By how many levels an operator of a part whose levels are cut changes the level; all others are diagonal."""


@dataclass(frozen=True)
class PartMatrices:
    """One part of a model.

    Attributes
    ----------
    name : str
    energies : (d,) float64
        Eigenvalues of its own Hamiltonian, which is diagonal; angular frequency.
    operators : dict of (d, d) complex128
        By the names of the formulas.
    charge : (d,) float64 or None
        Number of quanta of each level, which a rotating frame counts; None for rotors.
    jumps : tuple of (str, (d, d) complex128)
        Jumps of T1, T2, Tphi and the temperature, square roots of the rates included.
    """

    name: str
    energies: FloatArray
    operators: dict[str, csr_array]
    charge: FloatArray | None
    jumps: tuple[tuple[str, csr_array], ...] = field(default=())

    @property
    def levels(self) -> int:
        """Number d of levels."""
        return int(self.energies.size)


def part_matrices(part: Part, units: Units, key: str, extra: int = 0) -> PartMatrices:
    """Return the matrices of one part.

    Parameters
    ----------
    part
        Block of the deck.
    units
        Of the block `system`.
    key
        Where the part stands in the deck: ``system.parts.0``.
    extra : int
        Levels more than the deck says, where levels were cut off: transmons, ladders, rotors.

    Raises
    ------
    InvalidInput
        If T2 exceeds 2 T1, a bath has no frequency, or keys contradict each other.
    """
    if isinstance(part, Spin):
        return _spin(part, units, key)
    if isinstance(part, RotorPart):
        return _rotor(part, units, key, extra)
    # A qubit has two levels by definition: no more of them can be an error.
    levels = 2 if isinstance(part, Qubit) else part.levels + extra
    lowering = np.diag(np.sqrt(np.arange(1.0, levels)), 1).astype(complex)
    n = np.arange(float(levels))
    bent = 0.0 if isinstance(part, Qubit) else units.frequency(part.anharmonicity, f"{key}.anharmonicity")
    # Duffing levels w n + alpha n (n - 1)/2.
    energies = units.frequency(part.frequency, f"{key}.frequency") * n + 0.5 * bent * n * (n - 1.0)
    operators = _ladder_operators(levels)
    if isinstance(part, Qubit):
        operators = operators | _pauli_names(operators)
    jumps = _jumps(part, units, key, lowering)
    return PartMatrices(part.name, energies, operators, n, jumps)


def _projectors(levels: int) -> dict[str, csr_array]:
    """Return p0, p1, ...: the projectors on the levels."""
    shape = (levels, levels)
    return {f"p{k}": sparse.csr_array(([1.0 + 0j], ([k], [k])), shape=shape) for k in range(levels)}


@lru_cache(maxsize=32)
def _ladder_operators(levels: int) -> dict[str, csr_array]:
    """Return b, bd, n, x, y and the projectors of a ladder; nobody changes them."""
    b = np.diag(np.sqrt(np.arange(1.0, levels)), 1).astype(complex)
    up = b.conj().T
    named = {"b": b, "bd": up, "n": np.diag(np.arange(len(b))), "x": b + up, "y": 1j * (up - b)}
    return {name: sparse_matrix(matrix) for name, matrix in named.items()} | _projectors(len(b))


def _pauli_names(operators: dict[str, csr_array]) -> dict[str, csr_array]:
    """Return sx, sy, sz, sp and sm of a qubit."""
    # Level 0 is the lowest, so that lowering is
    # 0><1
    # , and sy = i (b+ - b).
    same = {"sx": "x", "sy": "y", "sm": "b", "sp": "bd"}
    return {name: operators[old] for name, old in same.items()} | {"sz": sparse_matrix(np.diag([1.0, -1.0]))}


def _spin(part: Spin, units: Units, key: str) -> PartMatrices:
    """Return a spin: levels m = -s, ..., s, ``S+|m> = sqrt(s(s+1) - m(m+1))|m+1>``."""
    s = part.s
    m = np.arange(-s, s + 0.5)
    rising = np.diag(np.sqrt(s * (s + 1.0) - m[:-1] * (m[:-1] + 1.0)), -1).astype(complex)
    falling = rising.conj().T
    # Quanta count from m = -s, which is the lowest level at a positive frequency.
    n = m + s
    named = {
        "Sx": 0.5 * (rising + falling),
        "Sy": -0.5j * (rising - falling),
        "Sz": np.diag(m),
        "Sp": rising,
        "Sm": falling,
        "n": np.diag(n),
    }
    operators = {name: sparse_matrix(matrix) for name, matrix in named.items()} | _projectors(len(m))
    return PartMatrices(part.name, units.frequency(part.frequency, f"{key}.frequency") * n, operators, n)


def cos_matrix(m: int, size: int) -> FloatArray:
    """Return ``<J'M|cos theta|JM>``, (size, size), for J = |M|, |M|+1, ...

    ``<J+1,M|cos|J,M> = sqrt(((J+1)^2 - M^2)/((2J+1)(2J+3)))``.
    """
    j = abs(m) + np.arange(size - 1.0)
    # cos connects J with J + 1 alone.
    above = np.sqrt(((j + 1.0) ** 2 - m * m) / ((2.0 * j + 1.0) * (2.0 * j + 3.0)))
    return np.asarray(np.diag(above, 1) + np.diag(above, -1), dtype=float)


def square_of_cos(m: int, size: int) -> FloatArray:
    """Return ``<J'M|cos^2 theta|JM>``, (size, size).

    The product of two cut matrices lacks what passes through the levels above; in a basis larger by 2 nothing is missing.
    """
    larger = cos_matrix(m, size + 2)
    return np.asarray((larger @ larger)[:size, :size], dtype=float)


def _rotor(part: RotorPart, units: Units, key: str, extra: int) -> PartMatrices:
    """Return a linear rotor of fixed M: J = |M|, |M|+1, ..."""
    size = part.levels + extra
    j = abs(part.M) + np.arange(float(size))
    named = {
        "cos": cos_matrix(part.M, size),
        "cos2": square_of_cos(part.M, size),
        "J2": np.diag(j * (j + 1.0)),
    }
    operators = {name: sparse_matrix(matrix) for name, matrix in named.items()} | _projectors(size)
    # No charge: levels of a rotor are not equidistant, and no frame makes them stand.
    energies = units.frequency(part.B, f"{key}.B") * j * (j + 1.0)
    return PartMatrices(part.name, energies, operators, None)


def _jumps(
    part: Qubit | Transmon | Ladder, units: Units, key: str, b: NDArray[np.complexfloating]
) -> tuple[tuple[str, csr_array], ...]:
    """Return the jumps of one part.

    ``sqrt((nbar + 1)/T1) b``, ``sqrt(nbar/T1) b+`` and ``sqrt(2/Tphi) n``: the last one makes the coherence 0-1 decay as
    ``exp(-t/Tphi)``, and ``1/T2 = 1/(2 T1) + 1/Tphi`` in a cold bath. ``nbar = 1/(exp(w/kT) - 1)`` at the frequency w of 0-1.
    """
    name = part.name
    jumps: list[tuple[str, csr_array]] = []
    quanta = _bath_quanta(part, units, key)
    if part.T1 is not None:
        rate = 1.0 / units.time(part.T1, f"{key}.T1")
        jumps.append((f"{name}.T1", sparse_matrix(math.sqrt(rate * (quanta + 1.0)) * b)))
        # A cold bath does not heat; a jump of rate 0 would only cost time.
        if quanta:
            jumps.append((f"{name}.heating", sparse_matrix(math.sqrt(rate * quanta) * b.conj().T)))
    dephasing = _pure_dephasing(part, units, key)
    if dephasing:
        n = np.diag(np.arange(float(len(b))))
        jumps.append((f"{name}.Tphi", sparse_matrix(math.sqrt(2.0 * dephasing) * n)))
    return tuple(jumps)


def _bath_quanta(part: Qubit | Transmon | Ladder, units: Units, key: str) -> float:
    """Return nbar of the bath at the frequency of the part; 0 without a temperature.

    Raises
    ------
    InvalidInput
        If the temperature has no T1 to act through, or the part no frequency.
    """
    if part.temperature is None:
        return 0.0
    if part.T1 is None:
        raise InvalidInput(
            f"{key}.temperature", "a bath acts through T1; give T1, or leave the temperature out"
        )
    frequency = units.frequency(part.frequency, f"{key}.frequency")
    if frequency <= 0:
        raise InvalidInput(f"{key}.temperature", f"a bath needs a frequency above 0, found {part.frequency}")
    ratio = frequency / units.temperature(part.temperature, f"{key}.temperature")
    # exp(700) is the end of double precision.
    return 1.0 / math.expm1(ratio) if ratio < 700.0 else 0.0


def _pure_dephasing(part: Qubit | Transmon | Ladder, units: Units, key: str) -> float:
    """Return 1/Tphi, from Tphi or from T2 and T1; 0 without.

    Raises
    ------
    InvalidInput
        If both are given, T2 exceeds 2 T1, or T2 is given for a warm bath, whose T1 broadens the line as well.
    """
    if part.Tphi is not None:
        if part.T2 is not None:
            raise InvalidInput(f"{key}.T2", "give either T2 or Tphi, not both")
        return 1.0 / units.time(part.Tphi, f"{key}.Tphi")
    if part.T2 is None:
        return 0.0
    if part.temperature is not None:
        raise InvalidInput(f"{key}.T2", "T2 of a warm bath depends on its temperature; give Tphi instead")
    t2 = units.time(part.T2, f"{key}.T2")
    if part.T1 is None:
        return 1.0 / t2
    twice = 2.0 * units.time(part.T1, f"{key}.T1")
    # T2 = 2 T1 may be written with rounded decimals.
    if t2 > twice * (1.0 + 1e-12):
        raise InvalidInput(f"{key}.T2", f"T2 = {part.T2} exceeds 2 T1 = {_doubled(part.T1, units)}")
    return max(0.0, 1.0 / t2 - 1.0 / twice)


def _doubled(time: float | str, units: Units) -> str:
    """Return twice a time, in the unit of the deck."""
    if not isinstance(time, str):
        return f"{2.0 * time:g}{units.of_times}"
    unit = time.lstrip("+-0123456789.eE ")
    return f"{2.0 * float(time[: len(time) - len(unit)]):g} {unit}"
