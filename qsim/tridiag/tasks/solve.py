"""`task: solve` and `task: scaling`: from the deck's system to its solution, in memory or block by block."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.errors import FileError, MemoryLimitError, NumericsError
from qsim.core.results.tables import Scalar, Table
from qsim.tridiag.tasks.solve_plan import FREE_SHARE, STORED, block_findings, bytes_in_memory, streamable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.tridiag.deck.model import TridiagDeck
    from qsim.tridiag.problem import Systems
    from qsim.tridiag.solver.stream import Streamed
    from qsim.tridiag.tasks.scaling import ScalingResult

__all__ = ["SolveResult", "run_scaling", "run_solve"]

PROFILE_POINTS = 2000
CHUNK = 1 << 18


@dataclass
class SolveResult:
    """What a solution leaves.

    Attributes
    ----------
    x
        Solution, (n,), (n, k), (batch, n) or (batch, n, k); None if it is too large to be kept.
    info : dict
        residual, backward_error, algorithm, blocks, iterations, min_pivot, refinements; streamed: block_rows, pieces, ...
    name, dtype : str
        The system and its number type.
    n, batch, columns : int
        Rows of a system, systems, right-hand sides of each.
    seconds : float
        Wall time of the solution, reading and writing of blocks included, reading of a whole file not.
    checks : dict
        ``sum``, ``sum_abs2``, ``wsum`` (sum of x cos(0.1 i)), ``first``, ``mid``, ``last``, ``max_abs``.
    profile : (rows, x, residual)
        Decimated: rows, the first column of x there, and the largest ``|d - T x|`` since the row before.
    """

    x: NDArray[Any] | None
    info: dict[str, Any]
    name: str
    dtype: str
    n: int
    batch: int
    columns: int
    seconds: float
    checks: dict[str, complex | float]
    profile: tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64]]
    notes: list[str] = field(default_factory=list)

    def tables(self) -> tuple[Table, ...]:
        """Return the declarations of the arrays."""
        dims = {
            (False, False): ("row",),
            (False, True): ("row", "column"),
            (True, False): ("system", "row"),
            (True, True): ("system", "row", "column"),
        }[self.batch > 1, self.columns > 1]
        if self.x is not None and self.x.ndim != len(
            dims
        ):  # one system or one column, with an axis of its own
            dims = ("system", "row") if self.x.shape[-1] == self.n else ("row", "column")
        return (
            Table("x", dims, "", "solution of T x = d"),
            Table(
                "profile_row",
                ("profile_row",),
                "",
                "rows of the profile",
                note="systems of a batch one after another",
            ),
            Table("profile_x", ("profile_row",), "", "solution in some rows", note="first column"),
            Table("profile_residual", ("profile_row",), "", "largest |d - T x| since the row before"),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the results file by name."""
        rows, x, residual = self.profile
        out: dict[str, NDArray[Any]] = {"profile_row": rows, "profile_x": x, "profile_residual": residual}
        if self.x is not None:
            out["x"] = self.x
        return out

    def scalars(self) -> dict[str, Scalar]:
        """Return the headline numbers."""
        unknowns = self.n * self.batch * self.columns
        out = {
            name: Scalar(self.info[name], description=description)
            for name, description in _INFO.items()
            if name in self.info
        }
        out |= {
            "solve_seconds": Scalar(self.seconds, "s", description="wall time of the solution"),
            "unknowns_per_second": Scalar(
                unknowns / max(self.seconds, 1e-12), "1/s", description="unknowns over wall time"
            ),
            "system": Scalar(self.name, description="what was solved"),
            "dtype": Scalar(self.dtype, description="number type of the solution"),
            "rows": Scalar(self.n, description="rows of a system"),
            "systems": Scalar(self.batch, description="number of systems"),
            "columns": Scalar(self.columns, description="right-hand sides of each system"),
        }
        for name, text in _CHECKS.items():
            value = self.checks[name]
            if isinstance(value, complex):
                out[f"x_{name}_real"] = Scalar(value.real, description=f"{text}, real part")
                out[f"x_{name}_imag"] = Scalar(value.imag, description=f"{text}, imaginary part")
            else:
                out[f"x_{name}"] = Scalar(float(value), description=text)
        return out


