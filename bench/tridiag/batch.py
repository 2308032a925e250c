"""Many systems at once."""

from __future__ import annotations

from bench.harness import Bench, case
from bench.tridiag import cusparse, problem
from bench.tridiag.solve import recorded

SHAPES = ((1024, 1024), (10_000, 1024), (1024, 10_000))  # systems, rows


@case("tridiag-batch", "batches of complex systems beside cuSPARSE gtsv2StridedBatch", devices=("cuda",))
def batch(bench: Bench) -> None:
    """Batches of one launch; 80 bytes a row at the copy ceiling is the floor."""
    from qsim.tridiag.kernels.partition import nshape

    device = bench.device
    for systems, n in SHAPES[:1] if bench.quick else SHAPES:
        problem.release(bench)
        rows = systems * n
        system = problem.random_system(device, n, systems)
        x, cost = device.xp.empty_like(system[3]), problem.solve_cost(rows, complex)
        count, label = problem.repeats(rows), f"{systems} x {n}"
        launch = problem.burst(device, lambda s=system, x=x, n=n: nshape.start_solve(device, *s, x, n), count)
        bench.row(
            f"{label} start_solve, launched one after another",
            launch,
            cost,
            backward_error=problem.backward_error(device, system, x, n),
        )
        best = recorded(bench, f"{label} one-pass kernel, in a graph", system, x, n, cost) or launch
        checked = problem.burst(
            device, lambda s=system, x=x, n=n: nshape.partition_solve(device, *s, x, n), count
        )
        bench.row(f"{label} partition_solve, with check of every solution", checked, cost)
        bytes_s = cost.bytes / best.seconds
        bench.goal(
            f"{label}: part of the copy ceiling",
            100 * bytes_s / bench.ceilings().copy,
            50.0,
            "%",
            at_least=True,
        )
        result = cusparse.measure(bench, "gtsv2StridedBatch", system, n, x)
        if result is not None:
            bench.row(
                f"{label} cuSPARSE gtsv2StridedBatch / ours",
                ratio=result.seconds / best.seconds,
                ratio_checked=result.seconds / checked.seconds,
            )
        del system, x
