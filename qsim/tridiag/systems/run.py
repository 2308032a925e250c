"""`task: solve`: from the deck's system to its solution, in memory or block by block."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from qsim.core.device.parallel import agreed, first
from qsim.core.run.loop import Progress, drive
from qsim.core.run.stops.aside import aside
from qsim.tridiag.deck.model import FileSystem
from qsim.tridiag.solver.systems import ArraySource, Share, is_random
from qsim.tridiag.systems.build import FREE_SHARE, STORED, block_findings, bytes_in_memory, streamable
from qsim.tridiag.systems.result import (
    CHECKS,
    CHUNK,
    NAMES,
    NO_CHECKS,
    PROFILE,
    Solved,
    SolveResult,
    beside,
    checks_of,
    full_shape,
    profile_of,
)
from qsim.tridiag.systems.sources import dtype_of, generator, located

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.device import Array, Device
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.solver.stream import Streamed
    from qsim.tridiag.solver.systems import BatchSource
    from qsim.tridiag.systems.problem import SolveProblem

__all__ = ["run_solve"]

T = TypeVar("T")


def run_solve(problem: SolveProblem, monitor: Monitor) -> SolveResult:
    """Solve the system of the deck."""
    device = problem.device
    with ExitStack() as stack:
        with monitor.stage("open"):
            source = agreed(monitor.comm, partial(_opened, problem, stack))
        if monitor.comm.size > 1:
            # only several ranks load the kernels of shared rows
            from qsim.tridiag.systems.shared import shared

            found = shared(problem, source, monitor, _limit(problem), partial(_solved, problem))
            # what ranks cannot share (pivoting, other scales) is solved whole by the first of them
            result = _by_first(problem, source, monitor) if found is None else found
        else:
            with located(problem):
                result = _by_one(problem, source, monitor)
    for text in result.notes:
        monitor.warn(text)
    monitor.note(f"backward error {result.info['backward_error']:.2g} by {result.info['algorithm']}")
    # kernels still in flight belong to the time of the run
    if device.is_cuda:
        device.synchronize()
    return result


def _by_one(problem: SolveProblem, source: BatchSource, monitor: Monitor) -> SolveResult:
    """Solve on one rank: in memory, or block by block what does not fit."""
    solver = problem.solver
    # what the deck allows or the machine has free decides: in memory is faster and pivots any row
    need = bytes_in_memory(source.n, source.columns, source.dtype.itemsize)
    limit = _limit(problem)
    if not streamable(solver) or need <= limit:
        return _in_memory(problem, source, monitor)
    if problem.system.corners is not None:
        problem.blame("system.corners", "a cyclic system is not solved block by block; raise solver.memory")
    monitor.note(f"{need / 1e9:.3g} GB in memory would exceed {limit / 1e9:.3g} GB: solved block by block")
    if solver.blocks != "auto" or solver.iterations != "auto":
        monitor.warn(
            "solver.blocks and solver.iterations do not count where a system is solved block by block"
        )
    return _streamed(problem, source, int(limit), monitor)


def _by_first(problem: SolveProblem, source: BatchSource, monitor: Monitor) -> SolveResult:
    """Solve on rank 0 what shares did not; the solution stays there."""
    kept: list[SolveResult] = []

    def solve() -> SolveResult:
        with located(problem):
            kept.append(_by_one(problem, source, monitor))
        # other ranks get the numbers of the result, but not a copy of x
        return replace(kept[0], x=None)

    with monitor.alone():
        outcome = first(monitor.comm, solve)
    return kept[0] if kept else outcome


def _opened(problem: SolveProblem, stack: ExitStack) -> BatchSource:
    """Return the system of the deck, or raise what is wrong with it at its place."""
    with located(problem):
        return _source(problem, stack)


def _source(problem: SolveProblem, stack: ExitStack) -> BatchSource:
    """Return the system of the deck; files stay open as long as `stack`."""
    block, precision = problem.system, problem.precision
    if not isinstance(block, FileSystem):
        return generator(block, precision, problem.seed)
    from qsim.tridiag.solver.readers import open_system

    source = stack.enter_context(open_system(block.file, block.rhs)).source
    # the deck's precision, not the file's: blocks are converted as they are read
    source.dtype = dtype_of(precision, "complex" if source.dtype.kind == "c" else "real")
    # only now is it known how many rows the file has
    for finding in block_findings(problem.solver, source.n // source.batch):
        if finding.severity == "error":
            problem.blame(finding.key, finding.message)
    return source


def _limit(problem: SolveProblem) -> float:
    """Return the bytes that a system in memory may take."""
    memory = problem.solver.memory
    if memory != "auto":
        return float(memory)
    free = problem.device.free_memory()
    return FREE_SHARE * free if free else float("inf")


def _in_memory(problem: SolveProblem, source: BatchSource, monitor: Monitor) -> SolveResult:
    """Solve in memory and put the solution into the result, or into a file beside it."""
    solved = _solved(problem, source, monitor)
    flat, info, notes = solved.x, solved.info, solved.notes
    stored = None
    if flat.size <= STORED:
        stored = flat.reshape(full_shape(source))
    else:
        notes += _write_beside(flat, info, monitor)
    rows = source.n // source.batch
    return SolveResult(
        stored,
        info,
        source.name,
        str(np.dtype(source.dtype)),
        rows,
        source.batch,
        source.columns,
        solved.seconds,
        solved.checks,
        solved.profile,
        notes=notes,
    )


def _solved(
    problem: SolveProblem, source: BatchSource, monitor: Monitor, low: int = 0, whole: int | None = None
) -> Solved:
    """Solve in memory; of systems `low ..` of a larger batch, which has `whole` rows in all, if that is given."""
    from qsim.core.device.device import cpu
    from qsim.tridiag.solver.robustness.defect import Defect
    from qsim.tridiag.solver.solve import solve

    solver, device, batch = problem.solver, problem.device, source.batch
    # libraries and the sequential method run on the host alone
    serial = solver.type != "nshape"
    where = cpu(device.threads) if serial else device
    with monitor.stage("make"), where.use():
        a, b, c, d = _heard(partial(_made, source, where), where, monitor)
        rows = source.n // batch
        corners = _corners(problem, source)
        if corners is not None:
            b, c = b.copy(), c.copy()
            # systems of files are still on the host
            home = np if isinstance(b, np.ndarray) else where.xp
            b[::rows] = home.asarray(corners[0])
            c[rows - 1 :: rows] = home.asarray(corners[1])
        # systems of a batch apart, else one long system without couplings
        alone = batch > 1 and source.columns == 1
        a2, b2, c2 = (part.reshape(batch, rows) if alone else part for part in (a, b, c))
        right = d.T if source.columns > 1 else d.reshape(a2.shape)
    options: dict[str, Any] = {
        "type": solver.type,
        "blocks": solver.blocks,
        "iterations": solver.iterations,
        "device": where,
        "on_unstable": solver.on_unstable,
        "on_singular": solver.on_singular,
        "tolerance": solver.tolerance,
    }
    # a small system first: compilation is not part of the time of the solution
    with monitor.stage("compile"):
        _warm_up(options, source.dtype, alone, where)
    work = (
        partial(solve, a2, b2, c2, right, **options)
        if corners is None
        else partial(_solve_cyclic, a, b, c, d, rows, options)
    )
    with monitor.stage("solve"):
        found = _heard(work, where, monitor, "systems" if batch == 1 else "batches")

    def analysed() -> tuple[NDArray[Any], Any, Any]:
        x = where.to_host(found.x)
        flat = np.ascontiguousarray(x.reshape(source.n) if source.columns == 1 else x)
        parts = [where.to_host(part) for part in (a, b, c, d)]
        # residuals are formed on the host, block by block, from the arrays as they were given
        host = _Arrays(source, parts if corners is None else _without_corners(parts, flat, rows))
        defect = Defect(host, flat)
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # products and squares of numbers above 1e154 are infinite
            profile = monitor.judged(
                PROFILE, lambda: profile_of(lambda lo, hi: defect.read(lo, hi)[3], flat, low, whole), None
            )
            checks = monitor.judged(CHECKS, lambda: checks_of(flat, low, whole), NO_CHECKS)
        return flat, profile, checks

    with monitor.stage("analyse"):
        flat, profile, checks = _heard(analysed, where, monitor)
    info = {name: getattr(found, name) for name in (*NAMES, "equilibrated")}
    return Solved(flat, info, found.seconds, checks, profile, list(found.notes))


class _Whole(Generic[T]):
    """Work in memory, which cannot be continued; on a CPU a stop is heard beside it."""

    def __init__(self, work: Callable[[], T], where: Device, counted: bool) -> None:
        self.work, self.where, self.counted = work, where, counted

    def advance(self, report: Report) -> None:
        """Do it."""
        if self.where.is_cuda:
            # the device of a thread is its own
            self.found = self.work()
        else:
            self.found = aside(self.work, lambda: report(Progress(savable=False)))
        report(Progress(1 if self.counted else None, savable=False))

    def state(self) -> State:
        """Return nothing: it is not continued."""
        return {}


def _heard(work: Callable[[], T], where: Device, monitor: Monitor, unit: str = "") -> T:
    """Return what some work returns; a stop is heard meanwhile. It is counted as progress where it has a unit."""
    whole = _Whole(work, where, bool(unit))
    drive(whole, monitor, total=1 if unit else None, unit=unit or "rows", what="solve")
    return whole.found


class _StreamedSolution:
    """A solution block by block, which can be interrupted but not continued."""

    def __init__(self, work: Callable[..., Streamed]) -> None:
        self.work = work

    def advance(self, report: Report) -> None:
        """Solve block by block."""
        self.found = self.work(progress=lambda done, _total: report(Progress(done, savable=False)))

    def state(self) -> State:
        """Return nothing: a solution is not continued."""
        return {}


def _corners(problem: SolveProblem, source: BatchSource) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return T(0, n-1) and T(n-1, 0), one number or one of each system; None for a system that is not cyclic."""
    corners = problem.system.corners
    if corners is None:
        return None
    if corners == "file":
        # a file
        assert isinstance(source, ArraySource | Share)
        pair = source.corners()
        if pair is None:
            problem.blame("system.corners", "the file has no entries for them: b and c need n entries each")
        return np.asarray(pair[0], source.dtype), np.asarray(pair[1], source.dtype)
    # numbers of the deck hold for all systems of a batch
    numbers = np.array(corners, complex)
    if source.dtype.kind != "c" and np.any(numbers.imag):
        problem.blame("system.corners", "the system is real; its corners must be, too")
    numbers = numbers if source.dtype.kind == "c" else numbers.real
    return numbers[:1].astype(source.dtype), numbers[1:].astype(source.dtype)