_NAMES = ("residual", "backward_error", "algorithm", "blocks", "iterations", "min_pivot", "refinements")
_INFO = {
    "residual": "largest |d - T x|, |z| = |Re z| + |Im z|",
    "backward_error": "largest normwise backward error max|d - T x| / (||T|| max|x| + max|d|)",
    "algorithm": "what solved the system",
    "blocks": "blocks of the partition",
    "iterations": "nested partitions",
    "min_pivot": "smallest pivot relative to its row, before any pivoting",
    "refinements": "number of refinements",
    "equilibrated": "rows and columns were scaled first; backward error and pivots are those of the scaled system",
    "block_rows": "rows of a block",
    "largest_read": "rows of the largest block read",
    "pieces": "joint lines",
    "pivoted_pieces": "pieces solved with pivoting",
    "x_file": "file of the solution",
}
_CHECKS = {
    "sum": "sum of x",
    "sum_abs2": "sum of |x|^2",
    "wsum": "sum of x cos(0.1 i), i the row",
    "first": "x in the first row",
    "mid": "x in row n/2",
    "last": "x in the last row",
    "max_abs": "largest |x|",
}


# ------------------------------------------------------------------------------------------- sources


def _dtype(deck: TridiagDeck, kind: str) -> np.dtype[Any]:
    single = deck.run.precision == "single"
    names = {"complex": ("complex128", "complex64"), "real": ("float64", "float32")}
    return np.dtype(names[kind][single])


def _generator(deck: TridiagDeck, block: Any, n: int | None = None) -> Any:
    """Return the source of a generated system, of n rows if given."""
    from qsim.tridiag.solver import systems

    seed = block.seed if block.seed is not None else deck.run.seed or 0
    rows = block.n if n is None else n
    if block.source == "random":
        batch, columns = (block.batch, block.rhs) if n is None else (1, 1)
        return systems.RandomSource(rows, seed, block.dominance, _dtype(deck, block.dtype), batch, columns)
    if block.source == "laplace":
        return systems.LaplaceSource(rows, seed, dtype=_dtype(deck, "real"))
    from qsim.tridiag.tdse import potentials

    def potential(x: NDArray[np.float64]) -> Any:
        return potentials.evaluate(block.potential, x, key="system.potential")

    dtype = _dtype(deck, "complex")
    return systems.CrankNicolsonSource(rows, block.dx, block.dt, potential, seed, dtype)


@contextmanager
def _located(problem: Systems) -> Iterator[None]:
    """Turn what only the solution finds out into an error at its place in the deck."""
    from qsim.core.errors import InvalidInput

    try:
        yield
    except InvalidInput as error:
        _blame(problem, error.key, str(error))
    except (NumericsError, MemoryError) as error:
        if not (file := _file_of(problem, "a")):
            raise
        kind = MemoryLimitError if isinstance(error, MemoryError) else NumericsError
        raise kind(f"{file}: {error}", hint=getattr(error, "hint", None)) from error
    except ValueError as error:
        text = str(error)
        if "finite" in text:
            if file := _file_of(problem, text[:1]):
                raise FileError(f"{file}: {text}") from error
            raise NumericsError(text) from error
        blocks = "scaling.blocks" if problem.deck.task == "scaling" else "solver.blocks"
        _blame(problem, blocks if "block" in text else "system", text)


def _file_of(problem: Systems, letter: str) -> str:
    """Return the file that holds an array of the system, a (diagonal) to d (right-hand side); empty if none does."""
    block: Any = problem.deck.system
    if problem.deck.task != "solve" or getattr(block, "source", "") != "file":
        return ""
    return str(block.rhs if letter == "d" and block.rhs is not None else block.file)


def _blame(problem: Systems, key: str, text: str) -> NoReturn:
    problem.loaded.raise_for([Finding(key, text)])
    raise NumericsError(text)  # raise_for has raised already


# --------------------------------------------------------------------------------------------- solve


