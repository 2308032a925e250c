"""Moments beside a pass over the state."""

from __future__ import annotations

import gc

from bench.harness import Bench, case, kernel
from bench.trotter import problem

CPU_SIZES = (16, 20)
CUDA_SIZES = (20, 24, 28, 30, 32)
JUDGED = (28, 30)


@case("trotter-measure", "all <S_j> and <S_j S_k> along z and along x, y, z, in units of a pass")
def measure(bench: Bench) -> None:
    """Wall time with the sums over tiles and transfers to the host, which few spins do not hide."""
    (cuda if bench.device.is_cuda else cpu)(bench)


def cpu(bench: Bench) -> None:
    """One thread."""
    for n in CPU_SIZES[:1] if bench.quick else CPU_SIZES:
        _measured(bench, n, problem.Evolver(bench.device, problem.all_to_all(n), problem.noise(n)))


def cuda(bench: Bench) -> None:
    """States that fit."""
    for n in CUDA_SIZES[:1] if bench.quick else CUDA_SIZES:
        if problem.fits(bench, n):
            _measured(bench, n, problem.all_up(bench.device, problem.all_to_all(n)))
            gc.collect()


def _measured(bench: Bench, n: int, run: problem.Evolver) -> None:
    device, least = bench.device, 2 if n >= problem.RESIDENT_SPINS else 3
    timing, passes = problem.advance_timing(run, 2 if n > 24 or not device.is_cuda else 10, least=least)
    one = timing.seconds / passes
    bench.row(
        f"N={n}: a pass of a step",
        problem.scaled(timing, passes),
        problem.step_cost(n, 1, problem.LAYERS / passes),
        spins=n,
    )
    for axes in ("z", "xyz"):
        start = run.passes
        timing = kernel(device, lambda axes=axes: run.measure(axes), budget=0.3, least=least)
        moved = (run.passes - start) // (timing.repeats + 1)
        in_passes = timing.seconds / one
        bench.row(f'N={n}: measure("{axes}")', timing, spins=n, in_passes=in_passes, rotation_passes=moved)
        frames = len(axes)
        beyond = (in_passes - moved) / frames
        if n in JUDGED:
            bench.goal(
                f'measure("{axes}"), N = {n}, a frame, without its rotation, in passes', beyond, 1.0, "passes"
            )
