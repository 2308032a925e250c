"""Result of `task: integrals` and its quantities."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar
from qsim.sturmian.radial.quantities import ALPHA, BETA, ENERGY, FUNCTIONS, NODES, orthogonality

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.sturmian.problem import Problem
    from qsim.sturmian.radial.quantities import Arrays
    from qsim.sturmian.radial.sturmians import Sturmians

__all__ = ["PAPER", "QUANTITIES", "IntegralsResult", "Run"]

HARTREE = "hartree"


# Colavecchia (2014), Tables 3 and 4: Nq and N to integrals a second of one core of an i7-960 and of a Tesla C2070 at its best.
PAPER = {
    (128, 16): (0.60e6, 10.92e6),
    (128, 32): (0.57e6, 12.19e6),
    (128, 64): (0.57e6, 13.65e6),
    (128, 128): (0.56e6, 13.84e6),
    (256, 16): (0.27e6, 6.93e6),
    (256, 32): (0.28e6, 6.08e6),
    (256, 64): (0.28e6, 6.20e6),
    (256, 128): (0.27e6, 5.93e6),
}
ROUTES = {"poisson_gemm": "matrix products", "simpson": "nested quadrature"}


@dataclass(frozen=True)
class Run:
    """One route for one number of functions.

    Attributes
    ----------
    route : str
        ``poisson_gemm`` or ``simpson``.
    functions, multipole : int
        N of each electron, and l.
    points : int
        Points of the grid, or Nq of the quadrature.
    seconds : float
        Wall time of all N^4 integrals, written as a matrix on the device.
    difference : float
        Largest difference to the other route's integrals, relative to the largest of them; NaN if there is none.
    """

    route: str
    functions: int
    multipole: int
    points: int
    seconds: float
    difference: float = float("nan")

    @property
    def rate(self) -> float:
        """Integrals a second, all N^4 counted as in the paper."""
        return float(self.functions) ** 4 / max(self.seconds, 1e-12)

    @property
    def published(self) -> tuple[float, float]:
        """Rates of the paper's core and GPU for these numbers; NaN if it has none."""
        return PAPER.get((_nearest(self.points), self.functions), (np.nan, np.nan))


@dataclass
class IntegralsResult:
    """Integrals of all routes, with their times, errors and ranks.

    Attributes
    ----------
    problem : Problem
    bases : dict of l to Sturmians
        The functions.
    runs : list of Run
    ranks : dict of (N, multipole) to (dict of tolerance to rank, singular values)
    overlap : (N, N)
        Eq. (13), of the largest N.
    coulomb, exchange : (N, N)
        ``R[nn, n'n']`` and ``R[nn', nn']`` of the first multipole and the largest N, hartree.
    errors : dict of (N, N) float64
        Estimated errors of these three by name: from functions and integrals on a finer grid, in a larger box.
    dtype : str
    """

    task: ClassVar[str] = "integrals"

    problem: Problem
    bases: dict[int, Sturmians]
    runs: list[Run] = field(default_factory=list)
    ranks: dict[tuple[int, int], tuple[dict[float, int], NDArray[np.float64]]] = field(default_factory=dict)
    overlap: NDArray[Any] | None = None
    coulomb: NDArray[Any] | None = None
    exchange: NDArray[Any] | None = None
    errors: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    dtype: str = "float64"

    @property
    def best(self) -> dict[str, float]:
        """Largest rate of each route that was taken, for the largest number of functions."""
        rates: dict[str, float] = {}
        for route in ROUTES:
            runs = [run for run in self.runs if run.route == route]
            largest = max((run.functions for run in runs), default=0)
            if runs:
                rates[route] = max(run.rate for run in runs if run.functions == largest)
        return rates

    @property
    def differences(self) -> dict[int, float]:
        """Difference of the routes for each number of functions, at the quadrature that resolves them best."""
        smallest: dict[int, float] = {}
        for run in self.runs:
            if np.isfinite(run.difference):
                smallest[run.functions] = min(smallest.get(run.functions, np.inf), run.difference)
        return smallest


def _nearest(points: int) -> int:
    """Return the Nq of the paper's tables that a number of points stands for, within 15 per cent; 0 if none."""
    return next((Nq for Nq in (128, 256) if abs(points - Nq) <= 0.15 * Nq), 0)


def _runs(
    value: Callable[[Run], object], dtype: type | None = None
) -> Callable[[IntegralsResult], NDArray[Any]]:
    return lambda r: np.array([value(run) for run in r.runs], dtype)


def _matrix(name: str) -> Any:
    """Return a function that gives a table of integrals, None where it was not made."""
    return lambda r: getattr(r, name)


def _ranks(value: Callable[[int, int], int]) -> Any:
    """Return a function that gives a number of each case (N, l) whose rank was found, None without any."""
    return lambda r: np.array([value(N, l) for N, l in r.ranks], np.int64) if r.ranks else None


def _rank_columns(r: IntegralsResult) -> Arrays:
    cases = list(r.ranks.values())
    tolerances = cases[0][0] if cases else {}
    return {
        f"rank/at_{tolerance:.0e}": np.array([ranks[tolerance] for ranks, _ in cases], np.int64)
        for tolerance in tolerances
    }


def _rank_numbers(r: IntegralsResult) -> dict[str, Scalar]:
    return {
        f"rank_N{N}_l{l}_{tolerance:.0e}": Scalar(
            rank, description=f"rank of the {N * (N + 1) // 2} pairs of multipole {l} at {tolerance:g}"
        )
        for (N, l), (ranks, _) in r.ranks.items()
        for tolerance, rank in ranks.items()
    }


