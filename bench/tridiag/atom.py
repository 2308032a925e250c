"""Steps of an electron in three dimensions: time per radial point, l and step, in either gauge."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from bench.harness import Bench, Cost, case, wall
from bench.tridiag import problem
from qsim.core.device.hardware import available_threads
from qsim.tridiag.atom.evolution.propagator import AtomLattice, Propagator
from qsim.tridiag.atom.states.grid import RadialGrid, mapped, uniform
from qsim.tridiag.atom.states.lanes import Lanes
from qsim.tridiag.kernels.atom.sharing import Sharing

SIZES = ((2000, 32), (4000, 64))  # radial points, l
# per point, l and step: fused multiply-adds that any scheme of this kind needs (guide of the method)
FLOPS = {"length": 2 * 42.0, "velocity": 2 * 120.0}
GOALS = {"length": 5.0, "velocity": 10.0}  # ns per point, l and step at 4000 x 64, one core
SHARED = ((4000, 64), (1500, 200))
WORK = 4e6  # points times l times steps of one measurement
CLUBS = (2766, 600)  # of Qprop's example large-clubs: 2 um, 1e14 W/cm2, 33 000 steps


@case("tridiag-atom", "steps of an electron in three dimensions, length and velocity gauge", devices=("cpu",))
def atom(bench: Bench) -> None:
    """Nanoseconds per point, l and step of one core; other programs on another machine are in the notes."""
    for points, momenta in SIZES[:1] if bench.quick else SIZES:
        for gauge, goal in GOALS.items():
            found = _measure(bench, f"{points} x {momenta}", uniform(0.2 * points, 0.2), momenta, gauge)
            if (points, momenta) == SIZES[-1]:
                bench.goal(f"{gauge} gauge, ns per point, l and step", found, goal, "ns")
    _measure(bench, "mapped grid of h_hhg_800nm", mapped(200.0, 0.2, 0.0125, 60.0), 41, "length")
    if not bench.quick:
        points, momenta = CLUBS
        each = _measure(bench, "large-clubs", uniform(0.2 * points, 0.2), momenta, "velocity")
        bench.row("large-clubs, 33 000 steps, extrapolated", seconds=33_000 * each * points * momenta * 1e-9)
    _shared(bench)
    bench.notes.append("on another core, ns per point, l and step: Qprop 115 to 118, SCID-TDSE 290")


def _shared(bench: Bench) -> None:
    """Time steps that 1, 2, 4 ... threads share, and record ratios to one."""
    most = available_threads()
    for points, momenta in SHARED[:1] if bench.quick else SHARED:
        for gauge in GOALS:
            run = _run(uniform(0.2 * points, 0.2), momenta, gauge)
            steps, one = max(2, int(WORK / points / momenta)), 0.0
            for parts in [parts for parts in Sharing(most, run.lanes.pairs).choices if parts <= most]:
                run.sharing = _Always(parts, run.lanes.pairs)
                timing = problem.scaled(wall(bench.device, partial(run.advance, steps), budget=1.0), steps)
                one = one or timing.seconds
                label = f"{points} x {momenta}, {gauge} gauge, {parts} thread{'s' * (parts > 1)}"
                bench.row(label, timing, threads=parts, ratio=one / timing.seconds)


class _Always(Sharing):
    """As many threads as there are."""

    def do(self, steps: int, run: Callable[[int], None], trial: Callable[[], Callable[[int], None]]) -> None:
        run(self.choices[-1])


def _run(grid: RadialGrid, momenta: int, gauge: str) -> Propagator:
    """Return a state and its steps in a field that changes."""
    lattice, lanes = AtomLattice(grid, -1.0 / grid.r, 1.0 / grid.r**2, 1.0), Lanes(0, momenta - 1)
    phi = np.random.default_rng(1).normal(size=(momenta, grid.points)) + 0j
    phi /= np.linalg.norm(phi)
    return Propagator(
        lattice,
        lanes,
        phi,
        0.05,
        velocity=gauge == "velocity",
        field=lambda t: 0.05 * np.cos(0.057 * t),
    )


def _measure(bench: Bench, label: str, grid: RadialGrid, momenta: int, gauge: str) -> float:
    """Time steps, and record a row; return nanoseconds per point, l and step."""
    run = _run(grid, momenta, gauge)
    size = grid.points * momenta
    steps = max(2, int(WORK / size))
    timing = problem.scaled(wall(bench.device, lambda: run.advance(steps), budget=1.0), steps)
    busy = min(timing.best, timing.cpu_seconds or timing.best)
    bench.row(
        f"{label}, {gauge} gauge", timing, Cost(flops=FLOPS[gauge] * size), ns_per_point=1e9 * busy / size
    )
    return 1e9 * busy / size
