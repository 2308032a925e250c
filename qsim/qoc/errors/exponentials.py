"""Propagate columns slot by slot by another route than the run: own exponentials of kets, the other form of a Lindbladian.

Kets of few levels have a dense exponential of every slot, many slots at a time; of more levels a slot is the Taylor action of its
exponential in parts whose 1-norm is at most `LONGEST`. The Lindbladian has two forms (Eqs. Q16, Q17), each with generators and
kernels of its own: a superoperator on columns, and ``A(rho) = G rho + (G rho)+ + sum_k L_k rho L_k+`` on matrices. A run by one
is verified by the other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from qsim.qoc.kernels.portions import look
from qsim.qoc.propagators.densities import Densities
from qsim.qoc.propagators.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.objectives.slots import SlotObjective

# Levels up to which every slot has its own exponential: products of matrices then cost less than the calls for products with
# columns; and the same of slots whose 1-norm is above `LONG`, with dense generators in any case.
FEW, DENSE = 32, 100
# 1-norm of one part of a slot: terms of alternating sign lose no digits there.
LONGEST = 2.0
LONG = 30.0
# The first term that is left out, relative.
LEFT_OUT = 2.0**-56
# Bytes of the exponentials that are made at a time: they stay in the cache.
CLOSE = 3e5
# Floating-point operations of another propagation, and how much longer than the run's it may take.
BUDGET, SLOWER = 1e11, 5.0
# Entries of a superoperator that are kept.
MOST_ENTRIES = 2e7


def is_short(objective: SlotObjective, fields: NDArray[np.float64]) -> bool:
    """Return True if another propagation takes less than the budget."""
    rows, columns = objective.start.shape
    # the work of a dense exponential grows only with the logarithm of the norm, so size alone decides
    if not objective.lindblad and rows <= DENSE:
        return True
    made = objective.model
    entries = sum(one.nnz for one in (made.drift, *(c.operator for c in made.controls)))
    entries = 2 * made.dimension * entries + sum(jump.operator.nnz**2 for jump in made.jumps)
    if objective.lindblad and entries > MOST_ENTRIES:
        return False
    return SLOWER * objective.propagator.operations(fields, columns) < BUDGET


def propagated(made: QuantumModel, objective: SlotObjective, fields: NDArray[np.float64]) -> ComplexArray:
    """Return the columns (D, S) or (D^2, S) at T under controls (C, N) by another route.

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
    if objective.lindblad:
        own = isinstance(objective.propagator, Densities)
        return (Slots if own else Densities)(made, objective.motion).final(fields, x)
    parts = _generators(made, objective.lossy)
    factors = np.stack(
        [np.ones(fields.shape[1]), *(u**c.power for u, c in zip(fields, made.controls, strict=True))]
    )
    sizes = [float(abs(part).sum(axis=0).max(initial=0.0)) for part in parts]
    longest = objective.tau * float(np.abs(factors).max(axis=1) @ sizes)
    if made.dimension <= FEW or (made.dimension <= DENSE and longest > LONG):
        for one in _exponentials(parts, objective.tau * factors):
            look()
            x = one @ x
        return x
    pieces = max(1, math.ceil(longest / LONGEST))
    terms = _terms(longest / pieces)
    for generator in _of_slots(parts, factors):
        look()
        for _ in range(pieces):
            x = _acted(generator, objective.tau / pieces, terms, x)
    return x


def _terms(size: float) -> int:
    """Return the terms of a series of a generator of some norm."""
    terms, term = 1, size
    while term > LEFT_OUT:
        terms += 1
        term *= size / terms
    return terms


def _exponentials(parts: list[csr_array], factors: NDArray[np.float64]) -> Iterator[ComplexArray]:
    """Yield the exponential of the sum of all parts times factors (parts, N): blocks of four powers, then squarings."""
    stack = np.array([part.toarray() for part in parts])
    at_once = max(1, int(CLOSE / (16.0 * stack[0].size)))
    one = np.eye(stack.shape[1], dtype=complex)
    for first in range(0, factors.shape[1], at_once):
        look()
        made = np.tensordot(factors[:, first : first + at_once].T, stack, axes=1)
        norm = float(np.abs(made).sum(axis=1).max())
        halvings = max(0, math.ceil(math.log2(max(norm, 1e-300) / LONGEST)))
        made /= 2.0**halvings
        square = made @ made
        powers, fourth = (one, made, square, square @ made), square @ square
        found = np.zeros_like(made)
        for block in range(_terms(norm / 2.0**halvings) // 4, -1, -1):
            found = found @ fourth + sum(p / math.factorial(4 * block + k) for k, p in enumerate(powers))
        for _ in range(halvings):
            found = found @ found
        yield from found


def _acted(generator: csr_array | ComplexArray, tau: float, terms: int, x: ComplexArray) -> ComplexArray:
    """Return ``exp(tau A) x`` by the terms of its series."""
    total = term_of = x
    for k in range(1, terms + 1):
        term_of = (generator @ term_of) * (tau / k)
        total = total + term_of
    return total


def _of_slots(parts: list[csr_array], factors: NDArray[np.float64]) -> Iterator[csr_array | ComplexArray]:
    """Yield the generator of every slot: dense where products are shorter than the calls for sparse ones."""
    if parts[0].shape[0] <= DENSE:
        stack = np.array([part.toarray().ravel() for part in parts])
        yield from ((own @ stack).reshape(parts[0].shape) for own in factors.T)
        return
    union = csr_array(sum(abs(part) for part in parts))
    union.sort_indices()
    rows = np.repeat(np.arange(union.shape[0]), np.diff(union.indptr))
    values = np.array([np.asarray(part[rows, union.indices]).ravel() for part in parts])
    made = union.astype(complex)
    for own in factors.T:
        made.data = own @ values
        yield made


def _generators(made: QuantumModel, lossy: bool) -> list[csr_array]:
    """Return A0 and every A_c of kets; those that lose what jumps move under H - i/2 sum L+ L."""
    parts = [csr_array(-1j * h) for h in (made.drift, *(c.operator for c in made.controls))]
    for jump in made.jumps if lossy else ():
        parts[0] = parts[0] - 0.5 * (jump.operator.conj().T @ jump.operator)
    return parts