def _rates(r: IntegralsResult) -> dict[str, Scalar]:
    return {
        f"integrals_per_second_{route}": Scalar(
            rate, "1/s", description=f"N^4 over the time of the {ROUTES[route]}, largest N"
        )
        for route, rate in r.best.items()
    }


def _errors(r: IntegralsResult) -> dict[str, Scalar]:
    return {
        f"{name}_error": Scalar(
            float(error.max()),
            "" if name == "overlap" else HARTREE,
            description=f"largest estimated error of integrals/{name}, from a finer grid in a larger box",
        )
        for name, error in r.errors.items()
    }


QUANTITIES: tuple[Quantity[IntegralsResult], ...] = (
    Quantity(
        "integrals_per_second",
        "1/s",
        "N^4 over the time, matrix products if they were made",
        lambda r: r.best.get("poisson_gemm", r.best.get("simpson", 0.0)),
        headline=True,
    ),
    Quantity("integrals_per_second_*", "1/s", "the same for each route, largest N", _rates),
    Quantity(
        "speedup",
        "",
        "matrix products over quadrature",
        lambda r: r.best["poisson_gemm"] / r.best["simpson"],
        when=lambda r: len(r.best) == 2,
        exact=True,
    ),
    Quantity(
        "route_difference",
        "",
        "largest difference of the routes at the finest quadrature, relative to the largest integral",
        lambda r: max(r.differences.values()),
        when=lambda r: bool(r.differences),
    ),
    Quantity(
        "route_difference_N*",
        "",
        "the same for * functions",
        lambda r: {f"route_difference_N{N}": value for N, value in r.differences.items()},
    ),
    Quantity("*_error", "", "largest estimated error of integrals/*, in its unit", _errors),
    replace(ENERGY, when=None),
    Quantity(
        "functions",
        "",
        "largest number of functions of an electron",
        lambda r: max(run.functions for run in r.runs),
    ),
    Quantity(
        "integrals",
        "",
        "number of integrals of a multipole",
        lambda r: max(run.functions for run in r.runs) ** 4,
    ),
    Quantity("dtype", "", "numbers of the integrals", lambda r: r.dtype),
    replace(orthogonality("largest |int S_n v S_m dr - delta_nm|, Eq. (14)"), headline=False),
    ALPHA,
    Quantity("rank_N*", "", "rank of the pairs of a multipole l at a tolerance", _rank_numbers),
    *NODES,
    BETA,
    replace(FUNCTIONS, when=None, note=""),
    Quantity("integrals/route", "", "route of the integrals", _runs(lambda run: run.route), ("run",)),
    Quantity(
        "integrals/functions",
        "",
        "functions N of each electron",
        _runs(lambda run: run.functions, np.int64),
        ("run",),
    ),
    Quantity("integrals/multipole", "", "multipole l", _runs(lambda run: run.multipole, np.int64), ("run",)),
    Quantity(
        "integrals/points",
        "",
        "points of the grid, or Nq of the quadrature",
        _runs(lambda run: run.points, np.int64),
        ("run",),
    ),
    Quantity(
        "integrals/seconds", "s", "wall time of all integrals", _runs(lambda run: run.seconds), ("run",)
    ),
    Quantity(
        "integrals/rate",
        "1/s",
        "integrals a second",
        _runs(lambda run: run.rate),
        ("run",),
        note="all N^4 counted, as in the paper",
    ),
    Quantity(
        "integrals/difference",
        "",
        "largest difference of the routes, relative to the largest integral",
        _runs(lambda run: run.difference),
        ("run",),
    ),
    Quantity(
        "integrals/paper_cpu_rate",
        "1/s",
        "rate of one core in Colavecchia (2014), Tables 3 and 4",
        _runs(lambda run: run.published[0]),
        ("run",),
    ),
    Quantity(
        "integrals/paper_gpu_rate",
        "1/s",
        "best rate of the GPU in the same tables",
        _runs(lambda run: run.published[1]),
        ("run",),
    ),
    Quantity("integrals/overlap", "", "overlap of the functions, Eq. (13)", _matrix("overlap"), ("n", "m")),
    Quantity(
        "integrals/coulomb",
        HARTREE,
        "integrals R[nn, mm] of the first multipole, Eq. (15)",
        _matrix("coulomb"),
        ("n", "m"),
    ),
    Quantity(
        "integrals/exchange",
        HARTREE,
        "integrals R[nm, nm] of the first multipole, Eq. (15)",
        _matrix("exchange"),
        ("n", "m"),
    ),
    Quantity(
        "integrals/*_error",
        "",
        "estimated errors of overlap, coulomb and exchange, in their units",
        lambda r: {f"integrals/{name}_error": errors for name, errors in r.errors.items()},
        ("n", "m"),
        note="from functions and integrals on a finer grid, in a larger box",
    ),
    Quantity("rank/functions", "", "functions of an electron", _ranks(lambda N, l: N), ("rank_case",)),
    Quantity("rank/multipole", "", "multipole", _ranks(lambda N, l: l), ("rank_case",)),
    Quantity(
        "rank/pairs",
        "",
        "pairs n' <= n: rows of the matrix of integrals",
        _ranks(lambda N, l: N * (N + 1) // 2),
        ("rank_case",),
    ),
    Quantity(
        "rank/at_*",
        "",
        "rank of the matrix of integrals at a relative tolerance",
        _rank_columns,
        ("rank_case",),
    ),
    Quantity(
        "rank/singular_values",
        "",
        "singular values of the last case, largest = 1",
        lambda r: list(r.ranks.values())[-1][1] if r.ranks else None,
        ("singular_value",),
    ),
)
