"""Solution in the results file: numbers, check sums, a profile of the residual."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar
from qsim.tridiag.solver.systems import ArraySource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.tridiag.solver.systems import BatchSource

__all__ = [
    "CHECKS",
    "CHUNK",
    "NAMES",
    "NO_CHECKS",
    "PROFILE",
    "QUANTITIES",
    "SolveResult",
    "Solved",
    "beside",
    "checks_of",
    "full_shape",
    "joined_checks",
    "joined_profile",
    "profile_of",
]

PROFILE_POINTS = 2000
# rows that are looked at together
CHUNK = 1 << 18


@dataclass
class SolveResult:
    """Result of a solution.

    Attributes
    ----------
    x
        Solution, (n,), (n, k), (batch, n) or (batch, n, k); None if it is too large to be kept.
    info : dict
        residual, backward_error, rowwise_error, algorithm, blocks, iterations, min_pivot, refinements; streamed: block_rows,
        pieces, ...
    name, dtype : str
        The system and its number type.
    n, batch, columns : int
        Rows of a system, systems, right-hand sides of each.
    seconds : float
        Wall time of the solution, reading and writing of blocks included, reading of a whole file not.
    checks : dict
        ``sum``, ``sum_abs2``, ``wsum`` (sum of x cos(0.1 i)), ``first``, ``mid``, ``last``, ``max_abs``; empty if unknown.
    profile : (rows, x, residual) or None
        Decimated: rows, the first column of x there, and the largest ``|d - T x|`` since the row before; None if unknown.
    """

    task: ClassVar[str] = "solve"

    x: NDArray[Any] | None
    info: dict[str, Any]
    name: str
    dtype: str
    n: int
    batch: int
    columns: int
    seconds: float
    checks: dict[str, complex | float]
    profile: tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64]] | None
    notes: list[str] = field(default_factory=list)


NAMES = (
    "residual",
    "backward_error",
    "rowwise_error",
    "algorithm",
    "blocks",
    "iterations",
    "min_pivot",
    "refinements",
)
Q = Quantity[SolveResult]


def _info(name: str, text: str, *, headline: bool = False) -> Q:
    """Return the quantity of how the system was solved, where it applies."""
    return Q(
        name, "", text, lambda r: r.info[name], when=lambda r: name in r.info, headline=headline, exact=True
    )


def _check(name: str, text: str) -> Q:
    """Return the quantity of a check sum: one number, or real and imaginary part."""

    def parts(r: SolveResult) -> dict[str, Scalar]:
        # a solution without check sums has no such quantity
        value = r.checks.get(name)
        if value is None:
            return {}
        if not isinstance(value, complex):
            return {f"x_{name}": Scalar(float(value), description=text)}
        return {
            f"x_{name}_real": Scalar(value.real, description=f"{text}, real part"),
            f"x_{name}_imag": Scalar(value.imag, description=f"{text}, imaginary part"),
        }

    # What it is off by is backward_error times the condition of T, which nobody knows of a system of any size.
    meaning = f"{text}, to compare solutions; _real and _imag if x is complex"
    return Q(f"x_{name}*", "", meaning, parts, exact=True)


def _size(r: SolveResult, name: str) -> float | None:
    return float(np.real(r.checks[name])) if name in r.checks else None


def _profile(part: int) -> Any:
    return lambda r: None if r.profile is None else r.profile[part]


def _axes(r: SolveResult) -> tuple[str, ...]:
    """Return the axes of x: batch and right-hand sides have one only where there are several."""
    axes = (*(("system",) if r.batch > 1 else ()), "row", *(("column",) if r.columns > 1 else ()))
    # one system or one column, with an axis of its own
    if r.x is not None and r.x.ndim != len(axes):
        return ("system", "row") if r.x.shape[-1] == r.n else ("row", "column")
    return axes


QUANTITIES: tuple[Q, ...] = (
    _info("residual", "largest |d - T x|, |z| = |Re z| + |Im z|", headline=True),
    _info(
        "backward_error",
        "largest normwise backward error max|d - T x| / (||T|| max|x| + max|d|)",
        headline=True,
    ),
    _info(
        "rowwise_error",
        "largest row-wise backward error |d - T x| / (|T| |x| + |d|) of a row, of the system as it was given",
    ),
    _info("algorithm", "what solved the system"),
    _info("blocks", "blocks of the partition", headline=True),
    _info("iterations", "nested partitions", headline=True),
    _info("min_pivot", "smallest pivot relative to its row, before any pivoting"),
    _info("refinements", "number of refinements"),
    _info(
        "equilibrated",
        "rows and columns were scaled first; backward error and pivots belong to the scaled system",
    ),
    _info("block_rows", "rows of a block"),
    _info("largest_read", "rows of the largest block read"),
    _info("pieces", "joint lines"),
    _info("pivoted_pieces", "pieces solved with pivoting"),
    _info("x_file", "file of the solution"),
    Q("solve_seconds", "s", "wall time of the solution", lambda r: r.seconds, headline=True),
    Q(
        "unknowns_per_second",
        "1/s",
        "unknowns over wall time",
        lambda r: r.n * r.batch * r.columns / max(r.seconds, 1e-12),
    ),
    Q("system", "", "what was solved", lambda r: r.name),
    Q("dtype", "", "number type of the solution", lambda r: r.dtype),
    Q("rows", "", "rows of a system", lambda r: r.n),
    Q("systems", "", "number of systems", lambda r: r.batch),
    Q("columns", "", "right-hand sides of each system", lambda r: r.columns),
    _check("sum", "sum of x"),
    Q("x_sum_abs2", "", "sum of |x|^2", lambda r: _size(r, "sum_abs2"), exact=True),
    _check("wsum", "sum of x cos(0.1 i), i the row"),
    _check("first", "x in the first row"),
    _check("mid", "x in row n/2"),
    _check("last", "x in the last row"),
    Q("x_max_abs", "", "largest |x|", lambda r: _size(r, "max_abs"), exact=True),
    Q(
        "x",
        "",
        "solution of T x = d",
        lambda r: r.x,
        ("system", "row", "column"),
        axes_of=_axes,
    ),
    Q(
        "profile_row",
        "",
        "rows of the profile",
        _profile(0),
        ("profile_row",),
        note="systems of a batch one after another",
    ),
    Q(
        "profile_x",
        "",
        "solution in some rows",
        _profile(1),
        ("profile_row",),
        note="first column",
    ),
    Q(
        "profile_residual",
        "",
        "largest |d - T x| since the row before",
        _profile(2),
        ("profile_row",),
    ),
)


Profile: TypeAlias = "tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64]]"
Checks: TypeAlias = "dict[str, complex | float]"
# judgements that may fail
PROFILE, CHECKS = "the profile of the solution", "the check sums of the solution"
NO_CHECKS: Checks = {}


def profile_of(
    residual: Callable[[int, int], NDArray[Any]], x: NDArray[Any], low: int = 0, n: int | None = None
) -> Profile:
    """Return rows, x and the residual, decimated to at most `PROFILE_POINTS`.

    Parameters
    ----------
    residual
        Returns ``d - T x`` of some rows of x, (columns, rows), given the first of them and the one after the last.
    x : (rows,) or (rows, columns)
        The solution, or a part of it.
    low, n
        Row of the system at which `x` begins, and rows of the system; by default `x` is the whole.  Of a part, numbers that
        belong to other rows are zero; :func:`joined_profile` puts parts together.
    """
    n = len(x) if n is None else n
    step = -(-n // PROFILE_POINTS)
    # chunks end at steps of the profile, so that no step is split between two of them
    chunk = step * max(1, CHUNK // step)
    high, largest = low + len(x), np.zeros(-(-n // step))
    # the grid of chunks counts from row 0 of the system: parts of several ranks then have the same steps
    for start in range(low - low % chunk, high, chunk):
        first, last = max(start, low), min(start + chunk, high)
        r = residual(first - low, last - low)
        size = (np.abs(r.real) + np.abs(r.imag)).max(0)
        # first row of each step within the chunk; a part may begin inside one
        edges = np.maximum(np.arange(first - first % step, last, step) - first, 0)
        part = slice(first // step, first // step + len(edges))
        largest[part] = np.maximum(largest[part], np.maximum.reduceat(size, edges))
    # the last row of each step stands for it
    rows = np.minimum(np.arange(0, n, step) + step, n) - 1
    inside = (rows >= low) & (rows < high)
    column = np.zeros(len(rows), x.dtype)
    column[inside] = x[rows[inside] - low] if x.ndim == 1 else x[rows[inside] - low, 0]
    return rows, column, largest


def joined_profile(parts: list[Profile | None]) -> Profile | None:
    """Return the profile of a system from the profiles of its parts; None if one of them is unknown."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    column = np.array(known[0][1])
    for _rows, other, _largest in known[1:]:
        # parts hold zeros in rows of others
        column = np.where(other != 0, other, column)
    return known[0][0], column, np.max([largest for *_, largest in known], axis=0)


