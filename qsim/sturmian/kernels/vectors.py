"""Algebra of a few long vectors on a CPU, piece by piece of their columns, which threads take in turn.

All vectors of a piece stay in the caches of a core.  What is summed over columns is summed in each piece, then over the pieces in
their order, so that results do not depend on the number of threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from qsim.core.device.jit import PART as _PART
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share
from qsim.sturmian.kernels.coupling import JIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DIVIDE", "INNER", "RESIDUAL", "SUBTRACT", "SUM", "algebra"]

# Numbers of a vector in a piece.
COLUMNS = 2048
# What is done: sum or difference of combinations, scalar products, residuals, quotients.
SUM, SUBTRACT, INNER, RESIDUAL, DIVIDE = range(5)
PART: dict[str, Any] = {**JIT, **_PART}
# The compiler may add the terms of a sum in vectors.
SUMS: dict[str, Any] = {**PART, "fastmath": {"contract", "reassoc"}}


@nb.njit(**JIT)
def _algebra_shared(ticket, *arguments):
    return share(ticket, ranges(_algebra_cpu, arguments))


@nb.njit(**PART)
def _algebra_cpu(first, last, worker, kind, weights, v, least, out, parts):
    """Do pieces of one operation; see `algebra`."""
    size = v.shape[1]
    for piece in range(first, last):
        low, high = piece * COLUMNS, min((piece + 1) * COLUMNS, size)
        if kind == INNER:
            _inner(v, out, low, high, parts[piece])
        elif kind == DIVIDE:
            _divide(weights, v, out, low, high, least)
        elif kind == RESIDUAL:
            _residual(weights, v, out, low, high, parts[piece])
        else:
            _combine(weights, v, out, low, high, kind == SUBTRACT)


@nb.njit(**PART)
def _combine(weights, v, out, low, high, subtract):
    """Add up ``weights v`` in a piece, or subtract it from what is there."""
    sign = -1.0 if subtract else 1.0
    for i in range(out.shape[0]):
        to = out[i, low:high]
        if not subtract:
            for c in range(to.shape[0]):
                to[c] = 0.0
        # four vectors at a time: the sum is read and written once for them
        k = 0
        while k + 4 <= v.shape[0]:
            a, b = sign * weights[i, k], sign * weights[i, k + 1]
            d, e = sign * weights[i, k + 2], sign * weights[i, k + 3]
            x, y, z, u = v[k, low:high], v[k + 1, low:high], v[k + 2, low:high], v[k + 3, low:high]
            for c in range(to.shape[0]):
                to[c] += (a * x[c] + b * y[c]) + (d * z[c] + e * u[c])
            k += 4
        for k in range(v.shape[0] // 4 * 4, v.shape[0]):
            a, x = sign * weights[i, k], v[k, low:high]
            for c in range(to.shape[0]):
                to[c] += a * x[c]


@nb.njit(**SUMS)
def _inner(a, b, low, high, part):
    """Fill the scalar products of a piece of all vectors a with all vectors b."""
    for i in range(a.shape[0]):
        x = a[i, low:high]
        j = 0
        # four at a time: x is read once for them
        while j + 4 <= b.shape[0]:
            y, z, u, v = b[j, low:high], b[j + 1, low:high], b[j + 2, low:high], b[j + 3, low:high]
            p, q, r, s = 0.0, 0.0, 0.0, 0.0
            for c in range(x.shape[0]):
                p += x[c] * y[c]
                q += x[c] * z[c]
                r += x[c] * u[c]
                s += x[c] * v[c]
            part[i, j], part[i, j + 1], part[i, j + 2], part[i, j + 3] = p, q, r, s
            j += 4
        for j in range(b.shape[0] // 4 * 4, b.shape[0]):
            y = b[j, low:high]
            p = 0.0
            for c in range(x.shape[0]):
                p += x[c] * y[c]
            part[i, j] = p


@nb.njit(**SUMS)
def _residual(values, X, R, low, high, part):
    """Subtract ``values X`` from a piece of R, and fill the squares of what is left."""
    for i in range(R.shape[0]):
        x, r = X[i, low:high], R[i, low:high]
        square = 0.0
        for c in range(r.shape[0]):
            left = r[c] - values[i, 0] * x[c]
            r[c] = left
            square += left * left
        part[i, 0] = square


@nb.njit(**PART)
def _divide(theta, levels, out, low, high, least):
    """Divide a piece by ``levels - theta``, which is kept away from zero."""
    level = levels[0, low:high]
    for i in range(out.shape[0]):
        to = out[i, low:high]
        for c in range(to.shape[0]):
            gap = level[c] - theta[i, 0]
            if abs(gap) < least:
                gap = -least if gap < 0.0 else least
            to[c] /= gap


def algebra(
    kind: int,
    weights: NDArray[np.float64],
    v: NDArray[np.float64],
    out: NDArray[np.float64],
    threads: int,
    least: float = 0.0,
) -> NDArray[np.float64]:
    """Do one operation with vectors (k, n) and `out` (m, n), and return its sums over columns.

    Parameters
    ----------
    kind : int
        `SUM`: out becomes ``weights v``, `SUBTRACT`: out loses it, with weights (m, k).  `INNER`: the scalar products (k, m) of v
        with out are returned, both being read.  `RESIDUAL`: out loses ``weights[:, 0] v``, and the squares of its norms are
        returned, (m, 1).  `DIVIDE`: out is divided by ``v[0] - weights[:, 0]``, of which no number is smaller than `least`.
    weights, v, out : float64
        Contiguous.
    threads : int
        At most.
    least : float
        Of `DIVIDE`.
    """
    size = v.shape[1]
    pieces = max(1, -(-size // COLUMNS))
    shape = {INNER: (v.shape[0], out.shape[0]), RESIDUAL: (out.shape[0], 1)}.get(kind, (0, 0))
    parts = np.zeros((pieces, *shape))
    work = Shared(_algebra_shared, (kind, weights, v, least, out, parts))
    count = size * (v.shape[0] * out.shape[0] if kind in (SUM, SUBTRACT, INNER) else 4 * out.shape[0])
    each_part(work, pieces, count, threads, alike=("vectors", kind))
    return np.asarray(parts.sum(axis=0))
