"""Repulsion integrals of radial functions: public wrappers of ``repulsion.cu`` and their CPU twins.

Pairs of equal functions n', n of one electron are *packed*, ``p = n (n + 1)/2 + n'`` with n' <= n; pairs of different
functions are not, ``p = n' N + n``.  Two-electron matrices have rows (a', b') and columns (a, b), b and b' fastest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.cpu.streaming import STREAMED, settle
from qsim.core.device.device import namespace
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share
from qsim.sturmian.kernels.repulsion_cpu import (
    JIT,
    PART,
    RUN,
    deliver,
    gather,
    inner_integral,
    outer_sums,
    unfold,
)

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device

__all__ = ["SIDES", "expand_pairs", "kronecker_products", "pair_count", "pair_densities", "simpson_terms"]

# The paper's TILE_W.
SIDES = (2, 4, 8, 16)
# As in repulsion.cu.
CUDA_TILE, CUDA_RUN = 16, 4
# Numbers below which starting threads costs more than it saves.
PARALLEL_SIZE = 1 << 18


def pair_count(n1: int, n0: int, packed: bool) -> int:
    """Return the number of pairs of n1 and n0 functions."""
    # A packed number counts n' <= n, which has a meaning within one set of functions only.
    if packed and n1 != n0:
        raise ValueError(f"packed pairs need equal functions, not {n1} and {n0}")
    return n0 * (n0 + 1) // 2 if packed else n1 * n0


def _defines(dtype: DTypeLike, **more: Any) -> dict[str, Any]:
    kind = np.dtype(dtype)
    item = kind.itemsize // (2 if kind.kind == "c" else 1)
    return {"REAL": "float" if item == 4 else "double", "COMPLEX": kind.kind == "c", **more}


def _function(name: str, dtype: DTypeLike, shared: int = 0, **more: Any) -> Any:
    return kernels.function(
        "sturmian/kernels", "repulsion", name, _defines(dtype, **more), shared_bytes=shared
    )


# ------------------------------------------------------------------------------------ pair densities


def pair_densities(device: Device, first: Array, second: Array, packed: bool) -> Any:
    """Return the products of all pairs of functions at all points, ``rho[i, p] = first[i, n'] second[i, n]``.

    Parameters
    ----------
    first, second : (points, N') and (points, N) float64 or complex128, one dtype
        Coefficients in the normalised FE-DVR basis; row-major, on the device, read.
    packed : bool
        Only n' <= n; then both must be the same functions.

    Returns
    -------
    (points, pairs), dtype of the functions
        Products with the weights of the quadrature in them: ``w_i u'(r_i) u(r_i)``.
    """
    points, n1 = first.shape
    n0 = second.shape[1]
    pairs = pair_count(n1, n0, packed)
    if second.shape[0] != points or first.dtype != second.dtype:
        raise ValueError("functions on different grids or of different dtypes")
    rho = device.xp.empty((points, pairs), first.dtype)
    if device.is_cuda:
        kernel = _function("pair_densities", first.dtype)
        grid = (*kernels.blocks(pairs), points)
        kernel(grid, (256,), (first, second, *map(np.int32, (n1, n0, pairs, packed)), rho))
        return rho
    # Points are the rows of rho: each thread writes rows of its own.
    each_part(
        lambda lo, hi: _pair_densities_cpu(first, second, packed, lo, hi, rho),
        points,
        rho.size,
        device.threads,
        PARALLEL_SIZE,
    )
    return rho


@nb.njit(**JIT)
def _pair_densities_cpu(first, second, packed, low, high, rho):
    """Points low .. high of :func:`pair_densities`."""
    n1 = first.shape[1]
    n0 = second.shape[1]
    for i in range(low, high):
        # The ket is the outer loop: its pairs are then neighbours of each other in p = ket (ket
        # + 1)/2 + bra, and rho is written in the order of memory.
        if packed:
            place = 0
            for ket in range(n0):
                value = second[i, ket]
                for bra in range(ket + 1):
                    rho[i, place + bra] = first[i, bra] * value
                place += ket + 1
        else:
            for bra in range(n1):
                value = first[i, bra]
                for ket in range(n0):
                    rho[i, bra * n0 + ket] = value * second[i, ket]


# ------------------------------------------------------------------------------------------ expansion


class Expansion(NamedTuple):
    """Options of an expansion of pairs; the first four as of :func:`expand_pairs`.

    Attributes
    ----------
    packed_a, packed_b, lower, accumulate : bool
    streamed : bool
        Whether `out` is written past the caches: a matrix that is far larger than these is not read again soon.
    """

    packed_a: bool
    packed_b: bool
    lower: bool
    accumulate: bool
    streamed: bool


def expand_pairs(
    device: Device,
    values: Array,
    shape: tuple[int, int, int, int],
    packed_a: bool,
    packed_b: bool,
    lower: bool,
    factor: float,
    accumulate: bool,
    out: Array,
) -> None:
    """Write integrals of pairs as a two-electron matrix, ``out[(a' b'), (a b)] = factor values[(a' a), (b' b)] (+ out)``.

    Parameters
    ----------
    values : (pairs of a, pairs of b) float64 or complex128
        Row-major, read.
    shape : (Na', Na, Nb', Nb)
        Numbers of functions.
    packed_a, packed_b : bool
        Whether the pairs are packed.
    lower : bool
        Only elements with column <= row are given, the others are equal to those across.
    factor : float
    accumulate : bool
        Add to ``out`` instead of writing it.
    out : (Na' Nb', Na Nb), dtype of values
        Row-major, written.
    """
    na1, na0, nb1, nb0 = shape
    want = (pair_count(na1, na0, packed_a), pair_count(nb1, nb0, packed_b))
    if values.shape != want or out.shape != (na1 * nb1, na0 * nb0) or out.dtype != values.dtype:
        raise ValueError(f"pairs {values.shape} and matrix {out.shape} do not belong to functions {shape}")
    if lower and want[0] != want[1]:
        raise ValueError("a lower triangle needs a square matrix")
    flags = (packed_a, packed_b, lower)
    if device.is_cuda:
        # packed pairs of b: tiles on and below the diagonal, each of which serves both orders
        across = -(-nb0 // CUDA_TILE)
        tiles = across * (across + 1) // 2 if packed_b else -(-nb1 // CUDA_TILE) * across
        kernel = _function("expand_pairs", values.dtype)
        # The kernel takes the factor in its own precision: CuPy hands the bytes of a scalar
        # over as they are.
        real = np.float32 if _defines(values.dtype)["REAL"] == "float" else np.float64
        arguments = (values, *map(np.int32, (*shape, *flags)), real(factor), np.int32(accumulate), out)
        kernel((-(-want[0] // CUDA_RUN), tiles), (CUDA_TILE**2,), arguments)
        return
    # a matrix that is larger than the caches is written past them: nothing of it is read again here
    # Element (a', b', a, b): the integrals of one pair (a', a) are then a matrix over (b', b)
    # whose rows are contiguous.
    four = out.reshape(na1, nb1, na0, nb0)
    real = values.real.dtype.type(factor)
    streamed = not accumulate and out.nbytes >= STREAMED
    mode = Expansion(*flags, accumulate, streamed)
    work = Shared(_expand_pairs_shared, (values, mode, real, four))
    each_part(work, -(-want[0] // RUN), out.size, device.threads, PARALLEL_SIZE)


@nb.njit(**JIT)
def _expand_pairs_shared(ticket, *arguments):
    return share(ticket, ranges(_expand_pairs_cpu, arguments))


@nb.njit(**PART)
def _expand_pairs_cpu(low, high, worker, values, mode, factor, out):
    """Expand the runs low .. high of :func:`expand_pairs`; ``out`` (Na', Nb', Na, Nb)."""
    packed_a, packed_b, accumulate, streamed = mode.packed_a, mode.packed_b, mode.accumulate, mode.streamed
    count, na0 = values.shape[0], out.shape[2]
    # Scratch of one thread: the integrals of a run of pairs, and of one pair as a matrix (b',
    # b).
    rows = np.empty((RUN, values.shape[1]), values.dtype)
    square = np.empty((out.shape[1], out.shape[3]), values.dtype)
    for run in range(low, high):
        first = run * RUN
        last = min(first + RUN, count)
        # Each pair of the first electron owns the places (a', :, a, :) and (a, :, a', :) of the
        # result, so that threads with different runs never write to the same place.
        gather(values, first, last, mode.lower, factor, rows)
        for p in range(first, last):
            if packed_a:
                # the pair of a packed number, p = ket (ket + 1)/2 + bra; the root may be off by one
                ket = int((np.sqrt(8.0 * p + 1.0) - 1.0) * 0.5)
                if ket * (ket + 1) // 2 > p:
                    ket -= 1
                if (ket + 1) * (ket + 2) // 2 <= p:
                    ket += 1
                bra = p - ket * (ket + 1) // 2
            else:
                bra = p // na0
                ket = p - bra * na0
            unfold(rows[p - first], packed_b, square)
            deliver(square, accumulate, streamed, out[bra, :, ket, :])
            # the integrals of (bra, ket) and (ket, bra) are the same
            if packed_a and bra != ket:
                deliver(square, accumulate, streamed, out[ket, :, bra, :])
    # Streamed numbers must have reached memory before another thread may read them.
    settle()


# ---------------------------------------------------------------------------------- Kronecker products


def kronecker_products(first: Array, second: Array, accumulate: bool, out: Array) -> None:
    """Compute ``out[(a' b'), (a b)] = first[a', a] second[b', b] (+ out)``, Eq. (20).

    Parameters
    ----------
    first, second : (Na', Na) and (Nb', Nb) float64 or complex128
        Row-major, on one device, read.
    accumulate : bool
        Add to ``out`` instead of writing it.
    out : (Na' Nb', Na Nb), dtype of both
        Row-major, written.
    """
    (na1, na0), (nb1, nb0) = first.shape, second.shape
    if out.shape != (na1 * nb1, na0 * nb0) or not first.dtype == second.dtype == out.dtype:
        raise ValueError(f"a matrix {out.shape} is no Kronecker product of {first.shape} and {second.shape}")
    if namespace(out) is np:
        _kronecker_products_cpu(first, second, accumulate, out.reshape(na1, nb1, na0, nb0))
        return
    kernel = _function("kronecker_products", out.dtype)
    kernel((nb1, na1), (256,), (first, second, *map(np.int32, (na0, nb0, accumulate)), out))


@nb.njit(**JIT)
def _kronecker_products_cpu(first, second, accumulate, out):
    """Fill ``out`` (Na', Nb', Na, Nb)."""
    na1, nb1, na0, nb0 = out.shape
    # Rows of the result in turn, each from Na copies of one row of the second factor; the
    # choice between adding and writing is made outside the inner loop, which stays free of
    # branches.
    for a1 in range(na1):
        for b1 in range(nb1):
            source = second[b1]
            for a0 in range(na0):
                target = out[a1, b1, a0]
                value = first[a1, a0]
                if accumulate:
                    for b0 in range(nb0):
                        target[b0] += value * source[b0]
                else:
                    for b0 in range(nb0):
                        target[b0] = value * source[b0]


# ---------------------------------------------------------------------------------- nested quadrature


def simpson_terms(
    device: Device,
    inner: tuple[Any, Any],
    fine_weights: Array,
    weights: Array,
    outer: tuple[Any, Any],
    swapped: bool,
    out: Array,
    side: int = 8,
) -> None:
    """Add one term of Eq. (21) to all integrals, ``out += sum_j w_j o'(r_j) o(r_j) r_j^l int_{r_j}^R i' i u^(-l-1) du``.

    Parameters
    ----------
    inner : two arrays (points, fine, N), float64 or complex128
        Values of the inner functions i', i at the Simpson points between neighbouring r_j; read.
    fine_weights : (points, fine) float64
        Simpson weights times ``u^(-l-1)``.
    weights : (points,) float64
        ``w_j r_j^l``.
    outer : two arrays (points, M), dtype of inner
        Values of the outer functions o', o at r_j.
    swapped : bool
        The inner functions belong to electron b (the second term), else to electron a.
    out : (Na' Nb', Na Nb), dtype of inner
        Row-major, added to.
    side : int
        CUDA: blocks of ``side * side`` threads, the paper's TILE_W.
    """
    points, fine, n1 = inner[0].shape
    n0, m1, m0 = inner[1].shape[2], outer[0].shape[1], outer[1].shape[1]
    if any(array.dtype != out.dtype for array in (*inner, *outer)):
        raise ValueError("functions and integrals of different dtypes")
    if out.shape != ((m1 * n1, m0 * n0) if swapped else (n1 * m1, n0 * m0)):
        raise ValueError(f"a matrix {out.shape} does not belong to these functions")
    if device.is_cuda:
        if side not in SIDES:
            raise ValueError(f"side {side} is none of {SIDES}")
        # The inner integral at all points and a partial sum of each thread.
        shared = (points + side * side) * out.dtype.itemsize
        kernel = _function("simpson_terms", out.dtype, shared, SIDE=side)
        sizes = map(np.int32, (points, fine, m1, m0, swapped))
        kernel(
            (n0, n1), (side * side,), (*inner, fine_weights, weights, *outer, *sizes, out), shared_mem=shared
        )
        return
    four = out.reshape((m1, n1, m0, n0) if swapped else (n1, m1, n0, m0))
    each_part(
        lambda lo, hi: _simpson_terms_cpu(*inner, fine_weights, weights, *outer, swapped, lo, hi, four),
        n1,
        out.size,
        device.threads,
        PARALLEL_SIZE,
    )


@nb.njit(**JIT)
def _simpson_terms_cpu(inner1, inner0, fine_weights, weights, outer1, outer0, swapped, low, high, out):
    """Inner functions i' = low .. high of :func:`simpson_terms`; ``out`` (Na', Nb', Na, Nb)."""
    n0 = inner0.shape[2]
    m1 = outer1.shape[1]
    m0 = outer0.shape[1]
    # The inner integral at all outer points, and its outer integrals with all kets: scratch of
    # one thread.
    g = np.empty(weights.shape[0], out.dtype)
    sums = np.empty(m0, out.dtype)
    for bra in range(low, high):
        for ket in range(n0):
            # one inner integral serves all pairs of outer functions
            inner_integral(inner1, inner0, fine_weights, weights, bra, ket, g)
            for o1 in range(m1):
                outer_sums(g, outer1, outer0, o1, sums)
                for o0 in range(m0):
                    # The same sums belong to other places where the inner functions are
                    # electron b's: (a', b', a, b) = (o1, bra, o0, ket) instead of (bra, o1,
                    # ket, o0).
                    if swapped:
                        out[o1, bra, o0, ket] += sums[o0]
                    else:
                        out[bra, o1, ket, o0] += sums[o0]
