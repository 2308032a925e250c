"""Hermitian density matrices under a Lindbladian that is constant in each slot, as matrices (Eqs. Q16, Q17).

``A(rho) = X + X+ + sum_k L_k rho L_k+`` with ``X = G rho``, ``G = -i H - sum_k L_k+ L_k/2``: one sparse product with all columns
of all matrices, since rho is Hermitian, where the Lindbladian on vectors (D^2) takes two. S matrices are a real array (D, 2 D S):
of each row its real parts, then its imaginary ones, column by column, the S matrices innermost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from qsim.qoc.kernels.products import JIT, PART, add_outer, adjoint_product, assemble, copy, product

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray, RealArray


def layout_of(columns: ComplexArray) -> NDArray[np.float64]:
    """Return matrices (D^2, S), each row by row, as the real array (D, 2 D S) of the kernels."""
    count = columns.shape[1]
    size = round(columns.shape[0] ** 0.5)
    # Rows of rho first, then real and imaginary parts, then its columns, the matrices innermost.
    cube = columns.reshape(size, size, count)
    return np.ascontiguousarray(np.stack([cube.real, cube.imag], axis=1).reshape(size, -1))


def matrices_of(real: RealArray) -> ComplexArray:
    """Return the matrices (..., D^2, S) of arrays (..., D, 2 D S) of the kernels."""
    size = real.shape[-2]
    parts = real.reshape(*real.shape[:-1], 2, size, -1)
    cube = parts[..., 0, :, :] + 1j * parts[..., 1, :, :]
    return np.asarray(cube.reshape(*real.shape[:-2], size * size, -1))


@njit(**PART)
def _with_conjugate(g, y):
    """Put ``g + g+`` of each matrix into y."""
    size = g.shape[0]
    width = g.shape[1] // 2
    count = width // size
    for i in range(size):
        for j in range(size):
            for s in range(count):
                y[i, j * count + s] = g[i, j * count + s] + g[j, i * count + s]
                y[i, width + j * count + s] = g[i, width + j * count + s] - g[j, width + i * count + s]


@njit(**PART)
def _make_hermitian(x):
    """Replace each matrix by the mean of it and its adjoint.

    The products take x for its adjoint, and an anti-Hermitian part of rounding would grow as ``exp(t ||sum L x L*||)``.
    """
    size = x.shape[0]
    width = x.shape[1] // 2
    count = width // size
    for i in range(size):
        for j in range(i + 1):
            for s in range(count):
                a = 0.5 * (x[i, j * count + s] + x[j, i * count + s])
                b = 0.5 * (x[i, width + j * count + s] - x[j, width + i * count + s])
                x[i, j * count + s] = a
                x[j, i * count + s] = a
                x[i, width + j * count + s] = b
                x[j, width + i * count + s] = -b


@njit(**PART)
def _add_jumps(start, column, re, im, x, y, factor):
    """Add ``factor sum_k L_k x L_k+`` to y; the jumps as a sparse matrix (D^2, D^2) on entries."""
    size = x.shape[0]
    width = x.shape[1] // 2
    count = width // size
    for i in range(size):
        for j in range(size):
            to = j * count
            # Row (i, j) of the superoperator of the jumps takes from all (k, l) of its entries.
            for e in range(start[i * size + j], start[i * size + j + 1]):
                k = column[e] // size
                come = (column[e] % size) * count
                a = factor * re[e]
                b = factor * im[e]
                for s in range(count):
                    y[i, to + s] += a * x[k, come + s] - b * x[k, width + come + s]
                    y[i, width + to + s] += a * x[k, width + come + s] + b * x[k, come + s]


@njit(**JIT)
def density_forward(generator, jumps, factors, tau, terms, parts, x, trajectory):
    """Carry density matrices through all slots.

    Parameters
    ----------
    generator : tuple of (D + 1,), (E,) int64 and (C + 1, E) complex128
        Pattern of G, rows compressed, and G0 and ``-i H_c`` on it, 1/time. Read.
    jumps : tuple of (D^2 + 1,), (F,) int64 and (F,), (F,) float64
        Rows, columns, real and imaginary parts of ``sum_k L_k x L_k^*``, 1/time. Read.
    factors : (C, N) float64
        f_c of each slot. Read.
    tau : float
        Length of a part of a slot.
    terms, parts : int
        Terms m of the series, and equal parts of a slot.
    x : (D, 2 D S) float64
        Matrices; at t = 0 when read, at T when written.
    trajectory : (N parts, D, 2 D S) float64
        Matrices at the start of each part; written.
    """
    start, column, values = generator
    first, place, jump_re, jump_im = jumps
    re = np.empty(values.shape[1])
    im = np.empty(values.shape[1])
    v = np.empty_like(x)
    w = np.empty_like(x)
    g = np.empty_like(x)
    for n in range(factors.shape[1]):
        assemble(values, factors, n, tau, re, im)
        for part in range(parts):
            copy(x, trajectory[n * parts + part])
            copy(x, v)
            # x <- sum_k A^k x / k!, the k-th term from the one before
            for k in range(1, terms + 1):
                product(start, column, re, im, v, g, 1.0 / k)
                _with_conjugate(g, w)
                _add_jumps(first, place, jump_re, jump_im, v, w, tau / k)
                for i in range(x.shape[0]):
                    for s in range(x.shape[1]):
                        x[i, s] += w[i, s]
                v, w = w, v
            _make_hermitian(x)


@njit(**PART)
def _part_backward(matrix, jumps, adjoint, tau, terms, lam, powers, work, outer):
    """Carry the costate back through one part, and add its K; `powers[0]` holds the matrices at its start."""
    start, column, re, im = matrix
    outer_re, outer_im = outer
    mu, w, g = work
    for k in range(1, terms):
        product(start, column, re, im, powers[k - 1], g, 1.0)
        _with_conjugate(g, powers[k])
        _add_jumps(jumps[0], jumps[1], jumps[2], jumps[3], powers[k - 1], powers[k], tau)
    inverse = 1.0
    for k in range(1, terms + 1):
        inverse /= k
    # Horner's scheme backwards, as for kets: mu_{m-1} = lam/m!, mu_{j-1} = A+ mu_j + lam/j!
    for i in range(lam.shape[0]):
        for s in range(lam.shape[1]):
            mu[i, s] = inverse * lam[i, s]
    # The order of these products is that of Eq. Q16 for the adjoint; K needs G alone (Eq. Q17).
    for j in range(terms - 1, -1, -1):
        add_outer(start, column, mu, powers[j], outer_re, outer_im)
        adjoint_product(start, column, re, im, mu, g)
        _with_conjugate(g, w)
        _add_jumps(adjoint[0], adjoint[1], adjoint[2], adjoint[3], mu, w, tau)
        inverse *= j + 1
        for i in range(lam.shape[0]):
            for s in range(lam.shape[1]):
                mu[i, s] = w[i, s] + inverse * lam[i, s]
    copy(mu, lam)
    _make_hermitian(lam)


@njit(**JIT)
def density_backward(generator, jumps, adjoint, factors, tau, terms, parts, lam, trajectory, gradient):
    """Carry the Hermitian costate back and return ``dJ/df_c(n)`` of the truncated series itself, exactly.

    Parameters
    ----------
    adjoint
        As `jumps`, of ``sum_k L_k+ x L_k^T``. Read.
    lam : (D, 2 D S) float64
        dJ/drho* at T when read, ``dJ = 2 Re Tr lam+ drho``; at t = 0 when written.
    trajectory : (N parts, D, 2 D S) float64
        As `density_forward` left it. Read.
    gradient : (C, N) float64
        Written.
    """
    start, column, values = generator
    count = values.shape[1]
    re = np.empty(count)
    im = np.empty(count)
    outer_re = np.empty(count)
    outer_im = np.empty(count)
    work = (np.empty_like(lam), np.empty_like(lam), np.empty_like(lam))
    powers = np.empty((terms, lam.shape[0], lam.shape[1]))
    for n in range(factors.shape[1] - 1, -1, -1):
        assemble(values, factors, n, tau, re, im)
        outer_re[:] = 0.0
        outer_im[:] = 0.0
        for part in range(parts - 1, -1, -1):
            copy(trajectory[n * parts + part], powers[0])
            matrix = (start, column, re, im)
            _part_backward(matrix, jumps, adjoint, tau, terms, lam, powers, work, (outer_re, outer_im))
        # the controls turn rho from both sides: twice the real part of one
        for c in range(factors.shape[0]):
            z = 0.0
            for e in range(count):
                z += outer_re[e] * values[c + 1, e].real - outer_im[e] * values[c + 1, e].imag
            gradient[c, n] = 4.0 * tau * z
