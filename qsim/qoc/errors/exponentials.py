"""Propagate columns slot by slot with exponentials that share neither generators, nor bounds, nor kernels with the run.

A slot is the Taylor action of its exponential in parts whose 1-norm is at most `LONGEST`, or a dense exponential where a slot is
long. Density matrices of few levels are columns of the superoperator, which is found from its action on every matrix unit; those
of more levels stay matrices, ``A(rho) = G rho + (G rho)+ + sum_k L_k rho L_k+`` with ``G = -i H - sum_k L_k+ L_k/2``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import expm
from scipy.sparse import csr_array, eye_array, kron

from qsim.qoc.kernels.portions import look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.objectives.slots import SlotObjective

    Action = Callable[[ComplexArray], ComplexArray]

# Rows up to which generators are dense.
DENSE = 100
# 1-norm of one part of a slot: terms of alternating sign lose no digits there.
LONGEST = 2.0
# 1-norm of a slot above which a dense exponential costs less than its action.
LONG = 30.0
# The first term that is left out, relative.
LEFT_OUT = 2.0**-56
# Entries in a row of the jumps' superoperator up to which its action is a sum of few products.
FEW = 8
# Bytes of the generators that are made at a time.
BYTES = 3e7


def propagated(made: QuantumModel, objective: SlotObjective, fields: NDArray[np.float64]) -> ComplexArray:
    """Return the columns (D, S) or (D^2, S) at T under controls (C, N), one exponential per slot.

    Parameters
    ----------
    made : QuantumModel
        Matrices, starts and goal.
    objective : SlotObjective
        Its start, its slots, and whether columns are kets, lossy kets or density matrices.
    fields : (C, N) float64
        Held values of the controls.
    """
    x = np.asarray(objective.start, complex)
    matrices = objective.lindblad and x.shape[0] > DENSE
    parts = _generators(made, objective.lindblad and not matrices, objective.lossy or matrices)
    factors = np.stack(
        [np.ones(fields.shape[1]), *(u**c.power for u, c in zip(fields, made.controls, strict=True))]
    )
    jumps = None
    if matrices:
        jumps = _jumps(made)
        # a shift of H turns kets alone, and the middle of its diagonal makes G small
        diagonal = made.drift.diagonal().real
        middle = 0.5j * (diagonal.min() + diagonal.max())
        parts[0] = csr_array(parts[0] + middle * eye_array(made.dimension))
    sparse = parts[0].shape[0] > DENSE
    for generator, norm in _sparse(parts, factors) if sparse else _dense(parts, factors):
        look()
        size = objective.tau * (norm if jumps is None else 2.0 * norm + jumps[1])
        if size > LONG and not sparse and jumps is None:
            x = expm(objective.tau * generator) @ x
            continue
        action = generator.__matmul__ if jumps is None else _of_matrices(generator, jumps[0])
        x = _acted(action, objective.tau, size, x)
    return x


def _acted(action: Action, tau: float, size: float, x: ComplexArray) -> ComplexArray:
    """Return ``exp(tau A) x`` for ``||tau A|| <= size``."""
    pieces = max(1, math.ceil(size / LONGEST))
    terms, term = 1, size / pieces
    while term > LEFT_OUT:
        terms += 1
        term *= size / pieces / terms
    for _ in range(pieces):
        term_of = x
        total = x.copy()
        for k in range(1, terms + 1):
            term_of = action(term_of) * (tau / pieces / k)
            total += term_of
        x = total
    return x


def _of_matrices(generator: ComplexArray | csr_array, jumped: Action) -> Action:
    """Return the Lindbladian on Hermitian matrices as columns (D^2, S), row by row."""
    size = generator.shape[0]

    def action(x: ComplexArray) -> ComplexArray:
        moved = (generator @ x.reshape(size, -1)).reshape(size, size, -1)
        moved = moved + moved.conj().transpose(1, 0, 2)
        return np.asarray(moved.reshape(x.shape) + jumped(x))

    return action


def _dense(parts: list[csr_array], factors: NDArray[np.float64]) -> Iterator[tuple[ComplexArray, float]]:
    """Yield the generator of every slot and its 1-norm."""
    stack = np.array([part.toarray() for part in parts])
    at_once = max(1, int(BYTES / (16.0 * stack[0].size)))
    for first in range(0, factors.shape[1], at_once):
        made = np.tensordot(factors[:, first : first + at_once].T, stack, axes=1)
        yield from zip(made, np.abs(made).sum(axis=1).max(axis=1), strict=True)


def _sparse(parts: list[csr_array], factors: NDArray[np.float64]) -> Iterator[tuple[csr_array, float]]:
    """Yield the same as sparse matrices."""
    union = csr_array(sum(abs(part) for part in parts))
    union.sort_indices()
    rows, columns = np.repeat(np.arange(union.shape[0]), np.diff(union.indptr)), union.indices
    values = np.array([np.asarray(part[rows, columns]).ravel() for part in parts])
    made = union.astype(complex)
    for own in factors.T:
        made.data = own @ values
        yield made, float(np.bincount(columns, np.abs(made.data), union.shape[0]).max())


def _jumps(made: QuantumModel) -> tuple[Action, float]:
    """Return the action of ``sum_k L_k x L_k^*`` (D^2, D^2) and its 1-norm."""
    both = csr_array((made.dimension**2,) * 2, dtype=complex)
    for jump in made.jumps:
        both = both + kron(jump.operator, jump.operator.conj())
    both = csr_array(both)
    norm = float(abs(both).sum(axis=0).max(initial=0.0))
    counts = np.diff(both.indptr)
    if counts.max(initial=0) > FEW:
        return both.__matmul__, norm
    # Few entries in each row: all first ones, all second ones, ..., with zeros where there are no more.
    rows = np.repeat(np.arange(counts.size), counts)
    places = np.arange(rows.size) - np.repeat(both.indptr[:-1], counts)
    columns = np.zeros((counts.max(initial=0), counts.size), np.int64)
    values = np.zeros((*columns.shape, 1), complex)
    columns[places, rows], values[places, rows, 0] = both.indices, both.data
    return lambda x: np.asarray((values * x[columns]).sum(axis=0)), norm


def _generators(made: QuantumModel, lindblad: bool, lossy: bool) -> list[csr_array]:
    """Return A0 and every A_c, for density matrices from their action on every matrix unit: no Kronecker product."""
    hamiltonians = [made.drift, *(c.operator for c in made.controls)]
    if not lindblad:
        parts = [csr_array(-1j * h) for h in hamiltonians]
        # Kets that lose what jumps move under H - i/2 sum L+ L.
        if lossy:
            for jump in made.jumps:
                parts[0] = parts[0] - 0.5 * (jump.operator.conj().T @ jump.operator)
        return parts
    size = made.dimension
    # One matrix unit per row, so that the image of unit k becomes column k of the generator.
    units = np.eye(size * size).reshape(-1, size, size)
    generators = []
    for number, h in enumerate(one.toarray() for one in hamiltonians):
        moved = -1j * (h @ units - units @ h)
        # Jumps do not depend on the controls: they belong to the drift alone.
        for jump in made.jumps if number == 0 else ():
            dense = jump.operator.toarray()
            rate = dense.conj().T @ dense
            moved = moved + dense @ units @ dense.conj().T - 0.5 * (rate @ units + units @ rate)
        # Images lie in rows here; the transpose puts them into the columns.
        generators.append(csr_array(moved.reshape(size * size, -1).T))
    return generators
