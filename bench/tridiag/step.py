"""The Crank-Nicolson step: right-hand side and solve, a field that changes in every step."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.harness import Bench, Timing, case, kernel, wall
from bench.tridiag import cusparse, problem
from qsim.core.device.device import Device
from qsim.tridiag.propagate.lattice import bands
from qsim.tridiag.propagate.stepping.propagator import Propagator

CPU_SIZES = (300_000, 1_000_000, 10_000_000)
CUDA_SIZES = (300_000, 1_000_000, 1_900_000, 10_000_000, 100_000_000, 1_000_000_000)
SHOWN = 2_000_000  # longest grid that is set up on the host; longer ones have the same chunks
ANCHORED = 100_000_000  # longest system for cuSPARSE
ROW_BYTES = 40  # psi twice and V
SPARE = 1 << 30  # bytes left for everything else on the largest grid
CHECKED = 300_000  # rows of the comparison with exact steps
CHECK_STEPS = 40
CUDA_GOALS = {300_000: (5e-6, "us", 1e6), 100_000_000: (1e-3, "ms", 1e3), 1_000_000_000: (9e-3, "ms", 1e3)}


@case("tridiag-step", "Crank-Nicolson step, length and velocity gauge, beside LAPACK, Thomas, cuSPARSE")
def step(bench: Bench) -> None:
    """Time of a step for grids of 3e5 points to as many as fit."""
    (_cuda if bench.device.is_cuda else _cpu)(bench)


def _measure(bench: Bench, run: Propagator, gauge: str, extra: str = "", **numbers: Any) -> Timing:
    """Time whole passes and record a row; return the time of a step."""
    points, each = run.lattice.points, run.shape.steps if run.shape else 1
    table = len(run._host_table)
    passes = max(1, min(table // each, 20_000_000 * (10 if bench.device.is_cuda else 1) // (points * each)))
    steps = passes * each

    def work() -> None:
        run.step = 0
        run.advance(steps, steps)

    timing = problem.scaled(kernel(bench.device, work, budget=0.8), steps)
    stencil = run.lattice.stencil
    info = run.info()
    cost = problem.step_cost(stencil, points, 1, each)
    bench.row(
        f"n={points} {stencil}, {gauge}{extra}",
        timing,
        cost,
        ns_per_row=1e9 * timing.seconds / points,
        # what a method that reads psi and V and writes psi in every step cannot beat, over our time
        streaming_ratio=problem.PASS_BYTES * points / bench.ceilings().copy / timing.seconds,
        halo=info["halo"],
        steps_per_pass=each,
        **numbers,
    )
    return timing


# ---------------------------------------------------------------------------------------------- CPU


def _cpu(bench: Bench) -> None:
    for n in CPU_SIZES[:1] if bench.quick else CPU_SIZES:
        grid = problem.lattice(n)
        anchors = _solvers(bench, grid)
        for stencil in ("three_point", "numerov"):
            lattice = problem.lattice(n, stencil)
            for gauge in ("length", "velocity") if n == CPU_SIZES[0] else ("length",):
                run = problem.propagator(bench.device, lattice, gauge, 320)
                if n == CPU_SIZES[0]:
                    _check(bench, bench.device, lattice, gauge)
                timing = _measure(bench, run, gauge)
                ratios = {name: t.seconds / timing.seconds for name, t in anchors.items()}
                bench.row(
                    f"n={n} {stencil}, {gauge}: other solver / step",
                    **{f"ratio_{k}": v for k, v in ratios.items()},
                )
                if gauge == "length":
                    bench.goal(
                        f"zgtsv, solve only / {stencil} step, n = {n}",
                        ratios["zgtsv"],
                        5.0,
                        "x",
                        at_least=True,
                    )
                    bench.goal(f"{stencil} step, n = {n}, a row", 1e9 * timing.seconds / n, 6.0, "ns")
                del run


def _solvers(bench: Bench, grid: Any) -> dict[str, Timing]:
    """Time LAPACK's zgtsv and the Thomas algorithm on the bands of one step: solve only, bands made and restored untimed."""
    from scipy.linalg.lapack import zgtsv

    from qsim.tridiag.kernels.partition import serial

    n = grid.points
    lower, main, upper = bands(grid, problem.DT, 0.001)
    rhs = problem.wavefunction(n)
    cost = problem.solve_cost(n, complex)
    x = np.empty((1, n), complex)
    matrix = [v[None] for v in (main, lower, upper, rhs)]
    thomas = wall(bench.core, lambda: serial.thomas(bench.core, *matrix, x), budget=0.5)
    bench.row(f"n={n} Thomas (numba), solve only", thomas, cost, ns_per_row=1e9 * thomas.seconds / n)
    given = (lower[1:], main, upper[:-1], rhs[:, None])
    used = [np.asfortranarray(v).copy(order="F") for v in given]

    def restore() -> None:
        for to, source in zip(used, given, strict=True):
            np.copyto(to, source)

    def solve() -> None:
        zgtsv(*used, overwrite_dl=1, overwrite_d=1, overwrite_du=1, overwrite_b=1)

    lapack = wall(bench.core, solve, budget=0.5, prepare=restore)
    bench.row(
        f"n={n} LAPACK zgtsv, solve only",
        lapack,
        cost,
        ns_per_row=1e9 * lapack.seconds / n,
        difference=problem.difference(used[3][:, 0], x[0]),
    )
    return {"zgtsv": lapack, "thomas": thomas}


