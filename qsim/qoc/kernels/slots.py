"""Columns under a generator that is constant in each slot, by a Taylor sum (Eq. Q14), with its exact derivative (Eq. Q15).

``A(n) = A0 + sum_c f_c(n) A_c`` in slot n. Nothing is assumed of A: ``-i H``, or a Lindbladian that acts on density matrices
written as columns. A block of S columns is kept as a real array (D, 2 S), real parts first, so that the inner loops run over
neighbours in memory. Members of an ensemble differ in their A0 and A_c, on one pattern, and see the same f_c.

CPU: some members per call. CUDA: a team of threads per member and group of columns, all slots in one launch (``slots.cu``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from qsim.core.device import kernels
from qsim.core.device.jit import PART as _PART
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray, RealArray
    from qsim.core.device.device import Device

__all__ = ["Pattern", "SlotBatch", "columns_of", "fits", "real_of", "slot_backward", "slot_forward"]

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": True}
PART: dict[str, Any] = {**JIT, **_PART}
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
    """

    pattern: Pattern
    values: ComplexArray
    tau: float
    terms: int
    parts: int


def real_of(columns: ComplexArray) -> NDArray[np.float64]:
    """Return complex columns (D, S) as the real array (D, 2 S) of the kernels."""
    return np.ascontiguousarray(np.concatenate([columns.real, columns.imag], axis=1))


def columns_of(real: NDArray[np.float64]) -> ComplexArray:
    """Return the complex columns (D, S) of an array (D, 2 S) of the kernels."""
    count = real.shape[1] // 2
    return np.asarray(real[:, :count] + 1j * real[:, count:])