def _solve_cyclic(a: Array, b: Array, c: Array, d: Array, rows: int, options: dict[str, Any]) -> Any:
    """Solve cyclic systems that lie one after another, d (columns, n); x is (n,) or (n, columns)."""
    from qsim.core.device.device import namespace
    from qsim.tridiag.solver.cyclic import joined
    from qsim.tridiag.solver.solve import solve

    parts = []
    for low in range(0, a.shape[0], rows):
        # one after another: a correction of rank 1 and its refinement belong to one matrix
        part = slice(low, low + rows)
        parts.append(solve(a[part], b[part], c[part], d[:, part].T, cyclic=True, **options))
    x = namespace(parts[0].x).concatenate([part.x for part in parts])
    return joined(parts, x[:, 0] if x.shape[1] == 1 else x)


def _without_corners(parts: list[Any], x: NDArray[Any], rows: int) -> list[Any]:
    """Return the tridiagonal part of cyclic systems with right-hand sides that give it the same residual."""
    a, b, c, d = (part.copy() for part in parts)
    columns = x.reshape(x.shape[0], -1).T
    # T x = T' x + corners: the corners' products go to the right-hand side, since `Defect` knows tridiagonal rows
    d[:, ::rows] -= b[::rows] * columns[:, rows - 1 :: rows]
    d[:, rows - 1 :: rows] -= c[rows - 1 :: rows] * columns[:, ::rows]
    b[::rows] = 0
    c[rows - 1 :: rows] = 0
    return [a, b, c, d]


