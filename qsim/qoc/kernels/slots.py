"""Columns under a generator that is constant in each slot, by a Taylor sum (Eq. Q14), with its exact derivative (Eq. Q15).

``A(n) = A0 + sum_c f_c(n) A_c`` in slot n. Nothing is assumed of A: ``-i H``, or a Lindbladian that acts on density matrices
written as columns. A block of S columns is kept as a real array (D, 2 S), real parts first, so that the inner loops run over
neighbours in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray

__all__ = ["columns_of", "real_of", "slot_backward", "slot_forward"]


def real_of(columns: ComplexArray) -> NDArray[np.float64]:
    """Return complex columns (D, S) as the real array (D, 2 S) of the kernels."""
    return np.ascontiguousarray(np.concatenate([columns.real, columns.imag], axis=1))


def columns_of(real: NDArray[np.float64]) -> ComplexArray:
    """Return the complex columns (D, S) of an array (D, 2 S) of the kernels."""
    count = real.shape[1] // 2
    return np.asarray(real[:, :count] + 1j * real[:, count:])


@njit(cache=True, fastmath=True)
def _assemble(values, factors, n, tau, re, im):
    """Put ``tau (A0 + sum_c f_c(n) A_c)`` into `re` and `im`."""
    for e in range(values.shape[1]):
        z = values[0, e]
        for c in range(factors.shape[0]):
            z += factors[c, n] * values[c + 1, e]
        re[e] = tau * z.real
        im[e] = tau * z.imag


@njit(cache=True, fastmath=True)
def _product(start, column, re, im, x, y, factor):
    """Put ``factor A x`` into y, row by row."""
    count = x.shape[1] // 2
    for i in range(x.shape[0]):
        for s in range(2 * count):
            y[i, s] = 0.0
        for e in range(start[i], start[i + 1]):
            j = column[e]
            a = factor * re[e]
            b = factor * im[e]
            for s in range(count):
                y[i, s] += a * x[j, s] - b * x[j, count + s]
                y[i, count + s] += a * x[j, count + s] + b * x[j, s]


@njit(cache=True, fastmath=True)
def _adjoint_product(start, column, re, im, x, y):
    """Put ``A+ x`` into y; rows of A scatter into y."""
    count = x.shape[1] // 2
    y[:] = 0.0
    for i in range(x.shape[0]):
        for e in range(start[i], start[i + 1]):
            j = column[e]
            a = re[e]
            b = im[e]
            for s in range(count):
                y[j, s] += a * x[i, s] + b * x[i, count + s]
                y[j, count + s] += a * x[i, count + s] - b * x[i, s]


@njit(cache=True, fastmath=True)
def slot_forward(start, column, values, factors, tau, terms, parts, x, trajectory):
    """Carry the columns through all slots.

    Parameters
    ----------
    start, column : (D + 1,), (E,) int64
        Pattern of A, rows compressed. Read.
    values : (C + 1, E) complex128
        A0 and A_c on the pattern, 1/time. Read.
    factors : (C, N) float64
        f_c of each slot. Read.
    tau : float
        Length of a part of a slot.
    terms, parts : int
        Terms m of the series, and equal parts that each slot is divided into.
    x : (D, 2 S) float64
        Columns; at t = 0 when read, at T when written.
    trajectory : (N parts, D, 2 S) float64
        Columns at the start of each part; written.
    """
    slots = factors.shape[1]
    re = np.empty(values.shape[1])
    im = np.empty(values.shape[1])
    v = np.empty_like(x)
    w = np.empty_like(x)
    for n in range(slots):
        _assemble(values, factors, n, tau, re, im)
        for part in range(parts):
            trajectory[n * parts + part] = x
            v[:] = x
            # x <- sum_k A^k x / k!, the k-th term from the one before
            for k in range(1, terms + 1):
                _product(start, column, re, im, v, w, 1.0 / k)
                for i in range(x.shape[0]):
                    for s in range(x.shape[1]):
                        x[i, s] += w[i, s]
                v, w = w, v


@njit(cache=True, fastmath=True)
def _outer(start, column, mu, x, outer_re, outer_im):
    """Add ``K = conj(mu) x^T``, summed over columns, on the pattern alone."""
    count = x.shape[1] // 2
    for i in range(x.shape[0]):
        for e in range(start[i], start[i + 1]):
            j = column[e]
            p = 0.0
            q = 0.0
            for s in range(count):
                p += mu[i, s] * x[j, s] + mu[i, count + s] * x[j, count + s]
                q += mu[i, s] * x[j, count + s] - mu[i, count + s] * x[j, s]
            outer_re[e] += p
            outer_im[e] += q


@njit(cache=True, fastmath=True)
def _part_backward(matrix, terms, lam, powers, mu, w, outer):
    """Carry the costate back through one part, and add its K; `powers[0]` holds the columns at its start."""
    start, column, re, im = matrix
    outer_re, outer_im = outer
    for k in range(1, terms):
        _product(start, column, re, im, powers[k - 1], powers[k], 1.0)
    inverse = 1.0
    for k in range(1, terms + 1):
        inverse /= k
    # Horner's scheme backwards: mu_{m-1} = lam/m!, mu_{j-1} = A+ mu_j + lam/j!
    for i in range(lam.shape[0]):
        for s in range(lam.shape[1]):
            mu[i, s] = inverse * lam[i, s]
    for j in range(terms - 1, -1, -1):
        _outer(start, column, mu, powers[j], outer_re, outer_im)
        _adjoint_product(start, column, re, im, mu, w)
        inverse *= j + 1
        # at j = 0 this is the costate at the start of the part: lam/0! + A+ mu_0
        for i in range(lam.shape[0]):
            for s in range(lam.shape[1]):
                mu[i, s] = w[i, s] + inverse * lam[i, s]
    lam[:] = mu


@njit(cache=True, fastmath=True)
def slot_backward(start, column, values, factors, tau, terms, parts, lam, trajectory, gradient):
    """Carry the costate ``lam = dJ/dX*`` back and return ``dJ/df_c(n)`` of the truncated series itself, exactly.

    Parameters
    ----------
    lam : (D, 2 S) float64
        dJ/dX* at T when read; at t = 0 when written.
    trajectory : (N parts, D, 2 S) float64
        As `slot_forward` left it. Read.
    gradient : (C, N) float64
        Written.
    """
    slots = factors.shape[1]
    count = values.shape[1]
    re = np.empty(count)
    im = np.empty(count)
    outer_re = np.empty(count)
    outer_im = np.empty(count)
    mu = np.empty_like(lam)
    w = np.empty_like(lam)
    powers = np.empty((terms, lam.shape[0], lam.shape[1]))
    for n in range(slots - 1, -1, -1):
        _assemble(values, factors, n, tau, re, im)
        outer_re[:] = 0.0
        outer_im[:] = 0.0
        for part in range(parts - 1, -1, -1):
            powers[0] = trajectory[n * parts + part]
            _part_backward((start, column, re, im), terms, lam, powers, mu, w, (outer_re, outer_im))
        # one K serves all controls: dJ/df_c = 2 Re (tau sum_e K_e A_c,e)
        for c in range(factors.shape[0]):
            z = 0.0
            for e in range(count):
                z += outer_re[e] * values[c + 1, e].real - outer_im[e] * values[c + 1, e].imag
            gradient[c, n] = 2.0 * tau * z
