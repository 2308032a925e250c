"""Time against number of spins, as in the paper's Figs. 2 and 3: 50 steps of the Heisenberg ring."""

from __future__ import annotations

import numpy as np

from bench.harness import Bench, case, kernel
from bench.trotter import problem

STEPS = 50
CPU_SIZES = tuple(range(4, 23))
CUDA_SIZES = (*range(4, 23), 24, 26, 27, 28, 30)
PLAIN = {"cpu": tuple(range(10, 19)), "cuda": (*range(10, 22), 22, 24)}
FITTED = 14  # the paper fits alpha^N above
FOUND: dict[str, dict[int, float]] = {}  # seconds by device and spins, of this run


@case("trotter-scaling", "50 TS4 steps against the number of spins (Fig. 2) and ratios (Fig. 3)")
def scaling(bench: Bench) -> None:
    """Rows with ``spins`` and the time of 50 steps; long ones are measured for fewer steps and multiplied."""
    kind = bench.device.kind
    sizes = CUDA_SIZES if bench.device.is_cuda else CPU_SIZES
    found = FOUND[kind] = {}
    plain: dict[int, float] = {}
    for n in sizes[:4] if bench.quick else sizes:
        if not problem.fits(bench, n):
            continue
        found[n] = _ours(bench, n)
        if n in PLAIN[kind]:
            plain[n] = _plain(bench, n)
            bench.row(f"N={n}: plain arrays / qsim (Fig. 3b)", spins=n, ratio=plain[n] / found[n])
        one = FOUND.get("cpu", {}).get(n)
        if bench.device.is_cuda and one:
            bench.row(f"N={n}: CPU, one thread / GPU (Fig. 3a)", spins=n, ratio=one / found[n])
    for label, times in (("qsim", found), ("plain arrays", plain)):
        large = {n: seconds for n, seconds in times.items() if n > FITTED}
        if len(large) > 2:
            slope = np.polyfit(list(large), np.log2(list(large.values())), 1)[0]
            low, high = min(large), max(large)
            bench.row(f"{label}: alpha of alpha^N, N = {low} to {high}", alpha=float(2.0**slope))


def _ours(bench: Bench, n: int) -> float:
    device, model = bench.device, problem.ring(n)
    run = (
        problem.all_up(device, model) if device.is_cuda else problem.Evolver(device, model, problem.noise(n))
    )
    rate = 3.5e12 if device.is_cuda else 3e9
    steps = min(STEPS, problem.steps_for(n, seconds=0.2, rate=rate))
    timing, passes = problem.advance_timing(run, steps, budget=0.3, least=2)
    bench.row(
        f"N={n}: qsim, {STEPS} steps",
        problem.scaled(timing, 1 / STEPS),
        problem.step_cost(n, STEPS * passes, STEPS * problem.LAYERS),
        spins=n,
        steps_timed=steps,
        code="qsim",
    )
    return STEPS * timing.seconds


def _plain(bench: Bench, n: int) -> float:
    xp, model = bench.device.xp, problem.ring(n)
    tables, psi = problem.plain_tables(xp, model), bench.device.asarray(problem.noise(n))

    def layer() -> None:
        problem.plain_phase(xp, psi, tables[2], problem.DT)
        problem.plain_rotation(psi, n, True)

    timing = problem.scaled(kernel(bench.device, layer, budget=0.1, least=2), 1.0 / (STEPS * problem.LAYERS))
    bench.row(f"N={n}: plain arrays, {STEPS} steps (of one layer)", timing, spins=n, code="plain")
    return timing.seconds