class _Arrays:
    """A source whose blocks have all been read."""

    def __init__(self, source: BatchSource, parts: list[Any]) -> None:
        self.n, self.columns, self.dtype, self.name = source.n, source.columns, source.dtype, source.name
        self._parts = parts

    def read(self, lo: int, hi: int) -> tuple[Any, Any, Any, Any]:
        """Return the rows lo .. hi - 1."""
        a, b, c, d = (part[..., lo:hi] for part in self._parts)
        return a, b, c, d


def _made(source: BatchSource, device: Device) -> tuple[Any, Any, Any, Any]:
    """Return the whole system, whose numbers are finite."""
    parts = _whole(source, device)
    # files and CPUs; a random system that was made on a GPU is finite, and stays there
    if not (device.is_cuda and is_random(source)):
        _require_finite(*parts)
    return parts


def _whole(source: BatchSource, device: Device) -> tuple[Any, Any, Any, Any]:
    """Return the whole system; a random one is made on the device that needs it."""
    if not (device.is_cuda and is_random(source)):
        return source.read(0, source.n)
    a, b, c = (device.xp.empty(source.n, source.dtype) for _ in range(3))
    d = device.xp.empty((source.columns, source.n), source.dtype)
    filled: Any = source
    filled.fill(device, 0, a, b, c, d)
    return a, b, c, d


