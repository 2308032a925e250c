"""The truncated eigenbasis: time of a step for K states, and robust gradients over many members."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.ceilings import multiprocessors
from bench.harness import Bench, Cost, Timing, case, kernel, wall
from bench.qoc import problem

# Operations a step: a complex matrix times a vector 8 K^2, sine and cosine 40 K, the phase 6 K; backwards the gradient sum
# 10 K more.
PHASE_FLOPS = 46.0
SUM_FLOPS = 10.0
ITEM = 16.0
STATES = (8, 16, 24, 32, 64)
MEMBERS = 1000


def cost(sweep: str, states: int, steps: int, count: int, bench: Bench) -> Cost:
    """Return operations and bytes of a sweep of ``count`` trajectories."""
    one = 8.0 * states**2 + PHASE_FLOPS * states
    flops = {
        "forward": one,
        "store": one,
        "backward": one + SUM_FLOPS * states,
        "gradient": 2 * one + SUM_FLOPS * states,
    }[sweep]
    moved = {"forward": 0.0, "store": 1.0, "backward": 1.0, "gradient": 2.0}[sweep]
    share = 1.0
    if bench.device.is_cuda:  # a warp runs on one of the four quarters of a multiprocessor
        warps = count * -(-states // 32)
        share = min(1.0, warps / (4.0 * multiprocessors(bench.device)))
    return Cost(flops * steps * count, moved * ITEM * states * steps * count, share)


@case("qoc-eigenbasis", "step in the truncated eigenbasis, K = 8 ... 64, against the floor of its operations")
def steps(bench: Bench) -> None:
    """One trajectory; on a GPU also as many as fill it."""
    for states in STATES[1:3] if bench.quick else STATES:
        nominal = problem.morse(641, states)
        for count in _counts(bench):
            number = 1000 if bench.quick else (20_000 if count == 1 else 2000)
            propagator = problem.eigen_propagator(bench.device, nominal, number, count)
            launches = problem.sweeps(propagator, problem.half_pi(nominal, number))
            for sweep in ("forward", "store", "backward"):
                timing = kernel(bench.device, launches[sweep], budget=0.5)
                extra = {"field_steps_per_s": count * number / timing.seconds} if count > 1 else {}
                bench.row(
                    f"K={states} {sweep}, {count} field{'s' * (count > 1)}",
                    timing,
                    cost(sweep, states, number, count, bench),
                    steps=number,
                    **extra,
                )
            del launches, propagator
            if bench.device.is_cuda:
                bench.device.xp.get_default_memory_pool().free_all_blocks()


def _counts(bench: Bench) -> tuple[int, ...]:
    return (1, 32 * multiprocessors(bench.device)) if bench.device.is_cuda else (1,)


@case("qoc-robust", "gradient averaged over 1000 members on a GPU against one member on one core")
def robust(bench: Bench) -> None:
    """Field scale 0.9 ... 1.1, T = 30000, 6000 steps; on a CPU, one member and 25."""
    number = 600 if bench.quick else 6000
    for states in (16, 24):
        nominal = problem.morse(641, states)
        field = problem.half_pi(nominal, number)
        single = _gradient(bench, bench.core, nominal, field, 1)
        count = MEMBERS if bench.device.is_cuda else 25
        many = _gradient(bench, bench.device, nominal, field, count)
        ratio = many["call"].seconds / single["call"].seconds
        bench.row(f"K={states} {count} members / one member on one core", ratio=ratio)
        if bench.device.is_cuda:
            bench.goal(
                f"K = {states}: {count} members, GPU, whole call / one member, one core", ratio, 1.0, "x"
            )


def _gradient(bench: Bench, device: Any, nominal: Any, field: np.ndarray, count: int) -> dict[str, Timing]:
    """Time the gradient of an ensemble: kernels alone, and the whole call."""
    states, number = nominal.energies.size, field.size
    propagator = problem.eigen_propagator(device, nominal, number, count)
    launches = problem.sweeps(propagator, field)
    where = Bench(device, bench.core, bench.quick)  # the floor of the device measured
    found = {"kernels": kernel(device, launches["gradient"])}
    objective = problem.objective(propagator)
    found["call"] = wall(device, lambda: objective.evaluate(field))
    for name, label in (("kernels", "kernels"), ("call", "whole call")):
        bench.row(
            f"K={states} gradient, {count} member{'s' * (count > 1)}, {label}",
            found[name],
            cost("gradient", states, number, count, where),
            device=device,
            steps=number,
        )
    return found
