"""`task: integrals`: repulsion integrals of the basis by both routes, with their rates, difference and rank."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.sturmian.deck.model import Integrals
from qsim.sturmian.integrals.result import IntegralsResult, Run
from qsim.sturmian.two_electron import integrals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.core.run.progress import Monitor
    from qsim.sturmian.problem import Problem
    from qsim.sturmian.radial.grid import RadialGrid
    from qsim.sturmian.radial.sturmians import Sturmians

# Seconds below which a route is timed three times.
REPEATED = 1.0
# Functions up to which matrices of integrals are kept.
STORED_SIZE = 200
# Rounding of an integral relative to the largest one.
ROUNDING = 1e-14
TABULATED = ("overlap", "coulomb", "exchange")


def run(problem: Problem, monitor: Monitor) -> IntegralsResult:
    """Compute, time and compare the integrals of the functions of the lowest l of the channels."""
    task = problem.task
    assert isinstance(task, Integrals)
    l = problem.ls[0]
    sizes = sorted(set(task.N or [problem.size(l)]))
    multipoles = sorted(set(task.l if isinstance(task.l, list) else [task.l]))
    counts = sorted(set(task.points if isinstance(task.points, list) else [task.points]))
    with monitor.stage("basis"):
        functions = problem.functions(l, sizes[-1])
    # the functions are real: complex numbers show the cost of outgoing functions
    kind = "complex128" if task.dtype == "complex" else "float64"
    result = IntegralsResult(problem, {l: functions}, dtype=kind)
    each = [("poisson_gemm", 0)] if "poisson_gemm" in task.routes else []
    each += [("simpson", Nq) for Nq in counts] if "simpson" in task.routes else []
    # Two functions through every route: kernels are compiled now, and not within what is timed.
    with monitor.stage("compile"):
        _integrate(problem, functions.c[:, :2], 0, kind, each, task.inner, lambda: None)
    monitor.begin(len(sizes) * len(multipoles) * len(each), "matrices", "integrals")
    done, few = 0, False

    def count() -> None:
        nonlocal done
        done += 1
        monitor.step(done)

    for N in sizes:
        c = np.ascontiguousarray(functions.c[:, :N])
        for multipole in multipoles:
            with monitor.stage("integrals"):
                runs, matrix = _integrate(problem, c, multipole, kind, each, task.inner, count)
            result.runs += runs
            if multipole == multipoles[0] and N == sizes[-1] <= STORED_SIZE:
                result.overlap = integrals.overlap(c, c)
                result.coulomb, result.exchange = _diagonals(problem, matrix, N)
                with monitor.stage("errors"):
                    judge = partial(_errors, result, problem.functions(l, N), multipole)
                    errors = monitor.judged("errors of the integrals", judge, None)
                    result.errors, few = errors or {}, errors == {}
            if task.rank_report:
                with monitor.stage("rank"):
                    result.ranks[N, multipole] = integrals.repulsion_rank(problem.grid, multipole, c, c)
    monitor.end()
    if few:
        monitor.warn(
            "errors of the integrals could not be estimated, for a finer grid has fewer functions; scan grid.order and R"
        )
    return result


def _errors(result: IntegralsResult, functions: Sturmians, multipole: int) -> dict[str, NDArray[np.float64]]:
    """Return the distance of the tables from the same tables on finer grids; empty where none holds as many functions.

    The comparison holds what the grid lacks for functions and integrals, what the box cuts off, the quadrature of the route, by
    how much the finer grids differ, and what the rows of a table leave open.  A single element may agree by chance: its error is
    at least what the overlaps of its two functions are off by, relative.
    """
    remade = result.problem.finer_functions(functions)
    if not remade:
        return {}
    # all begin with r^(l + 1) of either sign
    found = [
        _tabulated(grid, finer.c * np.sign(finer.c[0] * functions.c[0]), multipole) for grid, finer in remade
    ]
    out = {}
    for name, first, table in zip(TABULATED, found[0], found[-1], strict=True):
        own = np.asarray(getattr(result, name))
        # The difference of the grids, and rounding of the largest integral.
        out[name] = np.abs(own - table) + np.abs(table - first) + ROUNDING * np.abs(table).max()
    tables = dict(zip(TABULATED, found[-1], strict=True))
    norm = np.sqrt(np.abs(np.diag(tables["overlap"])))
    for problem in result.problem.doubted():
        c = problem.functions(functions.l, functions.size).c
        doubts = _tabulated(problem.grid, c * np.sign(c[0] * functions.c[0]), multipole)
        apart = [
            np.abs(np.asarray(getattr(result, name)) - other)
            for name, other in zip(TABULATED, doubts, strict=True)
        ]
        # of overlaps no less than what the norms of both functions change by
        change = np.diag(apart[0]) / norm**2
        apart[0] = np.maximum(apart[0], 0.5 * (change[:, None] + change) * np.outer(norm, norm))
        for name, part in zip(TABULATED, apart, strict=True):
            out[name] += part
    off = (out["overlap"] / np.outer(norm, norm)).max(axis=1)
    for name in ("coulomb", "exchange"):
        out[name] = np.maximum(out[name], 0.5 * (off[:, None] + off) * np.abs(tables[name]))
    return out


def _tabulated(grid: RadialGrid, c: NDArray[Any], multipole: int) -> tuple[NDArray[Any], ...]:
    """Return overlaps, and ``R[nn, mm]`` and ``R[nm, nm]`` of a multipole, of functions c (n, N) on a grid."""
    kernel = integrals.repulsion_kernel(grid, multipole)
    squares = c * c
    exchange = np.empty((c.shape[1],) * 2, c.dtype)
    # Row by row: densities of one n with all m at a time, (n points, N), instead of all N^2.
    for n in range(c.shape[1]):
        density = c[:, n, None] * c
        exchange[n] = np.einsum("im,im->m", density, kernel @ density)
    return integrals.overlap(c, c), squares.T @ kernel @ squares, exchange


def _integrate(
    problem: Problem,
    c: NDArray[Any],
    multipole: int,
    kind: str,
    each: list[tuple[str, int]],
    inner: int,
    count: Callable[[], None],
) -> tuple[list[Run], Any]:
    """Return the runs of all routes and the matrix (N^2, N^2) of the first."""
    device, grid, N = problem.device, problem.grid, c.shape[1]
    runs: list[Run] = []
    first = None
    with device.use():
        # One matrix for all routes: N^4 numbers, the largest array of the run. The first
        # route's result is copied only if another one is compared with it.
        out = device.xp.empty((N * N, N * N), kind)
        for route, Nq in each:
            make = _products if route == "poisson_gemm" else _nested
            seconds = _seconds(problem, make(problem, c, multipole, kind, (Nq, inner), out))
            difference = float("nan")
            if first is None:
                first = out.copy() if len(each) > 1 else out
            else:
                difference = float(abs(out - first).max() / abs(first).max())
            runs.append(Run(route, N, multipole, Nq or grid.size, seconds, difference))
            count()
    return runs, first


def _products(
    problem: Problem, c: NDArray[Any], multipole: int, kind: str, _points: tuple[int, int], out: Array
) -> Callable[[], object]:
    kernel = integrals.repulsion_kernel(problem.grid, multipole)
    return lambda: integrals.repulsion_pairs(problem.device, kernel, (c, c, c, c), dtype=kind).expand(out)


def _nested(
    problem: Problem, c: NDArray[Any], multipole: int, kind: str, points: tuple[int, int], out: Array
) -> Callable[[], object]:
    device, grid = problem.device, problem.grid
    quadrature = integrals.quadrature(*points, grid.R0)
    at = integrals.sample(lambda r: grid.values(c, r), quadrature, device, kind)
    return lambda: integrals.repulsion_simpson(
        (at, at, at, at), quadrature, multipole, device=device, out=out
    )


def _seconds(problem: Problem, work: Callable[[], object]) -> float:
    """Return the wall time of some work, the best of three where it is short."""
    times: list[float] = []
    while not times or (len(times) < 3 and times[0] < REPEATED):
        problem.device.synchronize()
        start = time.perf_counter()
        work()
        problem.device.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def _diagonals(problem: Problem, matrix: Array, N: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return ``R[nn, mm]`` and ``R[nm, nm]`` of the matrix with rows (a', b') and columns (a, b)."""
    # a', b', a, b
    four = matrix.reshape(N, N, N, N)
    n, m = np.meshgrid(np.arange(N), np.arange(N), indexing="ij")
    coulomb = problem.device.to_host(four[n, m, n, m])
    exchange = problem.device.to_host(four[n, n, m, m])
    return coulomb, exchange
