"""Algebra of a few long vectors (k, ...): products, combinations, quotients; on a CPU threads share it by columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.sturmian.kernels.vectors import DIVIDE, INNER, RESIDUAL, SUBTRACT, SUM, algebra

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array, FloatArray
    from qsim.core.device.device import Device

__all__ = ["Growing", "away", "combination", "inner", "quotient", "ritz", "row_products", "subtract"]

NONE = np.zeros((0, 0))


def _flat(v: Array) -> Array:
    return v.reshape(v.shape[0], -1)


def _contiguous(v: Array) -> Any:
    return np.ascontiguousarray(_flat(v), float)


def inner(device: Device, a: FloatArray, b: FloatArray) -> NDArray[np.float64]:
    """Return the scalar products of vectors (k, ...) with vectors (m, ...), (k, m) on the host."""
    if device.is_cuda:
        return np.asarray(device.to_host(_flat(a) @ _flat(b).T))
    return algebra(INNER, NONE, _contiguous(a), _contiguous(b), device.threads)


def row_products(device: Device, a: FloatArray, b: FloatArray) -> Any:
    """Return the scalar product of each vector with the one in its place, (k,), on the device."""
    if device.is_cuda:
        return device.xp.sum(_flat(a) * _flat(b), axis=1)
    return np.diag(inner(device, a, b)).copy()


def combination(device: Device, weights: NDArray[np.float64], v: FloatArray) -> Any:
    """Return ``sum_k weights[m, k] v[k]``, (m, ...), with weights on the host."""
    weights = np.ascontiguousarray(weights)
    if device.is_cuda:
        return device.xp.tensordot(device.asarray(weights), v, 1)
    given = _contiguous(v)
    out = np.empty((weights.shape[0], given.shape[1]))
    algebra(SUM, weights, given, out, device.threads)
    return out.reshape(-1, *v.shape[1:])


def subtract(device: Device, v: FloatArray, weights: NDArray[np.float64], base: FloatArray) -> None:
    """Subtract ``sum_k weights[m, k] base[k]`` from vectors (m, ...), contiguous, in place."""
    weights = np.ascontiguousarray(weights)
    if device.is_cuda:
        given = _flat(v)
        given -= device.asarray(weights) @ _flat(base)
        return
    algebra(SUBTRACT, weights, _contiguous(base), _flat(v), device.threads)


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
    X, R = combination(device, weights, V), combination(device, weights, AV)
    if device.is_cuda:
        R -= device.asarray(values).reshape(-1, *[1] * (X.ndim - 1)) * X
        return X, R, np.asarray(device.to_host(row_products(device, R, R)))
    squares = algebra(RESIDUAL, np.ascontiguousarray(values)[:, None], _flat(X), _flat(R), device.threads)
    return X, R, squares[:, 0]


def quotient(device: Device, R: Array, diagonal: Array, theta: NDArray[Any], least: float) -> Any:
    """Return ``R / away(diagonal - theta)`` for vectors (k, ...) and numbers theta (k,) on the host."""
    real = R.dtype.kind == "f" and np.asarray(theta).dtype.kind == "f"
    if device.is_cuda or not real:
        shift = device.asarray(np.ascontiguousarray(theta)).reshape(-1, *[1] * (R.ndim - 1))
        return R / away(device.xp, diagonal - shift, least)
    out = np.array(R, float, order="C")
    theta = np.ascontiguousarray(theta)[:, None]
    algebra(DIVIDE, theta, _contiguous(diagonal[None]), _flat(out), device.threads, least)
    return out


def away(xp: Any, gap: Array, least: float) -> Any:
    """Keep denominators away from zero."""
    nearest = least if gap.dtype.kind == "c" else xp.copysign(least, gap)
    return xp.where(xp.abs(gap) < least, nearest, gap)


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
