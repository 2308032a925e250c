"""Systems larger than the memory: solved block by block, by the same N-shaped partition.

The joint lines are all that couples the blocks.  The first pass reads one block after another and reduces its pieces (a few
thousand rows) to their joint lines; the system of the joint lines, a thousandth of the whole, is solved with pivoting; the
second pass reads the blocks again, substitutes, measures the residual and writes x.  What is read next is read while the block
before is worked on; on a CUDA device copies in both directions overlap with the kernels, too.

Pieces with small pivots are reduced again with pivoting, and cut elsewhere if even that is not enough; a backward error above
the tolerance leads to refinement, which reads the solution back.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from qsim.core.device.device import cpu
from qsim.core.device.pool import each_part
from qsim.core.errors import MemoryLimitError, NumericsError
from qsim.tridiag.kernels.partition import streamed as kernel
from qsim.tridiag.kernels.partition.system import System
from qsim.tridiag.solver.batch import ROUGH
from qsim.tridiag.solver.ladder import WEAK_PIVOT
from qsim.tridiag.solver.pieces import Reduced, stubborn, substitute
from qsim.tridiag.solver.robustness.defect import Defect, largest_share, size
from qsim.tridiag.solver.slot import Slot

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Unpack

    from qsim.core.device.device import Array, Device
    from qsim.tridiag.solver.systems import Block, Source, Stored

__all__ = ["Streamed", "bytes_needed", "solve_streamed"]

PIECE = {
    "cpu": 4096,
    "cuda": 512,
}  # rows: five arrays of a piece stay in a core's cache; a thread's work on a GPU
# rows: larger blocks are not faster
LARGEST_BLOCK = 1 << 23
SMALLEST_BLOCK = 64
# blocks on a CUDA device at a time: one coming, one at work, one leaving
SLOTS = 3
REFINEMENTS = 2
# backward errors (double, single) that are no answer any more
GIVE_UP = 1e-8, 1e-3
TOLERANCE = {8: 1e-14, 4: 1e-6}
CHECK_ROWS = 1 << 16
PROFILE = 2000


@dataclass
class Streamed:
    """Solution of a streamed system.

    Attributes
    ----------
    x
        Where the solution was written, (n,) or (n, columns); None if it was not kept.
    residual, backward_error
        As in :class:`qsim.tridiag.solver.solution.Solution`.
    rowwise_error
        Largest ``|d - T x| / (|T| |x| + |d|)`` of a row.
    min_pivot
        Smallest relative pivot of elimination without pivoting.
    blocks, block_rows, largest_read
        Number of blocks, their rows, and rows of the largest one that was read.
    pieces, pivoted
        Number of joint lines, and of pieces that were solved with pivoting.
    checks : dict
        ``sum``, ``sum_abs2``, ``wsum`` (sum of x cos(0.1 i)), ``max_abs`` over all columns; ``first``, ``mid``, ``last``
        (rows 0, n // 2, n - 1 of the first column).
    profile : (rows, x, residual)
        Rows of some joint lines, the first column of x there, and the largest residual since the one before.
    """

    x: Any
    residual: float
    backward_error: float
    rowwise_error: float
    min_pivot: float
    refinements: int
    blocks: int
    block_rows: int
    largest_read: int
    pieces: int
    pivoted: int
    seconds: float
    checks: dict[str, complex | float]
    profile: tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64]]
    algorithm: str = "nshape-streamed"
    iterations: int = 1
    notes: list[str] = field(default_factory=list)


def bytes_needed(n: int, columns: int, dtype: DTypeLike) -> int:
    """Return the bytes of a system in memory: four arrays, the solution, the residual and a workspace."""
    return int(n) * (4 + 3 * columns) * np.dtype(dtype).itemsize


class Options(TypedDict, total=False):
    """Options of a solution block by block.

    Attributes
    ----------
    budget
        Bytes for the blocks; on a CPU in host memory, on a CUDA device there.  By default 0.4 of what is free.
    tolerance
        Backward error above which the solution is refined; by default 1e-14, in single precision 1e-6.
    on_unstable
        ``"error"`` refuses a piece with a relative pivot below 1e-3 instead of pivoting.
    piece
        Rows of a piece.
    """

    budget: int | None
    tolerance: float | None
    on_unstable: Literal["ladder", "error"]
    piece: int | None


@dataclass(frozen=True)
class _How:
    """The options with their defaults."""

    budget: int | None = None
    tolerance: float | None = None
    on_unstable: Literal["ladder", "error"] = "ladder"
    piece: int | None = None

    def limit(self, dtype: DTypeLike) -> float:
        """Return the backward error above which a solution is refined."""
        real = np.dtype(dtype).type(0).real.itemsize
        return TOLERANCE[real] if self.tolerance is None else self.tolerance


def solve_streamed(
    source: Source,
    *,
    device: Device | None = None,
    out: Stored | None = None,
    keep: bool = True,
    progress: Callable[[int, int], object] | None = None,
    **options: Unpack[Options],
) -> Streamed:
    """Solve a system block by block.

    Parameters
    ----------
    source
        The system; see :class:`qsim.tridiag.solver.systems.Source`.
    device
        Where to compute; by default the CPU.
    out
        Array, memory map or HDF5 dataset for x, (n,) or (n, columns); by default an array in memory.
    keep
        False: x is not kept, only its check sums.
    progress
        Called as ``progress(blocks_done, blocks_in_all)``, both passes counted.
    **options
        ``budget``, ``tolerance``, ``on_unstable`` and ``piece``; see :class:`Options`.

    Raises
    ------
    MemoryLimitError
        If the budget does not hold a block of useful size.
    ValueError
        If the system has a NaN or an infinity.
    SingularMatrixError, NumericsError
        If there is no accurate solution.
    """
    start = time.perf_counter()
    how = _How(**options)
    device = device or cpu()
    shape = (source.n,) if source.columns == 1 else (source.n, source.columns)
    if out is None and keep:
        out = np.empty(shape, source.dtype)
    if out is not None and tuple(out.shape) != shape:
        raise ValueError(f"the solution has shape {shape}, but the place for it has {tuple(out.shape)}")
    # without a place for x there is nothing to refine: only check sums are left of the solution
    rows = _block_rows(source, device, how.budget)
    stream = _Stream(source, device, rows, how, progress)
    stream.run(out, None)
    refinements = 0
    # refinement: the residual is a system of the same matrix, streamed and solved in the same way; its solution is added
    while (exceeding := _exceeding(stream, how)) and refinements < REFINEMENTS and out is not None:
        before = stream
        stream = _Stream(Defect(source, out), device, rows, how, progress)
        stream.run(out, before)
        # row by row the error of the sum counts, not of the correction: one more reading of both
        stream.rowwise = Defect(source, out).rowwise(min(stream.rows, CHECK_ROWS))
        refinements += 1
    _require_accurate(stream, exceeding)
    return Streamed(
        out,
        stream.residual,
        stream.backward,
        stream.rowwise,
        stream.min_pivot,
        refinements,
        stream.blocks,
        stream.rows,
        stream.largest_read,
        len(stream.lines.joint),
        stream.pivoted,
        time.perf_counter() - start,
        stream.checks(),
        stream.profile(),
        notes=_notes(stream, refinements, exceeding),
    )


def _exceeding(stream: _Stream, how: _How) -> list[tuple[str, float, float]]:
    """Return the backward errors, of the norms and of a row, that exceed their limits, with these."""
    limit = how.limit(stream.dtype)
    rows = max(limit, ROUGH * float(np.finfo(stream.dtype).eps))
    errors = (("", stream.backward, limit), (" of a row", stream.rowwise, rows))
    # a comparison with NaN is false, so a broken solution exceeds every limit
    return [one for one in errors if not one[1] <= one[2]]


def _require_accurate(stream: _Stream, exceeding: list[tuple[str, float, float]]) -> None:
    """Refuse a solution with a backward error far above its limit."""
    for what, error, limit in exceeding:
        most = max(GIVE_UP[stream.real.itemsize == 4], 10 * limit)
        if not error <= most:
            raise NumericsError(
                f"the backward error{what} {error:.2g} of the streamed solution exceeds {most:.0e}",
                hint="a system this close to a singular one, or this badly scaled, is solved in memory: raise solver.memory",
            )


def _notes(stream: _Stream, refinements: int, exceeding: list[tuple[str, float, float]]) -> list[str]:
    """Return what was not done in the plain way."""
    notes = [
        f"backward error{what} {error:.2g} after {refinements} refinements, not {limit:.0e}"
        for what, error, limit in exceeding
    ]
    if stream.pivoted:
        notes.append(
            f"{stream.pivoted} of {len(stream.lines.joint)} pieces needed pivoting (smallest pivot {stream.min_pivot:.2g})"
        )
    return notes


def _block_rows(source: Source, device: Device, budget: int | None) -> int:
    """Return the rows of a block."""
    item, k = np.dtype(source.dtype).itemsize, source.columns
    # CPU: this block, the next one, x, workspace, and x of a refinement; CUDA: as many as there are slots
    # bytes of one row of everything that is held at once
    width = item * (SLOTS * (4 + 2 * k) if device.is_cuda else 2 * (3 + k) + 1 + 2 * k)
    available = budget if budget is not None else int(0.4 * (device.free_memory() or 10**9))
    rows = min(available // width, LARGEST_BLOCK, source.n)
    if rows < min(SMALLEST_BLOCK, source.n):
        raise MemoryLimitError(
            f"blocks of {SMALLEST_BLOCK} rows need {SMALLEST_BLOCK * width} bytes, but only {available} may be used",
            hint="raise solver.memory",
        )
    return max(1, int(rows))


class _Stream:
    """Two passes over a source."""

    def __init__(
        self,
        source: Source,
        device: Device,
        rows: int,
        how: _How,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        self.source, self.device, self.rows, self.strict = source, device, rows, how.on_unstable == "error"
        self.n, self.k, self.dtype = int(source.n), int(source.columns), np.dtype(source.dtype)
        # four pieces in a block at least: a block that is a single piece would leave the threads without work
        self.piece = max(1, min(how.piece or PIECE[device.kind], max(2, rows // 4)))
        self.blocks = -(-self.n // rows)
        self.real = self.dtype.type(0).real.dtype
        self.largest_read = self.pivoted = 0
        self.min_pivot = np.inf
        self._progress, self._done = progress, 0
        self._parts: list[Reduced] = []
        self._sums: list[NDArray[np.complex128]] = []
        self._residuals: list[NDArray[np.float64]] = []
        self._places: dict[str, complex] = {}
        self._carry: tuple[Any, ...] | None = None
        self._slots: list[Slot] = (
            [Slot(device, rows, self.k, self.dtype) for _ in range(SLOTS)] if device.is_cuda else []
        )

    # ------------------------------------------------------------------------------------------ passes

    def run(self, out: Stored | None, corrected: _Stream | None) -> None:
        """Solve; `corrected` is the stream whose solution in `out` this one's is added to."""
        with self.device.use(), ThreadPoolExecutor(1, thread_name_prefix="tridiag-read") as reader:
            # first pass: every piece to its joint line; then the system of the joint lines; second pass: the interiors
            self._sweep(reader, self._reduce, self._reduced)
            self.lines = Reduced.join(self._parts)
            self.x = self.lines.solve()
            # number of the first joint line of each block
            self._first = np.cumsum([0, *(len(part.joint) for part in self._parts)])
            # joined: the parts would double the memory of the joint lines
            self._parts = []
            self._out, self._add = out, corrected is not None
            self._norms = np.zeros((self.k, 4))
            self._matrix = 0.0
            self._sweep(reader, self._substitute, self._substituted)
            # their memory is needed by a refinement
            self._slots = []
        # the correction leaves the residual of the corrected solution
        if corrected is not None:
            self._norms[:, 2] = corrected._norms[:, 2]
            self.x = self.x + corrected.x
            self.min_pivot = corrected.min_pivot
        self.residual = float(self._norms[:, 0].max())
        # normwise backward error of every right-hand side; 0 / 0 is exact
        rmax, xmax, dmax, share = self._norms.T
        with np.errstate(all="ignore"):
            backward = np.where(rmax == 0.0, 0.0, rmax / (self._matrix * xmax + dmax))
        self.backward = float(np.where(np.isnan(backward), np.inf, backward).max())
        # of the correction, where this is one
        self.rowwise = float(share.max())

    def _bounds(self, w: int) -> tuple[int, int]:
        return w * self.rows, min(self.n, (w + 1) * self.rows)

    def _read(self, w: int) -> Any:
        lo, hi = self._bounds(w)
        self.largest_read = max(self.largest_read, hi - lo)
        return self.source.read(lo, hi)

    def _sweep(self, reader: ThreadPoolExecutor, begin: Callable[..., Any], end: Callable[..., None]) -> None:
        """Call ``begin(w, arrays, slot)`` and ``end(w, arrays, slot, begun)`` for every block, reading ahead."""
        made_there = bool(self._slots) and hasattr(self.source, "fill")
        # a thread reads the next block while this one is computed; systems that the device can make are never read
        ahead = None if made_there else reader.submit(self._read, 0)
        pending: deque[tuple[Any, ...]] = deque()
        for w in range(self.blocks):
            slot = self._slots[w % SLOTS] if self._slots else None
            # on a GPU, blocks are in flight in a few slots: copies of one overlap with kernels of another
            if len(pending) == len(self._slots) and pending:
                self._end(pending.popleft(), end)
            host = ahead.result() if ahead is not None else None
            if ahead is not None and w + 1 < self.blocks:
                ahead = reader.submit(self._read, w + 1)
            with slot.stream if slot is not None else nullcontext():
                arrays = host if slot is None else self._on_device(w, slot, host)
                pending.append((w, arrays, slot, begin(w, arrays, slot)))
            if slot is None:
                self._end(pending.popleft(), end)
        while pending:
            self._end(pending.popleft(), end)

    def _on_device(self, w: int, slot: Slot, host: Block | None) -> list[Array]:
        """Return a block on the device: copied there, or made there if there is none on the host."""
        lo, hi = self._bounds(w)
        arrays = slot.arrays(hi - lo)
        if host is not None:
            slot.upload(host)
        else:
            self.largest_read = max(self.largest_read, hi - lo)
            # one that can `fill`
            source: Any = self.source
            source.fill(self.device, lo, *arrays)
        return arrays

    def _end(self, block: tuple[Any, ...], end: Callable[..., None]) -> None:
        slot = block[2]
        context: AbstractContextManager[Any] = slot.stream if slot is not None else nullcontext()
        with context:
            if slot is not None:
                # copies back from the device have arrived, and the slot is free for another block
                slot.stream.synchronize()
            end(*block)
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, 2 * self.blocks)

    # ---------------------------------------------------------------------------------- first pass

    def _reduce(self, w: int, arrays: Block, slot: Slot | None) -> Any:
        """Reduce the pieces of a block, on the device; nothing is waited for."""
        a, b, c, d = arrays
        xp, pieces = self.device.xp, -(-len(a) // self.piece)
        # the last piece of a block may be shorter; its last row is a joint line as well
        edges = np.minimum(np.arange(pieces + 1, dtype=np.int64) * self.piece, len(a))
        links = xp.empty((pieces, 4), self.dtype)
        loads = xp.empty((self.k, pieces, 2), self.dtype)
        pivots = xp.empty(pieces, self.real)
        there = self.device.asarray(edges)
        kernel.reduce_pieces(self.device, there, a, b, c, d, links, loads, pivots)
        # the equations of the joint lines as they stand: `Reduced.solve` adds what the interiors say
        last = there[1:] - 1
        return edges, pivots, links, loads, a[last], b[last], c[last], d[:, last]

    def _reduced(self, w: int, arrays: Block, slot: Slot | None, begun: tuple[Array, ...]) -> None:
        """Take a reduced block to the host, and reduce pieces with small pivots again.

        Raises
        ------
        ValueError
            If an element of the block is not finite.
        NumericsError
            If a piece needs pivoting, but the options refuse that.
        """
        lo, _hi = self._bounds(w)
        edges, *parts = begun
        pivots, *rest = (self.device.to_host(part) for part in parts)
        # a comparison with NaN is false: such a piece is weak, too
        weak = np.flatnonzero(~(pivots >= WEAK_PIVOT))
        if len(weak) or not all(np.isfinite(part).all() for part in rest):
            self._require_finite(lo, arrays)
        self.min_pivot = min(self.min_pivot, float(pivots.min()))
        links, loads, a, b, c, d = rest
        # links and loads as they came, without pivoting
        part = Reduced(edges[1:] - 1 + lo, links, loads, a, b, c, d, np.zeros(len(pivots), np.uint8))
        if self.strict and len(weak):
            first, last = (int(edges[weak[0] + i]) + lo for i in (0, 1))
            raise NumericsError(
                f"rows {first} to {last - 1} have a relative pivot of {pivots[weak[0]]:.2g}, below {WEAK_PIVOT:g}",
                hint="solver.on_unstable: ladder solves them with pivoting",
            )
        if len(weak):
            changed = {}
            for p in weak.tolist():
                rows = slice(int(edges[p]), int(edges[p + 1]))
                a, b, c, d = self._host(arrays, rows)
                # a piece that needs pivoting is reduced on the host, with its rows alone
                changed[p] = stubborn(lo + rows.start, a, b, c, d)
            part = part.replace(changed)
            self.pivoted += int(part.pivoted.sum())
        self._parts.append(part)

    def _host(self, arrays: Block, rows: slice) -> list[NDArray[Any]]:
        return [self.device.to_host(part[..., rows]) for part in arrays]

    def _require_finite(self, lo: int, arrays: Block) -> None:
        """Name the first element of the block that is NaN or infinite."""
        for name, part in zip("abcd", arrays, strict=True):
            good = np.isfinite(self.device.to_host(part))
            if not good.all():
                place = np.unravel_index(int(np.argmin(good)), good.shape)
                row = lo + int(place[-1])
                column = f", {int(place[0])}" if self.k > 1 and name == "d" else ""
                raise ValueError(f"{name}[{row}{column}] is not finite; all elements must be finite")

    # --------------------------------------------------------------------------------- second pass

    def _substitute(self, w: int, arrays: Block, slot: Slot | None) -> Any:
        """Substitute the joint lines into a block, measure its residual, and start the copy of x to the host."""
        a, b, c, d = arrays
        lo, hi = self._bounds(w)
        xp, device, rows = self.device.xp, self.device, hi - lo
        # `Reduced.replace` may have cut pieces further, so edges follow from the joint lines, not from the piece length
        first, last = self._first[w : w + 2]
        joint, pivoted = self.lines.joint[first:last] - lo, self.lines.pivoted[first:last]
        edges = np.concatenate([[0], joint + 1]).astype(np.int64)
        right = np.ascontiguousarray(self.x[:, first:last])
        # x at the joint lines before and of each piece: that before the first piece belongs to the block before
        left = np.zeros_like(right)
        left[:, 1:] = right[:, :-1]
        if first > 0:
            left[:, 0] = self.x[:, first - 1]
        if slot is not None:
            x, work = slot.x(rows), slot.work[:rows]
        else:
            x, work = np.empty((self.k, rows), self.dtype), np.empty(rows, self.dtype)
        there = device.asarray(edges)
        sides = device.asarray(left), device.asarray(right)
        system = System(a, b, c, d)
        kernel.substitute_pieces(device, there, device.asarray(pivoted), system, sides, work, x)
        # pieces that were reduced with pivoting need it here, too; a piece of one row is its joint line alone
        for p in np.flatnonzero(pivoted).tolist():
            part = slice(int(edges[p]), int(edges[p + 1]))
            if part.stop - part.start > 1:
                here = self._host(arrays, part)
                inner = substitute(here[0], here[1], here[2], here[3], left[:, p], right[:, p])
                x[:, part.start : part.stop - 1] = device.asarray(inner)
        stats, sums = xp.empty((self.k, len(joint), 4), self.real), xp.empty(len(joint), self.real)
        # the residual of the last row needs x of the next block: it is formed there
        known = rows if hi == self.n else rows - 1
        before = device.asarray(np.ascontiguousarray(left[:, 0]))
        kernel.residual_pieces(device, known, there, system, x, before, stats, sums)
        if slot is not None:
            slot.download(rows)
        ends = [part[..., -1] for part in arrays]
        return x, stats, sums, ends

    def _substituted(self, w: int, arrays: Block, slot: Slot | None, begun: Any) -> None:
        """Add the norms of a block, write x, and keep what the last row's residual needs of the next block."""
        lo, hi = self._bounds(w)
        x, stats, sums, ends = begun
        stats, sums = self.device.to_host(stats).astype(float), self.device.to_host(sums)
        x = slot.fetched(hi - lo) if slot is not None else x
        # the last row of the block before waited for this block's first
        if self._carry is not None:
            previous, near = self._carry
            (a, b, c, d), own = previous, near[:, -1]
            r = d - b * near[:, 0] - a * own - c * x[:, 0]
            whole = size(d) + size(b) * size(near[:, 0]) + size(a) * size(own) + size(c) * size(x[:, 0])
            self._norms[:, 3] = np.maximum(self._norms[:, 3], largest_share(r, whole))
            r = size(r)
            self._norms[:, 0] = np.maximum(self._norms[:, 0], r)
            self._residuals[-1][-1] = max(self._residuals[-1][-1], float(r.max()))
        self._carry = None
        # keep the equation of the last row, with x there and in the row above
        if hi < self.n:
            before = 0 * x[:, 0]
            if hi - lo > 1:
                before = x[:, -2]
            elif w:
                before = self.x[:, self._first[w] - 1]
            self._carry = [self.device.to_host(part) for part in ends], np.stack([before, x[:, -1]], 1)
        self._residuals.append(stats[:, :, 0].max(0))
        self._matrix = max(self._matrix, float(sums.max()))
        if self._out is not None:
            # a refinement adds its correction to what was written before; norms of x and check sums are taken of the sum
            target = x[0] if len(self._out.shape) == 1 else x.T
            if self._add:
                target = np.asarray(self._out[lo:hi]) + target
                x = target.reshape(-1, self.k).T
                stats[:, :, 1] = (np.abs(x.real) + np.abs(x.imag)).max(1)[:, None]
            self._out[lo:hi] = target
        self._norms = np.maximum(self._norms, stats.max(1))
        self._check(lo, hi, x)

    # ------------------------------------------------------------------------------------- results

    def _check(self, lo: int, hi: int, x: NDArray[Any]) -> None:
        # parts have a fixed length: sums have the same bits for any number of threads
        parts = -(-(hi - lo) // CHECK_ROWS)
        for column in x:
            sums = np.empty((parts, 4), complex)
            values = np.ascontiguousarray(column)

            def work(first: int, last: int, values: NDArray[Any] = values, sums: NDArray[Any] = sums) -> None:
                kernel.checksum_rows(first, last, CHECK_ROWS, values, lo, sums)

            each_part(work, parts, hi - lo, self.device.threads)
            self._sums.append(np.array([*sums[:, :3].sum(0), sums[:, 3].real.max()]))
        # rows that every run of a system reports, wherever its blocks begin
        for name, row in (("first", 0), ("mid", self.n // 2), ("last", self.n - 1)):
            if lo <= row < hi:
                self._places[name] = x[0, row - lo].item()

    def checks(self) -> dict[str, complex | float]:
        """Return the check sums of the solution."""
        sums = np.array(self._sums)
        total, square, weighted = sums[:, :3].sum(0)
        kind: Callable[[Any], Any] = complex if self.dtype.kind == "c" else (lambda z: float(z.real))
        checksums = {"sum": kind(total), "sum_abs2": float(square.real), "wsum": kind(weighted)}
        return {**checksums, **self._places, "max_abs": float(sums[:, 3].real.max())}

    def profile(self) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64]]:
        """Return rows, x and residuals at some joint lines."""
        # decimated: of each group of joint lines the last one, with the largest residual of all
        residual, joint = np.concatenate(self._residuals), self.lines.joint
        step = -(-len(joint) // PROFILE)
        first = np.arange(0, len(joint), step)
        last = np.minimum(first + step, len(joint)) - 1
        return joint[last], self.x[0, last], np.maximum.reduceat(residual, first)
