"""Products with the Hamiltonian of two electrons on a CPU: rows of the product grid that threads take in turn.

With ``F_p = a_p x_p b_p^T`` on the product grid, elementwise kernels there, and ``a_p^T W_p b_p`` back in the basis, a row of the
grid needs no other one until the last factor: it goes from the vector to ``W b`` in the caches of one core.  Matrix products call
SciPy's BLAS without the interpreter's lock and with one thread each.  Rows are cut by the shapes and by the kind
of BLAS alone, so the results depend neither on the number of threads nor on which rank makes which pairs.

Matrices on the right are stored as they are used: with wide registers BLAS multiplies by a transposed matrix at half the rate.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device.blas import kernels_of_blas, one_thread
from qsim.core.device.cpu.vectors import lanes, put, same
from qsim.core.device.jit import PART as _PART
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share
from qsim.sturmian.kernels.coupling import CHUNK, JIT

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray
    from qsim.core.device.device import Device
    from qsim.sturmian.kernels.coupling import Terms

__all__ = ["Vectors", "contracted", "on_grid", "repelled", "repelled_products", "symmetrised"]

PART: dict[str, Any] = {**JIT, **_PART}
# Kinds of OpenBLAS with kernels for small matrices.
WIDE = frozenset({"SkylakeX", "Cooperlake", "SapphireRapids"})
# Rows from which such a BLAS, and any other, is quick.
FEW_ROWS, ROWS = 16, 32
# Share of the threads that tiles must occupy; else each tile is cut by pairs, which then read the same memory.
BUSY = 0.6
# Multiplications below which starting threads costs more than it saves.
PARALLEL_SIZE = 1 << 20


class Vectors(NamedTuple):
    """Functions on the product grid by their factors, ``F[k, p] = a[p] x[k, p] bt[p]``.

    Attributes
    ----------
    a : (P, n, M) float64
        Basis of the first electron at the points.
    x : (m, P, M, M) float64
        Coefficients of m functions.
    bt : (P, M, n) float64
        Basis of the second electron, transposed.
    """

    a: FloatArray
    x: FloatArray
    bt: FloatArray


class Tile(NamedTuple):
    """Rows ``low ... high`` of one function k, and its pairs ``one ... other``."""

    low: int
    high: int
    k: int
    one: int
    other: int


def on_grid(device: Device, vectors: Vectors, F: FloatArray) -> None:
    """Compute ``F[k, p] = a[p] x[k, p] bt[p]`` of the pairs, which come first among the components.

    Parameters
    ----------
    vectors : Vectors
    F : (m, C, n, n) float64, out
        Row-major, as all.
    """
    # Bits do not depend on the number of threads: tiles follow from the shapes, and a part of a
    # tile's pairs only decides who computes, since each pair is a product of its own.
    tall = rows()
    tiles = F.shape[0] * _tiles(F.shape[2], tall)
    parts = _parts(tiles, vectors.x.shape[1], device.threads)
    work = Shared(_grid_rows_shared, (*vectors, F, parts, tall))
    with one_thread():
        tasks = tiles * parts
        each_part(work, tasks, _grid_size(vectors.a, len(F)), device.threads, PARALLEL_SIZE)


def repelled(device: Device, F: FloatArray, G: FloatArray, A: Terms, b: FloatArray) -> FloatArray:
    """Return the repulsion of a function on the grid, times the basis of the second electron: (m, P, n, M).

    Parameters
    ----------
    F : (m, C, n, n) float64
    G : (L, n n) float64
        As of :func:`~qsim.sturmian.kernels.coupling.coupling`.
    A
        Coefficients of P pairs.
    b : (P, n, M) float64
    """
    (count, _, n), tall = F.shape[:3], rows()
    tiles = count * _tiles(n, tall)
    parts = _parts(tiles, b.shape[0], device.threads)
    V = np.empty((count, *b.shape))
    work = Shared(_repelled_shared, (F, G, A.sums, b, V, parts, tall))
    with one_thread():
        each_part(work, tiles * parts, _repelled_size(count, A, b), device.threads, PARALLEL_SIZE)
    return V


def repelled_products(device: Device, vectors: Vectors, G: FloatArray, A: Terms, b: FloatArray) -> FloatArray:
    """Return the repulsion as of `repelled` for functions of :func:`on_grid` whose components are the pairs.

    Rows of a function exist in the caches of a core alone, unless there are too few for all threads.

    Parameters
    ----------
    vectors : Vectors
    G, A, b
        As of `repelled`.
    """
    (count, pairs), n, tall = vectors.x.shape[:2], vectors.a.shape[1], rows()
    tiles = count * _tiles(n, tall)
    # Too few tiles for the threads: the pairs of a tile go to different threads, which need all
    # components of its rows, so that the functions must lie in memory before.
    if _parts(tiles, pairs, device.threads) > 1:
        F = np.empty((count, pairs, n, n))
        on_grid(device, vectors, F)
        return repelled(device, F, G, A, b)
    V = np.empty((count, *b.shape))
    work = Shared(_products_shared, (vectors, G, A.sums, b, V, tall))
    size = _repelled_size(count, A, b) + _grid_size(vectors.a, count)
    with one_thread():
        each_part(work, tiles, size, device.threads, PARALLEL_SIZE)
    return V


def contracted(device: Device, at: FloatArray, V: FloatArray) -> FloatArray:
    """Return ``at[p] V[k, p]``, (m, P, M, M), for at (P, M, n) and V (m, P, n, M)."""
    (count, pairs, n, M), high, tall = V.shape, at.shape[1], rows()
    out = np.empty((count, pairs, high, M))
    work = Shared(_contracted_shared, (at, V, out, tall))
    with one_thread():
        each_part(work, count * pairs * _tiles(high, tall), out.size * n, device.threads, PARALLEL_SIZE)
    return out


@nb.njit(**JIT)
def symmetrised(x, same, signs):
    """Project the pairs `same` of x (m, P, M, M) on ``X^T = sign X``, in place."""
    for k in range(x.shape[0]):
        for place in range(same.size):
            X, sign = x[k, same[place]], signs[place]
            # Both elements of a mirrored pair are read before either is written; the diagonal
            # becomes itself (sign 1) or zero (sign -1).
            for i in range(X.shape[0]):
                for j in range(i + 1):
                    one, other = X[i, j], X[j, i]
                    X[i, j] = 0.5 * (one + sign * other)
                    X[j, i] = 0.5 * (other + sign * one)


def _grid_size(a: FloatArray, count: int) -> int:
    # a x of one pair takes n M^2 multiplications, the product with b^T another n^2 M.
    pairs, n, M = a.shape
    return count * pairs * n * M * (M + n)


def _repelled_size(count: int, A: Terms, b: FloatArray) -> int:
    # One multiplication per coefficient A^l_pc and point, and n^2 M of each pair for the
    # product with b.
    pairs, n, M = b.shape
    return count * n * n * (len(A.sums.factor) + pairs * M)


@cache
def rows() -> int:
    """Return the number of rows of the grid, or of the basis, that a thread works on at a time."""
    kinds = kernels_of_blas()
    return FEW_ROWS if kinds and kinds <= WIDE else ROWS


def _tiles(high: int, tall: int) -> int:
    return -(-high // tall)


def _parts(tiles: int, pairs: int, threads: int) -> int:
    """Return the number of parts of a tile's pairs: one, or one per pair where tiles are too few; the bits are the same."""
    # With fewer tiles than threads, or a last round that leaves many idle, the pairs are
    # divided, too.
    rounds = -(-tiles // threads)
    return 1 if tiles >= BUSY * rounds * threads else pairs


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
def _place(task, functions, parts, pairs, rows, tall):
    """Return the rows, function and pairs of a task; tasks of the same tile are next to each other."""
    # The part runs fastest, then the function, then the rows: a thread that takes neighbouring
    # tasks keeps the rows of the basis and of G in its caches for all functions.
    place, part = task // parts, task % parts
    tile, k = place // functions, place % functions
    low, high = tile * tall, min((tile + 1) * tall, rows)
    return Tile(low, high, k, part * pairs // parts, (part + 1) * pairs // parts)


@nb.njit(**PART)
def _products_cpu(first, last, worker, vectors, G, sums, b, V, tall):
    """Fill the tiles ``first ... last`` of rows of the repulsion, each from its rows on the grid."""
    a, x, bt = vectors.a, vectors.x, vectors.bt
    pairs, n = x.shape[1], a.shape[1]
    # Rows of all pairs on the grid and of their repulsion: scratch of one thread, made once for
    # all its tiles.
    F, W = np.empty((pairs, tall * n)), np.empty((pairs, tall * n))
    for task in range(first, last):
        tile = _place(task, x.shape[0], 1, pairs, n, tall)
        low, high, k = tile.low, tile.high, tile.k
        # these rows of all pairs first, since a row of the repulsion couples them; they stay in the caches of this core
        for p in range(pairs):
            np.dot(np.dot(a[p][low:high], x[k, p]), bt[p], F[p][: (high - low) * n].reshape(high - low, n))
        _repelled_rows(tile, G, F, 0, sums, b, V[k], W)


@nb.njit(**PART)
def _grid_rows_cpu(first, last, worker, a, x, bt, F, parts, tall):
    """Fill the tiles ``first ... last`` of rows of all functions, or of some pairs of these."""
    for task in range(first, last):
        tile = _place(task, F.shape[0], parts, x.shape[1], F.shape[2], tall)
        for p in range(tile.one, tile.other):
            np.dot(
                np.dot(a[p][tile.low : tile.high], x[tile.k, p]), bt[p], F[tile.k, p][tile.low : tile.high]
            )


@nb.njit(**PART)
def _repelled_rows_cpu(first, last, worker, F, G, sums, b, V, parts, tall):
    """Fill the tiles ``first ... last`` as `_grid_rows_cpu`; kernels of a tile serve one function after another."""
    n, pairs = F.shape[2], V.shape[1]
    # One row more where the pairs do not divide evenly among the parts.
    W = np.empty((-(-pairs // parts), tall * n))
    for task in range(first, last):
        tile = _place(task, F.shape[0], parts, pairs, n, tall)
        # Points (r1, r2) as one index: a tile of rows is then one range of neighbouring
        # numbers.
        points = F[tile.k].reshape(F.shape[1], n * n)
        _repelled_rows(tile, G, points, tile.low * n, sums, b, V[tile.k], W)


@nb.njit(**PART)
def _repelled_rows(tile, G, F, source, sums, b, V, W):
    """Fill rows of the pairs of a tile of V (P, n, M) from all components ``F[:, source:]`` there."""
    low, high, one, other = tile.low, tile.high, tile.one, tile.other
    n = V.shape[1]
    # chunk by chunk, so that components and kernels of a chunk are read from the first cache for every pair
    for begin in range(low * n, high * n, CHUNK):
        size, at = min(CHUNK, high * n - begin), begin - low * n
        _couple(begin, size, one, other, G, F, source + at, sums, at, W)
    # the basis of the second electron takes whole rows, which are complete only now
    for p in range(one, other):
        np.dot(W[p - one][: (high - low) * n].reshape(high - low, n), b[p], V[p][low:high])


@nb.njit(**PART)
def _couple(begin, size, low, high, G, F, source, sums, place, W):
    """Write the repulsion of the pairs ``low ... high`` at some points, as `coupling` does, to ``W[:, place:]``.

    Of real numbers, with the sums of sixteen points in registers.
    """
    row, group, component, factor = sums.row, sums.group, sums.component, sums.factor
    # Offsets are counted in the flat arrays, since a register is loaded from an address and not
    # from a slice.
    points, apart, across = G.shape[1], F.shape[1], W.shape[1]
    whole = size - size % 16
    for p in range(low, high):
        out = (p - low) * across + place
        # Sixteen points in four registers of four: the outer sum over multipoles (w ... z) and the inner one over components
        # (a ... d) are never written to memory, and each G is read once per pair.
        for i in range(0, whole, 16):
            w, x, y, z = same(0.0), same(0.0), same(0.0), same(0.0)
            for k in range(row[p], row[p + 1]):
                a, b, c, d = same(0.0), same(0.0), same(0.0), same(0.0)
                for entry in range(group[k, 1], group[k, 2]):
                    f, number = component[entry] * apart + source + i, factor[entry]
                    a = a + number * lanes(F, f)
                    b = b + number * lanes(F, f + 4)
                    c = c + number * lanes(F, f + 8)
                    d = d + number * lanes(F, f + 12)
                g = group[k, 0] * points + begin + i
                w = w + lanes(G, g) * a
                x = x + lanes(G, g + 4) * b
                y = y + lanes(G, g + 8) * c
                z = z + lanes(G, g + 12) * d
            put(W, out + i, w)
            put(W, out + i + 4, x)
            put(W, out + i + 8, y)
            put(W, out + i + 12, z)
        # the points that fill no registers, with the same order of sums
        for i in range(whole, size):
            total = 0.0
            for k in range(row[p], row[p + 1]):
                part = 0.0
                for entry in range(group[k, 1], group[k, 2]):
                    part += factor[entry] * F[component[entry], source + i]
                total += G[group[k, 0], begin + i] * part
            W[p - low, place + i] = total


@nb.njit(**PART)
def _contracted_cpu(first, last, worker, at, V, out, tall):
    """Fill the tiles ``first ... last`` of rows of all products; tiles of one product are next to each other."""
    # Rows of a_p^T W_p are independent, so that each tile is written by one thread alone.
    rows = out.shape[2]
    tiles = -(-rows // tall)
    for place in range(first, last):
        product, tile = place // tiles, place % tiles
        k, p = product // out.shape[1], product % out.shape[1]
        low, high = tile * tall, min((tile + 1) * tall, rows)
        np.dot(at[p][low:high], V[k, p], out[k, p][low:high])
