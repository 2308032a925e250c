"""Small systems in batches, and one after another."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.ceilings import multiprocessors
from bench.harness import Bench, Cost, case, wall
from bench.trotter import problem
from qsim.trotter.evolution.batch import Batch
from qsim.trotter.evolution.layers import Evolver
from qsim.trotter.model.hamiltonian import Model

SIZES = (6, 8, 10, 12)
MEMBERS = {"cpu": (64,), "cuda": (64, 1024)}
ALONE = 64  # members that are carried one after another; the time of more is taken from these
STEPS = 50


@case(
    "trotter-ensemble", "64 systems of 6 to 12 spins as one batch and one after another, with their moments"
)
def ensembles(bench: Bench) -> None:
    """50 steps of the all-to-all model, other couplings in every member, then all moments along z."""
    for n in SIZES[:1] if bench.quick else SIZES:
        for members in MEMBERS[bench.device.kind]:
            _compared(bench, n, members)


def _models(spins: int, members: int) -> list[Model]:
    """Return models with other random couplings and fields each."""
    rng, found = np.random.default_rng(spins), []
    for _ in range(members):
        pairs = np.triu(rng.standard_normal((3, spins, spins)), 1)
        found.append(Model(spins, pairs + pairs.transpose(0, 2, 1), rng.standard_normal((3, spins))))
    return found


def _compared(bench: Bench, n: int, members: int) -> None:
    device, models = bench.device, _models(n, members)
    psi = device.asarray(np.tile(problem.noise(n), (members, 1)))
    batch = Batch(device, models, psi)
    single = [Evolver(device, model, psi[m]) for m, model in enumerate(models[:ALONE])]
    batch.advance(problem.METHOD, problem.DT, 1)
    for one in single:
        one.advance(problem.METHOD, problem.DT, 1)
    apart = max(problem.difference(batch.psi[m], one.psi) for m, one in enumerate(single))

    def advance_each() -> None:
        for one in single:
            one.advance(problem.METHOD, problem.DT, STEPS)

    # a state stays on the chip: it is read and written once
    flops = members * (2.0 * n + problem.PHASE_FLOPS) * (problem.LAYERS * STEPS + 1) * 2.0**n
    cost = Cost(flops, members * problem.pass_bytes(n), min(1.0, members / multiprocessors(device)))
    works: dict[str, tuple[Any, Any, Cost | None]] = {
        f"{STEPS} steps": (
            lambda: batch.advance(problem.METHOD, problem.DT, STEPS),
            advance_each,
            cost,
        ),
        "moments along z": (lambda: batch.measure("z"), lambda: [one.measure("z") for one in single], None),
    }
    for name, (together, each, floor) in works.items():
        label = f"N={n}, {members} members, {name}"
        ours = wall(device, together, budget=0.5)
        bench.row(f"{label}: a batch", ours, floor, spins=n, members=members, difference=apart)
        alone = problem.scaled(wall(device, each, budget=0.5), len(single) / members)
        bench.row(
            f"{label}: one after another",
            alone,
            spins=n,
            members=members,
            **problem.ratios(alone, ours),
        )
