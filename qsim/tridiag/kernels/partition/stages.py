"""The literal stages of the N-shaped partition method: public wrappers and their CPU twins.

With joint lines ``L = J_w``, ``R = J_{w+1}`` around a block, and ``T x = d`` in the paper's letters (diagonal a, lower b, upper
c; Table 1 with its misprints corrected)::

    RD  i = L+2 .. R-1   r = -b_i / a_{i-1};  a_i += r c_{i-1};  b_i = r b_{i-1};  d_i += r d_{i-1}
    JD  i = R            the same, into the slot of the joint line
    RU  i = R-2 .. L+1   r = -c_i / a_{i+1};  b_i += r b_{i+1};  c_i = r c_{i+1};  d_i += r d_{i+1}
    JU  i = L            r = -c_i / a_{i+1};  a_i += r b_{i+1};  c_i = r c_{i+1};  d_i += r d_{i+1}
    RS  the joint lines, by Thomas or by another partition
    SS  i = L+1 .. R-1   x_i = (d_i - b_i x_L - c_i x_R) / a_i

Blocks without interior are passed over.  One thread per block on CUDA (``stages.cu``), a range of blocks per thread on a CPU.
The smallest relative pivot ``|p| / max(|a|, |b|, |c|)`` (entries of the row as it was given) is noted block by block: the
relative error of the solution is a few rounding errors divided by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import each_part
from qsim.tridiag.kernels.jit import JIT, PART, magnitude, reciprocal
from qsim.tridiag.kernels.partition.system import System

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device

# of a CUDA block: few, since there are few blocks of rows and each may have a multiprocessor
THREADS = 64
# rows of a part of the residual; a part is one CUDA block
RESIDUAL_THREADS, RESIDUAL_ROWS = 128, 2048


@dataclass
class Level:
    """One partition of ``systems`` systems of n rows, and the reduced systems of its joint lines.

    Attributes
    ----------
    joints : (blocks + 1,) int64
        Joint lines, on the device.
    rows : int
        Rows n of the system that is partitioned.
    a, b, c, d, x : (systems, blocks + 1)
        Reduced systems and their solutions.
    scale : (systems, blocks + 1) real
        Largest element of every joint line in the finest system.
    slots : (4, systems, blocks)
        What the blocks add to a and d of the joint line at their left, and at their right.
    pivots : (systems, blocks) real
        Smallest relative pivot in every block; infinite where it has no interior.
    """

    joints: Any
    rows: int
    a: Any
    b: Any
    c: Any
    d: Any
    x: Any
    scale: Any
    slots: Any
    pivots: Any

    @classmethod
    def empty(cls, device: Device, joints: Array, rows: int, systems: int, dtype: Any) -> Level:
        """Allocate a level."""
        xp = np if not device.is_cuda else device.xp
        lines, real = len(joints), np.finfo(dtype).dtype
        a, b, c, d, x = xp.empty((5, systems, lines), dtype)
        slots = xp.empty((4, systems, lines - 1), dtype)
        pivots = xp.empty((systems, lines - 1), real)
        return cls(xp.asarray(joints), rows, a, b, c, d, x, xp.empty((systems, lines), real), slots, pivots)


def solve_levels(
    device: Device, partition: Sequence[Any], a: Array, b: Array, c: Array, d: Array, x: Array
) -> tuple[Any, Any]:
    """Solve systems by nested partitions.

    Parameters
    ----------
    partition
        Joint lines of the nested partitions, the finest first (:func:`qsim.tridiag.solver.partition.levels`), on the host.
    a, b, c, d : (systems, n), contiguous, overwritten
        Diagonal, lower, upper, right-hand side; ``b[:, 0]`` and ``c[:, -1]`` do not count.
    x : (systems, n), out
        Solutions; may be ``d`` itself.

    Returns
    -------
    smallest : (systems,) real
        Smallest relative pivot of every system, of all levels.
    pivots : (systems, blocks) real
        Smallest relative pivot in every block of the finest partition.
    """
    systems, n = a.shape
    # one row: no block at all
    if len(partition[0]) == 1:
        level = Level.empty(device, partition[0], n, systems, a.dtype)
        joint_lines(device, level, None, a, b, c, d)
        rs(device, level.a, level.b, level.c, level.d, level.scale, x, smallest := level.scale[:, 0].copy())
        return smallest, level.pivots
    reduced: list[Any] = []
    scale: Any = None
    lines = (a, b, c, d, x)
    # RD, JD, RU, JU of every level: its joint lines are the system that the next level partitions
    for joints in partition:
        level = Level.empty(device, joints, lines[0].shape[1], systems, a.dtype)
        rd_jd_ru_ju(device, level, scale, *lines[:4])
        joint_lines(device, level, scale, *lines[:4])
        reduced.append((level, lines))
        # all levels compare their pivots with rows of the finest system: what elimination has made small must show
        scale, lines = level.scale, (level.a, level.b, level.c, level.d, level.x)
    xp = np if not device.is_cuda else device.xp
    smallest = xp.empty(systems, scale.dtype)
    # RS: what is left is short enough for one thread
    rs(device, *lines[:4], scale, lines[4], smallest)
    # SS, the coarsest level first: its unknowns are x at the joint lines of the level around it
    for level, outer in reversed(reduced):
        ss(device, level, *outer)
        xp.minimum(smallest, level.pivots.min(axis=1), out=smallest)
    return smallest, reduced[0][0].pivots


def _function(name: str, a: Array) -> Any:
    kind = "cplx" if a.dtype.kind == "c" else "real"
    real = "float" if a.real.dtype.itemsize == 4 else "double"
    return kernels.function("tridiag/kernels/partition", "stages", name, {"REAL": real, "SCALAR": kind})


def _optional(scale: Array | None, a: Array) -> tuple[Any, Any]:
    """Return the row sizes, or any array for a pointer that is not used; and whether they are given."""
    return (a, np.int32(0)) if scale is None else (scale, np.int32(1))


def _host_scale(scale: Array | None, a: Array) -> Any:
    """Return the row sizes, or an array without rows that has their type."""
    return np.empty((0, 0), a.real.dtype) if scale is None else scale


def rd_jd_ru_ju(
    device: Device, level: Level, scale: Array | None, a: Array, b: Array, c: Array, d: Array
) -> None:
    """Reduce every block to its two joint lines.

    Parameters
    ----------
    level
        Receives off-diagonals ``b``, ``c`` of the reduced system, ``slots`` and ``pivots``.
    scale : (systems, n) real, optional
        Largest element of each row in the finest system; worked out from a, b, c if not given.
    a, b, c, d : (systems, n), in/out
        System; inside the blocks a holds reciprocal pivots on return, and joint lines are as they were.
    """
    systems, n = a.shape
    blocks = level.joints.shape[0] - 1
    # a block of one system is a task, and writes nothing that another one reads or writes
    tasks = systems * blocks
    if device.is_cuda:
        pointer, scaled = _optional(scale, a)
        counts = (np.int64(n), np.int64(blocks), np.int64(tasks))
        _function("rd_jd_ru_ju", a)(
            kernels.blocks(tasks, THREADS),
            (THREADS,),
            (*counts, level.joints, pointer, scaled, a, b, c, d, level.b, level.c, level.slots, level.pivots),
        )
        return
    sizes = _host_scale(scale, a)

    def work(first: int, last: int) -> None:
        system = System(a, b, c, d)
        _rd_jd_ru_ju_cpu(
            first, last, level.joints, sizes, system, level.b, level.c, level.slots, level.pivots
        )

    each_part(work, tasks, systems * n, device.threads)


def joint_lines(
    device: Device, level: Level, scale: Array | None, a: Array, b: Array, c: Array, d: Array
) -> None:
    """Sum the slots in a fixed order into ``level.a`` and ``level.d``, and note the sizes of the joint lines.

    Takes the parameters of :func:`rd_jd_ru_ju`, which comes before.
    """
    systems, n = a.shape
    blocks = level.joints.shape[0] - 1
    if device.is_cuda:
        pointer, scaled = _optional(scale, a)
        counts = (np.int64(n), np.int64(blocks), np.int64(systems))
        reduced = (level.a, level.b, level.c, level.d, level.scale)
        _function("joint_lines", a)(
            kernels.blocks(systems * (blocks + 1)),
            (256,),
            (*counts, level.joints, pointer, scaled, a, b, c, d, level.slots, *reduced),
        )
        return
    # four additions a line: not worth the start of threads
    lines = System(level.a, level.b, level.c, level.d)
    _joint_lines_cpu(level.joints, _host_scale(scale, a), System(a, b, c, d), level.slots, lines, level.scale)


def rs(
    device: Device, a: Array, b: Array, c: Array, d: Array, scale: Array | None, x: Array, pivots: Array
) -> None:
    """Solve the reduced systems serially, one thread a system.

    Parameters
    ----------
    a, b, c, d : (systems, n)
        Systems; a and d are overwritten.
    scale : (systems, n) real
        Size to which the pivot of each row is compared.
    x : (systems, n), out
        Solutions.
    pivots : (systems,) real, out
        Smallest relative pivot of each system.
    """
    systems, n = a.shape
    if device.is_cuda:
        arguments = (np.int64(n), np.int64(systems), a, b, c, d, scale, x, pivots)
        # one warp per CUDA block: few long systems spread over as many multiprocessors as they can
        _function("rs", a)(kernels.blocks(systems, 32), (32,), arguments)
        return

    def work(first: int, last: int) -> None:
        _rs_cpu(first, last, a, b, c, d, scale, x, pivots)

    each_part(work, systems, systems * n, device.threads)


def ss(device: Device, level: Level, a: Array, b: Array, c: Array, d: Array, x: Array) -> None:
    """Substitute the joint lines ``level.x`` into the blocks.

    Parameters
    ----------
    a, b, c, d : (systems, n)
        As :func:`rd_jd_ru_ju` left them.
    x : (systems, n), out
        Solutions; may be ``d`` itself.
    """
    systems, n = a.shape
    blocks = level.joints.shape[0] - 1
    tasks = systems * blocks
    if device.is_cuda:
        counts = (np.int64(n), np.int64(blocks), np.int64(tasks))
        arguments = (*counts, level.joints, a, b, c, d, level.x, x)
        _function("ss", a)(kernels.blocks(tasks, THREADS), (THREADS,), arguments)
        return

    def work(first: int, last: int) -> None:
        _ss_cpu(first, last, level.joints, a, b, c, d, level.x, x)

    each_part(work, tasks, systems * n, device.threads)


def build_cn(
    device: Device,
    potential: Array,
    psi: Array,
    grid: tuple[float, float],
    dt: float,
    field: float,
    out: tuple[Any, Any, Any, Any],
) -> None:
    """Write ``T = 1 + i dt/2 H`` and ``d = (1 - i dt/2 H) psi`` of one Crank-Nicolson step.

    ``H = -1/2 d^2/dx^2 + V + x E`` on the three-point stencil with psi = 0 outside.

    Parameters
    ----------
    potential : (n,) real
        V, hartree.
    psi : (n,) complex
        Wavefunction.
    grid
        First point and spacing, bohr.
    dt, field
        Time step and E at its middle, a.u.
    out
        a, b, c, d, each (n,) complex.
    """
    a, b, c, d = out
    n, real = psi.shape[0], psi.real.dtype.type
    numbers = tuple(real(value) for value in (*grid, dt, field))
    if device.is_cuda:
        _function("build_cn", a)(
            kernels.blocks(n), (256,), (np.int64(n), potential, psi, *numbers, a, b, c, d)
        )
        return

    def work(first: int, last: int) -> None:
        _build_cn_cpu(first, last, potential, psi, numbers, System(a, b, c, d))

    each_part(work, n, n, device.threads)


def residual(device: Device, a: Array, b: Array, c: Array, d: Array, x: Array, r: Array) -> Any:
    """Write ``r = d - T x`` and return norms of all that enters the backward error.

    Parameters
    ----------
    a, b, c, d, x : (systems, n)
        Systems and approximate solutions.
    r : (systems, n), out
        Residual; may be ``d`` itself.

    Returns
    -------
    (systems, 5) float64, on the host
        Largest ``|r|``, ``|x|``, ``|d|``, row sum of ``|T|``, and ``|r| / (|T| |x| + |d|)`` of a row (Eq. T23), with
        ``|z| = |Re z| + |Im z|``.  The first and the last are infinite if any element of r is not finite; in the last, rows
        whose divisor is below :func:`smallest_row` do not count.
    """
    systems, n = a.shape
    parts = -(-n // RESIDUAL_ROWS)
    floor = smallest_row(a.dtype)
    if device.is_cuda:
        # a CUDA block reduces the norms of its part; the few parts of a system are compared on the host
        norms = device.xp.empty((systems, parts, 5), a.real.dtype)
        counts = (np.int64(n), np.int64(parts), np.int64(RESIDUAL_ROWS), floor)
        grid = (systems * parts,)
        _function("residual", a)(grid, (RESIDUAL_THREADS,), (*counts, a, b, c, d, x, r, norms))
        norms = device.to_host(norms)
    else:
        norms = np.empty((systems, parts, 5), a.real.dtype)

        def work(first: int, last: int) -> None:
            _residual_cpu(first, last, parts, RESIDUAL_ROWS, floor, System(a, b, c, d), x, r, norms)

        each_part(work, systems * parts, systems * n, device.threads)
    return norms.max(axis=1).astype(np.float64)


def smallest_row(dtype: np.dtype[Any]) -> Any:
    """Return the size ``(|T| |x| + |d|)_i``, real number of the precision, from which underflow is below rounding in a row."""
    # a product that underflows is off by up to `tiny`, which is eps / 4 of this size
    limits = np.finfo(dtype)
    return limits.dtype.type(4 * limits.tiny / limits.eps)


# ------------------------------------------------------------------------------------------ CPU twins


@nb.njit(**PART)
def _row_size(a, b, c, i):
    """Return the largest element of row i; unused corners do not count."""
    size = magnitude(a[i])
    if i > 0:
        size = max(size, magnitude(b[i]))
    if i < a.shape[0] - 1:
        size = max(size, magnitude(c[i]))
    return size


@nb.njit(**PART)
def _smaller(smallest, pivot, size):
    """Return the smaller of ``smallest`` and ``|pivot| / size``; an undefined ratio is a breakdown and counts as zero."""
    ratio = magnitude(pivot) / size
    if ratio >= smallest:
        return smallest
    return np.float64(ratio) if ratio >= 0.0 else 0.0


@nb.njit(**JIT)
def _rd_jd_ru_ju_cpu(first, last, joints, scale, system, rb, rc, slots, pivots):
    """RD, JD, RU and JU of the blocks ``first .. last`` (block w of system s is s * blocks + w)."""
    a, b, c, d = system
    blocks = joints.shape[0] - 1
    scaled = scale.shape[0] > 0
    for task in range(first, last):
        s, w = task // blocks, task % blocks
        left, right = joints[w], joints[w + 1]
        smallest = np.inf
        # a block without interior: its joint lines are coupled as they stand
        if right == left + 1:
            rb[s, w + 1] = b[s, right]
            rc[s, w] = c[s, left]
            slots[:, s, w] = 0
            pivots[s, w] = smallest
            continue
        # Views of the interior: indices from 0 let the compiler drop the wraparound of negative ones
        aa, bb, cc, dd = (
            a[s, left + 1 : right],
            b[s, left + 1 : right],
            c[s, left + 1 : right],
            d[s, left + 1 : right],
        )
        # sizes are taken from the row as it was given, before anything is eliminated from it
        # RD: downwards, every row keeps its coupling to the left joint line in place of b, and its inverse pivot in place of a
        rows = right - left - 1
        pivot, bi, ci, di = aa[0], bb[0], cc[0], dd[0]
        size = scale[s, left + 1] if scaled else max(magnitude(pivot), magnitude(bi), magnitude(ci))
        smallest = _smaller(smallest, pivot, size)
        for i in range(1, rows):
            inv = reciprocal(pivot)
            # RU, JU and SS multiply by the reciprocal pivot, so that every row costs one division in all
            aa[i - 1] = inv
            ai, bn, cn = aa[i], bb[i], cc[i]
            size = scale[s, left + 1 + i] if scaled else max(magnitude(ai), magnitude(bn), magnitude(cn))
            r = -(bn * inv)
            pivot = ai + r * ci
            bi = r * bi
            di = dd[i] + r * di
            bb[i], dd[i], ci = bi, di, cn
            smallest = _smaller(smallest, pivot, size)
        # JD: the right joint line, by the last row of the interior; what is added to it goes into slots of this block
        inv = reciprocal(pivot)
        aa[rows - 1] = inv
        r = -(b[s, right] * inv)
        # two blocks share a joint line: each adds to it through its own slots, summed by `_joint_lines_cpu`
        slots[2, s, w] = r * ci
        rb[s, w + 1] = r * bi
        slots[3, s, w] = r * di
        # RU: upwards, every row is left with its couplings to both joint lines; bi, ci, di belong to the row below
        for i in range(rows - 2, -1, -1):
            r = -(cc[i] * aa[i + 1])
            bi = bb[i] + r * bi
            ci = r * ci
            di = dd[i] + r * di
            bb[i], cc[i], dd[i] = bi, ci, di
        # JU: the left joint line, by the first row of the interior
        r = -(c[s, left] * aa[0])
        slots[0, s, w] = r * bi
        rc[s, w] = r * ci
        slots[1, s, w] = r * di
        pivots[s, w] = smallest


@nb.njit(**JIT)
def _joint_lines_cpu(joints, scale, system, slots, reduced, rscale):
    """Joint lines of all systems: as they stand, with what the blocks on both sides add to them."""
    a, b, c, d = system
    ra, rb, rc, rd = reduced
    systems, blocks = a.shape[0], joints.shape[0] - 1
    for s in range(systems):
        # the outer joint lines have no neighbour beyond the system
        rb[s, 0] = 0
        rc[s, blocks] = 0
        for w in range(blocks + 1):
            i = joints[w]
            ai, di = a[s, i], d[s, i]
            # the block above, then the block below: sums in this order have the same bits for any number of threads
            if w > 0:
                ai += slots[2, s, w - 1]
                di += slots[3, s, w - 1]
            if w < blocks:
                ai += slots[0, s, w]
                di += slots[1, s, w]
            ra[s, w], rd[s, w] = ai, di
            rscale[s, w] = scale[s, i] if scale.shape[0] > 0 else _row_size(a[s], b[s], c[s], i)


@nb.njit(**JIT)
def _rs_cpu(first, last, a, b, c, d, scale, x, pivots):
    """Thomas algorithm of the systems ``first .. last``."""
    n = a.shape[1]
    for s in range(first, last):
        pivot, di = a[s, 0], d[s, 0]
        smallest = _smaller(np.inf, pivot, scale[s, 0])
        # down, as RD: reciprocal pivots replace a, eliminated right-hand sides d
        for i in range(1, n):
            inv = reciprocal(pivot)
            a[s, i - 1] = inv
            r = -(b[s, i] * inv)
            pivot = a[s, i] + r * c[s, i - 1]
            di = d[s, i] + r * di
            d[s, i] = di
            smallest = _smaller(smallest, pivot, scale[s, i])
        xi = di * reciprocal(pivot)
        x[s, n - 1] = xi
        # up: one product with the reciprocal pivot a row
        for i in range(n - 2, -1, -1):
            xi = (d[s, i] - c[s, i] * xi) * a[s, i]
            x[s, i] = xi
        pivots[s] = smallest


@nb.njit(**JIT)
def _ss_cpu(first, last, joints, a, b, c, d, y, x):
    """SS of the blocks ``first .. last``."""
    blocks = joints.shape[0] - 1
    for task in range(first, last):
        s, w = task // blocks, task % blocks
        left, right = joints[w], joints[w + 1]
        low, high = y[s, w], y[s, w + 1]
        # a block writes its interior and its right joint line; row 0 falls to the first block
        if w == 0:
            x[s, 0] = low
        # after RU the rows are coupled to the two joint lines alone: no recurrence, and x may lie over d
        for i in range(left + 1, right):
            x[s, i] = (d[s, i] - b[s, i] * low - c[s, i] * high) * a[s, i]
        x[s, right] = high


@nb.njit(**JIT)
def _build_cn_cpu(first, last, potential, psi, step, system):
    """Rows ``first .. last`` of one Crank-Nicolson step; ``step``: xmin, dx, dt, E."""
    xmin, dx, dt, field = step
    a, b, c, d = system
    n = psi.shape[0]
    # dt/2 H: dt/(2 dx^2) + dt/2 (V + x E) on the diagonal, -dt/(4 dx^2) beside it
    half = dt / (dx * dx)
    off = -half / 4
    for i in range(first, last):
        on = half / 2 + dt / 2 * (potential[i] + (xmin + dx * i) * field)
        here = psi[i]
        # a zero in the precision of psi
        near = here - here
        if i > 0:
            near += psi[i - 1]
        if i < n - 1:
            near += psi[i + 1]
        a[i] = complex(1.0, on)
        b[i] = complex(0.0, off if i > 0 else 0.0)
        c[i] = complex(0.0, off if i < n - 1 else 0.0)
        # (re, im) = dt/2 H psi, and d = psi - i (re, im)
        re, im = on * here.real + off * near.real, on * here.imag + off * near.imag
        d[i] = complex(here.real + im, here.imag - re)


@nb.njit(**JIT)
def _residual_cpu(first, last, parts, rows, floor, system, x, r, norms):
    """Parts ``first .. last`` of the residual, each of ``rows`` rows of one system."""
    a, b, c, d = system
    n = a.shape[1]
    for task in range(first, last):
        s, part = task // parts, task % parts
        aa, bb, cc, dd, xx, rr = a[s], b[s], c[s], d[s], x[s], r[s]
        # sizes are |Re| + |Im|; a residual that is not finite must not vanish in a maximum, which drops NaN
        rest, big_x, big_d, norm, share = 0.0, 0.0, 0.0, 0.0, 0.0
        finite = True
        for i in range(part * rows, min(n, (part + 1) * rows)):
            # in one pass r, the row sum of |T| (total) and |T| |x| + |d| (whole), the divisor of Eq. T23
            ri = dd[i] - aa[i] * xx[i]
            total = magnitude(aa[i])
            here = magnitude(xx[i])
            whole = magnitude(dd[i])
            big_d = max(big_d, whole)
            whole += total * here
            if i > 0:
                ri -= bb[i] * xx[i - 1]
                total += magnitude(bb[i])
                whole += magnitude(bb[i]) * magnitude(xx[i - 1])
            if i < n - 1:
                ri -= cc[i] * xx[i + 1]
                total += magnitude(cc[i])
                whole += magnitude(cc[i]) * magnitude(xx[i + 1])
            size = magnitude(ri)
            finite = finite and size < np.inf
            # may be d itself, whose norm came first
            rr[i] = ri
            rest = max(rest, size)
            big_x = max(big_x, here)
            norm = max(norm, total)
            # compared as products: only a new maximum pays for a division
            if size > share * whole and whole > floor:
                share = size / whole
        # r and the row-wise error tell of a broken solution; |x|, |d| and |T| stay what they are
        norms[s, part, 0], norms[s, part, 4] = (rest, share) if finite else (np.inf, np.inf)
        norms[s, part, 1], norms[s, part, 2], norms[s, part, 3] = big_x, big_d, norm
