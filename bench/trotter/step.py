"""Steps of the paper's fourth order beside the copy ceiling."""

from __future__ import annotations

import gc
from typing import Any

from bench.harness import Bench, case, wall
from bench.trotter import problem

CPU_SIZES = (16, 18, 20, 22)
CUDA_SIZES = {"double": (20, 22, 24, 26, 28, 30, 32, 33), "single": (20, 22, 24, 26, 28, 30, 34)}
GOALS = {20: 0.16, 24: 6.2, 28: 92.0, 30: 375.0, 33: 3200.0}  # ms, complex128; complex64: half
JUDGED = (28, 30, 33)  # spins at which the part of the copy ceiling is judged
LEAST_FRACTION = 85.0  # per cent


@case(
    "trotter-step", "TS4 step of an all-to-all XYZ Hamiltonian with fields, passes, part of the copy ceiling"
)
def step(bench: Bench) -> None:
    """Time, passes and bytes of a step for all sizes that fit."""
    (cuda if bench.device.is_cuda else cpu)(bench)


def cpu(bench: Bench) -> None:
    """One thread; a ring costs what all-to-all couplings cost."""
    for n in CPU_SIZES[:1] if bench.quick else CPU_SIZES:
        for name, model in (("all-to-all XYZ, fields", problem.all_to_all(n)), ("ring", problem.ring(n))):
            run = problem.Evolver(bench.device, model, problem.noise(n))
            timing = wall(bench.device, lambda run=run: run.advance(problem.METHOD, problem.DT, 1))
            start = run.passes
            run.advance(problem.METHOD, problem.DT, 1)
            passes = run.passes - start
            _row(bench, f"N={n} complex128 {name}", n, "double", timing, passes, problem.LAYERS + 1, run)


def cuda(bench: Bench) -> None:
    """Both precisions, states made on the device in place."""
    for precision, sizes in CUDA_SIZES.items():
        for n in sizes[:2] if bench.quick else sizes:
            if not problem.fits(bench, n, precision):
                continue
            try:
                _sized(bench, n, precision)
            except Exception as error:  # the other sizes stand on their own
                bench.note(f"N={n} {problem.TYPES[precision]}: {type(error).__name__}: {error}")
            gc.collect()  # an error's traceback holds the state


def _sized(bench: Bench, n: int, precision: str) -> None:
    run = problem.all_up(bench.device, problem.all_to_all(n), precision)
    steps = 2 if n >= problem.RESIDENT_SPINS else problem.steps_for(n, precision)
    timing, passes = problem.advance_timing(run, steps, least=2 if n >= 30 else 3)
    count = problem.LAYERS + 1 / steps
    kind = problem.TYPES[precision]
    fraction = _row(bench, f"N={n} {kind}", n, precision, timing, passes, count, run, steps_timed=steps)
    if n in GOALS:
        limit = GOALS[n] if precision == "double" else 0.5 * GOALS[n]
        bench.goal(f"step, N = {n}, {kind}", 1e3 * timing.seconds, limit, "ms")
    if n in JUDGED:
        bench.goal(
            f"part of the copy ceiling, N = {n}, {kind}", 100 * fraction, LEAST_FRACTION, "%", at_least=True
        )


def _row(
    bench: Bench,
    label: str,
    n: int,
    precision: str,
    timing: Any,
    passes: float,
    count: float,
    run: Any,
    **numbers: Any,
) -> float:
    """Record a step; return the part of the copy ceiling."""
    each = problem.pass_bytes(n, precision)
    fraction = passes * each / bench.ceilings().copy / timing.seconds
    bench.row(
        label,
        timing,
        problem.step_cost(n, passes, count, precision),
        spins=n,
        ms_per_step=1e3 * timing.seconds,
        passes=float(passes),
        bytes_per_pass=each,
        us_per_pass=1e6 * timing.seconds / passes,
        copy_fraction=fraction,
        tile_bits=[tile.bits for tile in run.tiles],
        norm_error=problem.norm_error(run),
        **numbers,
    )
    return fraction
