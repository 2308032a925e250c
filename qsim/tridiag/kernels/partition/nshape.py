"""General tridiagonal systems at memory speed: the partition method with a halo where the inverse decays, exact otherwise.

``nshape.cu`` has the method.  Bytes per row: 80 (complex double) in one pass plus the halo; 144 in the two passes of the exact
solve.  No pivoting: the smallest relative pivot is returned, and :mod:`qsim.tridiag.solver.solve` decides what it means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.cpu.scratch import scratch
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share
from qsim.tridiag.kernels.jit import JIT, PART, magnitude, reciprocal
from qsim.tridiag.kernels.partition import serial
from qsim.tridiag.kernels.partition.nshape_cpu import (
    COMPLEX_ROW,
    LANES,
    REAL_ROW,
    _partition_chunks_cpu,
    _solve_windows,
)
from qsim.tridiag.kernels.partition.system import Cut, System

if TYPE_CHECKING:
    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device

# Rows per thread and threads per block: three blocks of complex doubles per multiprocessor
ROWS, THREADS = 11, 96
# rows: six threads
HALO = 66
CPU_CHUNK, CPU_HALO = 1024, 64
# rows below which one processor is done before lanes and threads have started
SMALL = 2048
# rows of a CPU chunk of the exact solve
EXACT_CHUNK = 4096


@dataclass(frozen=True)
class Pivots:
    """Pivots and path of a solve.

    Attributes
    ----------
    min_pivot : float
        Smallest ``|pivot| / max(|a|, |b|, |c|)`` of a row; 0 or NaN where elimination broke down.
    mode : {"local", "exact"}
    """

    min_pivot: float
    mode: Literal["local", "exact"]


def partition_solve(device: Device, a: Array, b: Array, c: Array, d: Array, x: Array, length: int) -> Pivots:
    """Solve a batch of systems.

    Parameters
    ----------
    a, b, c, d : (batch * length,), contiguous, on the device
        Diagonal, lower, upper, right-hand side; of every system the first of b and the last of c do not count.
    x : (batch * length,), out
        Solutions; not one of the inputs.
    length : int
        Rows of a system.
    """
    if device.is_cuda:
        return _solve_cuda(device, a, b, c, d, x, length)
    n = a.shape[0]
    # windows are written for double precision; real systems take them on several threads only
    double = a.dtype == np.complex128 or (a.dtype == np.float64 and device.threads > 1)
    if n >= SMALL and double:
        pivots, flag = _windows(device, a, b, c, d, x, length)
        # flagged: values beyond the windows reach their rows, so that x is computed anew by one of the exact ways
        if not flag:
            return Pivots(pivots, "local")
    # two passes read everything twice: they need several threads, and chunks enough for them
    if device.threads > 2 and length >= 4 * EXACT_CHUNK:
        return _chunks(device, a, b, c, d, x, length)
    # last way: the Thomas algorithm, parallel only in the systems of a batch
    shape = (n // length, length)
    found = serial.thomas(device, *(v.reshape(shape) for v in (a, b, c, d, x)))
    return Pivots(float(np.min(found)), "exact")


# ------------------------------------------------------------------------------------------------ CPU


def _windows(
    device: Device, a: Array, b: Array, c: Array, d: Array, x: Array, length: int
) -> tuple[float, bool]:
    """Solve by windows with halos; return the smallest relative pivot, and True if a halo was too short."""
    n, is_complex = a.shape[0], a.dtype.kind == "c"
    # a short system gives every lane an equal chunk
    chunk = min(CPU_CHUNK, -(-n // LANES))
    row = COMPLEX_ROW if is_complex else REAL_ROW
    size = (min(n, chunk + 2 * CPU_HALO) + 3) * row
    groups = -(-n // (chunk * LANES))
    # pivots by group: no two threads share one; the flag is only ever set to 1, by whichever thread
    pivots, flag = np.ones(groups), np.zeros(1, np.int64)

    space = scratch(device.threads, size)
    system, cut = System(a, b, c, d), Cut(length, chunk, CPU_HALO)
    work = Shared(_windows_shared, (system, x, cut, space, is_complex, pivots, flag))
    each_part(work, groups, n, device.threads)
    return float(pivots.min()), bool(flag[0])


def _chunks(device: Device, a: Array, b: Array, c: Array, d: Array, x: Array, length: int) -> Pivots:
    """Solve exactly in two passes over chunks, with the system of their last rows between them."""
    n = a.shape[0]
    blocks = -(-n // EXACT_CHUNK)
    pivots = np.ones(blocks)
    ends = np.empty((6, blocks), a.dtype)
    partition_reduce(device, a, b, c, d, ends, length, EXACT_CHUNK, pivots)
    # a, b, c, d of the chunks' last rows, and x there
    reduced = np.empty((5, blocks), a.dtype)
    partition_join(device, ends, c, length, EXACT_CHUNK, *reduced[:4])
    # one row per chunk: short enough for one thread
    weakest = serial.thomas(device, *(v[None] for v in reduced))
    work = np.empty_like(x)
    each_part(
        lambda first, last: _partition_chunks_cpu(
            first, last, System(a, b, c, d), x, reduced[4], length, EXACT_CHUNK, work
        ),
        blocks,
        n,
        device.threads,
    )
    return Pivots(float(min(pivots.min(), np.min(weakest))), "exact")


def partition_reduce(
    device: Device,
    a: Array,
    b: Array,
    c: Array,
    d: Array,
    ends: Array,
    length: int,
    chunk: int,
    pivots: Array,
) -> None:
    """Reduce every chunk to its last row and its first row.

    Parameters
    ----------
    a, b, c, d, length
        As for :func:`partition_solve`.
    ends : (6, blocks), out
        Last row: diagonal, coupling to the last row above, right-hand side, without the chunk below; first row
        ``x_0 = ends[3] - ends[4] x_above + ends[5] x_last``.
    chunk : int
        Rows of a chunk; ``ROWS * THREADS`` on a GPU.
    pivots : (blocks,) float64, out
        Smallest relative pivots; on a GPU the (2,) uint64 of :func:`start_solve`.
    """
    n, blocks = a.shape[0], ends.shape[1]
    if device.is_cuda:
        _launch_reduce(a, b, c, d, ends, length, chunk, pivots)
        return
    each_part(
        lambda first, last: _partition_reduce_cpu(first, last, a, b, c, d, ends, length, chunk, pivots),
        blocks,
        n,
        device.threads,
    )


def partition_join(
    device: Device, ends: Array, c: Array, length: int, chunk: int, ra: Array, rb: Array, rc: Array, rd: Array
) -> None:
    """Make the reduced system (blocks,) of the chunks' last rows from :func:`partition_reduce`."""
    if device.is_cuda:
        _launch_join(ends, c, length, chunk, ra, rb, rc, rd)
        return
    n = c.shape[0]
    _partition_join_cpu(ends, c, n, length, chunk, ra, rb, rc, rd)


