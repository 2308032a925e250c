"""Random systems from files of matrices: 2 to 40 levels, 1 to 4 controls, with and without jumps, any goal."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.qoc.quantum.oracle import Goal, World

if TYPE_CHECKING:
    from pathlib import Path

    from qsim_checks.qoc.quantum.oracle import Matrix

__all__ = ["file_system"]

# Levels up to which the dense superoperator is small enough.
MOST_OPEN = 10


def file_system(rng: np.random.Generator, folder: Path) -> tuple[dict[str, Any], World]:
    """Draw a system, write its file, and return its block with what it means."""
    kind = rng.choice(["few", "some", "many"], p=[0.5, 0.35, 0.15])
    low, high = {"few": (2, 6), "some": (7, 16), "many": (17, 40)}[str(kind)]
    size = int(rng.integers(low, high + 1))
    duration = float(10.0 ** rng.uniform(-1.0, 1.3))
    drift = _drift(rng, size, 10.0 ** rng.uniform(-0.5, 1.3) / duration)
    count = int(rng.integers(1, 5))
    controls = [_coupling(rng, size, 10.0 ** rng.uniform(-0.5, 0.7) / duration) for _ in range(count)]
    powers = [int(rng.choice([1, 1, 1, 2])) for _ in range(count)]
    arrays: dict[str, Any] = {"H0": drift}
    arrays |= {f"controls/c{k}": matrix for k, matrix in enumerate(controls)}
    jumps: list[Matrix] = []
    if size <= MOST_OPEN and rng.random() < 0.5:
        strength = np.sqrt(10.0 ** rng.uniform(-3.0, 0.5) / duration)
        jumps = [_jump(rng, size, strength) for _ in range(int(rng.integers(1, 4)))]
        arrays |= {f"jumps/j{k}": matrix for k, matrix in enumerate(jumps)}
    block: dict[str, Any] = {"type": "matrices", "file": "system.npz"}
    block["controls"] = {f"c{k}": {"power": power} for k, power in enumerate(powers)}
    start, goal = _task(rng, block, arrays, drift)
    _in_the_deck(deepcopy(rng), block, arrays, jumps)
    np.savez(folder / "system.npz", **{name: _written(rng, a) for name, a in arrays.items()})
    return block, World(drift, controls, powers, jumps, start, goal, duration)


def _in_the_deck(
    rng: np.random.Generator, block: dict[str, Any], arrays: dict[str, Any], jumps: list[Matrix]
) -> None:
    """Write a gate, and the last jump with a rate of its own, into the deck instead of the file, in half of all draws each."""
    gate, jump = rng.random(2) < 0.5
    if gate and "gate" in arrays:
        block["target"]["gate"] = _rows(arrays.pop("gate"))
    if jump and jumps:
        arrays.pop(f"jumps/j{len(jumps) - 1}")
        block["jumps"] = [{"operator": _rows(0.5 * jumps[-1]), "rate": 4.0}]


def _rows(matrix: Matrix) -> list[list[str]]:
    """Return the rows of a matrix as a deck has them."""
    return [[f"{z.real:.17g}{z.imag:+.17g}i" for z in row] for row in np.asarray(matrix, complex)]


def _written(rng: np.random.Generator, array: Matrix) -> Any:
    """Return an array as a user may write it: real where it is."""
    return array.real if not np.any(np.imag(array)) and rng.random() < 0.7 else array


def _hermitian(rng: np.random.Generator, size: int) -> Matrix:
    a = rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size))
    return np.asarray((a + a.conj().T) / np.sqrt(8.0 * size))


def _drift(rng: np.random.Generator, size: int, scale: float) -> Matrix:
    """Return H0: full, diagonal with random levels, or levels of a ladder some of which coincide."""
    kind = rng.choice(["full", "diagonal", "ladder", "real"])
    if kind == "full":
        return scale * _hermitian(rng, size)
    if kind == "real":
        return np.asarray(scale * _hermitian(rng, size).real, complex)
    levels = np.sort(rng.normal(size=size)) if kind == "diagonal" else np.arange(size) // 2 / size
    return np.diag(scale * levels).astype(complex)


def _coupling(rng: np.random.Generator, size: int, scale: float) -> Matrix:
    """Return a control: full, tridiagonal, or a few elements."""
    full = scale * _hermitian(rng, size)
    kind = rng.choice(["full", "neighbours", "few"])
    if kind == "full":
        return full
    if kind == "neighbours":
        return np.asarray(np.sqrt(size) * np.triu(np.tril(full, 1), -1))
    kept = rng.random((size, size)) < 0.3
    kept[0, -1] = True
    return np.asarray(np.sqrt(size) * full * (kept | kept.T))


def _jump(rng: np.random.Generator, size: int, scale: float) -> Matrix:
    """Return a jump: lowering, dephasing, or any matrix."""
    kind = rng.choice(["lowering", "dephasing", "any"])
    if kind == "lowering":
        return np.asarray(scale * np.diag(np.sqrt(np.arange(1.0, size) / size), 1), complex)
    if kind == "dephasing":
        return np.asarray(scale * np.diag(rng.normal(size=size)), complex)
    any_matrix = rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size))
    return np.asarray(scale * any_matrix / size)


def _vector(rng: np.random.Generator, size: int) -> Matrix:
    v = rng.normal(size=size) + 1j * rng.normal(size=size)
    return np.asarray(v / np.linalg.norm(v))


def _unitary(rng: np.random.Generator, size: int) -> Matrix:
    q, r = np.linalg.qr(rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size)))
    return np.asarray(q * (np.diag(r) / np.abs(np.diag(r))))


def _task(
    rng: np.random.Generator, block: dict[str, Any], arrays: dict[str, Any], drift: Matrix
) -> tuple[Matrix | None, Goal]:
    """Draw start and goal; their arrays are added to those of the file."""
    size = len(drift)
    if rng.random() < 0.3:
        d = int(rng.integers(2, min(4, size) + 1))
        chosen = rng.permutation(size)[:d]
        unitary = _unitary(rng, d)
        arrays["gate"] = unitary
        block["target"] = {"gate": "system.npz", "on": [str(k) for k in chosen]}
        return None, Goal(unitary=unitary, logical=np.eye(size, dtype=complex)[:, chosen])
    return _start(rng, block, arrays, drift), _goal(rng, block, arrays, size)


def _start(rng: np.random.Generator, block: dict[str, Any], arrays: dict[str, Any], drift: Matrix) -> Matrix:
    size = len(drift)
    kind = rng.choice(["label", "weights", "named", "thermal", "mixed"])
    if kind == "thermal":
        energies, vectors = np.linalg.eigh(drift)
        kt = float(np.ptp(energies) * 10.0 ** rng.uniform(-1.0, 1.0)) or 1.0
        block["initial"] = {"thermal": kt, "below": float(rng.choice([0.0, 1e-9, 1e-3]))}
        weights = np.exp(-(energies - energies[0]) / kt)
        return np.asarray((vectors * (weights / weights.sum())) @ vectors.conj().T)
    if kind == "mixed":
        a = np.array([_vector(rng, size) for _ in range(int(rng.integers(1, 4)))])
        rho = a.T @ a.conj() / len(a)
        arrays["rho"] = rho
        block["initial"] = {"file": "system.npz"}
        return np.asarray(rho)
    if kind == "named":
        psi = _vector(rng, size)
        arrays["states/start"] = psi
        block["initial"] = "start"
    elif kind == "weights":
        a, b = rng.permutation(size)[:2]
        block["initial"] = {str(a): 1.0, str(b): "0.5i"}
        psi = np.zeros(size, dtype=complex)
        psi[a], psi[b] = 1.0, 0.5j
        psi /= np.linalg.norm(psi)
    else:
        place = int(rng.integers(size))
        block["initial"] = str(place)
        psi = np.eye(size, dtype=complex)[place]
    return np.outer(psi, psi.conj())


def _goal(rng: np.random.Generator, block: dict[str, Any], arrays: dict[str, Any], size: int) -> Goal:
    kind = rng.choice(["label", "list", "named", "observable"])
    if kind == "observable":
        operator = 10.0 ** rng.uniform(-1, 1) * _hermitian(rng, size)
        arrays["observables/o"] = operator
        block["target"] = {"observable": "2*o - o^2"}
        return Goal(operator=2.0 * operator - operator @ operator)
    if kind == "named":
        psi = _vector(rng, size)
        arrays["states/end"] = psi
        block["target"] = "end"
        return Goal(operator=np.outer(psi, psi.conj()))
    count = 1 if kind == "label" else int(rng.integers(1, size))
    chosen = rng.permutation(size)[:count]
    block["target"] = str(chosen[0]) if kind == "label" else [str(k) for k in chosen]
    projector = np.zeros((size, size), dtype=complex)
    projector[chosen, chosen] = 1.0
    return Goal(operator=projector)
