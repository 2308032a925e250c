"""The paper's algorithm as printed: the stages of Table 1, its Fig. 2, and the Woodbury formula of Appendix II."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.harness import Bench, Cost, case, wall
from bench.tridiag import problem
from qsim.core.run.progress import Monitor
from qsim.tridiag.deck.model import Scaling
from qsim.tridiag.scaling import run as scaling
from qsim.tridiag.solver import partition
from qsim.tridiag.solver.systems import CrankNicolsonSource

SIZE = 300_000  # of the paper's Fig. 2
ROOT_SIZES = (100_000, 300_000, 1_000_000)
# A row of complex numbers: stages 9 products, 6 sums, one reciprocal; bytes of RD 112, RU 112, SS 80
STAGES = Cost(74.0, 304.0)
# Woodbury: three right-hand sides, two of them with one entry; bytes of elimination 112, substitution 112, correction 64
WOODBURY = Cost(92.0, 288.0)
REPEATS = 3


def _times(cost: Cost, rows: int) -> Cost:
    return Cost(cost.flops * rows, cost.bytes * rows)


@case(
    "tridiag-literal",
    "stages of Table 1, Woodbury and Thomas beside the fast kernels, one core",
    devices=("cpu",),
)
def literal(bench: Bench) -> None:
    """The system of a Crank-Nicolson step; the matrix, which the stages overwrite, is restored untimed."""
    from qsim.tridiag.kernels.partition import serial, stages
    from qsim.tridiag.kernels.partition.nshape import partition_solve

    device = bench.device
    for n in (SIZE,) if bench.quick else (SIZE, 1_000_000):
        a, b, c, d = (v.reshape(1, n) for v in CrankNicolsonSource(n, problem.DX, problem.DT).read(0, n))
        x, fast = np.empty_like(a), np.empty(n, complex)
        flat = [v[0] for v in (a, b, c, d)]
        ours = wall(device, lambda f=flat, x=fast, n=n: partition_solve(device, *f, x, n), budget=0.5)
        bench.row(f"n={n} partition_solve", ours, problem.solve_cost(n, complex))
        blocks, levels = partition.auto(n, device)
        lines = partition.levels(n, blocks, levels)
        used = [np.empty_like(v) for v in (a, b, c, d)]

        def restore(used: Any = used, given: Any = (a, b, c, d)) -> None:
            for to, source in zip(used, given, strict=True):
                np.copyto(to, source)

        stage = wall(
            device,
            lambda u=used, x=x, lines=lines: stages.solve_levels(device, lines, *u, x),
            budget=0.5,
            prepare=restore,
        )
        bench.row(
            f"n={n} stages of Table 1, {blocks} blocks",
            stage,
            _times(STAGES, n),
            ratio=stage.seconds / ours.seconds,
            difference=problem.difference(x[0], fast),
        )
        for name, work, cost in (
            (
                "Woodbury",
                lambda a=a, b=b, c=c, d=d, x=x, j=lines[0]: serial.woodbury(device, j, a, b, c, d, x),
                _times(WOODBURY, n),
            ),
            (
                "Thomas (numba)",
                lambda a=a, b=b, c=c, d=d, x=x: serial.thomas(device, a, b, c, d, x),
                problem.solve_cost(n, complex),
            ),
        ):
            timing = wall(device, work, budget=0.5)
            bench.row(
                f"n={n} {name}",
                timing,
                cost,
                ratio=timing.seconds / ours.seconds,
                difference=problem.difference(x[0], fast),
            )


@case(
    "tridiag-fig2",
    "the paper's Fig. 2: stages of Table 1 against number of blocks, 1 to 3 nested partitions",
    devices=("cuda",),  # the cost model has a processor for every block
)
def fig2(bench: Bench) -> None:
    """Time against blocks at n = 3e5 with the fitted cost model, and the best number of blocks for several n."""
    step = 3.0 if bench.quick else 0.5
    result = _scaling(bench, (SIZE,), (1, 2, 3), step)
    bench.row(
        f"n={SIZE} cost model t = alpha sum n(i)/n(i+1) + beta n(last)",
        alpha_ns=1e9 * result.alpha,
        beta_ns=1e9 * result.beta,
        backward_error=float(result.backward.max()),
    )
    for i, count in enumerate(result.iterations):
        times = result.times[0, i]
        for blocks, seconds in zip(result.blocks, times, strict=True):
            if np.isfinite(seconds):
                model = partition.cost(SIZE, float(blocks), count, result.alpha, result.beta)
                bench.row(
                    f"n={SIZE} iterations={count} blocks={blocks}",
                    seconds=float(seconds),
                    model=model,
                )
        bench.row(
            f"n={SIZE} iterations={count} optimum",
            seconds=float(np.nanmin(times)),
            blocks=int(result.blocks[np.nanargmin(times)]),
            blocks_interpolated=_lowest(result.blocks, times),
            blocks_model=int(result.predicted[0, i]),
            ratio_to_fast_kernels=float(np.nanmin(times) / result.compare["auto"][0]),
        )
    roots = _scaling(bench, ROOT_SIZES[:2] if bench.quick else ROOT_SIZES, (1,), step)
    best = []
    for s, n in enumerate(roots.sizes):
        times = roots.times[s, 0]
        best.append(_lowest(roots.blocks, times))
        fine = np.isfinite(times)
        alpha, beta = partition.fit(roots.blocks[fine].tolist(), times[fine].tolist(), n)
        bench.row(
            f"n={n} one partition, optimum",
            seconds=float(np.nanmin(times)),
            blocks_interpolated=best[-1],
            over_root=best[-1] / n**0.5,
            alpha_ns=1e9 * alpha,
            beta_ns=1e9 * beta,
            blocks_model=partition.optimum(n, 1, alpha, beta),
        )
    power = float(np.polyfit(np.log(roots.sizes), np.log(best), 1)[0])
    bench.row("best number of blocks ~ n^p, one partition; the model says 1/2", p=power)


def _scaling(bench: Bench, sizes: tuple[int, ...], iterations: tuple[int, ...], step: float) -> Any:
    top = np.log2(max(sizes) // 8)
    blocks = sorted({round(2.0**k) for k in np.arange(5 if bench.quick else 4, top, step)})
    return scaling.measure(
        lambda n: CrankNicolsonSource(n, problem.DX, problem.DT),
        bench.device,
        Scaling(
            n=list(sizes),
            blocks=blocks,
            iterations=list(iterations),
            repeats=1 if bench.quick else REPEATS,
            compare=[],
        ),
        Monitor.silent(),
    )


def _lowest(blocks: Any, times: Any) -> float:
    """Return the number of blocks at the lowest point of a parabola through the points near it, logarithmic."""
    fine = np.isfinite(times)
    x, y = np.log(blocks[fine]), np.log(times[fine])
    k = int(np.argmin(y))
    near = slice(max(0, k - 2), k + 3)
    if k in (0, len(y) - 1):
        return float(blocks[fine][k])
    second, first, _ = np.polyfit(x[near], y[near], 2)
    vertex = -0.5 * first / second if second > 0 else x[k]
    return float(np.exp(np.clip(vertex, x[near].min(), x[near].max())))
