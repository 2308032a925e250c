"""Crank-Nicolson steps on overlapping chunks: the public wrapper of ``steps.cu`` and of its CPU twin ``steps_cpu``.

The equation of a step is in :func:`qsim.tridiag.propagate.lattice.step_table`; how large a halo must be, in
:mod:`qsim.tridiag.propagate.stepping.halo`.
Bytes per row and pass of K steps: psi read and written, V read: 40 (double).  Fused multiply-adds per row and step: about 43
(three_point) or 64 (numerov) on the GPU, 25 or 40 on the CPU, where lanes need no spikes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.cpu.scratch import scratch
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share
from qsim.tridiag.kernels.crank_nicolson.steps_cpu import (
    JIT,
    LANES,
    PART,
    ROW,
    _measure,
    _multiply_mask,
    _step,
)

if TYPE_CHECKING:
    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device


@dataclass(frozen=True)
class Shape:
    """Chunks of a pass.

    Attributes
    ----------
    chunk, halo : int
        Rows that a chunk writes, and rows that it reads beyond them on either side.
    steps : int
        Steps of a full pass.
    rows, threads, most : int
        CUDA: rows per thread, threads per block, and the number of threads the kernel is compiled for.
    resident : int
        CUDA: blocks of ``most`` threads that one multiprocessor holds.
    """

    chunk: int
    halo: int
    steps: int
    rows: int = 0
    threads: int = 0
    most: int = 0
    resident: int = 1

    def chunks(self, n: int) -> int:
        """Return the number of chunks of n rows."""
        return -(-n // self.chunk)


class Lattice(NamedTuple):
    """An `Operator` as the CPU twin takes it: arrays of size 0 for what is missing, ``tau`` = dt / 2."""

    v: Any
    w: Any
    slope: Any
    xmin: Any
    dx: Any
    tau: Any
    sigma: Any
    numerov: Any
    absorb: Any


@dataclass(frozen=True)
class Operator:
    """A lattice on the device.

    Attributes
    ----------
    potential : (n,) real
        V, hartree.
    absorber : (n,) real or None
        W of ``-i W`` (``absorb`` 1) or the mask (``absorb`` 2).
    slope : (n,) real or None
        dV/dx.
    absorb : int
    numerov : bool
    velocity : bool
        Whether the off-diagonals carry phases (velocity gauge).
    xmin, dx, dt : float
    """

    potential: Any
    absorber: Any
    slope: Any
    absorb: int
    numerov: bool
    velocity: bool
    xmin: float
    dx: float
    dt: float

    @property
    def sigma(self) -> float:
        """``dt / (4 dx^2)``."""
        return self.dt / (4.0 * self.dx**2)


def cn_steps(
    device: Device,
    operator: Operator,
    psi_in: Array,
    psi_out: Any,
    table: Array,
    shape: Shape,
    every: int,
    sums: Array,
) -> None:
    """Make ``len(table)`` steps from ``psi_in`` to ``psi_out``.

    Parameters
    ----------
    psi_in, psi_out : (n,) complex
        Distinct arrays on the device.
    table : (steps, 6) real
        Rows of :func:`qsim.tridiag.propagate.lattice.step_table`, on the device.
    shape : Shape
    every : int
        Number of steps between samples; 0 for none.
    sums : (samples, slots, 3) real
        Parts of sum |psi|^2, sum x |psi|^2, sum V' |psi|^2 of every chunk; ``slots`` of :func:`sample_slots`.
    """
    n = psi_in.shape[0]
    if device.is_cuda:
        _launch(operator, psi_in, psi_out, table, shape, every, sums)
        return
    empty = np.zeros(0)
    absorber = empty if operator.absorber is None else operator.absorber
    slope = empty if operator.slope is None else operator.slope
    # a group of LANES chunks is the unit of work; the scratch of a thread holds its window and three rows of
    # zeros
    groups = -(-shape.chunks(n) // LANES)
    size = (min(n, shape.chunk + 2 * shape.halo) + 3) * ROW

    lattice = Lattice(
        operator.potential,
        absorber,
        slope,
        operator.xmin,
        operator.dx,
        0.5 * operator.dt,
        operator.sigma,
        operator.numerov,
        operator.absorb,
    )
    cut = (shape.chunk, shape.halo, every)
    space = scratch(device.threads, size)
    work = Shared(_cn_steps_shared, (psi_in, psi_out, lattice, table, cut, sums, space))
    each_part(work, groups, n * table.shape[0], device.threads)


def sample_slots(device: Device, shape: Shape, n: int) -> int:
    """Return the number of partial sums of a sample: one a chunk, whole groups of lanes on the CPU."""
    chunks = shape.chunks(n)
    return chunks if device.is_cuda else -(-chunks // LANES) * LANES


def shared_bytes(rows: int, threads: int, item: int, absorb: bool) -> int:
    """Return the dynamic shared memory of a block: psi, V and absorber of its rows, two sets of joint lines, the joints."""
    return rows * threads * (2 * item + item * (1 + absorb)) + 7 * threads * 2 * item


@cache
def _compiled(
    _device: int, item: int, numerov: bool, velocity: bool, absorb: int, shape: Shape
) -> tuple[Any, int]:
    """Return the kernel and its shared memory; looked up at every pass, so kept at hand."""
    defines: dict[str, str | int] = {
        "REAL": "float" if item == 4 else "double",
        "ROWS": shape.rows,
        "THREADS": shape.most,
        "MINBLOCKS": shape.resident,
        "NUMEROV": int(numerov),
        "VELOCITY": int(velocity),
        "ABSORB": absorb,
    }
    shared = shared_bytes(shape.rows, shape.threads, item, absorb > 0)
    return kernels.function(
        "tridiag/kernels/crank_nicolson", "steps", "cn_steps", defines, shared_bytes=shared
    ), shared


def _launch(
    operator: Operator, psi_in: Any, psi_out: Any, table: Array, shape: Shape, every: int, sums: Array
) -> None:
    """Launch ``cn_steps`` of the device, a block per chunk; arguments as of the wrapper."""
    real = np.float32 if psi_in.dtype.itemsize == 8 else np.float64
    flags = (operator.numerov, operator.velocity, operator.absorb)
    kernel, shared = _compiled(psi_in.device.id, real().itemsize, *flags, shape)
    null = np.intp(0)
    kernel(
        (shape.chunks(psi_in.shape[0]),),
        (shape.threads,),
        (
            psi_in,
            psi_out,
            operator.potential,
            null if operator.absorber is None else operator.absorber,
            null if operator.slope is None else operator.slope,
            table,
            np.int64(psi_in.shape[0]),
            np.int32(shape.chunk),
            np.int32(shape.halo),
            np.int32(table.shape[0]),
            np.int32(every),
            real(operator.xmin),
            real(operator.dx),
            real(0.5 * operator.dt),
            real(operator.sigma),
            sums,
        ),
        shared_mem=shared,
    )


@nb.njit(**JIT)
def _cn_steps_shared(ticket, *arguments):
    return share(ticket, ranges(_cn_steps_cpu, arguments))


@nb.njit(**PART)
def _cn_steps_cpu(begin, end, worker, psi_in, psi_out, lattice, table, cut, sums, scratch):
    """Propagate groups ``begin ... end`` of eight chunks; see ``cn.cn_steps`` for the arguments.

    Windows lie inside the grid: those at its ends are moved inwards, so the wall is where the window ends.
    """
    v, w, slope, absorb = lattice.v, lattice.w, lattice.slope, lattice.absorb
    xmin, dx, tau = lattice.xmin, lattice.dx, lattice.tau
    sigma, numerov = lattice.sigma, lattice.numerov
    chunk, halo, every = cut
    s = scratch[worker]
    n = psi_in.shape[0]
    # all windows have the same length, so that eight of them go through the same rows in step
    rows = min(n, chunk + 2 * halo)
    windows = np.zeros(LANES, np.int64)
    first = np.zeros(LANES, np.int64)
    last = np.zeros(LANES, np.int64)
    # a mask (absorb 2) is applied after the step and has no part in the diagonal
    tau_w = tau if absorb == 1 else 0.0
    for group in range(begin, end):
        for k in range(LANES):
            # rows that lane k writes, none where chunks have run out; and the first row that it reads
            first[k] = min(n, (group * LANES + k) * chunk)
            last[k] = min(n, first[k] + chunk)
            windows[k] = min(max(0, first[k] - halo), n - rows)
        # the fields of a row of all eight windows side by side; rows of zeros around them stand for the walls, or for what is
        # beyond the halo and is not felt
        s[: (rows + 3) * ROW] = 0.0
        for j in range(rows):
            here = (j + 1) * ROW
            for k in range(LANES):
                z = psi_in[windows[k] + j]
                s[here + k] = z.real
                s[here + LANES + k] = z.imag
                s[here + 2 * LANES + k] = v[windows[k] + j]
                s[here + 8 * LANES + k] = xmin + dx * (windows[k] + j)
        if absorb > 0:
            for j in range(rows):
                for k in range(LANES):
                    s[(j + 1) * ROW + 3 * LANES + k] = w[windows[k] + j]
        # all steps of the pass while the group is in the caches; the halo loses its outermost rows step by step
        sample = 0
        for step in range(table.shape[0]):
            _step(s, rows, table[step], tau, tau_w, sigma, numerov)
            if absorb == 2:
                _multiply_mask(s, rows)
            if every > 0 and (step + 1) % every == 0:
                part = sums[sample, group * LANES : group * LANES + LANES]
                _measure(s, rows, (windows, first, last), slope, xmin, dx, part)
                sample += 1
        # chunks are disjoint: threads write other rows, and read psi_in only
        for k in range(LANES):
            for j in range(first[k], last[k]):
                here = (j - windows[k] + 1) * ROW + k
                psi_out[j] = complex(s[here], s[here + LANES])
