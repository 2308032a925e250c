"""Solvers to compare with, on the CPU: the Thomas algorithm, and the Woodbury formula of the paper's Appendix II.

Woodbury.  ``n_bl - 1`` cuts between the last row J of a block and the first of the next split ``T = T0 + U V^T`` into
independent blocks T0 and a correction of rank ``n_bl - 1``.  Column w of U is ``-a_J`` at J and ``b_{J+1}`` at J+1, column w of
V is 1 at J and ``-c_J/a_J`` at J+1, so that ``a'_J = 2 a_J`` and ``a'_{J+1} = a_{J+1} + b_{J+1} c_J / a_J`` (Eq. 15 with its sign
corrected).  ``Z = T0^-1 U`` has two non-zeros per row, kept as the two vectors left and right, ``W = 1 + V^T Z`` is tridiagonal,
and ``x = y - Z W^-1 V^T y`` with ``T0 y = d``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from qsim.core.device.pool import each_part
from qsim.tridiag.kernels.jit import JIT, magnitude, reciprocal
from qsim.tridiag.kernels.partition.stages import _row_size, _smaller
from qsim.tridiag.kernels.partition.system import System

if TYPE_CHECKING:
    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device


def thomas(device: Device, a: Array, b: Array, c: Array, d: Array, x: Array) -> Any:
    """Solve systems without pivoting, one after another on each thread.

    Parameters
    ----------
    a, b, c, d : (systems, n)
        Diagonal, lower, upper, right-hand side; unused corners do not count.
    x : (systems, n), out
        Solutions.

    Returns
    -------
    (systems,) real
        Smallest relative pivot of each system.
    """
    systems, n = a.shape
    pivots, work = np.empty(systems, a.real.dtype), np.empty_like(a)

    def part(first: int, last: int) -> None:
        _thomas(first, last, a, b, c, d, work, x, pivots)

    each_part(part, systems, systems * n, device.threads)
    return pivots


def woodbury(device: Device, joints: Array, a: Array, b: Array, c: Array, d: Array, x: Array) -> Any:
    """Solve systems by the Woodbury formula.

    Parameters
    ----------
    joints : (blocks + 1,) int64
        Joint lines; block w holds the rows ``J_w + 1 .. J_{w+1}``, block 0 also row 0.
    a, b, c, d : (systems, n)
        Diagonal, lower, upper, right-hand side; unused corners do not count.
    x : (systems, n), out
        Solutions.

    Returns
    -------
    (systems,) real
        Smallest relative pivot of each system, in its blocks or in W.
    """
    systems, n = a.shape
    # blocks of the Woodbury formula end with their joint lines; cuts lie between, and none of them at the ends
    blocks = max(len(joints) - 1, 1)
    edges = np.array([0, *(joints[1:] + 1)], np.int64) if n > 1 else np.array([0, 1], np.int64)
    left, right = np.zeros((2, n), a.dtype)
    work, pivots, smallest = np.empty_like(left), np.empty(blocks + 1), np.empty(systems, a.real.dtype)
    weights = np.zeros(blocks + 1, a.dtype)
    for s in range(systems):
        row = (a[s], b[s], c[s])
        system = System(*row, d[s])

        def reduce(first: int, last: int, s: int = s, system: System = system) -> None:
            _woodbury_blocks(first, last, edges, system, work, x[s], (left, right), pivots)

        def correct(first: int, last: int, s: int = s) -> None:
            _woodbury_correct(first, last, edges, left, right, weights, x[s])

        each_part(reduce, blocks, n, device.threads)
        # first and last weight stay zero: the outer blocks have a cut on one side only
        weights[:] = 0
        pivots[blocks] = _woodbury_joints(edges, *row, x[s], left, right, weights) if blocks > 1 else np.inf
        each_part(correct, blocks, n, device.threads)
        smallest[s] = pivots.min()
    return smallest


@nb.njit(**JIT)
def _thomas(first, last, a, b, c, d, work, x, pivots):
    """Systems ``first .. last``; ``work`` (systems, n) holds reciprocal pivots."""
    n = a.shape[1]
    for s in range(first, last):
        av, bv, cv, dv, wv, xv = a[s], b[s], c[s], d[s], work[s], x[s]
        pivot, di = av[0], dv[0]
        xv[0] = di
        smallest = _smaller(np.inf, pivot, _row_size(av, bv, cv, 0))
        # down: reciprocal pivots into `work`, eliminated right-hand sides into x; the system stays as it was given
        for i in range(1, n):
            inv = reciprocal(pivot)
            wv[i - 1] = inv
            r = -(bv[i] * inv)
            pivot = av[i] + r * cv[i - 1]
            di = dv[i] + r * di
            xv[i] = di
            smallest = _smaller(smallest, pivot, _row_size(av, bv, cv, i))
        xi = di * reciprocal(pivot)
        xv[n - 1] = xi
        # up
        for i in range(n - 2, -1, -1):
            xi = (xv[i] - cv[i] * xi) * wv[i]
            xv[i] = xi
        pivots[s] = smallest


@nb.njit(**JIT)
def _woodbury_blocks(first, last, edges, system, work, y, sides, pivots):
    """Solve ``T0 [y, left, right] = [d, b e_first, -a e_last]`` in the blocks ``first .. last``."""
    a, b, c, d = system
    left, right = sides
    blocks = edges.shape[0] - 1
    for w in range(first, last):
        low, high = edges[w], edges[w + 1]
        smallest = np.inf
        for i in range(low, high):
            # T0 is T with the cuts between blocks taken out as matrices of rank 1: they change the first and the last diagonal
            pivot = a[i]
            # first row of a block: a_{J+1} + b_{J+1} c_J / a_J; last row: 2 a_J (Eq. 15)
            if i == low and w > 0:
                pivot += b[i] * (c[i - 1] * reciprocal(a[i - 1]))
            if i == high - 1 and w < blocks - 1:
                pivot += a[i]
            # down, for the right-hand side d and the column of U at the cut above, b_{J+1} in the first row
            yi, li = d[i], d[i] * 0
            if i > low:
                r = -(b[i] * work[i - 1])
                pivot += r * c[i - 1]
                yi += r * y[i - 1]
                li = r * left[i - 1]
            elif w > 0:
                li = b[i]
            smallest = _smaller(smallest, pivot, _row_size(a, b, c, i))
            work[i] = reciprocal(pivot)
            y[i], left[i] = yi, li
        # the right side of `right` is not zero in the last row alone, so it begins there
        i = high - 1
        y[i] *= work[i]
        left[i] *= work[i]
        right[i] = -a[i] * work[i] if w < blocks - 1 else a[i] * 0
        for i in range(high - 2, low - 1, -1):
            y[i] = (y[i] - c[i] * y[i + 1]) * work[i]
            left[i] = (left[i] - c[i] * left[i + 1]) * work[i]
            right[i] = -(c[i] * right[i + 1]) * work[i]
        pivots[w] = smallest


@nb.njit(**JIT)
def _woodbury_joints(edges, a, b, c, y, left, right, weights):
    """Solve ``W r = V^T y``; ``weights[w]`` is r of the cut before block w, 0 at both ends of the list."""
    cuts = edges.shape[0] - 2
    inverse = np.empty_like(weights)
    upper = np.empty_like(weights)
    smallest = np.inf
    # W is tridiagonal in the cuts, since the columns of Z reach through one block each: eliminate down, substitute up
    for w in range(cuts):
        # the cut lies between rows j and j + 1
        j = edges[w + 1] - 1
        v = -(c[j] * reciprocal(a[j]))
        pivot = right[j] + v * left[j + 1] + 1
        # column w - 1 reaches row j through block w
        lower = left[j]
        upper[w] = v * right[j + 1]
        rhs = y[j] + v * y[j + 1]
        size = max(magnitude(pivot), magnitude(upper[w]), magnitude(lower) if w > 0 else magnitude(pivot))
        if w > 0:
            r = -(lower * inverse[w - 1])
            pivot += r * upper[w - 1]
            rhs += r * weights[w]
        smallest = _smaller(smallest, pivot, size)
        inverse[w] = reciprocal(pivot)
        weights[w + 1] = rhs
    for w in range(cuts - 1, -1, -1):
        value = weights[w + 1]
        if w < cuts - 1:
            value -= upper[w] * weights[w + 2]
        weights[w + 1] = value * inverse[w]
    return smallest


@nb.njit(**JIT)
def _woodbury_correct(first, last, edges, left, right, weights, x):
    """Subtract ``Z r`` in the blocks ``first .. last``."""
    blocks = edges.shape[0] - 1
    for w in range(first, last):
        before, after = weights[w], weights[w + 1]
        # a row of Z has two entries: of the cut before its block, and of the cut after it
        for i in range(edges[w], edges[w + 1]):
            if w > 0:
                x[i] -= left[i] * before
            if w < blocks - 1:
                x[i] -= right[i] * after
