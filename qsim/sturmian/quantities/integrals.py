"""Quantities of `task: integrals`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar
from qsim.sturmian.quantities.basis import ALPHA, BETA, ENERGY, FUNCTIONS, NODES, orthogonality

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.sturmian.quantities.basis import Arrays
    from qsim.sturmian.tasks.integrals import IntegralsResult, Run

__all__ = ["INTEGRALS"]

HARTREE = "hartree"


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
    from qsim.sturmian.tasks.integrals import ROUTES

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


INTEGRALS: tuple[Quantity[IntegralsResult], ...] = (
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
