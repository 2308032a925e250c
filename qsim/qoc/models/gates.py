"""Gates by name, in the basis 00, 01, 10, 11 with the first qubit slowest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput

if TYPE_CHECKING:
    from qsim.core.device.arrays import ComplexArray

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
