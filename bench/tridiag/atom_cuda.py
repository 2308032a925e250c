"""Steps of an electron in three dimensions on a GPU: one run, a large one out of the caches, many small ones in one launch."""

from __future__ import annotations

import numpy as np

from bench.harness import Bench, Cost, case, wall
from qsim.tridiag.atom.evolution.cuda import CudaBatch, Stepping
from qsim.tridiag.atom.evolution.propagator import AtomLattice, Propagator
from qsim.tridiag.atom.states.grid import RadialGrid, mapped, uniform
from qsim.tridiag.atom.states.lanes import Lanes

DT = 0.05
# fused multiply-adds per point, l and step that any scheme of this kind needs (guide of the method), floor of the time
FLOPS = {"length": 2 * 42.0, "velocity": 2 * 120.0}
GOALS = {"length": 4.0, "velocity": 9.0}  # us per step, 4000 points, l < 60
# points, l: us per step in length gauge, in velocity gauge
LARGE_GOALS = {(25_000, 400): (120.0, 250.0), (100_000, 400): (500.0, 900.0), (2_766, 600): (12.0, 25.0)}
ENSEMBLE = (800, 21, 132)  # points, l, members
GAIN = 5.0
CHECK = 1e-11  # largest difference from a CPU after some steps, of states of norm 1


@case("tridiag-atom-cuda", "steps of an electron in three dimensions on a GPU, ensembles", devices=("cuda",))
def atom_cuda(bench: Bench) -> None:
    """Microseconds per step, and throughput of many runs against one."""
    for gauge, goal in GOALS.items():
        _check(bench, gauge)
        grid = uniform(0.2 * (400 if bench.quick else 4000), 0.2)
        timing = _measure(bench, f"{grid.points} x 60, {gauge} gauge", grid, 60, gauge, steps=1000)
        bench.goal(f"4000 x 60, {gauge} gauge, per step", 1e6 * timing, goal, "us")
    points, momenta, members = ENSEMBLE
    grid = mapped(0.2 * points, 0.2, 0.0125, 60.0)
    for gauge in GOALS:
        one = _measure(bench, f"{grid.points} x {momenta}, {gauge} gauge", grid, momenta, gauge, steps=1000)
        label = f"{members} runs of {grid.points} x {momenta}, {gauge} gauge"
        many = _measure(bench, label, grid, momenta, gauge, steps=200, members=members)
        bench.goal(f"{label}: throughput against one", members * one / many, GAIN, "x", at_least=True)
    if not bench.quick:
        _large(bench)


def _batch(
    bench: Bench, grid: RadialGrid, momenta: int, gauge: str, members: int = 1, *, noise: bool = True
) -> CudaBatch:
    """Return runs of hydrogen in fields of different strength, their states noise or zero."""
    lattice, lanes = AtomLattice(grid, -1.0 / grid.r, 1.0 / grid.r**2, 1.0), Lanes(0, momenta - 1)
    phi = np.zeros((momenta, grid.points), complex)
    if noise:
        phi += np.random.default_rng(1).normal(size=phi.shape)
        phi /= np.linalg.norm(phi)
    fields = [lambda t, k=k: (0.05 - 0.0001 * k) * np.cos(0.057 * t) for k in range(members)]
    how = Stepping(DT, gauge == "velocity")
    return CudaBatch(bench.device, lattice, lanes, [phi] * members, fields, how)


def _measure(
    bench: Bench, label: str, grid: RadialGrid, momenta: int, gauge: str, steps: int, members: int = 1
) -> float:
    """Time steps, with the sums of the last in each call, and record a row; return seconds per step."""
    batch = _batch(bench, grid, momenta, gauge, members)
    mark = np.array([steps])
    timing = wall(bench.device, lambda: batch.advance(steps, mark), budget=0.5)
    points = float(grid.points * momenta * members * steps)
    bench.row(
        label,
        timing,
        Cost(flops=FLOPS[gauge] * points),
        steps=steps,
        rows=batch.shape.rows,
        blocks=batch.shape.blocks * batch.shape.together,
        ns_per_point=1e9 * timing.seconds / points,
    )
    return timing.seconds / steps


def _large(bench: Bench) -> None:
    """States that do not fit on the chip: their points pass the memory once per step, in velocity gauge four times."""
    for (points, momenta), goals in LARGE_GOALS.items():
        grid = uniform(0.2 * points, 0.2)
        for gauge, goal in zip(GOALS, goals, strict=True):
            batch = _batch(bench, grid, momenta, gauge, noise=False)
            steps = max(8, 200_000_000 // (points * momenta))
            timing = wall(
                bench.device,
                lambda batch=batch, steps=steps: batch.advance(steps, np.array([steps])),
                budget=0.2,
            )
            work = float(points * momenta * steps)
            bench.row(
                f"{points} x {momenta}, {gauge} gauge",
                timing,
                Cost(flops=FLOPS[gauge] * work, bytes=32.0 * work),
                steps=steps,
                rows=batch.shape.rows,
                blocks=batch.shape.blocks,
                us_per_step=1e6 * timing.seconds / steps,
                ns_per_point=1e9 * timing.seconds / work,
            )
            bench.goal(
                f"{points} x {momenta}, {gauge} gauge, per step", 1e6 * timing.seconds / steps, goal, "us"
            )
            del batch


def _check(bench: Bench, gauge: str) -> None:
    """Steps are those of a CPU."""
    batch = _batch(bench, mapped(60.0, 0.2, 0.0125, 60.0), 20, gauge)
    alone = Propagator(
        batch.lattice, batch.lanes, batch.phi(0), DT, velocity=gauge == "velocity", field=batch.fields[0]
    )
    batch.advance(20, np.array([20]))
    alone.advance(20)
    difference = float(np.abs(batch.phi(0) - alone.phi).max())
    bench.row(f"{gauge} gauge, 20 steps: largest difference from a CPU", difference=difference)
    bench.goal(f"{gauge} gauge: difference from a CPU", difference, CHECK)
