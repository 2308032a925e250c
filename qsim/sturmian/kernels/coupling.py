"""Electron repulsion on the product grid: public wrapper of ``coupling.cu`` and its CPU twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import each_part

if TYPE_CHECKING:
    from qsim.core.device.arrays import Array, FloatArray, IndexArray
    from qsim.core.device.device import Device

__all__ = ["CHUNK", "JIT", "Sums", "Terms", "coupling", "terms"]

# Products may be fused with additions, but sums keep their order: the result of a point is then
# the same in every chunk and on every thread.
JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
THREADS = 256
# As in coupling.cu.
PAIRS = COMPONENTS = 8
# Products below which starting threads costs more than it saves.
PARALLEL_SIZE = 1 << 20
# Points that a core works on at a time: components and kernels of 2 KiB each stay in its caches.
CHUNK = 256


class Sums(NamedTuple):
    """Angular coefficients that do not vanish, by rows: for each pair p the multipoles l, for each of these the components c.

    Attributes
    ----------
    row : (P + 1,) int64
        Ranges of ``group`` of each row p.
    group : (groups, 3) int64
        Number of G, first and last + 1 entry of ``component`` and ``factor``.
    component : (entries,) int64
    factor : (entries,) float64
        ``A^l_pc``.
    """

    row: IndexArray
    group: IndexArray
    component: IndexArray
    factor: FloatArray


@dataclass(frozen=True)
class Terms:
    """Angular coefficients as the kernels take them.

    Attributes
    ----------
    dense : (L, P, C) float64
        ``A^l_pc`` on the device (GPU) or on the host.
    sums : Sums
        Coefficients that do not vanish, on the host.
    """

    dense: FloatArray
    sums: Sums


def terms(device: Device, A: FloatArray) -> Terms:
    """Return the coefficients ``A`` (L, P, C) as the kernels take them."""
    # Most A^l_pc vanish by the triangle rules. The lists hold the others in the order in which
    # the CPU kernel reads them: pair, multipole, component. On a GPU, where lists would make
    # threads diverge, the whole array is read.
    row, group = [0], []
    component: list[int] = []
    factor: list[float] = []
    for p in range(A.shape[1]):
        for l in range(A.shape[0]):
            nonzero = np.flatnonzero(A[l, p])
            if nonzero.size:
                group.append((l, len(component), len(component) + nonzero.size))
                component.extend(nonzero)
                factor.extend(A[l, p, nonzero])
        row.append(len(group))
    return Terms(
        device.asarray(np.ascontiguousarray(A)),
        Sums(
            np.array(row, np.int64),
            np.array(group, np.int64).reshape(-1, 3),
            np.array(component, np.int64),
            np.array(factor, np.float64),
        ),
    )


def coupling(device: Device, G: Array, F: Array, A: Terms, out: Array) -> None:
    """Compute ``out[m, p] = sum_c (sum_l A^l_pc G_l) * F[m, c]``, elementwise in the points.

    Parameters
    ----------
    G : (L, points) float64 or complex128
        ``r<^l / r>^(l+1)`` at the points of the product grid.
    F : (m, C, points), dtype of G
        Components of m functions.
    A
        From :func:`terms`.
    out : (m, P, points), out
    """
    (multipoles, points), (count, components) = G.shape, F.shape[:2]
    pairs = out.shape[1]
    if F.shape[2] != points or out.shape != (count, pairs, points) or not F.dtype == G.dtype == out.dtype:
        raise ValueError(
            f"shapes and dtypes do not match: G {G.shape} {G.dtype}, F {F.shape} {F.dtype}, out {out.shape} {out.dtype}"
        )
    if device.is_cuda:
        number = "cplx" if G.dtype == np.complex128 else "real"
        # the angular coefficients of a block of pairs and components, in shared memory
        size = multipoles * PAIRS * COMPONENTS * 8
        # A block of the GPU takes PAIRS rows and all components in groups; G is read from
        # memory once per group.
        kernel = kernels.function(
            "sturmian/kernels", "coupling", "coupling", {"NUMBER": number}, shared_bytes=size
        )
        grid = (-(-points // THREADS), -(-pairs // PAIRS), count)
        shape = (np.int32(multipoles), np.int32(pairs), np.int32(components), np.int64(points))
        kernel(grid, (THREADS,), (G, F, A.dense, out, *shape), shared_mem=size)
        return

    # Functions in turn, all of them by the same thread at the same points: G of a chunk is then
    # read from memory once, and no two threads write to the same points.
    def work(first: int, last: int) -> None:
        for k in range(count):
            _coupling_cpu(first, last, G, F[k], A.sums, out[k])

    each_part(work, -(-points // CHUNK), points * len(A.sums.factor) * count, device.threads, PARALLEL_SIZE)


@nb.njit(**JIT)
def _coupling_cpu(first, last, G, F, sums, out):
    """Do the chunks ``first ... last`` of one function."""
    row, group, component, factor = sums
    points = G.shape[1]
    u = np.empty(CHUNK, G.dtype)
    for chunk in range(first, last):
        begin = chunk * CHUNK
        size = min(CHUNK, points - begin)
        # Within a chunk all pairs in turn: components and kernels stay in the caches of a core, and no other core
        # writes here.
        for p in range(out.shape[0]):
            w = out[p, begin : begin + size]
            # A row without any multipole (a list of pairs may decouple) must still be set.
            w[:] = 0
            for k in range(row[p], row[p + 1]):
                # the sum over components first, so that the kernel of a multipole is multiplied once
                l, start, stop = group[k]
                f = F[component[start], begin : begin + size]
                a = factor[start]
                for i in range(size):
                    u[i] = a * f[i]
                for entry in range(start + 1, stop):
                    f = F[component[entry], begin : begin + size]
                    a = factor[entry]
                    for i in range(size):
                        u[i] += a * f[i]
                g = G[l, begin : begin + size]
                for i in range(size):
                    w[i] += g[i] * u[i]
