"""Products of a sparse matrix with columns (D, 2 S), real parts first, of any number: what several CPU kernels are made of."""

from __future__ import annotations

from typing import Any

from numba import njit

from qsim.core.device.jit import PART as _PART

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": True}
PART: dict[str, Any] = {**JIT, **_PART}


@njit(**PART)
def copy(x, to):
    """Put x into an array of the same shape (D, n): numba takes three seconds to compile ``to[:] = x``, with its messages."""
    for i in range(x.shape[0]):
        for s in range(x.shape[1]):
            to[i, s] = x[i, s]


@njit(**PART)
def assemble(values, factors, n, tau, re, im):
    """Put ``tau (A0 + sum_c f_c(n) A_c)`` into `re` and `im`."""
    # Real and imaginary parts in arrays of their own: numba interleaves complex numbers, and no vectors come out.
    for e in range(values.shape[1]):
        z = values[0, e]
        for c in range(factors.shape[0]):
            z += factors[c, n] * values[c + 1, e]
        re[e] = tau * z.real
        im[e] = tau * z.imag


@njit(**PART)
def product(start, column, re, im, x, y, factor):
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


@njit(**PART)
def adjoint_product(start, column, re, im, x, y):
    """Put ``A+ x`` into y; rows of A scatter into y."""
    count = x.shape[1] // 2
    # A row of A is a column of A+: its products are added to many rows of y, in a fixed order.
    y[:] = 0.0
    for i in range(x.shape[0]):
        for e in range(start[i], start[i + 1]):
            j = column[e]
            a = re[e]
            b = im[e]
            for s in range(count):
                y[j, s] += a * x[i, s] + b * x[i, count + s]
                y[j, count + s] += a * x[i, count + s] - b * x[i, s]


@njit(**PART)
def add_outer(start, column, mu, x, outer_re, outer_im):
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
