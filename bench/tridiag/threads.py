"""All threads of the CPU against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.harness import Bench, Skip, case, wall
from bench.tridiag import problem
from qsim.core.device.device import Device, cpu
from qsim.core.device.hardware import available_threads


@case("tridiag-threads", "step, solver and stages of Table 1 on 1, 2, 4 ... threads", devices=("cpu",))
def threads(bench: Bench) -> None:
    """Ratio to one thread; ceilings are those of one core, so there is no floor here."""
    most = available_threads()
    if most == 1:
        raise Skip("this process may use one thread only")
    counts = sorted({1, *(2**k for k in range(1, 12) if 2**k < most), most})
    for n in (300_000,) if bench.quick else (300_000, 3_000_000):
        works: dict[str, Callable[[Device], tuple[Callable[[], object], int]]] = {
            f"n={n} step, three_point": lambda device, n=n: _step(device, n, "three_point"),
            f"n={n} step, numerov": lambda device, n=n: _step(device, n, "numerov"),
            f"n={n} partition_solve, complex": lambda device, n=n: _solve(device, n, complex),
            f"n={n} partition_solve, real": lambda device, n=n: _solve(device, n, float),
            f"n={n} stages of Table 1": _stages(n),
        }
        for name, make in works.items():
            one = 0.0
            for count in counts:
                device = cpu(count)
                work, pieces = make(device)
                timing = problem.scaled(wall(device, work, budget=0.3), pieces)
                one = one or timing.seconds
                bench.row(
                    f"{name}, {count} thread{'s' * (count > 1)}",
                    timing,
                    threads=count,
                    ns_per_row=1e9 * timing.seconds / n,
                    ratio=one / timing.seconds,
                    efficiency=one / timing.seconds / count,
                )


def _step(device: Device, n: int, stencil: str) -> tuple[Callable[[], object], int]:
    run = problem.propagator(device, problem.lattice(n, stencil), "length", 64)
    steps = run.shape.steps if run.shape else 1

    def work() -> None:
        run.step = 0
        run.advance(steps, steps)

    return work, steps


def _solve(device: Device, n: int, dtype: Any) -> tuple[Callable[[], object], int]:
    from qsim.tridiag.kernels.partition.nshape import partition_solve

    system = problem.random_system(device, n, dtype=dtype)
    x = np.empty(n, dtype)
    return lambda: partition_solve(device, *system, x, n), 1


def _stages(n: int) -> Callable[[Device], tuple[Callable[[], object], int]]:
    """The matrix is restored within the work: copies are timed with it."""
    from qsim.tridiag.kernels.partition import stages
    from qsim.tridiag.solver import partition

    def make(device: Device) -> tuple[Callable[[], object], int]:
        given = [v.reshape(1, n) for v in problem.random_system(device, n)]
        used, x = [np.empty_like(v) for v in given], np.empty_like(given[3])
        lines = partition.levels(n, *partition.auto(n, device))

        def work() -> None:
            for to, source in zip(used, given, strict=True):
                np.copyto(to, source)
            stages.solve_levels(device, lines, *used, x)

        return work, 1

    return make
