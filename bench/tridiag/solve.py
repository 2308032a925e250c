"""General systems: four arrays in, one out."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.harness import Bench, Timing, case, wall
from bench.tridiag import cusparse, problem

SIZES = (300_000, 1_000_000, 10_000_000)
CUDA_SIZES = (*SIZES, 100_000_000)
RECORDED = 1_000_000  # rows below which launches are timed in a graph besides: they are as short as a launch
EXACT_BYTES = 144.0  # of a row of 16-byte numbers in two passes
REAL = 10_000_000


@case("tridiag-solve", "general dominant systems, complex and real, beside LAPACK and Thomas or cuSPARSE")
def solve(bench: Bench) -> None:
    """One system after another; the matrix is random with |a| = 2 (|b| + |c|)."""
    (_cuda if bench.device.is_cuda else _cpu)(bench)


# ---------------------------------------------------------------------------------------------- CPU


def _cpu(bench: Bench) -> None:
    from scipy.linalg.lapack import dgtsv, zgtsv

    from qsim.tridiag.kernels.partition import serial
    from qsim.tridiag.kernels.partition.nshape import partition_solve

    device = bench.device
    for n in SIZES[:1] if bench.quick else SIZES:
        for dtype, gtsv in ((complex, zgtsv), (float, dgtsv)):
            kind = "complex" if dtype is complex else "real"
            system = problem.random_system(device, n, dtype=dtype)
            cost = problem.solve_cost(n, dtype)
            x, y = np.empty(n, dtype), np.empty((1, n), dtype)
            found: list[Any] = []
            ours = wall(
                device,
                lambda s=system, x=x, f=found, n=n: f.append(partition_solve(device, *s, x, n)),
                budget=0.5,
            )
            bench.row(
                f"n={n} {kind} partition_solve",
                ours,
                cost,
                ns_per_row=1e9 * ours.seconds / n,
                mode=found[-1].mode,
                backward_error=problem.backward_error(device, system, x, n),
            )
            rows = [v[None] for v in system]
            thomas = wall(bench.core, lambda r=rows, y=y: serial.thomas(bench.core, *r, y), budget=0.5)
            bench.row(f"n={n} {kind} Thomas (numba)", thomas, cost, ratio=thomas.seconds / ours.seconds)
            lapack, z = _gtsv(bench, gtsv, system)
            bench.row(
                f"n={n} {kind} LAPACK gtsv (pivoted)",
                lapack,
                cost,
                ratio=lapack.seconds / ours.seconds,
                difference=problem.difference(x, z),
            )


def _gtsv(bench: Bench, gtsv: Any, system: problem.System) -> tuple[Timing, Any]:
    """Time LAPACK; what it overwrites is restored untimed."""
    a, b, c, d = system
    given = (b[1:], a, c[:-1], d[:, None])
    used = [v.copy(order="F") for v in given]

    def restore() -> None:
        for to, source in zip(used, given, strict=True):
            np.copyto(to, source)

    def work() -> None:
        gtsv(*used, overwrite_dl=1, overwrite_d=1, overwrite_du=1, overwrite_b=1)

    return wall(bench.core, work, budget=0.5, prepare=restore), used[3][:, 0]


# --------------------------------------------------------------------------------------------- CUDA


def _cuda(bench: Bench) -> None:
    for n in CUDA_SIZES[:1] if bench.quick else CUDA_SIZES:
        for dtype in (complex, float) if n == REAL or bench.quick else (complex,):
            problem.release(bench)
            if 12 * n * np.dtype(dtype).itemsize > bench.device.free_memory():
                bench.note(f"n={n}: not enough memory for the system, its copies and cuSPARSE's workspace")
                continue
            _sized(bench, n, dtype)
    problem.release(bench)


def _sized(bench: Bench, n: int, dtype: Any) -> None:
    from qsim.tridiag.kernels.partition import nshape

    device = bench.device
    system = problem.random_system(device, n, dtype=dtype)
    x = device.xp.empty_like(system[3])
    cost, kind = problem.solve_cost(n, dtype), "complex" if dtype is complex else "real"
    count = problem.repeats(n)
    launch = problem.burst(device, lambda: nshape.start_solve(device, *system, x, n), count)
    flag = int(nshape.start_solve(device, *system, x, n).get()[1])
    bench.row(
        f"n={n} {kind} start_solve, launched one after another",
        launch,
        cost,
        mode="exact needed" if flag else "local",
        backward_error=problem.backward_error(device, system, x, n),
    )
    best = launch
    if n <= RECORDED:
        best = recorded(bench, f"n={n} {kind} one-pass kernel, in a graph", system, x, n, cost) or launch
    checked = problem.burst(device, lambda: nshape.partition_solve(device, *system, x, n), count)
    bench.row(f"n={n} {kind} partition_solve, with check of every solution", checked, cost)
    exact = problem.burst(device, lambda: nshape._solve_exact(device, *system, x, n), count)
    own = EXACT_BYTES * np.dtype(dtype).itemsize / 16 * n / bench.ceilings().copy
    bench.row(
        f"n={n} {kind} exact route, two passes",
        exact,
        cost,
        own_floor_s=own,
        own_fraction=own / exact.seconds,
        backward_error=problem.backward_error(device, system, x, n),
    )
    for name in ("gtsv2_nopivot", "gtsv2"):
        result = cusparse.measure(bench, name, system, n, x)
        if result is None:
            continue
        anchor = result.seconds
        bench.row(
            f"n={n} {kind} cuSPARSE {name} / ours",
            ratio=anchor / best.seconds,
            ratio_checked=anchor / checked.seconds,
            ratio_exact=anchor / exact.seconds,
        )
        if name == "gtsv2_nopivot" and n == CUDA_SIZES[-1]:
            bench.goal(
                f"cuSPARSE gtsv2_nopivot / start_solve, n = {n}",
                anchor / best.seconds,
                4.0,
                "x",
                at_least=True,
            )


def recorded(bench: Bench, label: str, system: problem.System, x: Any, n: int, cost: Any) -> Timing | None:
    """Time the launch of start_solve in a graph: the kernel without the 4 microseconds and Python of a launch."""
    from qsim.tridiag.kernels.partition import nshape

    chunk, halo = nshape._cut(n)
    found = bench.device.xp.zeros(2, np.uint64)
    try:
        timing = problem.replayed(
            bench.device,
            lambda: nshape._launch_solve(*system, x, None, n, chunk, halo, found),
            problem.repeats(x.size, 20),
        )
    except Exception as error:  # the launches measured besides do not need it
        bench.note(f"{label}: {type(error).__name__}: {error}")
        return None
    bench.row(label, timing, cost)
    return timing
