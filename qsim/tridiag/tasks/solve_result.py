"""Solution in the results file: numbers, check sums, a profile of the residual."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.tridiag.solver.defect import Defect

__all__ = ["CHUNK", "NAMES", "QUANTITIES", "SolveResult", "checks_of", "profile_of"]

PROFILE_POINTS = 2000
CHUNK = 1 << 18  # rows that are looked at together


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
        ``sum``, ``sum_abs2``, ``wsum`` (sum of x cos(0.1 i)), ``first``, ``mid``, ``last``, ``max_abs``.
    profile : (rows, x, residual)
        Decimated: rows, the first column of x there, and the largest ``|d - T x|`` since the row before.
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
    profile: tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64]]
    notes: list[str] = field(default_factory=list)


NAMES = ("residual", "backward_error", "algorithm", "blocks", "iterations", "min_pivot", "refinements")
Q = Quantity[SolveResult]


def _info(name: str, text: str, *, headline: bool = False) -> Q:
    """Return the quantity of how the system was solved, where it applies."""
    return Q(name, "", text, lambda r: r.info[name], when=lambda r: name in r.info, headline=headline)


def _check(name: str, text: str) -> Q:
    """Return the quantity of a check sum: one number, or real and imaginary part."""

    def parts(r: SolveResult) -> dict[str, Scalar]:
        value = r.checks[name]
        if not isinstance(value, complex):
            return {f"x_{name}": Scalar(float(value), description=text)}
        return {
            f"x_{name}_real": Scalar(value.real, description=f"{text}, real part"),
            f"x_{name}_imag": Scalar(value.imag, description=f"{text}, imaginary part"),
        }

    return Q(f"x_{name}*", "", f"{text}; _real and _imag if x is complex", parts)


def _axes(r: SolveResult) -> tuple[str, ...]:
    """Return the axes of x: those of the batch and of the right-hand sides only where there are several."""
    axes = (*(("system",) if r.batch > 1 else ()), "row", *(("column",) if r.columns > 1 else ()))
    if r.x is not None and r.x.ndim != len(axes):  # one system or one column, with an axis of its own
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
        "rows and columns were scaled first; backward error and pivots are those of the scaled system",
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
    Q("x_sum_abs2", "", "sum of |x|^2", lambda r: float(np.real(r.checks["sum_abs2"]))),
    _check("wsum", "sum of x cos(0.1 i), i the row"),
    _check("first", "x in the first row"),
    _check("mid", "x in row n/2"),
    _check("last", "x in the last row"),
    Q("x_max_abs", "", "largest |x|", lambda r: float(np.real(r.checks["max_abs"]))),
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
        lambda r: r.profile[0],
        ("profile_row",),
        note="systems of a batch one after another",
    ),
    Q(
        "profile_x",
        "",
        "solution in some rows",
        lambda r: r.profile[1],
        ("profile_row",),
        note="first column",
    ),
    Q(
        "profile_residual",
        "",
        "largest |d - T x| since the row before",
        lambda r: r.profile[2],
        ("profile_row",),
    ),
)


def profile_of(
    defect: Defect, x: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64]]:
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


def checks_of(x: NDArray[Any]) -> dict[str, complex | float]:
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