def _require_finite(*arrays: Any) -> None:
    for letter, array in zip("abcd", arrays, strict=True):
        for lo in range(0, array.shape[-1], CHUNK):
            # by chunks: the mask of a whole array would need memory of its own
            good = np.isfinite(array[..., lo : lo + CHUNK])
            if not good.all():
                row = lo + int(np.unravel_index(int(np.argmin(good)), good.shape)[-1])
                raise ValueError(f"{letter}[{row}] is not finite; all elements must be finite")


def _warm_up(options: dict[str, Any], dtype: np.dtype[Any], alone: bool, device: Device) -> None:
    """Solve something small first: compilation is not part of the time of the solution."""
    # (1, 4, 1) is diagonally dominant: no rung of the ladder is climbed, nor compiled
    n = 64
    arrays = [np.full(n, value, dtype) for value in (4.0, 1.0, 1.0, 1.0)]
    if alone:
        arrays = [np.stack([array, array]) for array in arrays]
    # the same kernels: literal stages where the deck sets blocks; two levels call the same ones as more
    small = {
        **options,
        "blocks": "auto" if options["blocks"] == "auto" else 4,
        "device": device,
        "tolerance": None,
    }
    if options["iterations"] != "auto":
        small["iterations"] = min(2, options["iterations"])
    from qsim.tridiag.solver.solve import solve

    solve(*arrays, **small)


# ------------------------------------------------------------------------------------ block by block


def _streamed(problem: SolveProblem, source: BatchSource, limit: int, monitor: Monitor) -> SolveResult:
    """Solve block by block; x goes to the result, to a file beside it, or is reduced to its check sums."""
    from qsim.core.results.hdf5 import new_dataset
    from qsim.tridiag.solver.stream import solve_streamed
    from qsim.tridiag.solver.systems import RandomSource

    solver, device, batch = problem.solver, problem.device, source.batch
    # half of the limit unless the deck sets it: x and what the system buffers of files take memory, too
    budget = limit if solver.memory != "auto" else int(0.5 * limit)
    size = source.n * source.columns
    stored = size <= STORED and size * source.dtype.itemsize <= limit
    with ExitStack() as stack:
        out, path, notes = None, None, []
        shape = (source.n,) if source.columns == 1 else (source.n, source.columns)
        # x in memory where it is small, else on disk block by block, else nowhere: its check sums are known in any case
        if stored:
            out = np.empty(shape, source.dtype)
        else:
            path, text = beside(monitor, size * source.dtype.itemsize)
            if path is not None:
                out = stack.enter_context(new_dataset(path, shape, source.dtype))
            else:
                notes.append(text)
        # a small system first: compilation is not part of the time of the solution
        with monitor.stage("compile"):
            small = RandomSource(256, dtype=source.dtype, columns=source.columns)
            solve_streamed(small, device=device)
        solution = _StreamedSolution(
            partial(
                solve_streamed,
                source,
                budget=budget,
                device=device,
                out=out,
                keep=out is not None,
                tolerance=solver.tolerance,
                on_unstable=solver.on_unstable,
            )
        )
        with monitor.stage("solve"):
            drive(solution, monitor, total=None, unit="blocks", what="solve")
        streamed = solution.found
    rows = source.n // batch
    info = {name: getattr(streamed, name) for name in (*NAMES, "block_rows", "largest_read", "pieces")}
    info["pivoted_pieces"] = streamed.pivoted
    if path is not None:
        info["x_file"] = path.name
        monitor.note(f"solution written to {path}")
    return SolveResult(
        streamed.x.reshape(full_shape(source)) if stored else None,
        info,
        source.name,
        str(np.dtype(source.dtype)),
        rows,
        batch,
        source.columns,
        streamed.seconds,
        streamed.checks,
        streamed.profile,
        notes=[*streamed.notes, *notes],
    )


def _write_beside(x: NDArray[Any], info: dict[str, Any], monitor: Monitor) -> list[str]:
    """Write a solution that was in memory into a file of its own; return what to tell."""
    from qsim.core.results.hdf5 import new_dataset

    path, text = beside(monitor, x.nbytes)
    if path is None:
        return [text]
    with new_dataset(path, x.shape, x.dtype) as out:
        for lo in range(0, len(x), CHUNK):
            out[lo : lo + CHUNK] = x[lo : lo + CHUNK]
    info["x_file"] = path.name
    monitor.note(f"solution written to {path}")
    return []