def slot_forward(
    device: Device,
    batch: SlotBatch,
    factors: RealArray,
    x: RealArray,
    trajectory: RealArray | None = None,
) -> None:
    """Carry the columns of every member through all slots.

    Parameters
    ----------
    factors : (C, N) real
        f_c of each slot.
    x : (M, D, 2 S) real, in/out
        Columns at t = 0; at T on return.
    trajectory : (M, N parts, D, 2 S) real, out, optional
        Columns at the start of each part of a slot, wanted by :func:`slot_backward`.
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
    keep = trajectory is not None
    kept = trajectory if keep else np.empty((1, 0, 0, 0))
    pattern = batch.pattern
    matrices = (pattern.start, pattern.column, batch.values)
    series = (batch.tau, batch.terms, batch.parts)
    arrays = (matrices, factors, series, x, kept, keep)
    each_part(Shared(_slot_forward_shared, arrays), x.shape[0], x.size * factors.shape[1], device.threads)


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
    gradient = np.empty((count, *factors.shape))
    pattern = batch.pattern
    matrices = (pattern.start, pattern.column, batch.values)
    series = (batch.tau, batch.terms, batch.parts)
    arrays = (matrices, factors, series, lam, trajectory, gradient)
    each_part(Shared(_slot_backward_shared, arrays), count, lam.size * factors.shape[1], device.threads)
    return gradient


@njit(**PART)
def _assemble(values, factors, n, tau, re, im):
    """Put ``tau (A0 + sum_c f_c(n) A_c)`` into `re` and `im`."""
    for e in range(values.shape[1]):
        z = values[0, e]
        for c in range(factors.shape[0]):
            z += factors[c, n] * values[c + 1, e]
        re[e] = tau * z.real
        im[e] = tau * z.imag


@njit(**PART)
def _product(start, column, re, im, x, y, factor):
    """Put ``factor A x`` into y, row by row."""
    count = x.shape[1] // 2
    for i in range(x.shape[0]):
        for s in range(2 * count):
            y[i, s] = 0.0
        for e in range(start[i], start[i + 1]):
            j = column[e]
            a = factor * re[e]
            b = factor * im[e]
            for s in range(count):
                y[i, s] += a * x[j, s] - b * x[j, count + s]
                y[i, count + s] += a * x[j, count + s] + b * x[j, s]


@njit(**PART)
def _adjoint_product(start, column, re, im, x, y):
    """Put ``A+ x`` into y; rows of A scatter into y."""
    count = x.shape[1] // 2
    y[:] = 0.0
    for i in range(x.shape[0]):
        for e in range(start[i], start[i + 1]):
            j = column[e]
            a = re[e]
            b = im[e]
            for s in range(count):
                y[j, s] += a * x[i, s] + b * x[i, count + s]
                y[j, count + s] += a * x[i, count + s] - b * x[i, s]


@njit(**JIT)
def _slot_forward_shared(ticket, *arguments):
    return share(ticket, ranges(_slot_forward_cpu, arguments))


@njit(**PART)
def _slot_forward_cpu(first, last, worker, matrices, factors, series, x, trajectory, keep):
    """CPU twin of ``slot_forward`` for members ``first ... last``."""
    start, column, values = matrices
    for m in range(first, last):
        _forward((start, column, values[m]), factors, series, x[m], trajectory[m if keep else 0], keep)


@njit(**PART)
def _forward(matrices, factors, series, x, trajectory, keep):
    """Carry the columns x (D, 2 S) of one member through all slots."""
    start, column, values = matrices
    tau, terms, parts = series
    slots = factors.shape[1]
    re = np.empty(values.shape[1])
    im = np.empty(values.shape[1])
    v = np.empty_like(x)
    w = np.empty_like(x)
    for n in range(slots):
        _assemble(values, factors, n, tau, re, im)
        for part in range(parts):
            if keep:
                trajectory[n * parts + part] = x
            v[:] = x
            # The trajectory holds the columns before each part, from which the way back makes the powers
            # anew.
            # x <- sum_k A^k x / k!, the k-th term from the one before
            for k in range(1, terms + 1):
                _product(start, column, re, im, v, w, 1.0 / k)
                for i in range(x.shape[0]):
                    for s in range(x.shape[1]):
                        x[i, s] += w[i, s]
                v, w = w, v


@njit(**PART)
def _outer(start, column, mu, x, outer_re, outer_im):
    """Add ``K = conj(mu) x^T``, summed over columns, on the pattern alone."""
    count = x.shape[1] // 2
    for i in range(x.shape[0]):
        for e in range(start[i], start[i + 1]):
            j = column[e]
            p = 0.0
            q = 0.0
            for s in range(count):
                p += mu[i, s] * x[j, s] + mu[i, count + s] * x[j, count + s]
                q += mu[i, s] * x[j, count + s] - mu[i, count + s] * x[j, s]
            outer_re[e] += p
            outer_im[e] += q


@njit(**PART)
def _part_backward(matrix, terms, lam, powers, mu, w, outer):
    """Carry the costate back through one part, and add its K; `powers[0]` holds the columns at its start."""
    start, column, re, im = matrix
    outer_re, outer_im = outer
    for k in range(1, terms):
        _product(start, column, re, im, powers[k - 1], powers[k], 1.0)
    inverse = 1.0
    for k in range(1, terms + 1):
        inverse /= k
    # Horner's scheme backwards: mu_{m-1} = lam/m!, mu_{j-1} = A+ mu_j + lam/j!
    for i in range(lam.shape[0]):
        for s in range(lam.shape[1]):
            mu[i, s] = inverse * lam[i, s]
    for j in range(terms - 1, -1, -1):
        _outer(start, column, mu, powers[j], outer_re, outer_im)
        _adjoint_product(start, column, re, im, mu, w)
        inverse *= j + 1
        # at j = 0 this is the costate at the start of the part: lam/0! + A+ mu_0
        for i in range(lam.shape[0]):
            for s in range(lam.shape[1]):
                mu[i, s] = w[i, s] + inverse * lam[i, s]
    lam[:] = mu


@njit(**JIT)
def _slot_backward_shared(ticket, *arguments):
    return share(ticket, ranges(_slot_backward_cpu, arguments))


@njit(**PART)
def _slot_backward_cpu(first, last, worker, matrices, factors, series, lam, trajectory, gradient):
    """CPU twin of ``slot_backward`` for members ``first ... last``."""
    start, column, values = matrices
    for m in range(first, last):
        _backward((start, column, values[m]), factors, series, lam[m], trajectory[m], gradient[m])


@njit(**PART)
def _backward(matrices, factors, series, lam, trajectory, gradient):
    """Carry the costate lam (D, 2 S) of one member back, and write its gradient (C, N)."""
    start, column, values = matrices
    tau, terms, parts = series
    slots = factors.shape[1]
    count = values.shape[1]
    re = np.empty(count)
    im = np.empty(count)
    outer_re = np.empty(count)
    outer_im = np.empty(count)
    mu = np.empty_like(lam)
    w = np.empty_like(lam)
    powers = np.empty((terms, lam.shape[0], lam.shape[1]))
    for n in range(slots - 1, -1, -1):
        _assemble(values, factors, n, tau, re, im)
        outer_re[:] = 0.0
        outer_im[:] = 0.0
        for part in range(parts - 1, -1, -1):
            powers[0] = trajectory[n * parts + part]
            _part_backward((start, column, re, im), terms, lam, powers, mu, w, (outer_re, outer_im))
        # one K serves all controls: dJ/df_c = 2 Re (tau sum_e K_e A_c,e)
        for c in range(factors.shape[0]):
            z = 0.0
            for e in range(count):
                z += outer_re[e] * values[c + 1, e].real - outer_im[e] * values[c + 1, e].imag
            gradient[c, n] = 2.0 * tau * z


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
        """Return the constants of the compilation for complex numbers of so many bytes."""
        return {"REAL": "float" if item == 8 else "double", "TEAM": self.threads // self.teams}


def fits(pattern: Pattern, columns: int, item: int = 16) -> bool:
    """Return True if a block of the CUDA kernels has room for such a system in complex numbers of `item` bytes."""
    pitch = _group(pattern.rows, columns)[1]
    return _shared(pattern, pitch, _team(pattern.rows, pitch), item) <= SHARED_BYTES


def _group(rows: int, columns: int) -> tuple[int, int]:
    """Return the columns of a group, and their pitch."""
    most = max(1, ELEMENTS // rows)
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
