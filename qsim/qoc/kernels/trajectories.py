"""Kets that jump at given times: many histories as columns side by side, each with its own times (Eq. Q26).

A slot in which some column jumps is passed through several times: column s moves by the fraction c_s of the slot,
``exp(c_s tau A)`` with the factor c_s in every term of the series, then jumps. All columns share the products of the series.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from qsim.qoc.kernels.products import JIT, PART, add_outer, adjoint_product, assemble, copy, product


@njit(**PART)
def _scale(y, lengths):
    """Multiply every column by its length."""
    count = lengths.size
    for i in range(y.shape[0]):
        for s in range(count):
            y[i, s] *= lengths[s]
            y[i, count + s] *= lengths[s]


@njit(**PART)
def _jump(jumps, after, x, y, adjoint):
    """Let the columns jump that do so after this pass: ``x <- L x``, or ``L+ x``; y is overwritten."""
    start, column, re, im = jumps
    count = after.size
    for s in range(count):
        # -1: this column goes on without a jump.
        k = after[s]
        if k < 0:
            continue
        for i in range(x.shape[0]):
            y[i, s] = 0.0
            y[i, count + s] = 0.0
        for i in range(x.shape[0]):
            for e in range(start[k, i], start[k, i + 1]):
                j = column[e]
                if adjoint:
                    y[j, s] += re[e] * x[i, s] + im[e] * x[i, count + s]
                    y[j, count + s] += re[e] * x[i, count + s] - im[e] * x[i, s]
                else:
                    y[i, s] += re[e] * x[j, s] - im[e] * x[j, count + s]
                    y[i, count + s] += re[e] * x[j, count + s] + im[e] * x[j, s]
        for i in range(x.shape[0]):
            x[i, s] = y[i, s]
            x[i, count + s] = y[i, count + s]


@njit(**JIT)
def jumping_forward(generator, jumps, passes, factors, tau, terms, parts, x, trajectory):
    """Carry jumping columns through all slots.

    Parameters
    ----------
    generator : tuple of (D + 1,), (E,) int64 and (C + 1, E) complex128
        Pattern of A, rows compressed, and A0 and A_c on it, 1/time. Read.
    jumps : tuple of (K, D + 1), (F,) int64 and (F,), (F,) float64
        Rows of every jump operator, columns, real and imaginary parts. Read.
    passes : tuple of (P,) int64, (P,) bool, (P, S) float64, (P, S) int64
        Slot of each pass; whether all columns move through it whole and none jumps; the fraction of each column; its jump
        afterwards, -1 for none. Read.
    factors : (C, N) float64
        f_c of each slot. Read.
    tau : float
        Length of a part of a slot.
    terms, parts : int
        Terms m of the series, and equal parts of a pass.
    x : (D, 2 S) float64
        Columns; at t = 0 when read, at T when written.
    trajectory : (P parts, D, 2 S) float64
        Columns at the start of each part; written.
    """
    start, column, values = generator
    slot, plain, lengths, after = passes
    re = np.empty(values.shape[1])
    im = np.empty(values.shape[1])
    v = np.empty_like(x)
    w = np.empty_like(x)
    for p in range(slot.size):
        assemble(values, factors, slot[p], tau, re, im)
        for part in range(parts):
            copy(x, trajectory[p * parts + part])
            copy(x, v)
            # x <- sum_k (c A)^k x / k!, the k-th term from the one before
            for k in range(1, terms + 1):
                product(start, column, re, im, v, w, 1.0 / k)
                if not plain[p]:
                    _scale(w, lengths[p])
                for i in range(x.shape[0]):
                    for s in range(x.shape[1]):
                        x[i, s] += w[i, s]
                v, w = w, v
        if not plain[p]:
            _jump(jumps, after[p], x, w, False)


@njit(**JIT)
def jumping_backward(generator, jumps, passes, factors, tau, terms, parts, lam, trajectory, gradient):
    """Carry the costates back and return ``dJ/df_c(n)``, exactly: the map is linear for given times.

    Parameters
    ----------
    lam : (D, 2 S) float64
        dJ/dX* at T when read; at t = 0 when written.
    trajectory : (P parts, D, 2 S) float64
        As `jumping_forward` left it. Read.
    gradient : (C, N) float64
        Added to.
    """
    start, column, values = generator
    slot, plain, lengths, after = passes
    count = values.shape[1]
    re = np.empty(count)
    im = np.empty(count)
    outer_re = np.empty(count)
    outer_im = np.empty(count)
    mu = np.empty_like(lam)
    w = np.empty_like(lam)
    scaled = np.empty_like(lam)
    powers = np.empty((terms, lam.shape[0], lam.shape[1]))
    for p in range(slot.size - 1, -1, -1):
        # Passes go backwards, and several of them may belong to one slot.
        n = slot[p]
        assemble(values, factors, n, tau, re, im)
        outer_re[:] = 0.0
        outer_im[:] = 0.0
        # A jump ends its pass, so on the way back its adjoint comes first.
        if not plain[p]:
            _jump(jumps, after[p], lam, w, True)
        for part in range(parts - 1, -1, -1):
            copy(trajectory[p * parts + part], powers[0])
            for k in range(1, terms):
                product(start, column, re, im, powers[k - 1], powers[k], 1.0)
                if not plain[p]:
                    _scale(powers[k], lengths[p])
            inverse = 1.0
            for k in range(1, terms + 1):
                inverse /= k
            # Horner's scheme backwards, with c A for A
            for i in range(lam.shape[0]):
                for s in range(lam.shape[1]):
                    mu[i, s] = inverse * lam[i, s]
            for j in range(terms - 1, -1, -1):
                copy(mu, scaled)
                if not plain[p]:
                    # both the derivative c dA and the next power take the factor
                    _scale(scaled, lengths[p])
                add_outer(start, column, scaled, powers[j], outer_re, outer_im)
                adjoint_product(start, column, re, im, scaled, w)
                inverse *= j + 1
                for i in range(lam.shape[0]):
                    for s in range(lam.shape[1]):
                        mu[i, s] = w[i, s] + inverse * lam[i, s]
            copy(mu, lam)
        for c in range(factors.shape[0]):
            z = 0.0
            for e in range(count):
                z += outer_re[e] * values[c + 1, e].real - outer_im[e] * values[c + 1, e].imag
            # Several passes belong to one slot, so their parts add up.
            gradient[c, n] += 2.0 * tau * z
