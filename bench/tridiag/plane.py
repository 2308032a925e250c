"""Steps of two coordinates: two electrons, a table of both coordinates, a condensate; on one core beside Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.harness import Bench, Cost, Timing, case, wall
from bench.tridiag import problem
from qsim.core.deck.load import load_deck
from qsim.core.device.device import cpu
from qsim.tridiag.deck.plane import PlaneDeck
from qsim.tridiag.plane.build import build
from qsim.tridiag.plane.cuda import CudaPlanePropagator
from qsim.tridiag.plane.lattice import Axis, PlaneLattice
from qsim.tridiag.plane.propagator import PlanePropagator

POINTS, SPACING = (512, 1024), 0.25
DT = 0.05
WORK = 8e6  # points times steps of one measurement
# Of both kinetic filters (8 forwards and 8 backwards for each) and of three phases; a state is read and written.
FLOPS, BYTES = 2 * 16.0 + 18.0, 32.0
GOAL = 7.0  # ns per point and step
TRAP = {"type": "harmonic", "omega": [0.05, 0.05]}
SYSTEMS: dict[str, dict[str, Any]] = {
    "two electrons": {"type": "electrons", "potential": {"type": "softcore", "Z": 2, "a2": 1.0}},
    "a table of both": {"type": "particle", "potential": {"type": "softcore", "Z": 1, "a2": 1.0}},
    "a condensate": {"type": "condensate", "potential": TRAP, "g": 10.0},
}


# On a GPU: points, milliseconds per step of two electrons, and with a table of both (70 % of a copy; a table is read, too).
CUDA_GOALS = {1024: (0.015, 0.03), 8192: (0.72, 1.0)}
KINDS = {
    "two electrons": ("between", 0.0),
    "a table of both": ("table", 0.0),
    "a condensate": ("table", 10.0),
}
CHECK = 1e-12  # largest difference from a CPU after some steps, of states of norm 1


@case("tridiag-plane", "steps of two coordinates, on one core beside fast Fourier transforms")
def plane(bench: Bench) -> None:
    """Nanoseconds per point and step, of a packet, so that no level is looked for; milliseconds per step on a GPU."""
    if bench.device.is_cuda:
        _cuda(bench)
        return
    for points in POINTS[:1] if bench.quick else POINTS:
        fourier = _fourier(bench, points)
        for name, system in SYSTEMS.items():
            timing = _steps(points, system)
            own = _busy(timing) / points**2
            bench.row(
                f"{points} x {points}, {name}",
                timing,
                Cost(flops=FLOPS * points**2, bytes=BYTES * points**2),
                ns_per_point=1e9 * own,
                ratio_fourier=_busy(fourier) / points**2 / own,
            )
            bench.goal(f"{points} x {points}, {name}, ns per point and step", 1e9 * own, GOAL, "ns")


def _busy(timing: Timing) -> float:
    return min(timing.best, timing.cpu_seconds or timing.best)


def _steps(points: int, system: dict[str, Any]) -> Timing:
    half = 0.5 * SPACING * (points + 1)
    field = {"pulses": [{"shape": "sin2", "omega": 0.1, "E0": 0.01, "cycles": 100}]}
    deck = {
        "method": "tridiag",
        "task": "plane",
        "system": system,
        "grid": {"x": {"xmin": -half, "xmax": half, "points": points + 2}},
        "initial": {"type": "gaussian", "wx": 4.0, "wy": 4.0},
        "time": {"dt": DT, "t_final": 1000.0, "outputs": 1, "verify": False},
        **({} if system["type"] == "condensate" else {"laser": field}),
    }
    made = build(load_deck(deck, PlaneDeck), cpu(1))
    propagator = made.propagator(made.psi0, 0)
    steps = max(4, int(WORK / points**2))

    def work() -> None:
        propagator.step = 0
        propagator.advance(steps)

    return problem.scaled(wall(cpu(1), work, budget=2.0), steps)


def _fourier(bench: Bench, points: int) -> Timing:
    """Time one Strang step by transforms of both coordinates: what a program without such filters does."""
    import scipy.fft

    rng = np.random.default_rng(1)
    psi, kinetic, potential = (rng.normal(size=(points, points)) + 0j for _ in range(3))
    kinetic, potential = np.exp(1j * kinetic), np.exp(1j * potential)

    def work() -> None:
        moved = scipy.fft.fft2(psi * potential, workers=1)
        moved *= kinetic
        np.multiply(scipy.fft.ifft2(moved, workers=1), potential, out=psi)

    timing = wall(cpu(1), work, budget=2.0)
    bench.row(
        f"{points} x {points}, transforms of SciPy", timing, ns_per_point=1e9 * _busy(timing) / points**2
    )
    return timing


def _cuda(bench: Bench) -> None:
    for name, (kind, g) in KINDS.items():
        one, other = (_made(bench, 300, kind, g, 8, cuda=cuda) for cuda in (True, False))
        for made in (one, other):
            made.advance(8)
        difference = float(np.abs(one.psi - other.psi).max()) * SPACING
        bench.row(f"300 x 300, {name}, 8 steps: largest difference from a CPU", difference=difference)
        bench.goal(f"{name}: difference from a CPU", difference, CHECK)
    for points, goals in list(CUDA_GOALS.items())[: 1 if bench.quick else None]:
        for name, (kind, g) in KINDS.items():
            for single in (False, True):
                # a call makes one pass more than it has steps
                steps = 63 if points > 2000 else 639
                made = _made(bench, points, kind, g, steps, cuda=True, single=single)

                def work(made: PlanePropagator = made, steps: int = steps) -> None:
                    made.step = 0
                    made.advance(steps)

                # the second call records the passes, the third replays them
                work()
                timing = problem.scaled(wall(bench.device, work, budget=1.0), steps + 1)
                size = 1.0 if single else 2.0
                cost = Cost(
                    flops=2 * 56.0 * points**2,
                    bytes=(16.0 + 8.0 * (kind == "table")) * size * points**2,
                )
                label = f"{points} x {points}, {name}{', single precision' if single else ''}"
                bench.row(label, timing, cost, ms_per_step=1e3 * timing.seconds)
                if not single:
                    limit = goals[kind == "table"]
                    bench.goal(f"{label}: ms per step", 1e3 * timing.seconds, limit, "ms")
                del made, work
                problem.release(bench)


def _made(
    bench: Bench, points: int, kind: str, g: float, steps: int, *, cuda: bool, single: bool = False
) -> PlanePropagator:
    """Return a packet on a lattice, without the search for levels and the checks of a deck."""
    half = 0.5 * SPACING * (points + 1)
    axis = Axis(-half, SPACING, points)
    x, none = axis.x, np.zeros(points)
    apart = SPACING * np.arange(1 - points, points)
    own = -2.0 / np.sqrt(x * x + 1.0)
    between = 1.0 / np.sqrt(apart**2 + 1.0) if kind == "between" else None
    table = np.cos(0.1 * x[:, None] * x) if kind == "table" else None
    lattice = PlaneLattice((axis, axis), own, own, between, table, (none, none), 0, g)
    packet = np.exp(-((0.05 * x) ** 2) + 0.3j * x)
    packet /= np.linalg.norm(packet) * np.sqrt(SPACING)
    actions = 0.0 if g else 0.01 * DT * np.cos(0.1 * DT * np.arange(steps))
    common = (lattice, packet[:, None] * packet, DT, 2, np.zeros((2, steps)) + actions, (none + 1.0,) * 2)
    if cuda:
        return CudaPlanePropagator(*common, bench.device, single=single)
    return PlanePropagator(*common)
