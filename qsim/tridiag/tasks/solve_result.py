"""Solution in the results file: numbers, check sums, a profile of the residual."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.tables import Scalar, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.tridiag.solver.defect import Defect

__all__ = ["CHUNK", "NAMES", "SolveResult", "checks_of", "profile_of"]

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
            for name, description in INFO.items()
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
        for name, text in CHECKS.items():
            value = self.checks[name]
            if isinstance(value, complex):
                out[f"x_{name}_real"] = Scalar(value.real, description=f"{text}, real part")
                out[f"x_{name}_imag"] = Scalar(value.imag, description=f"{text}, imaginary part")
            else:
                out[f"x_{name}"] = Scalar(float(value), description=text)
        return out


NAMES = ("residual", "backward_error", "algorithm", "blocks", "iterations", "min_pivot", "refinements")
INFO = {
    "residual": "largest |d - T x|, |z| = |Re z| + |Im z|",
    "backward_error": "largest normwise backward error max|d - T x| / (||T|| max|x| + max|d|)",
    "rowwise_error": "largest row-wise backward error |d - T x| / (|T| |x| + |d|) of a row, of the system as it was given",
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
CHECKS = {
    "sum": "sum of x",
    "sum_abs2": "sum of |x|^2",
    "wsum": "sum of x cos(0.1 i), i the row",
    "first": "x in the first row",
    "mid": "x in row n/2",
    "last": "x in the last row",
    "max_abs": "largest |x|",
}


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
