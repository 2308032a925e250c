"""The truth for random quantum systems: dense matrices, Kronecker products, one exponential per slot, Frechet derivatives.

Density matrices move under a dense superoperator on vec(rho) column by column, ``vec(A rho B) = (B^T x A) vec(rho)``: the other
order than the method's.  Gates are judged by what they make of every matrix unit, with and without jumps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.complex128]

__all__ = ["Goal", "World", "final", "gradient_norm", "mean_state", "value"]


@dataclass(frozen=True)
class Goal:
    """What is wanted at T.

    Attributes
    ----------
    operator : (D, D) complex128 or None
        Hermitian, of which the mean value counts; projectors for states.
    unitary : (d, d) complex128 or None
        A gate.
    logical : (D, d) complex128 or None
        The states between which it acts.
    """

    operator: Matrix | None = None
    unitary: Matrix | None = None
    logical: Matrix | None = None


@dataclass(frozen=True)
class World:
    """A system as its deck means it, in numbers with hbar = 1.

    Attributes
    ----------
    drift : (D, D) complex128
    controls : list of (D, D) complex128
        In the order of the results.
    powers : list of int
    jumps : list of (D, D) complex128
        Square roots of the rates included.
    start : (D, D) complex128 or None
        Density matrix at t = 0; None for a gate.
    goal : Goal
    duration : float
    """

    drift: Matrix
    controls: list[Matrix]
    powers: list[int]
    jumps: list[Matrix]
    start: Matrix | None
    goal: Goal
    duration: float

    @property
    def dimension(self) -> int:
        """Number D of states."""
        return len(self.drift)


def _generators(world: World, dense: bool) -> list[Matrix]:
    """Return the generators of kets, or of density matrices column by column."""
    matrices = [world.drift, *world.controls]
    if not dense:
        return [-1j * h for h in matrices]
    one = np.eye(world.dimension)
    out = [np.asarray(-1j * (np.kron(one, h) - np.kron(h.T, one)), complex) for h in matrices]
    for jump in world.jumps:
        rate = jump.conj().T @ jump
        loss = np.kron(one, rate) + np.kron(rate.T, one)
        out[0] += np.kron(jump.conj(), jump) - 0.5 * loss
    return out


def _slots(world: World, fields: NDArray[np.float64], dense: bool) -> list[Matrix]:
    """Return ``tau A`` of every slot."""
    return _of_slots(world, _generators(world, dense), fields)


def _of_slots(world: World, generators: Sequence[Matrix], fields: NDArray[np.float64]) -> list[Matrix]:
    """Return ``tau A`` of every slot from the generators of drift and controls."""
    first, *others = generators
    tau = world.duration / fields.shape[1]
    made = []
    for values in fields.T:
        a = first.copy()
        for u, power, b in zip(values, world.powers, others, strict=True):
            a += u**power * b
        made.append(tau * a)
    return made


def final(world: World, fields: NDArray[np.float64]) -> Matrix:
    """Return the propagator at T, (D, D) of kets or (D^2, D^2) of density matrices."""
    return _ordered(world, _generators(world, bool(world.jumps)), fields)


def _ordered(world: World, generators: Sequence[Matrix], fields: NDArray[np.float64]) -> Matrix:
    """Return the product of the exponentials of all slots, later ones on the left."""
    from scipy.linalg import expm

    total = np.eye(len(generators[0]), dtype=complex)
    for slot in _of_slots(world, generators, fields):
        total = expm(slot) @ total
    return total


def moved(world: World, total: Matrix, rho: Matrix) -> Matrix:
    """Return what a density matrix (D, D) becomes."""
    if not world.jumps:
        return np.asarray(total @ rho @ total.conj().T)
    size = world.dimension
    return np.asarray((total @ rho.ravel(order="F")).reshape((size, size), order="F"))


def mean_state(world: World, total: Matrix) -> Matrix:
    """Return the density matrix at T of the start, or of the mixture of the logical states of a gate."""
    if world.start is not None:
        return moved(world, total, world.start)
    logical = world.goal.logical
    assert logical is not None
    return moved(world, total, logical @ logical.conj().T / logical.shape[1])


def value(world: World, total: Matrix) -> float:
    """Return the mean value, probability or average fidelity."""
    goal = world.goal
    if goal.operator is not None:
        return float(np.trace(goal.operator @ mean_state(world, total)).real)
    fidelity, leak = process(world, total)
    assert goal.unitary is not None
    d = len(goal.unitary)
    return (d * fidelity + 1.0 - leak) / (d + 1.0)


def process(world: World, total: Matrix) -> tuple[float, float]:
    """Return process fidelity and leakage of a gate from what becomes of every matrix unit."""
    unitary, logical = world.goal.unitary, world.goal.logical
    assert unitary is not None
    assert logical is not None
    d = len(unitary)
    wanted = logical @ unitary
    fidelity, kept = 0.0, 0.0
    for i in range(d):
        for j in range(d):
            out = moved(world, total, np.outer(logical[:, i], logical[:, j].conj()))
            fidelity += float((wanted[:, i].conj() @ out @ wanted[:, j]).real) / d**2
            if i == j:
                kept += float(np.trace(logical.conj().T @ out @ logical).real) / d
    return fidelity, 1.0 - kept


def seepage(world: World, total: Matrix) -> float:
    """Return what comes back into the logical space from the mean of all other states."""
    logical = world.goal.logical
    assert logical is not None
    inside = logical @ logical.conj().T
    rest = (np.eye(world.dimension) - inside) / (world.dimension - logical.shape[1])
    return float(np.trace(inside @ moved(world, total, rest)).real)


def without_jumps(world: World) -> World:
    """Return the system whose kets lose what jumps move: H - i/2 sum L+ L."""
    loss = sum((jump.conj().T @ jump for jump in world.jumps), np.zeros_like(world.drift))
    return replace(world, drift=np.asarray(world.drift - 0.5j * loss), jumps=[])


def orders(world: World, fields: NDArray[np.float64]) -> tuple[float, float]:
    """Return what no jump and one jump contribute to the value: the first two orders in a factor of the jumps."""
    zero = value(lossy := without_jumps(world), final(lossy, fields))

    one = np.eye(world.dimension)
    _, *others = _generators(world, True)
    back = sum(np.kron(jump.conj(), jump) for jump in world.jumps)
    lost = -1j * (np.kron(one, lossy.drift) - np.kron(lossy.drift.conj(), one))

    def with_factor(factor: float) -> float:
        # the loss stays as it is, what comes back after a jump is scaled
        return value(world, _ordered(world, [lost + factor * back, *others], fields))

    step = 1e-2
    even = [with_factor(n * step) - with_factor(-n * step) for n in (1, 2)]
    # odd orders up to the fifth
    return zero, (8.0 * even[0] - even[1]) / (12.0 * step)


def gradient_norm(world: World, fields: NDArray[np.float64], alpha: float) -> float:
    """Return the norm of dJ/du by the Frechet derivative of every exponential."""
    from scipy.linalg import expm, expm_frechet

    dense = bool(world.jumps)
    tau = world.duration / fields.shape[1]
    slots, others = _slots(world, fields, dense), _generators(world, dense)[1:]
    steps = [expm(slot) for slot in slots]
    before = _accumulated(steps)
    after = [m.conj().T for m in _accumulated([m.conj().T for m in reversed(steps)])][::-1]
    middle = value(world, before[-1])
    out = np.zeros(fields.shape)
    for n, slot in enumerate(slots):
        for c, (b, power) in enumerate(zip(others, world.powers, strict=True)):
            turned = expm_frechet(slot, tau * b, compute_expm=False)
            change = after[n + 1] @ turned @ before[n]
            # the value is quadratic in the propagator of kets, linear in that of density matrices: exact differences of both
            if dense:
                slope = value(world, before[-1] + change) - middle
            else:
                slope = 0.5 * (value(world, before[-1] + change) - value(world, before[-1] - change))
            out[c, n] = slope * power * fields[c, n] ** (power - 1)
    return float(np.linalg.norm(out - 2.0 * alpha * tau * fields))


def _accumulated(steps: Sequence[Matrix]) -> list[Matrix]:
    """Return the products of the first 0, 1, 2, ... matrices, the later ones on the left."""
    out = [np.eye(len(steps[0]), dtype=complex)]
    for step in steps:
        out.append(step @ out[-1])
    return out
