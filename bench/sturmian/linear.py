"""Complex symmetric systems: block LDL^T from matrix products beside the library's LU."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.harness import Bench, Timing, case, wall
from bench.sturmian import problem
from qsim.sturmian.linalg import ldlt

SIZES = {"cpu": (1024, 2048, 4096), "cuda": (4096, 8192, 16384, 35280)}
LARGEST = 35280  # rows of one L of the paper's (e,3e) example, N = 84 and 5 pairs: 20 GB
ITEM = 16


@case(
    "sturmian-linear", "complex symmetric factorisation: LDL^T from matrix products beside the library's LU"
)
def linear(bench: Bench) -> None:
    """Time both factorisations and a solution of each; the residual of both is recorded."""
    rate = problem.product_rate(bench, complex)
    for n in SIZES[bench.device.kind][:1] if bench.quick else SIZES[bench.device.kind]:
        free = bench.device.free_memory()
        if free and 3.5 * ITEM * n * n > free:
            bench.note(f"n={n} does not fit: {3.5 * ITEM * n * n:.3g} bytes, {free:.3g} bytes free")
            continue
        _size(bench, n, rate)
        problem.release(bench)


def _size(bench: Bench, n: int, rate: float) -> None:
    device, xp = bench.device, bench.device.xp
    A = _matrix(xp, n)
    b = xp.ones(n, complex)
    work = xp.empty_like(A)
    least = 1 if n >= 16384 or not device.is_cuda else 3
    lu_time = _timed(bench, lambda: _lu(device, work), lambda: _copy(work, A), least)
    theirs = _lu(device, _copy(work, A))
    solve_time = problem.timed(device, lambda: _lu_solve(device, theirs, b), 0.2)
    x = _lu_solve(device, theirs, b)
    bench.row(
        f"n={n}: LU of the library",
        lu_time,
        rows=n,
        gemm_fraction=8.0 / 3.0 * n**3 / lu_time.seconds / rate,
        solve_s=solve_time.seconds,
        residual=_residual(A, x, b),
    )
    our_time = _timed(bench, lambda: ldlt.factor(work, overwrite=True), lambda: _copy(work, A), least)
    ours = ldlt.factor(_copy(work, A), overwrite=True)
    solve_time = problem.timed(device, lambda: ldlt.solve(A, b, ours), 0.2)
    x, info = ldlt.solve(A, b, ours)
    ratio = lu_time.seconds / our_time.seconds
    bench.row(
        f"n={n}: LDL^T",
        our_time,
        rows=n,
        gemm_fraction=ldlt.flops(n) / our_time.seconds / rate,
        solve_s=solve_time.seconds,
        residual=_residual(A, x, b),
        ratio_to_lu=ratio,
        growth=info["growth"],
        refinements=info["refinements"],
    )
    if n == LARGEST:
        bench.goal(f"LDL^T over LU, n = {n}", ratio, 1.7, "", at_least=True)


def _matrix(xp: Any, n: int) -> Any:
    """Return a random complex symmetric matrix with a dominant diagonal, which decides nothing about the time."""
    A = xp.empty((n, n), complex)
    generator = xp.random.RandomState(1) if xp is not np else np.random.default_rng(1)
    rows = 2048
    for lo in range(0, n, rows):
        part = A[lo : lo + rows]
        part[...] = generator.standard_normal(part.shape) + 1j * generator.standard_normal(part.shape)
    for lo in range(0, n, rows):
        A[lo : lo + rows, lo:] = A[lo:, lo : lo + rows].T.copy()
        block = A[lo : lo + rows, lo : lo + rows]
        block += block.T.copy()
    A.ravel()[:: n + 1] += 6.0 * n**0.5 * (1.0 + 1.0j)
    return A


def _copy(to: Any, source: Any) -> Any:
    to[...] = source
    return to


def _timed(bench: Bench, work: Any, prepare: Any, least: int) -> Timing:
    if bench.device.is_cuda:
        return wall(bench.device, work, budget=1.0, least=least, most=10, prepare=prepare)
    return wall(bench.device, work, budget=1.5, least=least, most=5, prepare=prepare)


def _lu(device: Any, A: Any) -> Any:
    """Factor in place; a symmetric matrix is its own transpose, so that rows may be taken for columns."""
    if device.is_cuda:
        from cupyx.scipy.linalg import lu_factor

        return lu_factor(A.T, overwrite_a=True, check_finite=False)
    from scipy.linalg import lu_factor

    return lu_factor(A.T, overwrite_a=True, check_finite=False)


def _lu_solve(device: Any, factors: Any, b: Any) -> Any:
    if device.is_cuda:
        from cupyx.scipy.linalg import lu_solve

        return lu_solve(factors, b, check_finite=False)
    from scipy.linalg import lu_solve

    return lu_solve(factors, b, check_finite=False)


def _residual(A: Any, x: Any, b: Any) -> float:
    return float(abs(b - A @ x).max() / (abs(A).sum(axis=1).max() * abs(x).max() + abs(b).max()))
