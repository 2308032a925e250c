"""Pieces of a tridiagonal system that is solved block by block: public wrappers and their CPU twins.

The block at hand holds ``rows`` rows, cut into pieces ``edges[p] .. edges[p+1] - 1``; the last row of a piece is a joint line,
the rows before it are its interior.  RD and RU of the paper, run over the interior from either end, give

    x_first = g_f - p_f x_left - q_f x_joint,    x_last = g_l - p_l x_left - q_l x_joint

for its first and last row, all that the joint lines need to know (JD and JU).  Arrays are of one dtype on the device:
a, b, c (rows,), the right-hand sides d and the solution x (columns, rows), contiguous; ``b[0]`` couples to the block before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.cpu.rng import normal2, uniform2
from qsim.core.device.pool import each_part
from qsim.tridiag.kernels.jit import JIT, PART, magnitude, reciprocal
from qsim.tridiag.kernels.partition.stages import smallest_row
from qsim.tridiag.kernels.partition.system import System

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device

# of the random numbers, see qsim.core.device.rng
STREAM = 0x5452
THREADS = 128


def reduce_pieces(
    device: Device,
    edges: Array,
    a: Array,
    b: Array,
    c: Array,
    d: Array,
    links: Array,
    loads: Array,
    pivots: Array,
) -> None:
    """Reduce the interior of every piece to its ends, without pivoting.

    Parameters
    ----------
    edges : (pieces + 1,) int64
    links : (pieces, 4), out
        p_f, q_f, p_l, q_l.
    loads : (columns, pieces, 2), out
        g_f, g_l.
    pivots : (pieces,) real, out
        Smallest ``|pivot|`` over the largest element of its row; 0 after a breakdown.
    """
    pieces = len(pivots)
    if device.is_cuda:
        _launch("reduce_pieces", pieces, a, (edges, a, b, c, d, links, loads, pivots), d)
        return

    def work(first: int, last: int) -> None:
        _reduce_pieces_cpu(first, last, edges, a, b, c, d, links, loads, pivots)

    each_part(work, pieces, len(a), device.threads)


def substitute_pieces(
    device: Device,
    edges: Array,
    skip: Array,
    system: System,
    sides: tuple[Any, Any],
    w: Array,
    x: Array,
) -> None:
    """Solve for the interior of every piece from the joint lines on either side.

    Parameters
    ----------
    skip : (pieces,) uint8
        Pieces of which only the joint line is written.
    system : System
        Rows of the block: a, b, c (rows,), d (columns, rows).
    sides : two (columns, pieces)
        x at the joint lines before and of each piece.
    w : (rows,)
        Workspace.
    x : (columns, rows), out
    """
    pieces = len(skip)
    if device.is_cuda:
        _launch("substitute_pieces", pieces, system.a, (edges, skip, *system, *sides, w, x), system.d)
        return

    def work(first: int, last: int) -> None:
        _substitute_pieces_cpu(first, last, edges, skip, system, sides, w, x)

    each_part(work, pieces, len(system.a), device.threads)


def residual_pieces(
    device: Device,
    known: int,
    edges: Array,
    system: System,
    x: Array,
    before: Array,
    stats: Array,
    sums: Array,
) -> None:
    """Measure the residual ``d - T x`` piece by piece.

    Parameters
    ----------
    known
        Rows whose residual can be formed: all but the last one unless the block ends the system.
    before : (columns,)
        x in the row before the block.
    stats : (columns, pieces, 4) real, out
        Largest ``|d - T x|``, ``|x|``, ``|d|`` and ``|d - T x| / (|T| |x| + |d|)`` of a row (Oettli and Prager), with
        ``|z| = |Re z| + |Im z|``.  In the last, rows whose divisor is below
        :func:`~qsim.tridiag.kernels.partition.stages.smallest_row` do not count.
    sums : (pieces,) real, out
        Largest row sum of ``|T|``.
    """
    pieces = len(sums)
    floor = smallest_row(system.a.dtype)
    if device.is_cuda:
        numbers = (np.int64(known), floor)
        arguments = (*numbers, edges, *system, x, before, stats, sums)
        _launch("residual_pieces", pieces, system.a, arguments, system.d)
        return

    def work(first: int, last: int) -> None:
        _residual_pieces_cpu(first, last, (known, floor), edges, system, x, before, stats, sums)

    each_part(work, pieces, len(system.a), device.threads)


def random_rows(
    device: Device,
    first: int,
    n: int,
    key: NDArray[np.uint32],
    dominance: float,
    a: Array,
    b: Array,
    c: Array,
    d: Array,
) -> None:
    """Make the rows ``first ..`` of a random system; any block of rows on its own, the same on every device.

    Row i of the batch as a whole has the Philox counters ``(i >> 32, i mod 2^32, pair, STREAM)``: pair 0 gives b, pair 1 c,
    pair 2 the phase (or sign) of a, pair 3 + q column q of d; real systems use the first normal number of a pair.

    Parameters
    ----------
    n
        Rows of one system of the batch, in which ``b[0] = c[n-1] = 0``.
    key : (2,) uint32
        Of the seed.
    dominance
        ``|a| / (|b| + |c|)``.
    a, b, c : (rows,), d : (columns, rows), out
    """
    if device.is_cuda:
        name, args = "random_rows", (a, b, c, d)
        numbers = (np.int64(first), np.int64(n), key[0], key[1], np.uint32(STREAM), np.float64(dominance))
        kernel = kernels.function("tridiag/kernels/partition", "streamed", name, _defines(a))
        kernel(
            kernels.blocks(len(a), THREADS),
            (THREADS,),
            (np.int64(len(a)), np.int64(d.shape[0]), *numbers, *args),
        )
        return
    make = _random_rows_cpu if a.dtype.kind == "c" else _random_real_rows
    low, high = np.uint64(key[0]), np.uint64(key[1])

    def work(start: int, stop: int) -> None:
        make(start, stop, (np.uint64(first), np.uint64(n)), (low, high), float(dominance), System(a, b, c, d))

    each_part(work, len(a), len(a), device.threads)


def _defines(a: Array) -> dict[str, str]:
    return {
        "REAL": "float" if a.real.dtype.itemsize == 4 else "double",
        "SCALAR": "cplx" if a.dtype.kind == "c" else "real",
    }


def _launch(name: str, pieces: int, a: Array, arguments: tuple[Any, ...], d: Array) -> None:
    kernel = kernels.function("tridiag/kernels/partition", "streamed", name, _defines(a))
    sizes = (np.int64(pieces), np.int64(len(a)), np.int64(d.shape[0]))
    kernel(kernels.blocks(pieces, THREADS), (THREADS,), (*sizes, *arguments))


# --------------------------------------------------------------------------------------- CPU twins


@nb.njit(**PART)
def _ratio(pivot, a, b, c):
    """``|pivot|`` over the largest element of its row; an undefined ratio is a breakdown and counts as zero."""
    ratio = magnitude(pivot) / max(magnitude(a), max(magnitude(b), magnitude(c)))
    return np.float64(ratio) if ratio >= 0.0 else 0.0


@nb.njit(**JIT)
def _reduce_pieces_cpu(start, stop, edges, a, b, c, d, links, loads, pivots):
    """Reduce the pieces ``start .. stop`` by sweeps from both ends of their interiors."""
    for p in range(start, stop):
        first, joint = edges[p], edges[p + 1] - 1
        if (
            joint == first
        ):  # no interior: the row before the joint line is the joint line on the left, and conversely
            links[p, 0] = links[p, 3] = 0.0
            links[p, 1] = links[p, 2] = -1.0
            loads[:, p, :] = 0.0
            pivots[p] = np.inf
            continue
        # both sweeps divide by pivots: the smallest of either decides
        smallest = _ratio(a[first], a[first], b[first], c[first])
        # links do not depend on q: they are written again with the same numbers, since pivots are not stored
        for q in range(d.shape[0]):
            last = joint - 1
            # both sweeps in one loop: two independent chains of divisions keep the core busy
            # down (RD): pivot, coupling `spike` to the joint line before the piece, right-hand side `below`;
            # up (RU): pivot, coupling `tail` to the joint line of the piece, right-hand side `above`
            down, up = a[first], a[last]
            spike, tail = b[first], c[last]
            below, above = d[q, first], d[q, last]
            smallest = min(smallest, _ratio(up, a[last], b[last], c[last]))
            for k in range(1, joint - first):
                i, j = first + k, last - k
                r = -(b[i] * reciprocal(down))
                s = -(c[j] * reciprocal(up))
                down = a[i] + r * c[i - 1]
                up = a[j] + s * b[j + 1]
                spike = r * spike
                tail = s * tail
                below = d[q, i] + r * below
                above = d[q, j] + s * above
                smallest = min(smallest, _ratio(down, a[i], b[i], c[i]))
                smallest = min(smallest, _ratio(up, a[j], b[j], c[j]))
            down, up = reciprocal(down), reciprocal(up)
            # the sweep up ends in the first row (p_f, q_f, g_f), the sweep down in the last one (p_l, q_l, g_l)
            links[p, 0] = b[first] * up
            links[p, 1] = tail * up
            links[p, 2] = spike * down
            links[p, 3] = c[last] * down
            loads[q, p, 0] = above * up
            loads[q, p, 1] = below * down
        pivots[p] = smallest


@nb.njit(**JIT)
def _substitute_pieces_cpu(start, stop, edges, skip, system, sides, w, x):
    """Solve for the interiors of the pieces ``start .. stop``; `w` holds the upper factors of a piece at a time."""
    a, b, c, d = system
    left, right = sides
    for p in range(start, stop):
        first, joint = edges[p], edges[p + 1] - 1
        for q in range(d.shape[0]):
            before, after = left[q, p], right[q, p]
            x[q, joint] = after
            if skip[p]:
                continue
            # Thomas algorithm with the joint line before the piece on the right side; zero of the type of a: no row above
            factor = a[first] - a[first]
            for i in range(first, joint):
                inverse = reciprocal(a[i] - b[i] * factor)
                before = (d[q, i] - b[i] * before) * inverse
                factor = c[i] * inverse
                w[i] = factor
                x[q, i] = before
            # up from the joint line of the piece, `after`
            for i in range(joint - 1, first - 1, -1):
                after = x[q, i] - w[i] * after
                x[q, i] = after


@nb.njit(**JIT)
def _residual_pieces_cpu(start, stop, limits, edges, system, x, before, stats, sums):
    """Measure the residual of the pieces ``start .. stop``, as in `residual_pieces`; rows from `known` on give no residual."""
    known, floor = limits
    a, b, c, d = system
    rows = len(a)
    for p in range(start, stop):
        for q in range(d.shape[0]):
            zero = magnitude(a[0] * 0)
            rmax, xmax, dmax, tmax, share = zero, zero, zero, zero, zero
            for i in range(edges[p], edges[p + 1]):
                size = magnitude(x[q, i])
                # so that NaN stays
                if not size <= xmax:
                    xmax = size
                dmax = max(dmax, magnitude(d[q, i]))
                tmax = max(tmax, magnitude(a[i]) + magnitude(b[i]) + magnitude(c[i]))
                # its neighbour below lies in the next block: the caller adds this row when that block is there
                if i >= known:
                    continue
                # r = d - T x, and whole = |T| |x| + |d|, the divisor of the row-wise error
                left = x[q, i - 1] if i > 0 else before[q]
                r = d[q, i] - a[i] * x[q, i] - b[i] * left
                whole = magnitude(d[q, i]) + magnitude(a[i]) * size + magnitude(b[i]) * magnitude(left)
                if i < rows - 1:
                    r = r - c[i] * x[q, i + 1]
                    whole = whole + magnitude(c[i]) * magnitude(x[q, i + 1])
                size = magnitude(r)
                if not size <= rmax:
                    rmax = size
                if whole > floor:
                    share = max(share, size / whole)
            stats[q, p, 0], stats[q, p, 1], stats[q, p, 2], stats[q, p, 3] = rmax, xmax, dmax, share
            sums[p] = tmax


@nb.njit(**JIT)
def _random_rows_cpu(start, stop, rows, key, dominance, system):
    """Make the rows ``start .. stop`` of a block that begins at row `first` of the batch, complex numbers."""
    first, n = rows
    k0, k1 = key
    a, b, c, d = system
    for k in range(start, stop):
        # counters are rows of the whole batch, so that blocks of any size hold the same numbers
        row = first + np.uint64(k)
        low, high = row & np.uint64(0xFFFFFFFF), row >> np.uint64(32)
        re, im = normal2(k0, k1, STREAM, high, low, 0)
        lower = complex(re, im)
        re, im = normal2(k0, k1, STREAM, high, low, 1)
        upper = complex(re, im)
        angle = 2.0 * np.pi * uniform2(k0, k1, STREAM, high, low, 2)[0]
        size = dominance * (abs(lower) + abs(upper))
        a[k] = complex(size * np.cos(angle), size * np.sin(angle))
        # corners vanish only now: |a| has the same distribution in every row
        b[k] = 0.0 if row % n == 0 else lower
        c[k] = 0.0 if row % n == n - np.uint64(1) else upper
        for q in range(d.shape[0]):
            re, im = normal2(k0, k1, STREAM, high, low, 3 + q)
            d[q, k] = complex(re, im)


@nb.njit(**JIT)
def _random_real_rows(start, stop, rows, key, dominance, system):
    first, n = rows
    k0, k1 = key
    a, b, c, d = system
    for k in range(start, stop):
        row = first + np.uint64(k)
        low, high = row & np.uint64(0xFFFFFFFF), row >> np.uint64(32)
        # as `_random_rows_cpu`; the second number of a pair is thrown away, a real phase is a sign
        lower = normal2(k0, k1, STREAM, high, low, 0)[0]
        upper = normal2(k0, k1, STREAM, high, low, 1)[0]
        size = dominance * (abs(lower) + abs(upper))
        a[k] = size if uniform2(k0, k1, STREAM, high, low, 2)[0] < 0.5 else -size
        b[k] = 0.0 if row % n == 0 else lower
        c[k] = 0.0 if row % n == n - np.uint64(1) else upper
        for q in range(d.shape[0]):
            d[q, k] = normal2(k0, k1, STREAM, high, low, 3 + q)[0]


@nb.njit(**JIT)
def checksum_rows(start, stop, size, x, first, sums):
    """Write sums over the parts ``start .. stop`` of ``size`` rows of x (rows,), which begins at row ``first``.

    sums : (parts, 4) complex128, out
        sum x, sum |x|^2, sum x cos(0.1 i), max |x|.
    """
    for part in range(start, stop):
        total, weighted = 0j, 0j
        square, largest = 0.0, 0.0
        for k in range(part * size, min((part + 1) * size, len(x))):
            # sums are double whatever the precision of x
            re, im = np.float64(x[k].real), np.float64(x[k].imag)
            z = complex(re, im)
            total += z
            length = re * re + im * im
            square += length
            weighted += z * np.cos(0.1 * (first + k))
            # a NaN stays
            if not length <= largest:
                largest = length
        sums[part, 0], sums[part, 1], sums[part, 2], sums[part, 3] = total, square, weighted, np.sqrt(largest)