@nb.njit(**JIT)
def _windows_shared(ticket, *arguments):
    return share(ticket, ranges(_partition_solve_cpu, arguments))


@nb.njit(**PART)
def _partition_solve_cpu(first, last, worker, system, x, cut, space, is_complex, pivots, flag):
    """Solve the windows of groups first .. last; see ``nshape.partition_solve``."""
    for group in range(first, last):
        pivot, enough = _solve_windows(system, x, cut, group, space[worker], is_complex)
        pivots[group] = np.sqrt(pivot)
        if not enough:
            flag[0] = 1


@nb.njit(**JIT)
def _partition_reduce_cpu(first, last, a, b, c, d, ends, length, chunk, pivots):
    """First pass of the exact solve: the last row of every chunk, and its first row, as in ``nshape.cu``."""
    n = a.shape[0]
    for w in range(first, last):
        start = w * chunk
        stop = min(start + chunk, n)
        smallest = 1.0
        zero = 0 * a[start]
        # e: coupling of the row at hand to the last row of the chunk above; f, a0, d0: the first row of this chunk as it is found
        # from above on (d0), from its last row (f) and from the last row of the chunk above (a0)
        e = b[start] if start % length != 0 else zero
        f = zero + 1
        a0 = zero
        d0 = zero
        p = a[start]
        dd = d[start]
        inv = zero
        above = zero
        for j in range(start, stop):
            bj = b[j] if j % length != 0 else zero
            cj = c[j] if (j + 1) % length != 0 else zero
            if j > start:
                m = -(bj * inv)
                p = a[j] + m * above
                dd = d[j] + m * dd
                e = m * e
            # the chunk's last row is its joint line: it gathers what is eliminated, and is not eliminated itself
            if j < stop - 1:
                ratio = magnitude(p) / max(magnitude(a[j]), max(magnitude(bj), magnitude(cj)))
                # a NaN must be seen, also after rows that are not
                if not ratio >= smallest:
                    smallest = ratio if ratio >= 0.0 else 0.0
                inv = reciprocal(p)
                above = cj
                # the first row, x_0 = d0 - a0 x_above + f x_{j+1}, with row j put in for the unknown it held
                fi = f * inv
                d0 = d0 + fi * dd
                a0 = a0 + fi * e
                f = -(fi * cj)
        ends[0, w] = p
        ends[1, w] = e
        ends[2, w] = dd
        ends[3, w] = d0
        ends[4, w] = a0
        ends[5, w] = f
        pivots[w] = smallest