def run_solve(problem: Systems, monitor: Monitor) -> SolveResult:
    """Solve the system of the deck."""
    deck, device = problem.deck, problem.device
    block: Any = deck.system
    with ExitStack() as stack:
        stack.enter_context(_located(problem))
        with monitor.stage("open"):
            if block.source == "file":
                from qsim.tridiag.solver.readers import open_system

                opened = stack.enter_context(open_system(block.file, block.rhs))
                source: Any = opened.source
                source.dtype = _dtype(deck, "complex" if source.dtype.kind == "c" else "real")
            else:
                source = _generator(deck, block)
        batch = int(getattr(source, "batch", 1))
        if block.source == "file":
            for finding in block_findings(deck, source.n // batch):
                if finding.severity == "error":
                    _blame(problem, finding.key, finding.message)
        need = bytes_in_memory(source.n, source.columns, source.dtype.itemsize)
        limit = _limit(problem)
        if streamable(deck) and need > limit:
            if getattr(block, "corners", None) is not None:
                _blame(
                    problem,
                    "system.corners",
                    "a cyclic system is not solved block by block; raise solver.memory",
                )
            monitor.note(
                f"{need / 1e9:.3g} GB in memory would exceed {limit / 1e9:.3g} GB: solved block by block"
            )
            if deck.solver.blocks != "auto" or deck.solver.iterations != "auto":
                monitor.warn(
                    "solver.blocks and solver.iterations do not count where a system is solved block by block"
                )
            result = _streamed(problem, source, batch, int(limit), monitor)
        else:
            result = _in_memory(problem, source, batch, monitor)
    for text in result.notes:
        monitor.warn(text)
    monitor.note(f"backward error {result.info['backward_error']:.2g} by {result.info['algorithm']}")
    if device.is_cuda:
        device.synchronize()
    return result


def _limit(problem: Systems) -> float:
    """Return the bytes that a system in memory may take."""
    asked = problem.deck.solver.memory
    if asked != "auto":
        return float(asked)
    free = problem.device.free_memory()
    return FREE_SHARE * free if free else float("inf")


def _in_memory(problem: Systems, source: Any, batch: int, monitor: Monitor) -> SolveResult:
    from qsim.core.device.device import cpu
    from qsim.tridiag.solver.solve import solve
    from qsim.tridiag.solver.stream import Defect

    solver, device = problem.deck.solver, problem.device
    serial = solver.type != "nshape"
    where = cpu(device.threads) if serial else device
    with monitor.stage("make"), where.use():
        a, b, c, d = _whole(source, where)
        if not (where.is_cuda and hasattr(source, "fill")):
            _require_finite(a, b, c, d)
        rows = source.n // batch
        corners = _corners(problem, source)
        if corners is not None:
            b, c = b.copy(), c.copy()
            b[::rows], c[rows - 1 :: rows] = (where.asarray(v) for v in corners)
        # systems of a batch apart, else one long system without couplings
        alone = batch > 1 and source.columns == 1
        a2, b2, c2 = (part.reshape(batch, rows) if alone else part for part in (a, b, c))
        right = d.reshape(batch, rows) if alone else d[0] if source.columns == 1 else d.T
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
    monitor.begin(1, "systems" if batch == 1 else "batches", "solve")
    with monitor.stage("solve"):
        cyclic = corners is not None
        found = _solve_cyclic(a, b, c, d, rows, options) if cyclic else solve(a2, b2, c2, right, **options)
    monitor.step(1)
    monitor.end()
    with monitor.stage("analyse"):
        x = where.to_host(found.x)
        flat = np.ascontiguousarray(x.reshape(source.n) if source.columns == 1 else x)
        parts = [where.to_host(part) for part in (a, b, c, d)]
        host = _Arrays(source, parts if corners is None else _without_corners(parts, flat, rows))
        profile = _profile(Defect(host, flat), flat)
        with np.errstate(over="ignore"):  # squares of numbers above 1e154 are infinite
            checks = _checks(flat)
    shape = {(False, False): (rows,), (False, True): (rows, source.columns), (True, False): (batch, rows)}
    full = shape.get((batch > 1, source.columns > 1), (batch, rows, source.columns))
    names = (*_NAMES, "equilibrated")
    stored = flat.reshape(full) if flat.size <= STORED else None
    notes = list(found.notes)
    info = {name: getattr(found, name) for name in names}
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


def _corners(problem: Systems, source: Any) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return T(0, n-1) and T(n-1, 0), one number or one of each system; None for a system that is not cyclic."""
    asked = getattr(problem.deck.system, "corners", None)
    if asked is None:
        return None
    if asked == "file":
        pair = source.corners()
        if pair is None:
            _blame(problem, "system.corners", "the file has no entries for them: b and c need n entries each")
        return np.asarray(pair[0], source.dtype), np.asarray(pair[1], source.dtype)
    numbers = np.array(asked, complex)
    if source.dtype.kind != "c" and np.any(numbers.imag):
        _blame(problem, "system.corners", "the system is real; its corners must be, too")
    numbers = numbers if source.dtype.kind == "c" else numbers.real
    return numbers[:1].astype(source.dtype), numbers[1:].astype(source.dtype)


def _solve_cyclic(a: Any, b: Any, c: Any, d: Any, rows: int, options: dict[str, Any]) -> Any:
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


class _Arrays:
    """A source whose blocks have all been read."""

    def __init__(self, source: Any, parts: list[Any]) -> None:
        self.n, self.columns, self.dtype, self.name = source.n, source.columns, source.dtype, source.name
        self._parts = parts

    def read(self, lo: int, hi: int) -> tuple[Any, Any, Any, Any]:
        """Return the rows lo .. hi - 1."""
        a, b, c, d = (part[..., lo:hi] for part in self._parts)
        return a, b, c, d


def _whole(source: Any, device: Any) -> tuple[Any, Any, Any, Any]:
    """Return the whole system; a random one is made on the device that needs it."""
    if not (device.is_cuda and hasattr(source, "fill")):
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


def _warm_up(options: dict[str, Any], dtype: Any, alone: bool, device: Any) -> None:
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


def _profile(defect: Any, x: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64]]:
    """Return rows, x and the residual, decimated to at most `PROFILE_POINTS`."""
    n = len(x)
    step = -(-n // PROFILE_POINTS)
    chunk = step * max(1, CHUNK // step)
    residual = []
    for lo in range(0, n, chunk):
        hi = min(n, lo + chunk)
        r = defect.read(lo, hi)[3]
        size = (np.abs(r.real) + np.abs(r.imag)).max(0)
        residual.append(np.maximum.reduceat(size, np.arange(0, hi - lo, step)))
    rows = np.minimum(np.arange(0, n, step) + step, n) - 1
    column = x[rows] if x.ndim == 1 else x[rows, 0]
    return rows, column, np.concatenate(residual).astype(float)


def _checks(x: NDArray[Any]) -> dict[str, complex | float]:
    """Return the check sums of a solution (n,) or (n, columns)."""
    kind: Callable[[Any], Any] = complex if x.dtype.kind == "c" else float
    n = len(x)
    total, square, weighted, largest = 0j, 0.0, 0j, 0.0
    for lo in range(0, n, CHUNK):
        part = np.asarray(x[lo : lo + CHUNK].reshape(-1, x.size // n), np.result_type(x, np.float64))
        rows = part.sum(1)
        total += rows.sum()
        square += float(np.sum(part.real**2 + part.imag**2))
        weighted += rows @ np.cos(0.1 * np.arange(lo, lo + len(part)))
        largest = max(largest, float(np.abs(part).max()))
    column = x if x.ndim == 1 else x[:, 0]
    out = {"sum": total, "wsum": weighted, "first": column[0], "mid": column[n // 2], "last": column[-1]}
    exact = {name: kind(value if kind is complex else np.real(value)) for name, value in out.items()}
    return {**exact, "sum_abs2": square, "max_abs": largest}


# ------------------------------------------------------------------------------------ block by block


def _streamed(problem: Systems, source: Any, batch: int, limit: int, monitor: Monitor) -> SolveResult:
    from qsim.core.results.hdf5 import new_dataset
    from qsim.tridiag.solver.stream import solve_streamed
    from qsim.tridiag.solver.systems import RandomSource

    solver, device = problem.deck.solver, problem.device
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
        monitor.begin(None, "blocks", "solve")
        with monitor.stage("solve"):
            found: Streamed = solve_streamed(
                source,
                budget=budget,
                device=device,
                out=out,
                keep=out is not None,
                tolerance=solver.tolerance,
                on_unstable=solver.on_unstable,
                progress=lambda done, _total: monitor.step(done),
            )
        monitor.end()
    rows = source.n // batch
    info = {name: getattr(found, name) for name in (*_NAMES, "block_rows", "largest_read", "pieces")}
    info["pivoted_pieces"] = found.pivoted
    if path is not None:
        info["x_file"] = path.name
        monitor.note(f"solution written to {path}")
    columns = () if source.columns == 1 else (source.columns,)
    return SolveResult(
        None if not stored else found.x.reshape((batch, rows, *columns) if batch > 1 else (rows, *columns)),
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


# ------------------------------------------------------------------------------------------- scaling


def run_scaling(problem: Systems, monitor: Monitor) -> ScalingResult:
    """Time the partition method against the number of blocks."""
    from qsim.tridiag.deck.model import Scaling
    from qsim.tridiag.solver import systems
    from qsim.tridiag.tasks import scaling

    deck = problem.deck
    block, setting = deck.system, deck.scaling or Scaling()

    def make(n: int) -> Any:
        if block is None:
            return systems.CrankNicolsonSource(n, seed=deck.run.seed or 0, dtype=_dtype(deck, "complex"))
        return _generator(deck, block, n)

    with _located(problem), monitor.stage("scaling"):
        return scaling.measure(
            make,
            problem.device,
            setting.n,
            None if setting.blocks == "auto" else setting.blocks,
            setting.iterations,
            setting.repeats,
            setting.compare,
            monitor,
        )
