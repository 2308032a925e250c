"""`task: solve`: from the deck's system to its solution, in memory or block by block."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress, drive
from qsim.tridiag.deck.model import FileSystem
from qsim.tridiag.solver.systems import ArraySource, RandomSource
from qsim.tridiag.tasks.solve_plan import FREE_SHARE, STORED, block_findings, bytes_in_memory, streamable
from qsim.tridiag.tasks.solve_result import CHUNK, NAMES, SolveResult, checks_of, profile_of
from qsim.tridiag.tasks.solve_sources import dtype_of, generator, located

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.device import Array, Device
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.problem import SolveProblem
    from qsim.tridiag.solver.solution import Solution
    from qsim.tridiag.solver.stream import Streamed
    from qsim.tridiag.solver.systems import BatchSource

__all__ = ["run_solve"]


def run_solve(problem: SolveProblem, monitor: Monitor) -> SolveResult:
    """Solve the system of the deck."""
    solver, device = problem.solver, problem.device
    with ExitStack() as stack:
        stack.enter_context(located(problem))
        with monitor.stage("open"):
            source = _source(problem, stack)
        need = bytes_in_memory(source.n, source.columns, source.dtype.itemsize)
        limit = _limit(problem)
        if streamable(solver) and need > limit:
            if problem.system.corners is not None:
                problem.blame(
                    "system.corners", "a cyclic system is not solved block by block; raise solver.memory"
                )
            monitor.note(
                f"{need / 1e9:.3g} GB in memory would exceed {limit / 1e9:.3g} GB: solved block by block"
            )
            if solver.blocks != "auto" or solver.iterations != "auto":
                monitor.warn(
                    "solver.blocks and solver.iterations do not count where a system is solved block by block"
                )
            result = _streamed(problem, source, int(limit), monitor)
        else:
            result = _in_memory(problem, source, monitor)
    for text in result.notes:
        monitor.warn(text)
    monitor.note(f"backward error {result.info['backward_error']:.2g} by {result.info['algorithm']}")
    if device.is_cuda:
        device.synchronize()
    return result


def _source(problem: SolveProblem, stack: ExitStack) -> BatchSource:
    """Return the system of the deck; files stay open as long as `stack`."""
    block, precision = problem.system, problem.precision
    if not isinstance(block, FileSystem):
        return generator(block, precision, problem.seed)
    from qsim.tridiag.solver.readers import open_system

    source = stack.enter_context(open_system(block.file, block.rhs)).source
    source.dtype = dtype_of(precision, "complex" if source.dtype.kind == "c" else "real")
    for finding in block_findings(problem.solver, source.n // source.batch):
        if finding.severity == "error":
            problem.blame(finding.key, finding.message)
    return source


def _limit(problem: SolveProblem) -> float:
    """Return the bytes that a system in memory may take."""
    asked = problem.solver.memory
    if asked != "auto":
        return float(asked)
    free = problem.device.free_memory()
    return FREE_SHARE * free if free else float("inf")


def _in_memory(problem: SolveProblem, source: BatchSource, monitor: Monitor) -> SolveResult:
    from qsim.core.device.device import cpu
    from qsim.tridiag.solver.defect import Defect
    from qsim.tridiag.solver.solve import solve

    solver, device, batch = problem.solver, problem.device, source.batch
    serial = solver.type != "nshape"
    where = cpu(device.threads) if serial else device
    with monitor.stage("make"), where.use():
        a, b, c, d = _whole(source, where)
        if not (where.is_cuda and isinstance(source, RandomSource)):
            _require_finite(a, b, c, d)
        rows = source.n // batch
        corners = _corners(problem, source)
        if corners is not None:
            b, c = b.copy(), c.copy()
            home = np if isinstance(b, np.ndarray) else where.xp  # systems of files are still on the host
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
        "tolerance": solver.tolerance,
    }
    with monitor.stage("compile"):
        _warm_up(options, source.dtype, alone, where)
    if corners is None:
        solution = _Solution(partial(solve, a2, b2, c2, right, **options))
    else:
        solution = _Solution(partial(_solve_cyclic, a, b, c, d, rows, options))
    with monitor.stage("solve"):
        drive(solution, monitor, total=1, unit="systems" if batch == 1 else "batches", what="solve")
    found = solution.found
    with monitor.stage("analyse"):
        x = where.to_host(found.x)
        flat = np.ascontiguousarray(x.reshape(source.n) if source.columns == 1 else x)
        parts = [where.to_host(part) for part in (a, b, c, d)]
        host = _Arrays(source, parts if corners is None else _without_corners(parts, flat, rows))
        defect = Defect(host, flat)
        profile = profile_of(defect, flat)
        rowwise = defect.rowwise() if corners is None else _rowwise_cyclic(parts, flat, rows)
        with np.errstate(over="ignore"):  # squares of numbers above 1e154 are infinite
            checks = checks_of(flat)
    shape = {(False, False): (rows,), (False, True): (rows, source.columns), (True, False): (batch, rows)}
    full = shape.get((batch > 1, source.columns > 1), (batch, rows, source.columns))
    names = (*NAMES, "equilibrated")
    stored = flat.reshape(full) if flat.size <= STORED else None
    notes = list(found.notes)
    info = {name: getattr(found, name) for name in names} | {"rowwise_error": rowwise}
    if stored is None:
        notes += _write_beside(flat, info, monitor)
    return SolveResult(
        stored,
        info,
        source.name,
        str(np.dtype(source.dtype)),
        rows,
        batch,
        source.columns,
        found.seconds,
        checks,
        profile,
        notes=notes,
    )


class _Solution:
    """A solution in memory, which cannot be interrupted."""

    def __init__(self, work: Callable[[], Solution]) -> None:
        self.work = work

    def advance(self, report: Report) -> None:
        """Solve."""
        self.found = self.work()
        report(Progress(1, savable=False))

    def state(self) -> State:
        """Return nothing: a solution is not continued."""
        return {}


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
    asked = problem.system.corners
    if asked is None:
        return None
    if asked == "file":
        assert isinstance(source, ArraySource)  # a file
        pair = source.corners()
        if pair is None:
            problem.blame("system.corners", "the file has no entries for them: b and c need n entries each")
        return np.asarray(pair[0], source.dtype), np.asarray(pair[1], source.dtype)
    numbers = np.array(asked, complex)
    if source.dtype.kind != "c" and np.any(numbers.imag):
        problem.blame("system.corners", "the system is real; its corners must be, too")
    numbers = numbers if source.dtype.kind == "c" else numbers.real
    return numbers[:1].astype(source.dtype), numbers[1:].astype(source.dtype)


def _solve_cyclic(a: Array, b: Array, c: Array, d: Array, rows: int, options: dict[str, Any]) -> Any:
    """Solve cyclic systems that lie one after another, d (columns, n); x is (n,) or (n, columns)."""
    from qsim.core.device.device import namespace
    from qsim.tridiag.solver.solve import solve

    parts = []
    for low in range(0, a.shape[0], rows):
        part = slice(low, low + rows)
        parts.append(solve(a[part], b[part], c[part], d[:, part].T, cyclic=True, **options))
    x = namespace(parts[0].x).concatenate([part.x for part in parts])
    return replace(
        max(parts, key=lambda part: part.backward_error),
        x=x[:, 0] if x.shape[1] == 1 else x,
        residual=max(part.residual for part in parts),
        min_pivot=min(part.min_pivot for part in parts),
        refinements=max(part.refinements for part in parts),
        seconds=sum(part.seconds for part in parts),
        notes=list(dict.fromkeys(note for part in parts for note in part.notes)),
        equilibrated=any(part.equilibrated for part in parts),
    )


def _without_corners(parts: list[Any], x: NDArray[Any], rows: int) -> list[Any]:
    """Return the tridiagonal part of cyclic systems with right-hand sides that give it the same residual."""
    a, b, c, d = (part.copy() for part in parts)
    columns = x.reshape(x.shape[0], -1).T
    d[:, ::rows] -= b[::rows] * columns[:, rows - 1 :: rows]
    d[:, rows - 1 :: rows] -= c[rows - 1 :: rows] * columns[:, ::rows]
    b[::rows] = 0
    c[rows - 1 :: rows] = 0
    return [a, b, c, d]


def _rowwise_cyclic(parts: list[Any], x: NDArray[Any], rows: int) -> float:
    """Return the row-wise backward error of cyclic systems that lie one after another."""
    from qsim.tridiag.solver.cyclic import Matrix

    a, b, c, d = parts
    columns = x.reshape(x.shape[0], -1)
    worst = 0.0
    for low in range(0, x.shape[0], rows):
        one = slice(low, low + rows)
        worst = max(worst, Matrix(a[one], b[one], c[one]).rowwise(columns[one], d[:, one].T))
    return worst


class _Arrays:
    """A source whose blocks have all been read."""

    def __init__(self, source: BatchSource, parts: list[Any]) -> None:
        self.n, self.columns, self.dtype, self.name = source.n, source.columns, source.dtype, source.name
        self._parts = parts

    def read(self, lo: int, hi: int) -> tuple[Any, Any, Any, Any]:
        """Return the rows lo .. hi - 1."""
        a, b, c, d = (part[..., lo:hi] for part in self._parts)
        return a, b, c, d


def _whole(source: BatchSource, device: Device) -> tuple[Any, Any, Any, Any]:
    """Return the whole system; a random one is made on the device that needs it."""
    if not (device.is_cuda and isinstance(source, RandomSource)):
        return source.read(0, source.n)
    a, b, c = (device.xp.empty(source.n, source.dtype) for _ in range(3))
    d = device.xp.empty((source.columns, source.n), source.dtype)
    source.fill(device, 0, a, b, c, d)
    return a, b, c, d


def _require_finite(*arrays: Any) -> None:
    for letter, array in zip("abcd", arrays, strict=True):
        for lo in range(0, array.shape[-1], CHUNK):
            good = np.isfinite(array[..., lo : lo + CHUNK])
            if not good.all():
                row = lo + int(np.unravel_index(int(np.argmin(good)), good.shape)[-1])
                raise ValueError(f"{letter}[{row}] is not finite; all elements must be finite")


def _warm_up(options: dict[str, Any], dtype: np.dtype[Any], alone: bool, device: Device) -> None:
    """Solve something small first, so that the time of the solution is not that of the compiler."""
    n = 64
    arrays = [np.full(n, value, dtype) for value in (4.0, 1.0, 1.0, 1.0)]
    if alone:
        arrays = [np.stack([array, array]) for array in arrays]
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
    from qsim.core.results.hdf5 import new_dataset
    from qsim.tridiag.solver.stream import solve_streamed
    from qsim.tridiag.solver.systems import RandomSource

    solver, device, batch = problem.solver, problem.device, source.batch
    budget = limit if solver.memory != "auto" else int(0.5 * limit)
    size = source.n * source.columns
    stored = size <= STORED and size * source.dtype.itemsize <= limit
    with ExitStack() as stack:
        out, path, notes = None, None, []
        shape = (source.n,) if source.columns == 1 else (source.n, source.columns)
        if stored:
            out = np.empty(shape, source.dtype)
        else:
            path, text = _beside(monitor, size * source.dtype.itemsize)
            if path is not None:
                out = stack.enter_context(new_dataset(path, shape, source.dtype))
            else:
                notes.append(text)
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
        found = solution.found
    rows = source.n // batch
    info = {
        name: getattr(found, name)
        for name in (*NAMES, "rowwise_error", "block_rows", "largest_read", "pieces")
    }
    info["pivoted_pieces"] = found.pivoted
    if path is not None:
        info["x_file"] = path.name
        monitor.note(f"solution written to {path}")
    columns = () if source.columns == 1 else (source.columns,)
    whole = (batch, rows, *columns) if batch > 1 else (rows, *columns)
    return SolveResult(
        found.x.reshape(whole) if stored else None,
        info,
        source.name,
        str(np.dtype(source.dtype)),
        rows,
        batch,
        source.columns,
        found.seconds,
        found.checks,
        found.profile,
        notes=[*found.notes, *notes],
    )


def _beside(monitor: Monitor, size: int) -> tuple[Path | None, str]:
    """Return the file for a solution that the results file does not hold, or why there is none."""
    if monitor.checkpoint is None:
        return None, "the solution is too large to be kept; only its check sums are"
    stem = monitor.checkpoint.name.removesuffix(".ckpt.h5")
    path = monitor.checkpoint.with_name(f"{stem}.x.h5")
    free = shutil.disk_usage(path.parent).free
    if size > 0.95 * free:
        text = f"the solution takes {size / 1e9:.3g} GB, but {path.parent} has {free / 1e9:.3g} GB free: only check sums are kept"
        return None, text
    return path, ""


def _write_beside(x: NDArray[Any], info: dict[str, Any], monitor: Monitor) -> list[str]:
    """Write a solution that was in memory into a file of its own; return what to tell."""
    from qsim.core.results.hdf5 import new_dataset

    path, text = _beside(monitor, x.nbytes)
    if path is None:
        return [text]
    with new_dataset(path, x.shape, x.dtype) as out:
        for lo in range(0, len(x), CHUNK):
            out[lo : lo + CHUNK] = x[lo : lo + CHUNK]
    info["x_file"] = path.name
    monitor.note(f"solution written to {path}")
    return []
