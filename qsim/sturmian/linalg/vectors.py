"""Algebra of a few long vectors (k, ...): products, combinations, quotients.

On a CPU threads share it by columns, `COLUMNS` at a time: all vectors of a piece stay in the caches of a core, and what is
summed over columns is summed piece by piece in the same order, so that results do not depend on the number of threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.blas import one_thread
from qsim.core.device.pool import each_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array, FloatArray
    from qsim.core.device.device import Device

__all__ = ["Growing", "combination", "inner", "quotient", "ritz", "row_products", "subtract"]

# Numbers of a vector that a thread takes at a time.
COLUMNS = 8192
# Threads at most: more of them wait for the interpreter, which they need between two pieces.
MOST = 4
# Numbers of all vectors below which starting threads costs more than it saves.
PARALLEL_SIZE = 1 << 17


def _each(device: Device, size: int, rows: int, name: str, work: Callable[[int, slice], None]) -> None:
    """Call ``work(piece, columns)`` for all pieces of vectors of `size` numbers; `rows` vectors take part."""
    pieces = pieces_of(size)

    def some(first: int, last: int) -> None:
        for piece in range(first, last):
            work(piece, slice(piece * COLUMNS, min((piece + 1) * COLUMNS, size)))

    with one_thread():
        each_call(some, pieces, rows * size, min(device.threads, MOST), PARALLEL_SIZE, alike=name)


def pieces_of(size: int) -> int:
    """Return the number of pieces of a vector."""
    return max(1, -(-size // COLUMNS))


def _flat(v: Array) -> Array:
    return v.reshape(v.shape[0], -1)


def inner(device: Device, a: FloatArray, b: FloatArray) -> NDArray[np.float64]:
    """Return the scalar products of vectors (k, ...) with vectors (m, ...), (k, m) on the host."""
    a, b = _flat(a), _flat(b)
    if device.is_cuda:
        return np.asarray(device.to_host(a @ b.T))
    parts = np.empty((pieces_of(a.shape[1]), a.shape[0], b.shape[0]))

    def work(piece: int, columns: slice) -> None:
        np.matmul(a[:, columns], b[:, columns].T, out=parts[piece])

    _each(device, a.shape[1], a.shape[0] + b.shape[0], "inner", work)
    return np.asarray(parts.sum(axis=0))


def row_products(device: Device, a: FloatArray, b: FloatArray) -> Any:
    """Return the scalar product of each vector with the one in its place, (k,), on the device."""
    one, other = _flat(a), _flat(b)
    if device.is_cuda:
        return device.xp.sum(one * other, axis=1)
    parts = np.empty((pieces_of(one.shape[1]), one.shape[0]))

    def work(piece: int, columns: slice) -> None:
        parts[piece] = np.einsum("kn,kn->k", one[:, columns], other[:, columns])

    _each(device, one.shape[1], 2 * one.shape[0], "row_products", work)
    return parts.sum(axis=0)


def combination(device: Device, weights: NDArray[np.float64], v: FloatArray) -> Any:
    """Return ``sum_k weights[m, k] v[k]``, (m, ...), with weights on the host."""
    if device.is_cuda:
        return device.xp.tensordot(device.asarray(np.ascontiguousarray(weights)), v, 1)
    given = _flat(v)
    out = np.empty((weights.shape[0], given.shape[1]))

    def work(piece: int, columns: slice) -> None:
        np.matmul(weights, given[:, columns], out=out[:, columns])

    _each(device, given.shape[1], len(v) + len(weights), "combination", work)
    return out.reshape(-1, *v.shape[1:])


def subtract(device: Device, v: FloatArray, weights: NDArray[np.float64], base: FloatArray) -> None:
    """Subtract ``sum_k weights[m, k] base[k]`` from vectors (m, ...), in place."""
    given, others = _flat(v), _flat(base)
    if device.is_cuda:
        given -= device.asarray(np.ascontiguousarray(weights)) @ others
        return

    def work(piece: int, columns: slice) -> None:
        given[:, columns] -= weights @ others[:, columns]

    _each(device, given.shape[1], len(v) + len(base), "subtract", work)


def ritz(
    device: Device, weights: NDArray[np.float64], values: NDArray[np.float64], V: FloatArray, AV: FloatArray
) -> tuple[Any, Any, NDArray[np.float64]]:
    """Return Ritz vectors X (m, ...), their residuals ``A X - values X``, and the squares of the norms of these.

    Parameters
    ----------
    device
        Where the vectors are.
    weights : (m, k) float64
        X in the space V; on the host, like `values` (m,).
    values
        Ritz values.
    V, AV : (k, ...) float64
        Vectors and their products with the operator.
    """
    if device.is_cuda:
        X, R = combination(device, weights, V), combination(device, weights, AV)
        R -= device.asarray(values).reshape(-1, *[1] * (X.ndim - 1)) * X
        return X, R, np.asarray(device.to_host(row_products(device, R, R)))
    given, applied = _flat(V), _flat(AV)
    X, R = (np.empty((len(weights), given.shape[1])) for _ in range(2))
    parts = np.empty((pieces_of(given.shape[1]), len(weights)))

    def work(piece: int, columns: slice) -> None:
        x = np.matmul(weights, given[:, columns])
        r = np.matmul(weights, applied[:, columns])
        r -= values[:, None] * x
        X[:, columns], R[:, columns] = x, r
        parts[piece] = np.einsum("kn,kn->k", r, r)

    _each(device, given.shape[1], 2 * (len(V) + len(weights)), "ritz", work)
    shape = (-1, *V.shape[1:])
    return X.reshape(shape), R.reshape(shape), parts.sum(axis=0)


def quotient(
    device: Device, R: Array, diagonal: Array, theta: NDArray[Any], away: Callable[[Any, Array], Any]
) -> Any:
    """Return ``R / away(diagonal - theta)`` for vectors (k, ...) and numbers theta (k,) on the host."""
    xp, shape = device.xp, R.shape
    if device.is_cuda:
        shift = device.asarray(np.ascontiguousarray(theta)).reshape(-1, *[1] * (R.ndim - 1))
        return R / away(xp, diagonal - shift)
    given, levels, shift = _flat(R), diagonal.reshape(-1), np.asarray(theta)[:, None]
    out = np.empty(given.shape, np.result_type(given, levels, shift))

    def work(piece: int, columns: slice) -> None:
        np.divide(given[:, columns], away(np, levels[columns] - shift), out=out[:, columns])

    _each(device, given.shape[1], 2 * len(given), "quotient", work)
    return out.reshape(shape)


class Growing:
    """Vectors to which others are added, in memory that is taken once.

    Parameters
    ----------
    vectors : (k, ...) float64
        The first ones.
    most : int
        Room for as many.
    """

    def __init__(self, xp: Any, vectors: FloatArray, most: int) -> None:
        self._memory = xp.empty((max(most, len(vectors)), *vectors.shape[1:]))
        self.count = 0
        self.add(vectors)

    @property
    def vectors(self) -> Any:
        """Vectors that are there, (k, ...): a view."""
        return self._memory[: self.count]

    def add(self, vectors: FloatArray) -> None:
        """Add vectors (m, ...)."""
        self._memory[self.count : self.count + len(vectors)] = vectors
        self.count += len(vectors)

    def turn(self, device: Device, weights: NDArray[np.float64]) -> None:
        """Take combinations of the vectors, by weights (m, k) on the host, in place of all."""
        turned = combination(device, weights, self.vectors)
        self.count = 0
        self.add(turned)
