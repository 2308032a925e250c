"""The paper's algorithm (a dense inverse of every step matrix) against the banded adjoint gradient, in one run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.harness import Bench, Cost, case, kernel, wall
from bench.qoc import grid, problem

STEPS = 10_000  # of a gradient; times of fewer matrices are multiplied up
BATCH = 512  # matrices inverted at once, as in the paper
CPU_BATCH = {161: 16, 321: 6, 641: 2, 1021: 1}


@case("qoc-dense", "dense inverse or solve of every U (the paper's algorithm) against the full gradient")
def dense(bench: Bench) -> None:
    """Inverses only: the paper multiplies and propagates besides, so the ratios are lower limits."""
    steps = 1000 if bench.quick else STEPS
    for points in grid.SIZES[:1] if bench.quick else grid.SIZES:
        nominal = problem.morse(points, 4)
        propagator = problem.grid_propagator(bench.device, nominal, steps)
        field = problem.half_pi(nominal, steps)
        objective = problem.objective(propagator)
        whole = wall(bench.device, lambda o=objective, f=field: o.evaluate(f))
        launches = problem.sweeps(propagator, field)
        ours = kernel(bench.device, launches["gradient"])
        bench.row(
            f"L={points} full gradient, whole call", whole, grid.cost("gradient", points, steps, 1, bench)
        )
        bench.row(f"L={points} full gradient, kernels", ours, grid.cost("gradient", points, steps, 1, bench))
        del launches, propagator, objective
        (_cuda if bench.device.is_cuda else _cpu)(bench, nominal, field, whole.seconds * STEPS / steps)


def _diagonals(nominal: Any, field: np.ndarray) -> tuple[np.ndarray, complex, complex]:
    """Main diagonal of every U (N, L) and its two constant off-diagonals."""
    shift = -0.5 * (nominal.energies[0] + nominal.energies[1])
    half = 0.5 * problem.DURATION / field.size
    main = 1.0 + 1j * half * (nominal.diagonal + shift - np.outer(field, nominal.dipole))
    return main, 1j * half * nominal.off[0], 1j * half * nominal.off[1]


def matrices(xp: Any, main: Any, first: complex, second: complex) -> Any:
    """Return dense U (batch, L, L)."""
    count, size = main.shape
    u = xp.zeros((count, size, size), complex)
    flat = u.reshape(count, -1)  # stride L + 1 runs along a diagonal
    flat[:, :: size + 1] = main
    flat[:, 1 :: size + 1] = first
    flat[:, size :: size + 1] = first
    flat[:, 2 : size * (size - 2) : size + 1] = second
    flat[:, 2 * size :: size + 1] = second
    return u


def _compare(
    bench: Bench, label: str, timing: Any, points: int, count: int, ours: float, goal: str = ""
) -> None:
    """Record a routine, multiplied up to all steps, beside the gradient."""
    total = timing.seconds * STEPS / count
    flops = 8.0 * points**3 * count  # of a complex inverse
    bench.row(
        f"L={points} {label}, {count} matrices",
        timing,
        Cost(flops, 2 * 16.0 * points**2 * count) if "inv" in label else None,
        seconds_all_steps=total,
        ratio=total / ours,
    )
    if goal:
        bench.goal(
            f"L = {points}: {goal} of {STEPS} matrices / our gradient",
            total / ours,
            100.0,
            "x",
            at_least=True,
        )


# ---------------------------------------------------------------------------------------------- CPU


def _cpu(bench: Bench, nominal: Any, field: np.ndarray, ours: float) -> None:
    from scipy.linalg import solve_banded

    points = nominal.x.size
    count = CPU_BATCH[points]
    main, first, second = _diagonals(nominal, field[:200])
    u = matrices(np, main[:count], first, second)
    _compare(
        bench,
        "numpy.linalg.inv (LAPACK)",
        wall(bench.device, lambda: np.linalg.inv(u)),
        points,
        count,
        ours,
        "numpy dense inverses" if points == grid.SIZES[-1] else "",
    )
    psi = nominal.states[0].astype(complex)
    bench.row(f"L={points} check", difference=_check(u[0], psi, np.linalg.inv(u[0]), main[0], first, second))

    bands = np.zeros((5, points), complex)
    bands[0, 2:], bands[1, 1:], bands[3, :-1], bands[4, :-2] = second, first, first, second

    def loop() -> None:
        x = psi
        for row in main:
            bands[2] = row
            x = 2.0 * solve_banded((2, 2), bands, x, check_finite=False) - x

    timing = wall(bench.device, loop)
    total = 2.0 * timing.seconds * STEPS / main.shape[0]  # forward and backward
    bench.row(
        f"L={points} scipy.linalg.solve_banded in a loop, {main.shape[0]} steps",
        timing,
        steps=main.shape[0],
        gradient_s=total,
        ratio=total / ours,
    )


def _check(u: Any, psi: Any, inverse: Any, main: Any, first: complex, second: complex) -> float:
    """Largest difference between the dense step and a banded solve, relative."""
    from scipy.linalg import solve_banded

    bands = np.zeros((5, psi.size), complex)
    bands[0, 2:], bands[1, 1:], bands[2], bands[3, :-1], bands[4, :-2] = second, first, main, first, second
    x = solve_banded((2, 2), bands, psi)
    return float(np.max(np.abs(inverse @ psi - x)) / np.max(np.abs(x)))


# --------------------------------------------------------------------------------------------- CUDA


def _cuda(bench: Bench, nominal: Any, field: np.ndarray, ours: float) -> None:
    points, cp = nominal.x.size, bench.device.xp
    count = 32 if bench.quick else BATCH
    while 4 * 16 * points**2 * count > 0.8 * bench.device.free_memory():  # matrices, factors, inverses, copy
        count //= 2
    main, first, second = _diagonals(nominal, field[:count])
    u = matrices(cp, cp.asarray(main), first, second)
    psi = nominal.states[0].astype(complex)
    to_host = bench.device.to_host
    inverse = to_host(cp.linalg.inv(u[:2])[0])
    bench.row(f"L={points} check", difference=_check(to_host(u[0]), psi, inverse, main[0], first, second))
    largest = points == grid.SIZES[-1]

    def measure(label: str, work: Callable[[], object], goal: str = "") -> None:
        timing = wall(bench.device, work, budget=1.5, least=2)
        _compare(bench, label, timing, points, count, ours, goal if largest else "")

    measure(
        "cupy.linalg.inv (cuBLAS getrf + getri batched)", lambda: cp.linalg.inv(u), "cuBLAS dense inverses"
    )
    cp.get_default_memory_pool().free_all_blocks()  # torch has an allocator of its own
    _torch(bench, measure, u, cp.asarray(np.broadcast_to(psi, (count, points)).copy()))


def _torch(bench: Bench, measure: Callable[..., None], u: Any, right: Any) -> None:
    """The faster routines that exist today, which the paper did not use."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        bench.note("torch is not installed: torch.linalg not measured")
        return
    matrices, vectors = torch.from_dlpack(u), torch.from_dlpack(right)[..., None]
    measure("torch.linalg.inv", lambda: torch.linalg.inv(matrices))
    torch.cuda.empty_cache()
    measure("torch.linalg.solve, one right-hand side", lambda: torch.linalg.solve(matrices, vectors))
    torch.cuda.empty_cache()
