"""Steps of two coordinates on one core: two electrons, a table of both coordinates, a condensate, beside Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.harness import Bench, Cost, Timing, case, wall
from bench.tridiag import problem
from qsim.core.deck.load import load_deck
from qsim.core.device.device import cpu
from qsim.tridiag.deck.plane import PlaneDeck
from qsim.tridiag.plane.build import build

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


@case(
    "tridiag-plane", "steps of two coordinates on one core, beside fast Fourier transforms", devices=("cpu",)
)
def plane(bench: Bench) -> None:
    """Nanoseconds per point and step, of a packet, so that no level is looked for."""
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
