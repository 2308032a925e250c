"""Steps of an electron in three dimensions: time per radial point, l and step, in either gauge."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bench.harness import Bench, Cost, case, wall
from bench.tridiag import problem
from qsim.core.device.hardware import available_threads
from qsim.tridiag.atom.evolution.propagator import AtomLattice, Propagator
from qsim.tridiag.atom.states.grid import RadialGrid, mapped, uniform
from qsim.tridiag.atom.states.lanes import Lanes, PlanarLanes
from qsim.tridiag.kernels.atom.sharing import Sharing
from qsim.tridiag.kernels.simd import WIDTH

SIZES = ((2000, 32), (4000, 64))  # radial points, l
# per point, l and step: fused multiply-adds that any scheme of this kind needs (guide of the method)
FLOPS = {"length": 2 * 42.0, "velocity": 2 * 120.0}
GOALS = {"length": 5.0, "velocity": 10.0}  # ns per point, l and step at 4000 x 64, one core
SHARED = ((4000, 60), (1500, 200))
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
    bench.notes.append("on another core, ns per point, l and step: Qprop 115 to 118, SCID-TDSE 290")


@case(
    "tridiag-atom-threads",
    "steps of an electron in three dimensions on 1, 2, 4 ... threads",
    devices=("cpu",),
)
def shared(bench: Bench) -> None:
    """Time steps that threads share, and record ratios to one."""
    for points, momenta in SHARED[:1] if bench.quick else SHARED:
        for gauge in GOALS:
            label = f"{points} x {momenta}, {gauge} gauge"
            _on_threads(
                bench, label, lambda w, p=points, k=momenta, g=gauge: _run(uniform(0.2 * p, 0.2), k, g, w)
            )
    _on_threads(bench, "attoclock, 630 (l, m)", lambda width: _turning(mapped(160.0, 0.3, 0.05, 30.0), 34))


def _on_threads(bench: Bench, label: str, make: Callable[[int], Propagator]) -> None:
    """Time steps, and steps each of which is sampled, on 1, 2, 4 ... threads."""
    most = available_threads()
    for sampled in (False, True):
        one = 0.0
        for parts in [1, *(2**k for k in range(1, 8) if 2**k < most), most]:
            run = make(1 if parts == 1 else WIDTH)
            size = run.lattice.grid.points * run.lanes.used
            steps = max(2, int(WORK / size))
            run.sharing = _Always(parts, 4 * run.lanes.pairs if not run.velocity else run.lanes.pairs)
            if run.sharing.choices[-1] < parts:
                continue
            work = partial(_sampled, run, steps) if sampled else partial(run.advance, steps)
            timing = problem.scaled(wall(bench.device, work, budget=0.5), steps)
            one = one or timing.seconds
            text = f"{label}{', sampled' * sampled}, {parts} thread{'s' * (parts > 1)}"
            bench.row(text, timing, threads=parts, ratio=one / timing.seconds)


def _sampled(run: Propagator, steps: int) -> None:
    run.sampled(list(range(run.step + 1, run.step + steps + 1)))


class _Always(Sharing):
    """As many threads as there are."""

    def do(self, steps: int, run: Callable[[int], None], trial: Callable[[], Callable[[int], None]]) -> None:
        run(self.choices[-1])


def _turning(grid: RadialGrid, lmax: int) -> Propagator:
    """Return a state and its steps in a circular field."""
    lattice, lanes = AtomLattice(grid, -1.0 / grid.r, 1.0 / grid.r**2, 1.0), PlanarLanes((0,), lmax)
    phi = np.random.default_rng(1).normal(size=(lanes.used, grid.points)) + 0j

    def field(t: NDArray[np.float64]) -> NDArray[np.float64]:
        return 0.05 * np.array([np.cos(0.057 * t), np.sin(0.057 * t)])

    return Propagator(lattice, lanes, phi / np.linalg.norm(phi), 0.1, velocity=False, field=field)


def _run(grid: RadialGrid, momenta: int, gauge: str, width: int = 1) -> Propagator:
    """Return a state and its steps in a field that changes."""
    lattice, lanes = AtomLattice(grid, -1.0 / grid.r, 1.0 / grid.r**2, 1.0), Lanes(0, momenta - 1, width)
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