def checks_of(x: NDArray[Any], low: int = 0, n: int | None = None) -> Checks:
    """Return the check sums of a solution (n,) or (n, columns), or of a part of it that begins at row `low` of `n`."""
    kind: Callable[[Any], Any] = complex if x.dtype.kind == "c" else float
    count, n = len(x), len(x) if n is None else n
    total, square, weighted, largest = 0j, 0.0, 0j, 0.0
    for lo in range(0, count, CHUNK):
        # in double precision at least: a sum of many single numbers loses digits
        part = np.asarray(x[lo : lo + CHUNK].reshape(-1, x.size // count), np.result_type(x, np.float64))
        rows = part.sum(1)
        total += rows.sum()
        square += float(np.sum(part.real**2 + part.imag**2))
        weighted += rows @ np.cos(0.1 * np.arange(low + lo, low + lo + len(part)))
        largest = max(largest, float(np.abs(part).max()))
    column = x if x.ndim == 1 else x[:, 0]
    out: dict[str, Any] = {"sum": total, "wsum": weighted}
    for name, row in (("first", 0), ("mid", n // 2), ("last", n - 1)):
        # zero where the row belongs to another part, so that parts are joined by addition
        out[name] = column[row - low] if low <= row < low + count else 0.0
    exact = {name: kind(value if kind is complex else np.real(value)) for name, value in out.items()}
    return {**exact, "sum_abs2": square, "max_abs": largest}


def joined_checks(parts: list[Checks]) -> Checks:
    """Return the check sums of a solution from its parts, added in their order; none if a part has none."""
    if not all(parts):
        return NO_CHECKS
    out = dict(parts[0])
    for part in parts[1:]:
        for name, value in part.items():
            # all but the largest |x| are sums; single rows are zero in the parts that do not hold them
            out[name] = (
                max(float(np.real(out[name])), float(np.real(value)))
                if name == "max_abs"
                else out[name] + value
            )
    return out


@dataclass
class Solved:
    """A solution in memory, or a part of one.

    Attributes
    ----------
    x : (rows,) or (rows, columns)
        On the host; systems of a batch one after another.
    info, seconds, checks, profile, notes
        As of `SolveResult`.
    """

    x: NDArray[Any]
    info: dict[str, Any]
    seconds: float
    checks: Checks
    profile: Profile | None
    notes: list[str]


def full_shape(source: BatchSource) -> tuple[int, ...]:
    """Return the shape of a stored solution: of right-hand sides from a file, or (n,), (batch, n), (batch, n, columns), ..."""
    if isinstance(source, ArraySource):
        return source.shape
    columns = () if source.columns == 1 else (source.columns,)
    batch = (source.batch,) if source.batch > 1 else ()
    return (*batch, source.n // source.batch, *columns)


def beside(monitor: Monitor, size: int) -> tuple[Path | None, str]:
    """Return the file for a solution that the results file does not hold, or why there is none."""
    if monitor.checkpoint is None:
        return None, "the solution is too large to be kept; only its check sums are"
    stem = monitor.checkpoint.name.removesuffix(".ckpt.h5")
    path = monitor.checkpoint.with_name(f"{stem}.x.h5")
    # a full disk would end the run only after hours
    free = shutil.disk_usage(path.parent).free
    if size > 0.95 * free:
        text = f"the solution takes {size / 1e9:.3g} GB, but {path.parent} has {free / 1e9:.3g} GB free: only check sums are kept"
        return None, text
    return path, ""
