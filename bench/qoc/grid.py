"""Gradient on the grid: one trajectory, and many at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.ceilings import multiprocessors
from bench.harness import Bench, Cost, case, kernel, wall
from bench.qoc import baseline, problem

# Operations a row and step of LDL^T with real bands: 31 to factorise, 18 + 18 to substitute, 4 for 2 x - psi; backwards 10
# more for mu x and the gradient sum.  (The CUDA kernel's reduction needs more; the floor is that of the algorithm.)
FORWARD_FLOPS, BACKWARD_FLOPS = 71.0, 81.0
ITEM = 16.0  # bytes of a complex number
CHAIN = 2.0  # dependent operations a row and step: two a row, on the way in and out, from both ends of the grid at once

SIZES = (161, 321, 641, 1021)
STEPS = 10_000
BASELINE_STEPS = 2000  # of the CPU baseline in a run for the GPU


def cost(sweep: str, points: int, steps: int, count: int = 1, bench: Bench | None = None) -> Cost:
    """Return operations and bytes of a sweep of ``count`` trajectories."""
    rows = float(points) * steps * count
    flops = {
        "forward": FORWARD_FLOPS,
        "store": FORWARD_FLOPS,
        "backward": BACKWARD_FLOPS,
        "reverse": BACKWARD_FLOPS + 40.0,  # the state comes back with one more right-hand side
        "gradient": FORWARD_FLOPS + BACKWARD_FLOPS,
    }[sweep]
    moved = {"forward": 0.0, "store": 1.0, "backward": 1.0, "reverse": 0.0, "gradient": 2.0}[sweep]
    share = 1.0 if bench is None else min(1.0, count / multiprocessors(bench.device))
    return Cost(flops * rows, moved * ITEM * rows, share)


@case("qoc-grid", "gradient on the grid (Crank-Nicolson), L = 161 ... 1021, 10^4 steps")
def grid(bench: Bench) -> None:
    """One trajectory: kernel time of each sweep, whole call, and the scalar baseline."""
    steps = 500 if bench.quick else STEPS
    for points in SIZES[::3] if bench.quick else SIZES:
        nominal = problem.morse(points, 4)
        propagator = problem.grid_propagator(bench.device, nominal, steps)
        field = problem.half_pi(nominal, steps)
        launches = problem.sweeps(propagator, field)
        for sweep in ("forward", "store", "backward", "reverse"):
            timing = kernel(bench.device, launches[sweep])
            bench.row(f"L={points} {sweep}", timing, cost(sweep, points, steps, 1, bench), steps=steps)
        together = kernel(bench.device, launches["gradient"])
        bench.row(
            f"L={points} gradient, kernels", together, cost("gradient", points, steps, 1, bench), steps=steps
        )
        objective = problem.objective(propagator)
        whole = wall(bench.device, lambda o=objective, f=field: o.evaluate(f))
        bench.row(
            f"L={points} gradient, whole call",
            whole,
            cost("gradient", points, steps, 1, bench),
            steps=steps,
            **_order(bench, points, steps),
        )
        _baseline(bench, propagator, field, points, together.seconds / steps)
        if points == SIZES[-1]:
            limit, where = (0.1, "GPU") if bench.device.is_cuda else (0.4, "one core")
            bench.goal(
                f"gradient, L = {points}, {steps} steps, {where}, whole call", whole.seconds, limit, "s"
            )
        del launches
    if bench.device.is_cuda:
        _step_size(bench, nominal, steps)


def _order(bench: Bench, points: int, steps: int) -> dict[str, float]:
    """On a CPU, the time of the longest chain of operations of a gradient that must follow each other."""
    if bench.device.is_cuda:
        return {}
    return {"order_floor_s": 2 * CHAIN * points * steps * bench.ceilings().fma_latency}


def _baseline(bench: Bench, propagator: Any, field: np.ndarray, points: int, ours: float) -> None:
    """Time the scalar baseline on one core and compare gradients."""
    steps, own = field.size, propagator
    if bench.device.is_cuda and steps > BASELINE_STEPS:
        steps = BASELINE_STEPS
        own = problem.grid_propagator(
            bench.device, propagator.members.molecules[0], steps, duration=propagator.tau * steps
        )
    nominal = propagator.members.molecules[0]
    shift = -0.5 * (nominal.energies[0] + nominal.energies[1])
    h, mu, off = nominal.diagonal + shift, nominal.dipole, nominal.off
    eps, tau, dx = field[:steps], propagator.tau, nominal.dx
    trajectory = np.empty((steps, points), complex)
    psi, q, out = (
        nominal.states[0].astype(complex),
        nominal.states[1].astype(complex),
        np.empty(steps, complex),
    )

    def forward() -> None:
        baseline.forward(psi, h, mu, off[0], off[1], eps, tau, trajectory, True)

    def backward() -> None:
        baseline.backward(q, h, mu, off[0], off[1], eps, tau, dx, trajectory, out)

    # the first call, from the true initial state, gives the gradient
    forward()
    overlap = complex(np.sum(nominal.states[1] * psi) * dx)
    backward()
    expected = 2.0 * np.real(np.conj(overlap) * out)
    found = problem.objective(own).evaluate(eps).gradient
    difference = float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))
    if not bench.device.is_cuda:
        for name, work, sweep in (("forward, storing", forward, "store"), ("backward", backward, "backward")):
            bench.row(
                f"L={points} scalar LDL^T (numba), {name}",
                wall(bench.core, work),
                cost(sweep, points, steps),
                steps=steps,
            )
    scalar = wall(bench.core, lambda: (forward(), backward()), budget=0.5)
    bench.row(
        f"L={points} scalar LDL^T (numba), gradient",
        scalar,
        cost("gradient", points, steps),
        device=bench.core,
        steps=steps,
        ratio=scalar.seconds / steps / ours,
        difference=difference,
    )


def _step_size(bench: Bench, nominal: Any, steps: int) -> None:
    """Smaller time steps decouple the rows sooner, so the reduction of the CUDA kernel has fewer stages."""
    points = nominal.x.size
    for tau in (0.3, 0.02):
        propagator = problem.grid_propagator(bench.device, nominal, steps, duration=tau * steps)
        launches = problem.sweeps(propagator, problem.half_pi(nominal, steps, tau * steps))
        timing = kernel(bench.device, launches["gradient"])
        bench.row(
            f"L={points} gradient, kernels, tau = {tau}",
            timing,
            cost("gradient", points, steps, 1, bench),
            steps=steps,
        )


@case("qoc-batch", "132 and 264 trajectories at once against one, L = 1021", devices=("cuda",))
def batch(bench: Bench) -> None:
    """Ensembles and line searches: independent trajectories of one launch."""
    points, steps = 1021, 500 if bench.quick else 4000
    nominal = problem.morse(points, 4)
    field = problem.half_pi(nominal, steps)
    one: dict[str, float] = {}
    for count in (1, 132, 264):
        propagator = problem.grid_propagator(bench.device, nominal, steps, count)
        launches = problem.sweeps(propagator, field)
        timings = {name: kernel(bench.device, launches[name]) for name in ("forward", "gradient", "reverse")}
        for name, timing in timings.items():
            one.setdefault(name, timing.seconds)
            bench.row(
                f"{count} x {name}, kernels",
                timing,
                cost(name, points, steps, count, bench),
                steps=steps,
                ratio=timing.seconds / one[name],
            )
        del launches
        objective = problem.objective(propagator)
        whole = wall(bench.device, lambda o=objective: o.evaluate(field))
        one.setdefault("call", whole.seconds)
        bench.row(
            f"{count} x gradient, whole call",
            whole,
            cost("gradient", points, steps, count, bench),
            steps=steps,
            ratio=whole.seconds / one["call"],
        )
        if count > 1:
            for name in ("forward", "gradient"):
                bench.goal(
                    f"{count} trajectories against one, {name}, kernels",
                    timings[name].seconds / one[name],
                    2.0,
                    "x",
                )
        bench.device.xp.get_default_memory_pool().free_all_blocks()
