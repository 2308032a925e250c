"""Products with the Hamiltonian of two electrons on a CPU: rows of the product grid that threads take in turn.

With ``F_p = a_p x_p b_p^T`` on the product grid, elementwise kernels there, and ``a_p^T W_p b_p`` back in the basis, a row of the
grid needs no other one until the last factor: it goes from the vector to ``W b`` in the caches of one core.  Matrix products are
those of SciPy's BLAS, called without the interpreter's lock and with one thread each.  Rows are cut by the shapes alone, so the
results depend neither on the number of threads nor on which rank makes which pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from qsim.core.device.blas import one_thread
from qsim.core.device.jit import PART as _PART
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share
from qsim.sturmian.kernels.coupling import CHUNK, JIT, couple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.sturmian.kernels.coupling import Terms

    Array = NDArray[np.float64]

__all__ = ["contracted", "on_grid", "repelled", "symmetrised"]

PART: dict[str, Any] = {**JIT, **_PART}
ROWS = 32  # of the grid, or of the basis, that a thread works on at a time; BLAS needs so many to be quick
PARALLEL_SIZE = 1 << 20  # multiplications below which starting threads costs more than it saves


def on_grid(device: Device, a: Array, x: Array, b: Array, F: Array) -> None:
    """Compute ``F[k, p] = a[p] x[k, p] b[p]^T`` of the pairs, which come first among the components.

    Parameters
    ----------
    a : (P, n, M) float64
    x : (m, P, M, M) float64
    b : (P, n, M) float64
    F : (m, C, n, n) float64, out
        Row-major, as all.
    """
    parts = _parts(F.shape[0] * _tiles(F.shape[2]), x.shape[1], device.threads)
    work = Shared(_grid_rows_shared, (a, x, b, F, parts))
    with one_thread():
        tasks = F.shape[0] * _tiles(F.shape[2]) * parts
        each_part(work, tasks, _grid_size(a, F), device.threads, PARALLEL_SIZE)


def repelled(
    device: Device, F: Array, G: Array, A: Terms, b: Array, vectors: tuple[Array, Array] | None = None
) -> Array:
    """Return the repulsion of a function on the grid, times the basis of the second electron: (m, P, n, M).

    Parameters
    ----------
    F : (m, C, n, n) float64
    G : (L, n n) float64
        As of :func:`~qsim.sturmian.kernels.coupling.coupling`.
    A
        Coefficients of P pairs.
    b : (P, n, M) float64
    vectors : (a, x), optional
        If components are pairs: F is made of these, as by :func:`on_grid`, some rows at a time.
    """
    count, n = F.shape[0], F.shape[2]
    parts = _parts(count * _tiles(n), b.shape[0], device.threads)
    if vectors and parts > 1:
        on_grid(device, *vectors, b, F)
        vectors = None
    V = np.empty((count, *b.shape))
    arrays = (F, G, A.row, A.group, A.component, A.factor, b, V, parts)
    work = Shared(_products_shared, (*vectors, *arrays)) if vectors else Shared(_repelled_shared, arrays)
    size = count * n * n * (len(A.factor) + b.shape[0] * b.shape[2])
    if vectors:
        size += _grid_size(vectors[0], F)
    with one_thread():
        each_part(work, count * _tiles(n) * parts, size, device.threads, PARALLEL_SIZE)
    return V


def contracted(device: Device, at: Array, V: Array) -> Array:
    """Return ``at[p] V[k, p]``, (m, P, M, M), for at (P, M, n) and V (m, P, n, M)."""
    (count, pairs, n, M), rows = V.shape, at.shape[1]
    out = np.empty((count, pairs, rows, M))
    work = Shared(_contracted_shared, (at, V, out))
    with one_thread():
        each_part(work, count * pairs * _tiles(rows), out.size * n, device.threads, PARALLEL_SIZE)
    return out


@nb.njit(**JIT)
def symmetrised(x, same, signs):
    """Project the pairs `same` of x (m, P, M, M) on ``X^T = sign X``, in place."""
    for k in range(x.shape[0]):
        for place in range(same.size):
            X, sign = x[k, same[place]], signs[place]
            for i in range(X.shape[0]):
                for j in range(i + 1):
                    one, other = X[i, j], X[j, i]
                    X[i, j] = 0.5 * (one + sign * other)
                    X[j, i] = 0.5 * (other + sign * one)


def _grid_size(a: Array, F: Array) -> int:
    pairs, n, M = a.shape
    return F.shape[0] * pairs * n * M * (M + n)


def _tiles(rows: int) -> int:
    return -(-rows // ROWS)


def _parts(tiles: int, pairs: int, threads: int) -> int:
    """Return into how many parts the pairs of a tile are cut: into all where tiles are too few; the bits are the same."""
    return pairs if tiles < 2 * threads and threads > 1 else 1


@nb.njit(**JIT)
def _grid_rows_shared(ticket, *arguments):
    return share(ticket, ranges(_grid_rows_cpu, arguments))


@nb.njit(**JIT)
def _repelled_shared(ticket, *arguments):
    return share(ticket, ranges(_repelled_rows_cpu, arguments))


@nb.njit(**JIT)
def _products_shared(ticket, *arguments):
    return share(ticket, ranges(_products_cpu, arguments))


@nb.njit(**JIT)
def _contracted_shared(ticket, *arguments):
    return share(ticket, ranges(_contracted_cpu, arguments))


@nb.njit(**PART)
def _products_cpu(first, last, worker, a, x, F, G, row, group, component, factor, b, V, parts):
    """Fill the tiles ``first ... last`` of the grid and of the repulsion there, while they are in the cache."""
    _grid_rows_cpu(first, last, worker, a, x, b, F, parts)
    _repelled_rows_cpu(first, last, worker, F, G, row, group, component, factor, b, V, parts)


@nb.njit(**PART)
def _place(task, functions, parts, pairs, rows):
    """Return of which rows, function and pairs a task is; those of a tile are next to each other."""
    place, part = task // parts, task % parts
    tile, k = place // functions, place % functions
    low, high = tile * ROWS, min((tile + 1) * ROWS, rows)
    return low, high, k, part * pairs // parts, (part + 1) * pairs // parts


@nb.njit(**PART)
def _grid_rows_cpu(first, last, worker, a, x, b, F, parts):
    """Fill the tiles ``first ... last`` of rows of all functions, or of some pairs of these."""
    for task in range(first, last):
        low, high, k, one, other = _place(task, F.shape[0], parts, x.shape[1], F.shape[2])
        for p in range(one, other):
            left = np.dot(a[p][low:high], x[k, p])
            np.dot(left, b[p].T, F[k, p][low:high])


@nb.njit(**PART)
def _repelled_rows_cpu(first, last, worker, F, G, row, group, component, factor, b, V, parts):
    """Fill the tiles ``first ... last`` as `_grid_rows_cpu`; kernels of a tile serve one function after another."""
    n = F.shape[2]
    u = np.empty(CHUNK)
    W = np.empty((-(-V.shape[1] // parts), ROWS * n))
    for task in range(first, last):
        low, high, k, one, other = _place(task, F.shape[0], parts, V.shape[1], n)
        points = F[k].reshape(F.shape[1], n * n)
        for begin in range(low * n, high * n, CHUNK):
            size = min(CHUNK, high * n - begin)
            couple(begin, size, one, other, G, points, row, group, component, factor, u, begin - low * n, W)
        for p in range(one, other):
            np.dot(W[p - one][: (high - low) * n].reshape(high - low, n), b[p], V[k, p][low:high])


@nb.njit(**PART)
def _contracted_cpu(first, last, worker, at, V, out):
    """Fill the tiles ``first ... last`` of rows of all products, those of a product next to each other."""
    rows = out.shape[2]
    tiles = -(-rows // ROWS)
    for place in range(first, last):
        product, tile = place // tiles, place % tiles
        k, p = product // out.shape[1], product % out.shape[1]
        low, high = tile * ROWS, min((tile + 1) * ROWS, rows)
        np.dot(at[p][low:high], V[k, p], out[k, p][low:high])
