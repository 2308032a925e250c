"""Columns under a generator that is constant in each slot, by a Taylor sum (Eq. Q14), with its exact derivative (Eq. Q15).

``A(n) = A0 + sum_c f_c(n) A_c`` in slot n. Nothing is assumed of A: ``-i H``, or a Lindbladian that acts on density matrices
written as columns. A block of S columns is kept as a real array (D, 2 S), real parts first, so that the inner loops run over
neighbours in memory. Members of an ensemble differ in their A0 and A_c, on one pattern, and see the same f_c.

CPU: some members per call. CUDA: a team of threads per member and group of columns, all slots in one launch (``slots.cu``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from qsim.core.device import kernels
from qsim.core.device.cpu.vectors import LANES
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share
from qsim.qoc.kernels.blocks import (
    JIT,
    PART,
    WIDTH,
    add_outer,
    contracted,
    fetch,
    horner,
    keep,
    pack,
    power,
    step,
    unpack,
)
from qsim.qoc.kernels.portions import MOST, look, part_rows, portions
from qsim.qoc.kernels.products import assemble, copy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray, RealArray
    from qsim.core.device.device import Device

# Elements of the columns that a block of threads carries together; more columns go in groups.
ELEMENTS = 256
# Bytes of shared memory of a block: what every GPU from sm_80 on allows.
SHARED_BYTES = 160 << 10
# Bytes of A0 and A_c up to which a block keeps them at hand.
TABLE_BYTES = 32 << 10


@dataclass(frozen=True)
class Pattern:
    """Entries of A, rows compressed.

    Attributes
    ----------
    start, column : (D + 1,), (E,) int64
        First entry of each row, and the column of each entry.
    """

    start: NDArray[np.int64]
    column: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """Number D of rows."""
        return self.start.size - 1

    @property
    def entries(self) -> int:
        """Number E of entries."""
        return self.column.size

    @cached_property
    def packed(self) -> NDArray[np.int32]:
        """Pattern of A and of its adjoint in one array, as the CUDA kernels read it.

        ``start (D + 1), column (E), row (E)`` of A, then ``start (D + 1), row (E), entry (E)`` of its columns.
        """
        row = np.repeat(np.arange(self.rows), np.diff(self.start))
        # A stable sort keeps the rows of a column ascending, so that the adjoint is summed in a fixed order.
        order = np.argsort(self.column, kind="stable")
        first = np.searchsorted(self.column[order], np.arange(self.rows + 1))
        parts = [self.start, self.column, row, first, row[order], order]
        return np.concatenate(parts).astype(np.int32)

    @cached_property
    def both(self) -> tuple[NDArray[np.int32], ...]:
        """Pattern of A (start, column) and of its adjoint (start, row, entry), as the CPU kernels read it."""
        ends = np.cumsum([self.rows + 1, self.entries, self.entries, self.rows + 1, self.entries])
        start, column, _, first, row, entry = np.split(self.packed, ends)
        return start, column, first, row, entry


@dataclass(frozen=True)
class SlotBatch:
    """Members of a slot propagation, on the device.

    Attributes
    ----------
    pattern : Pattern
        Of all members.
    values : (M, C + 1, E) complex
        A0 and A_c of each member on the pattern, 1/time.
    tau : float
        Length of a part of a slot.
    terms, parts : int
        Terms m of the series, and equal parts that each slot is divided into.
    real : bool
        True if no value has an imaginary part, which the CPU then leaves out.
    """

    pattern: Pattern
    values: ComplexArray
    tau: float
    terms: int
    parts: int
    real: bool = False


def kept_columns(trajectory: RealArray) -> RealArray:
    """Return the columns (..., D, 2 S) of a trajectory that `slot_forward` has kept, real parts first."""
    *before, rows, width = trajectory.shape
    if hasattr(trajectory, "__cuda_array_interface__") or width % WIDTH:
        return trajectory
    # On a CPU a block of four columns follows the other.
    blocks = trajectory.reshape(*before, width // WIDTH, rows, 2, LANES)
    axes = [*range(len(before)), *(len(before) + k for k in (1, 2, 0, 3))]
    return blocks.transpose(axes).reshape(trajectory.shape)


def real_of(columns: ComplexArray) -> NDArray[np.float64]:
    """Return complex columns (D, S) as the real array (D, 2 S) of the kernels."""
    return np.ascontiguousarray(np.concatenate([columns.real, columns.imag], axis=1))


def columns_of(real: NDArray[np.float64]) -> ComplexArray:
    """Return the complex columns (D, S) of an array (D, 2 S) of the kernels."""
    count = real.shape[1] // 2
    return np.asarray(real[:, :count] + 1j * real[:, count:])


def slot_forward(
    device: Device, batch: SlotBatch, factors: RealArray, x: RealArray, trajectory: RealArray | None = None
) -> None:
    """Carry the columns of every member through all slots.

    Parameters
    ----------
    factors : (C, N) real
        f_c of each slot.
    x : (M, D, 2 S) real, in/out
        Columns at t = 0; at T on return.
    trajectory : (M, N parts, D, 2 S) real, out, optional
        Columns at the start of each part of a slot, wanted by :func:`slot_backward`; `kept_columns` reads them.
    """
    _check(batch, factors, x, trajectory)
    if device.is_cuda:
        launch = _launch(batch, x, powers=False)
        kernel = kernels.function(
            "qoc/kernels",
            "slots",
            "slot_forward",
            launch.defines(2 * x.dtype.itemsize),
            shared_bytes=launch.shared,
        )
        kernel(
            launch.blocks,
            (launch.threads,),
            (
                device.asarray(batch.pattern.packed),
                batch.values,
                factors,
                x.dtype.type(batch.tau),
                x,
                x if trajectory is None else trajectory,
                np.int32(trajectory is not None),
                *_numbers(batch, factors, x, launch),
            ),
            shared_mem=launch.shared,
        )
        return
    # CPU: ranges of members on all threads, none of which writes where another one does
    for members, slots, parts in _calls(batch, factors, x, device.threads):
        look()
        rows = part_rows(slots, parts, batch.parts)
        kept = np.empty((1, 0, 0, 0)) if trajectory is None else trajectory[members, rows]
        # kernels are compiled for arrays without gaps
        whole = np.ascontiguousarray(kept)
        own = x[members]
        arguments = (
            *_shared_by_calls(batch, factors, members, slots, parts),
            own,
            whole,
            trajectory is not None,
        )
        each_part(
            Shared(_slot_forward_shared, arguments), own.shape[0], own.size * factors.shape[1], device.threads
        )
        if whole is not kept:
            kept[...] = whole


def _calls(
    batch: SlotBatch, factors: RealArray, x: RealArray, threads: int
) -> Iterator[tuple[slice, slice, slice]]:
    """Yield members, slots and parts of each call of a CPU kernel; each thread has about as much as one call may take."""
    count, slots = x.shape[0], factors.shape[1]
    work = float(batch.terms * batch.pattern.entries * x.shape[2])
    pieces = portions(slots, batch.parts, work)
    each = 1 if len(pieces) > 1 else max(1, int(MOST / max(1.0, slots * batch.parts * work)))
    group = each * max(1, threads)
    for first in range(0, count, group):
        for some, parts in pieces:
            yield slice(first, min(first + group, count)), some, parts


def _shared_by_calls(
    batch: SlotBatch, factors: RealArray, members: slice, slots: slice, parts: slice
) -> tuple[object, ...]:
    """Return matrices, factors and series of one call."""
    series = (batch.tau, batch.terms, parts.stop - parts.start, batch.real)
    return (batch.pattern.both, batch.values[members]), np.ascontiguousarray(factors[:, slots]), series


def slot_backward(
    device: Device, batch: SlotBatch, factors: RealArray, lam: RealArray, trajectory: RealArray
) -> RealArray:
    """Carry the costates ``lam = dJ/dX*`` back and return ``dJ/df_c(n)`` of the truncated series itself, exactly.

    Parameters
    ----------
    factors : (C, N) real
        f_c of each slot.
    lam : (M, D, 2 S) real, in/out
        dJ/dX* at T; at t = 0 on return.
    trajectory : (M, N parts, D, 2 S) real
        As `slot_forward` left it.

    Returns
    -------
    (M, C, N) real
        Of each member, on the device.
    """
    _check(batch, factors, lam, trajectory)
    count = lam.shape[0]
    if device.is_cuda:
        launch = _launch(batch, lam, powers=True)
        # every group of columns has a sum of its own
        gradient = device.xp.zeros((count, launch.blocks[1], *factors.shape), lam.dtype)
        kernel = kernels.function(
            "qoc/kernels",
            "slots",
            "slot_backward",
            launch.defines(2 * lam.dtype.itemsize),
            shared_bytes=launch.shared,
        )
        kernel(
            launch.blocks,
            (launch.threads,),
            (
                device.asarray(batch.pattern.packed),
                batch.values,
                factors,
                lam.dtype.type(batch.tau),
                lam,
                trajectory,
                gradient,
                device.xp.empty(launch.scratch, lam.dtype),
                *_numbers(batch, factors, lam, launch),
            ),
            shared_mem=launch.shared,
        )
        return gradient[:, 0] if launch.blocks[1] == 1 else gradient.sum(axis=1)
    # CPU: members on all threads, each of which writes its own rows.
    gradient = np.zeros((count, *factors.shape))
    for members, slots, parts in reversed(list(_calls(batch, factors, lam, device.threads))):
        look()
        own = lam[members]
        kept = np.ascontiguousarray(trajectory[members, part_rows(slots, parts, batch.parts)])
        rows = np.empty((own.shape[0], factors.shape[0], slots.stop - slots.start))
        arguments = (*_shared_by_calls(batch, factors, members, slots, parts), own, kept, rows)
        each_part(
            Shared(_slot_backward_shared, arguments),
            own.shape[0],
            own.size * factors.shape[1],
            device.threads,
        )
        gradient[members, :, slots] += rows
    return gradient


@njit(**JIT)
def _slot_forward_shared(ticket, *arguments):
    return share(ticket, ranges(_slot_forward_cpu, arguments))


@njit(**PART)
def _slot_forward_cpu(first, last, worker, matrices, factors, series, x, trajectory, keep):
    """CPU twin of ``slot_forward`` for members ``first ... last``."""
    pattern, values = matrices
    for m in range(first, last):
        _forward(pattern, values[m], factors, series, x[m], trajectory[m if keep else 0], keep)


@njit(**PART)
def _forward(pattern, values, factors, series, x, trajectory, kept):
    """Carry the columns x (D, 2 S) of one member through all slots."""
    start, column = pattern[0], pattern[1]
    tau, terms, parts, real = series
    rows = x.shape[0]
    blocks = (x.shape[1] // 2 + LANES - 1) // LANES
    re = np.empty(values.shape[1])
    im = np.empty(values.shape[1])
    sums = np.empty((blocks, rows, WIDTH))
    v = np.empty((rows, WIDTH))
    w = np.empty((rows, WIDTH))
    for b in range(blocks):
        pack(x, LANES * b, sums[b])
    for n in range(factors.shape[1]):
        assemble(values, factors, n, tau, re, im)
        matrix = (start, column, re, im, real)
        for part in range(parts):
            for b in range(blocks):
                # The trajectory holds the columns before each part, from which the way back makes the powers
                # anew.
                if kept:
                    keep(sums[b], LANES * b, trajectory, n * parts + part)
                copy(sums[b], v)
                # x <- sum_k A^k x / k!, the k-th term from the one before
                for k in range(1, terms + 1):
                    step(matrix, v, w, sums[b], 1.0 / k)
                    v, w = w, v
    for b in range(blocks):
        unpack(sums[b], LANES * b, x)


@njit(**PART)
def _part_backward(matrix, adjoint, terms, lam, powers, mu, outer):
    """Carry the costate (D, 8) back through one part, and add its K; `powers[0]` holds the columns at its start."""
    for k in range(1, terms):
        power(matrix, powers, k)
    inverse = 1.0
    for k in range(1, terms + 1):
        inverse /= k
    # Horner's scheme backwards: mu_{m-1} = lam/m!, mu_{j-1} = A+ mu_j + lam/j!
    for i in range(lam.shape[0]):
        for s in range(WIDTH):
            mu[terms - 1, i, s] = inverse * lam[i, s]
    for j in range(terms - 1, 0, -1):
        inverse *= j + 1
        horner(adjoint, mu, j, lam, inverse, j - 1)
    add_outer(matrix, terms, mu, powers, outer)
    # the costate at the start of the part: lam/0! + A+ mu_0, in the room of a power that is no longer needed
    horner(adjoint, mu, 0, lam, 1.0, terms)
    copy(mu[terms, : lam.shape[0]], lam)


@njit(**JIT)
def _slot_backward_shared(ticket, *arguments):
    return share(ticket, ranges(_slot_backward_cpu, arguments))


@njit(**PART)
def _slot_backward_cpu(first, last, worker, matrices, factors, series, lam, trajectory, gradient):
    """CPU twin of ``slot_backward`` for members ``first ... last``."""
    pattern, values = matrices
    for m in range(first, last):
        _backward(pattern, values[m], factors, series, lam[m], trajectory[m], gradient[m])


@njit(**PART)
def _backward(pattern, values, factors, series, lam, trajectory, gradient):
    """Carry the costate lam (D, 2 S) of one member back, and write its gradient (C, N)."""
    start, column, back_start, back_row, entry = pattern
    tau, terms, parts, real = series
    rows, count = lam.shape[0], values.shape[1]
    blocks = (lam.shape[1] // 2 + LANES - 1) // LANES
    re, im = np.empty(count), np.empty(count)
    back_re, back_im = np.empty(count), np.empty(count)
    outer = np.empty((count, WIDTH))
    costate = np.empty((blocks, rows, WIDTH))
    # A row more where powers of two would put all powers of a row into one set of the cache.
    room = rows + 1 - rows % 2
    powers = np.empty((terms, room, WIDTH))
    mu = np.empty((terms + 1, room, WIDTH))
    for b in range(blocks):
        pack(lam, LANES * b, costate[b])
    for n in range(factors.shape[1] - 1, -1, -1):
        assemble(values, factors, n, tau, re, im)
        # A+ along a pattern of its own, so that its rows are sums as well
        for e in range(count):
            back_re[e] = re[entry[e]]
            back_im[e] = -im[entry[e]]
        matrix = (start, column, re, im, real)
        adjoint = (back_start, back_row, back_re, back_im, real)
        outer[:] = 0.0
        for part in range(parts - 1, -1, -1):
            for b in range(blocks):
                fetch(trajectory, n * parts + part, LANES * b, powers[0, :rows])
                _part_backward(matrix, adjoint, terms, costate[b], powers, mu, outer)
        # one K serves all controls: dJ/df_c = 2 Re (tau sum_e K_e A_c,e)
        for c in range(factors.shape[0]):
            gradient[c, n] = 2.0 * tau * contracted(outer, values, c + 1)
    for b in range(blocks):
        unpack(costate[b], LANES * b, lam)


class _Launch(NamedTuple):
    """Shape of a CUDA launch.

    A team of threads carries a group of columns of one member. From row to row its columns lie `pitch`, a power of two, apart.
    """

    blocks: tuple[int, int]
    threads: int
    teams: int
    group: int
    pitch: int
    # bytes of shared memory, and whether A0 and A_c are in it
    shared: int
    table: bool
    # numbers of global memory for the products A^j x, where shared memory has no room
    scratch: int

    def defines(self, item: int) -> dict[str, str | int]:
        """Return the constants of the compilation for complex numbers of a size in bytes."""
        return {"REAL": "float" if item == 8 else "double", "TEAM": self.threads // self.teams}


def fits(pattern: Pattern, columns: int, item: int = 16) -> bool:
    """Return True if a block of the CUDA kernels has room for such a system in complex numbers of `item` bytes."""
    pitch = _group(pattern.rows, columns)[1]
    return _shared(pattern, pitch, _team(pattern.rows, pitch), item) <= SHARED_BYTES


def _group(rows: int, columns: int) -> tuple[int, int]:
    """Return the columns of a group, and their pitch."""
    most = max(1, ELEMENTS // rows)
    # A group fills the elements of a block of threads, and rows lie a power of two apart, for shifts instead of divisions.
    group = min(columns, most)
    pitch = 1 << (group - 1).bit_length()
    if pitch > most:
        pitch = pitch // 2
    return min(group, pitch), pitch


def _team(rows: int, pitch: int) -> int:
    """Return the threads of a team, a power of two."""
    return min(ELEMENTS, max(8, 1 << (rows * pitch - 1).bit_length()))


def _shared(pattern: Pattern, pitch: int, team: int, item: int) -> int:
    """Return the bytes that a block needs at least: both patterns, and per member A, K, three blocks of columns and sums."""
    integers = -(-4 * pattern.packed.size // 16) * 16
    # A block is a warp at least, so that small systems share one.
    teams = max(32, team) // team
    return integers + teams * item * (2 * pattern.entries + 3 * pattern.rows * pitch + team)


def _launch(batch: SlotBatch, x: RealArray, *, powers: bool) -> _Launch:
    """Return the shape of a launch; `powers`: with room for the products ``A^j x`` of one part of a slot.

    Raises
    ------
    ValueError
        If a block has no room for the system.
    """
    pattern, (members, rows, width) = batch.pattern, x.shape
    item = 2 * x.dtype.itemsize
    group, pitch = _group(rows, width // 2)
    team = _team(rows, pitch)
    threads = max(32, team)
    teams = threads // team
    shared = _shared(pattern, pitch, team, item)
    if shared > SHARED_BYTES:
        raise ValueError(
            f"a block of {SHARED_BYTES} bytes has no room for {rows} rows with {pattern.entries} entries ({shared} bytes)"
        )
    blocks = (-(-members // teams), -(-(width // 2) // group))
    # Shared memory goes to A0 and A_c first, and to the powers of A only if they still fit.
    table = teams * item * batch.values.shape[1] * pattern.entries
    kept = table <= TABLE_BYTES and shared + table <= SHARED_BYTES
    shared += table if kept else 0
    # Products A^j x of one part: in shared memory if all of them fit, else in global memory.
    held = teams * item * batch.terms * rows * pitch if powers else 0
    inside = shared + held <= SHARED_BYTES
    scratch = 1 if inside else blocks[0] * blocks[1] * held // x.dtype.itemsize
    return _Launch(blocks, threads, teams, group, pitch, shared + (held if inside else 0), kept, scratch)


def _numbers(batch: SlotBatch, factors: RealArray, x: RealArray, launch: _Launch) -> tuple[np.int32, ...]:
    """Return the sizes that both CUDA kernels take last."""
    shift = launch.pitch.bit_length() - 1
    sizes = (
        x.shape[0],
        batch.pattern.rows,
        batch.pattern.entries,
        x.shape[2] // 2,
        *factors.shape,
        batch.terms,
        batch.parts,
        launch.group,
        shift,
        launch.table,
        launch.scratch > 1,
    )
    return tuple(np.int32(size) for size in sizes)


def _check(batch: SlotBatch, factors: RealArray, x: RealArray, trajectory: RealArray | None) -> None:
    """Check shapes once, with names.

    Raises
    ------
    ValueError
        If they do not belong together.
    """
    # Numba and CUDA would read beyond an array of another shape without a word.
    members, controls, entries = batch.values.shape
    pattern = batch.pattern
    if entries != pattern.entries:
        raise ValueError(f"values must have {pattern.entries} entries per matrix, found {entries}")
    if factors.ndim != 2 or factors.shape[0] != controls - 1:
        raise ValueError(f"factors must have shape ({controls - 1}, slots), found {factors.shape}")
    if x.ndim != 3 or x.shape[:2] != (members, pattern.rows) or x.shape[2] % 2:
        raise ValueError(f"columns must have shape ({members}, {pattern.rows}, 2 S), found {x.shape}")
    kept = (members, factors.shape[1] * batch.parts, *x.shape[1:])
    if trajectory is not None and trajectory.shape != kept:
        raise ValueError(
            f"trajectory must have shape (members, parts, rows, 2 S) = {kept}, found {trajectory.shape}"
        )
