"""Families of gates that count as one goal: the value is that of the best gate of a family (Eqs. Q24, Q29).

A family finds the gate U with the largest ``vec(U)+ R vec(U)`` as a vector of real numbers, where R is the process of the logical
space: ``F_pro = vec(U)+ R vec(U)/d^2``. Values and derivatives are those of this gate, which does not move to first order. A new
family is a class here, in `FAMILIES`, and a name in `qsim.qoc.deck.systems.states`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.objectives.weyl import (
    directions_in_class,
    directions_of_entanglers,
    nearest_in_class,
    nearest_perfect_entangler,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray as Columns
    from qsim.qoc.models.quantum import GateTarget

# Rounds over all phases, and the gain, relative to the value, from which there are no more.
ROUNDS = 400
GAIN = 1e-15
# Starts besides zero and the phases of the dominant eigenvector.
STARTS = 6


class Family(ABC):
    """Gates (d, d) of which any may be made."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number k of the real numbers of a gate."""

    @abstractmethod
    def best(self, process: Columns) -> NDArray[np.float64]:
        """Return the best gate, (k,), of a process ``R_(ai)(bj)`` (d, d, d, d): indices i, j, a, b."""

    def best_of(self, made: Columns) -> NDArray[np.float64]:
        """Return the best gate, (k,), of one matrix (d, d), ``R = vec(M) vec(M)+``."""
        return self.best(np.einsum("ai,bj->ijab", made, made.conj()))

    @abstractmethod
    def gate(self, numbers: NDArray[np.float64]) -> Columns:
        """Return the gate (d, d) of its numbers."""

    @abstractmethod
    def directions(self, gate: Columns) -> list[Columns]:
        """Return matrices (d, d) along which a gate stays in the family, a global phase among them."""


@dataclass(frozen=True)
class LocalPhases(Family):
    """A gate U that phases of the parts may follow, ``diag(exp(i sum_k phi_k g_ak)) U`` (Eq. Q24).

    Attributes
    ----------
    unitary : (d, d) complex128
    generators : (d, k) int64
    """

    unitary: Columns
    generators: NDArray[np.int64]

    @property
    def count(self) -> int:
        """Number k of phases."""
        return int(self.generators.shape[1])

    def best(self, process: Columns) -> NDArray[np.float64]:
        """Return the best phases (k,)."""
        u = self.unitary
        matrix = np.einsum("ai,ijab,bj->ab", u.conj(), process, u, optimize=True)
        return best_phases(0.5 * (matrix + matrix.conj().T), self.generators)

    def best_of(self, made: Columns) -> NDArray[np.float64]:
        """Return the best phases (k,) of one matrix."""
        m = np.sum(made * self.unitary.conj(), axis=1)
        return best_phases(np.outer(m, m.conj()), self.generators)

    def gate(self, numbers: NDArray[np.float64]) -> Columns:
        """Return U with its phases."""
        return np.asarray(factors_of(self.generators, numbers)[:, None] * self.unitary)

    def directions(self, gate: Columns) -> list[Columns]:
        """Return what each phase, and a global one, moves."""
        return [1j * gate, *(1j * g[:, None] * gate for g in self.generators.T)]


@dataclass(frozen=True)
class TwoQubitGates(Family):
    """Gates of two qubits, as the real and the imaginary parts of their 16 elements (Eq. Q29).

    Attributes
    ----------
    nearest : callable
        From R (16, 16) to the best gate (4, 4).
    along : callable
        From a gate (4, 4) to the matrices along which it stays in the family.
    """

    nearest: Callable[[Columns], Columns]
    along: Callable[[Columns], list[Columns]]

    @property
    def count(self) -> int:
        """Number of real numbers of a matrix."""
        return 32

    def best(self, process: Columns) -> NDArray[np.float64]:
        """Return the best gate."""
        form = process.transpose(2, 0, 3, 1).reshape(16, 16)
        found = self.nearest(0.5 * (form + form.conj().T)).ravel()
        return np.concatenate([found.real, found.imag])

    def gate(self, numbers: NDArray[np.float64]) -> Columns:
        """Return the gate of its numbers."""
        return np.asarray((numbers[:16] + 1j * numbers[16:]).reshape(4, 4))

    def directions(self, gate: Columns) -> list[Columns]:
        """Return matrices along which a gate stays in the family."""
        return self.along(gate)


FAMILIES: dict[str, Callable[[GateTarget], Family]] = {
    "phases": lambda goal: LocalPhases(goal.unitary, goal.generators),
    "local": lambda goal: TwoQubitGates(
        lambda form: nearest_in_class(form, goal.unitary), directions_in_class
    ),
    "perfect_entangler": lambda goal: TwoQubitGates(nearest_perfect_entangler, directions_of_entanglers),
}


def family_of(goal: GateTarget) -> Family:
    """Return the family of a goal with gates of which any may be made."""
    return FAMILIES[goal.family](goal)


def factors_of(generators: NDArray[np.int64], phases: NDArray[np.float64]) -> Columns:
    """Return ``z_a = exp(i sum_k phi_k g_ak)`` (d,)."""
    return np.asarray(np.exp(1j * (generators @ phases)))


def best_phases(matrix: Columns, generators: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the phases (k,) with the largest ``z+ R z``.

    One phase is best where ``z = z_0 + e^{i phi} z_1`` has ``phi = -arg(z_0+ R z_1)``; rounds over all of them rise from several
    starts.

    Parameters
    ----------
    matrix : (d, d) complex128
        R, Hermitian.
    generators : (d, k) int64
        g, zeros and ones.
    """
    count = generators.shape[1]
    vector = np.angle(np.linalg.eigh(matrix)[1][:, -1])
    guess = np.linalg.lstsq(np.column_stack([generators, np.ones(len(generators))]), vector, rcond=None)[0]
    # the same starts every time: a search must see a function
    random = np.random.default_rng(1).uniform(-np.pi, np.pi, (STARTS if count > 1 else 0, count))
    found = [_risen(matrix, generators, start) for start in (np.zeros(count), guess[:count], *random)]
    return max(found, key=lambda one: one[0])[1]


def _risen(
    matrix: Columns, generators: NDArray[np.int64], phases: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Return the value and the phases of a maximum above a start."""
    phases, before = phases.copy(), -np.inf
    for _ in range(ROUNDS):
        for k in range(phases.size):
            moved = generators[:, k] == 1
            z = factors_of(generators, phases)
            # without the phase itself
            z[moved] *= np.exp(-1j * phases[k])
            phases[k] = -np.angle(np.vdot(z[~moved], matrix[np.ix_(~moved, moved)] @ z[moved]))
        z = factors_of(generators, phases)
        value = float(np.vdot(z, matrix @ z).real)
        if value - before <= GAIN * abs(value):
            break
        before = value
    return value, phases