def _check(bench: Bench, device: Device, lattice: Any, gauge: str) -> None:
    """Compare passes with as many steps by LAPACK and, on a GPU, with the exact route there."""
    runs = {"chunks": problem.propagator(device, lattice, gauge, CHECK_STEPS)}
    if device.is_cuda:
        runs["exact"] = problem.propagator(device, lattice, gauge, CHECK_STEPS, mode="exact")
    fields = problem.field(gauge, lattice, CHECK_STEPS)
    wanted = problem.reference_steps(lattice, problem.wavefunction(lattice.points), fields, CHECK_STEPS)
    found = {}
    for name, run in runs.items():
        run.advance(CHECK_STEPS, CHECK_STEPS)
        found[name] = device.to_host(run.psi)
    numbers = {"difference": problem.difference(found["chunks"], wanted)}
    if "exact" in found:
        numbers["difference_exact_route"] = problem.difference(found["chunks"], found["exact"])
        numbers["exact_route_to_lapack"] = problem.difference(found["exact"], wanted)
    label = f"n={lattice.points} {lattice.stencil}, {gauge}: {CHECK_STEPS} steps against LAPACK"
    bench.row(label, **numbers)


# --------------------------------------------------------------------------------------------- CUDA


def _cuda(bench: Bench) -> None:
    anchors = _library(bench)
    stencils, gauges = ("three_point", "numerov"), ("length", "velocity")
    for stencil in stencils:
        for gauge in gauges:
            _check(bench, bench.device, problem.lattice(CHECKED, stencil), gauge)
    sizes = CUDA_SIZES[:2] if bench.quick else (*CUDA_SIZES, _largest(bench))
    for n in sizes:
        if n > _largest(bench):
            bench.note(
                f"n={n} does not fit: {ROW_BYTES} bytes a row, {bench.device.free_memory()} bytes free"
            )
            continue
        for stencil in stencils:
            for gauge in gauges if n in CUDA_SIZES else gauges[:1]:
                timing = _sized(bench, n, stencil, gauge, anchors)
                if n in CUDA_GOALS and (stencil, gauge) == ("three_point", "length"):
                    limit, unit, factor = CUDA_GOALS[n]
                    bench.goal(f"step, n = {n}", timing.seconds * factor, limit * factor, unit)
        problem.release(bench)
    _variants(bench)


def _sized(
    bench: Bench,
    n: int,
    stencil: str,
    gauge: str,
    anchors: dict[int, Timing],
    extra: str = "",
    **options: Any,
) -> Timing:
    """Measure one grid."""
    problem.release(bench)
    each = 32
    passes = max(1, min(64, 200_000_000 // (n * each)))
    run = problem.propagator(
        bench.device, problem.lattice(min(n, SHOWN), stencil), gauge, passes * each, **options
    )
    if n > SHOWN:
        problem.grow(run, n)
    largest = " (the largest that fits)" if n not in CUDA_SIZES else ""
    timing = _measure(
        bench, run, gauge, extra + largest, bytes_a_row_allocated=ROW_BYTES, chunks=run.info()["blocks"]
    )
    if n in anchors:
        ratio = anchors[n].seconds / timing.seconds
        bench.row(f"n={n} {stencil}, {gauge}: cuSPARSE zgtsv2_nopivot, solve only / step", ratio=ratio)
    return timing


def _variants(bench: Bench) -> None:
    """What lengthens or shortens the halo: x E through the resonance of the band, and a smaller time step."""
    for n in (300_000,) if bench.quick else (300_000, 100_000_000):
        _sized(bench, n, "three_point", "length", {}, ", dt = 0.025", dt=0.5 * problem.DT)
    strong = 0.05 * 0.5 * problem.DX * 300_000
    _sized(bench, 300_000, "three_point", "length", {}, f", |x E| to {strong:g}", swing=strong)


def _largest(bench: Bench) -> int:
    """Return the points of the largest grid, in millions."""
    problem.release(bench)
    return int((bench.device.free_memory() - SPARE) // ROW_BYTES // 1_000_000 * 1_000_000)


def _library(bench: Bench) -> dict[int, Timing]:
    """Time cuSPARSE on the matrix of one step: solve only."""
    device, cp, found = bench.device, bench.device.xp, {}
    for n in CUDA_SIZES[:2] if bench.quick else CUDA_SIZES:
        if n > ANCHORED:
            continue
        piece = min(n, 1_000_000)  # of a long matrix; the atom repeats, on which the time does not depend
        lower, main, upper = bands(problem.lattice(piece), problem.DT, 0.001)
        lower[0], upper[-1] = (
            lower[1],
            upper[-2],
        )  # couples the pieces; the ends of the matrix are cut by the solver
        system = (
            *(cp.tile(device.asarray(v), -(-n // piece))[:n] for v in (main, lower, upper)),
            cp.empty(n, complex),
        )
        problem.fill_noise(cp, system[3])
        for name in ("gtsv2_nopivot", "gtsv2"):
            result = cusparse.measure(bench, name, system, n)
            if result is not None and name == "gtsv2_nopivot":
                found[n] = result
        del system
        problem.release(bench)
    return found