@nb.njit(**JIT)
def _partition_join_cpu(ends, c, n, length, chunk, ra, rb, rc, rd):
    """Make the reduced system.  A chunk of one row has no interior: its first row is its joint line."""
    blocks = ends.shape[1]
    for w in range(blocks):
        stop = min((w + 1) * chunk, n)
        linked = w + 1 < blocks and stop % length != 0
        ra[w] = ends[0, w]
        rd[w] = ends[2, w]
        rb[w] = ends[1, w]
        rc[w] = 0
        if linked:
            # the row below is the first one of the next chunk, x_0 = d0 - a0 x_joint + f x_next: put into this joint line
            cj = c[stop - 1]
            ra[w] = ra[w] - cj * ends[4, w + 1]
            rd[w] = rd[w] - cj * ends[3, w + 1]
            rc[w] = cj * ends[5, w + 1]


# ----------------------------------------------------------------------------------------------- CUDA


def start_solve(device: Device, a: Array, b: Array, c: Array, d: Array, x: Array, length: int) -> Any:
    """Launch the one-pass solve on a GPU without waiting for it.

    Parameters
    ----------
    a, b, c, d, x, length
        As for :func:`partition_solve`.

    Returns
    -------
    (2,) uint64
        On the device: bits of the largest squared growth (row size over pivot); 1 if the chunks feel each other's ends, so
        that x is not the solution.
    """
    chunk, halo = _cut(length)
    # zeros: bits of positive doubles are ordered as integers, so that blocks take the largest growth by atomicMax
    growth = device.xp.zeros(2, np.uint64)
    _launch_solve(a, b, c, d, x, None, length, chunk, halo, growth)
    return growth


