"""Driven equations: steps against the ceilings, whole collisions on one core, and many energies in one batch on a GPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import Bench, Cost, Skip, Timing, case, kernel
from bench.sturmian import problem
from qsim.core.device.device import Device
from qsim.sturmian.driven import operator as driven
from qsim.sturmian.scatter.run import Collisions

ROOT = Path(__file__).resolve().parents[2]
PAPER_CPU, PAPER_GPU = 3 * 86400.0, 4 * 3600.0  # Colavecchia (2014): seconds of the (e,3e) example
ONE = 'task.energy=["54.4 eV"]'
LENGTH = 'task.gauges=["length"]'
SMALL = ("grid.R=16", "grid.order=9", "grid.ecs.length=16")
TEN = "scan.energy=[" + ", ".join(f'"{20.0 + 2.0 * k:g} eV"' for k in range(10)) + "]"
BATCH = (TEN, "task.ejected=null", "task.errors=false")
BOXES = (40.0, 60.0, 90.0, 120.0)
WHOLE = {  # label: deck, overrides, seconds that one core may take
    "Temkin-Poet, one energy, two spins": ("temkin_poet", (ONE, "task.errors=false"), 2.0),
    "Temkin-Poet, one energy, two spins, with errors": ("temkin_poet", (ONE,), None),
    "double photoionisation, length, 289 000 unknowns": ("he_dpi", (LENGTH, "task.errors=false", "grid.R=47"), 5.0),
    "double photoionisation, three gauges, with errors": ("he_dpi", (), None),
    "(e,3e), L = 0, 1, 2, with errors": ("e3e", (), None),
}  # fmt: skip


def collisions(device: Device, name: str, overrides: Sequence[str] = ()) -> Collisions:
    """Return the computation of a deck of inputs/sturmian."""
    from qsim.core.deck.load import load_deck
    from qsim.sturmian.build import build
    from qsim.sturmian.deck.model import SturmianDeck

    loaded = load_deck(ROOT / "inputs" / "sturmian" / f"{name}.yaml", SturmianDeck, overrides)
    made = build(loaded, device)
    return Collisions(made)  # type: ignore[arg-type]


def _nothing() -> None:
    pass


# ------------------------------------------------------------------------------------------------ steps


@case("sturmian-step", "a step of a driven equation: operations and bytes against the ceilings")
def step(bench: Bench) -> None:
    """Time products of the preconditioned operator with one vector and with ten."""
    rate = problem.product_rate(bench, complex)
    decks = {"temkin_poet": (ONE,), "he_dpi": (LENGTH,), "e3e": ()}
    for name, overrides in decks.items():
        work = collisions(bench.device, name, (*overrides, *(SMALL if bench.quick else ())))
        operator, s, energies = work.equation(work.jobs[-1 if name == "e3e" else 0], _nothing)
        for vectors in (1, 10):
            y = bench.device.xp.ascontiguousarray(
                bench.device.xp.repeat(operator.source(s[:1]), vectors, axis=0)
            )
            E = bench.device.asarray(np.full(vectors, energies[0], complex))
            timing = kernel(bench.device, partial(operator.step, y, E), 0.5)
            planes = 16.0 * operator.points**2 * len(operator.multipoles)
            moved = planes + vectors * (operator.traffic - planes)
            bench.row(
                f"{name}, {len(operator.pairs)} pairs, {vectors} vector{'s' * (vectors > 1)}",
                timing,
                Cost(operator.flops * vectors, moved),
                unknowns=operator.unknowns,
                points=operator.points,
                gemm_fraction=operator.flops * vectors / timing.seconds / rate,
            )
        problem.release(bench)


# ------------------------------------------------------------------------------------------------ whole


@case(
    "sturmian-collisions",
    "collisions from deck to cross sections; steps of the solver and the size of the box",
)
def whole(bench: Bench) -> None:
    """Time all solutions of some decks, without reading, writing and drawing."""
    no_numbers: dict[str, Any] = {}
    for label, (name, overrides, limit) in WHOLE.items():
        if not bench.quick:
            collisions(bench.device, name, (*overrides, *SMALL)).advance(lambda _: None)  # compile, load
        made, timing = _timed(bench.device, name, (*overrides, *(SMALL if bench.quick else ())))
        steps = [int(number) for solved in made.solved for number in solved.iterations]
        spent = sum(solved.seconds for solved in made.solved)
        numbers: dict[str, Any] = {
            "times_paper_cpu": PAPER_CPU / timing.seconds,
            "times_paper_gpu": PAPER_GPU / timing.seconds,
        }
        bench.row(
            label,
            timing,
            unknowns=max(solved.unknowns for solved in made.solved),
            iterations=max(steps),
            solver_s=spent,
            flop_per_s=sum(solved.flops * float(solved.iterations.sum()) for solved in made.solved) / spent,
            **(numbers if name == "e3e" else no_numbers),
        )
        if limit is not None and not bench.device.is_cuda:
            bench.goal(f"{label}, one core", timing.seconds, limit, "s")
        if name == "e3e" and bench.device.is_cuda:
            bench.goal("the paper's (e,3e) example", timing.seconds, 60.0, "s")
        problem.release(bench)
    _boxes(bench)


def _timed(device: Device, name: str, overrides: Sequence[str]) -> tuple[Collisions, Timing]:
    begun, busy = time.perf_counter(), time.process_time()
    made = collisions(device, name, overrides)
    made.advance(lambda _: None)
    device.synchronize()
    seconds, busy = time.perf_counter() - begun, time.process_time() - busy
    return made, Timing(seconds, seconds, 1, "wall", None if device.is_cuda else busy)


def _boxes(bench: Bench) -> None:
    """Record the steps of the solver for boxes of several sizes."""
    found = []
    for R in BOXES[:2] if bench.quick else BOXES:
        overrides = (
            ONE,
            f"grid.R={R:g}",
            "task.errors=false",
            *(() if not bench.quick else ("grid.order=9",)),
        )
        made, timing = _timed(bench.device, "temkin_poet", overrides)
        found.append(max(int(number) for solved in made.solved for number in solved.iterations))
        bench.row(
            f"Temkin-Poet, box of {R:g} bohr", timing, iterations=found[-1], unknowns=made.solved[0].unknowns
        )
    bench.goal("steps of the largest box over those of the smallest", max(found) / min(found), 2.0)


# ------------------------------------------------------------------------------------------------ batch


@case(
    "sturmian-batch",
    "ten energies of (e,3e) for L = 0, 1, 2 in one batch each, beside one core",
    devices=("cuda",),
)
def batch(bench: Bench) -> None:
    """Time the solver for all energies together; on one core one energy of each L, times ten."""
    overrides = (*BATCH, *(SMALL if bench.quick else ()))
    device = bench.device
    if not device.is_cuda:
        raise Skip("a comparison with a GPU")
    work = collisions(device, "e3e", overrides)
    here = there = 0.0
    for job in work.jobs:
        operator, s, energies = work.equation(job, _nothing)
        solve = _solver(operator, s, energies)
        solve()  # libraries, memory
        device.synchronize()
        begun = time.perf_counter()
        found = solve()
        device.synchronize()
        seconds = time.perf_counter() - begun
        steps = float(found.iterations.sum())
        bench.row(
            f"L = {operator.L}, {len(energies)} energies",
            Timing(seconds, seconds, 1, "wall"),
            Cost(operator.flops * steps, operator.traffic * steps),
            unknowns=operator.unknowns,
            iterations=int(found.iterations.max()),
            residual=float(found.residuals.max()),
        )
        here += seconds
    core = collisions(bench.core, "e3e", overrides)
    for job in core.jobs:
        operator, s, energies = core.equation(job, _nothing)
        middle = len(energies) // 2
        solve = _solver(operator, s[middle : middle + 1], energies[middle : middle + 1])
        begun, busy = time.perf_counter(), time.process_time()
        solve()
        seconds, busy = time.perf_counter() - begun, time.process_time() - busy
        bench.row(
            f"L = {operator.L}, one energy, one core",
            Timing(seconds, seconds, 1, "wall", busy),
            device=bench.core,
        )
        there += len(energies) * min(seconds, busy)
    bench.row("all L, all energies", Timing(here, here, 1, "wall"), one_core_s=there)
    bench.goal("ten energies x three L of (e,3e) over one core", there / here, 20.0, "", at_least=True)


def _solver(operator: driven.Driven, s: Any, energies: list[float]) -> Any:
    return lambda: driven.solve(operator, s, np.array(energies), tolerance=1e-8)