def _cut(length: int) -> tuple[int, int]:
    """Return the rows of a chunk and of its halo: whole systems need none."""
    rows = ROWS * THREADS
    return (rows // length * length, 0) if length <= rows else (rows - 2 * HALO, HALO)


def _solve_cuda(device: Device, a: Array, b: Array, c: Array, d: Array, x: Array, length: int) -> Pivots:
    growth = start_solve(device, a, b, c, d, x, length).get()
    if not growth[1]:
        return Pivots(_pivot(growth), "local" if _cut(length)[1] else "exact")
    return Pivots(_solve_exact(device, a, b, c, d, x, length), "exact")


def _pivot(bits: Array) -> float:
    """Return the smallest relative pivot from the bits of the largest squared growth."""
    growth = float(bits[:1].view(np.float64)[0])
    return 1.0 / max(growth, 1.0) ** 0.5 if growth > 0 else 1.0


def _solve_exact(device: Device, a: Array, b: Array, c: Array, d: Array, x: Array, length: int) -> float:
    """Two passes with the reduced system between them, solved in the same way; return the smallest relative pivot."""
    growth = device.xp.zeros(2, np.uint64)
    _exact_level(device, a, b, c, d, x, length, growth)
    return _pivot(growth.get())


def _exact_level(
    device: Device, a: Array, b: Array, c: Array, d: Array, x: Array, length: int, growth: Array
) -> None:
    """Solve one level: chunks to their last rows, the system of these by the next level, then the interiors of the chunks."""
    xp = device.xp
    n, rows = a.shape[0], ROWS * THREADS
    blocks = -(-n // rows)
    # a single CUDA block holds the whole system: no halo, no joint lines, nothing to reduce
    if blocks == 1:
        _launch_solve(a, b, c, d, x, None, length, rows, 0, growth)
        return
    ends = xp.empty((6, blocks), a.dtype)
    _launch_reduce(a, b, c, d, ends, length, rows, growth)
    ra, rb, rc, rd, joints = xp.empty((5, blocks), a.dtype)
    _launch_join(ends, c, length, rows, ra, rb, rc, rd)
    # a system of `blocks` rows, whether it came from one system or a batch: couplings across systems are zero in it
    _exact_level(device, ra, rb, rc, rd, joints, blocks, growth)
    _launch_solve(a, b, c, d, x, joints, length, rows, 0, growth)


def _function(name: str, a: Array) -> tuple[Any, int]:
    """Return a kernel and its shared memory: four arrays of rows."""
    single = a.real.dtype.itemsize == 4
    shared = 0 if name == "partition_join" else 4 * ROWS * THREADS * a.dtype.itemsize
    defines = {
        "REAL": "float" if single else "double",
        "SCALAR": "cplx" if a.dtype.kind == "c" else "real",
        "ROWS": ROWS,
        "THREADS": THREADS,
    }
    return kernels.function("tridiag/kernels/partition", "nshape", name, defines, shared_bytes=shared), shared


def _launch_solve(
    a: Array,
    b: Array,
    c: Array,
    d: Array,
    x: Array,
    joints: Array | None,
    length: int,
    chunk: int,
    halo: int,
    growth: Array,
) -> None:
    kernel, shared = _function("partition_solve", a)
    known = np.intp(0) if joints is None else joints
    sizes = (np.int64(a.shape[0]), np.int64(length), np.int32(chunk), np.int32(halo))
    kernel((-(-a.shape[0] // chunk),), (THREADS,), (a, b, c, d, x, known, *sizes, growth), shared_mem=shared)


def _launch_reduce(
    a: Array, b: Array, c: Array, d: Array, ends: Array, length: int, chunk: int, growth: Array
) -> None:
    kernel, shared = _function("partition_reduce", a)
    sizes = (np.int64(a.shape[0]), np.int64(length), np.int32(chunk))
    kernel((ends.shape[1],), (THREADS,), (a, b, c, d, ends, *sizes, growth), shared_mem=shared)


def _launch_join(ends: Array, c: Array, length: int, chunk: int, *reduced: Any) -> None:
    kernel, _ = _function("partition_join", c)
    blocks = ends.shape[1]
    sizes = (np.int64(c.shape[0]), np.int64(length), np.int32(chunk), np.int64(blocks))
    kernel(kernels.blocks(blocks, 128), (128,), (ends, c, *sizes, *reduced))
