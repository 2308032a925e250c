"""Kernels of molecules on a GPU, one by one: moves, local energies, T-moves, recomputation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.harness import Bench, case, replayed
from bench.qmc import problem
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.walk_cpu import DRIFT
from qsim.qmc.sampling.walkers import Walkers

COUNT = 8192
SWEEPS = 10  # of a launch
#: Sweeps of a walker per second in double precision: 8 and 3 times version 0.1.0.
GOALS = {"He": 8 * 8.4e7, "H2O": 3 * 1.7e7}
ENERGY = -17.0  # hartree, that weights refer to; no time depends on it


@case("qmc-kernels", "kernels of He and H2O one by one, both precisions", devices=("cuda",))
def molecules(bench: Bench) -> None:
    """A row for each kernel; goals are those of moves, some sweeps a launch."""
    count = 64 if bench.quick else COUNT
    for name, goal in GOALS.items():
        for single in (False, True):
            psi, tau = problem.of_deck(name), problem.TAU[name]
            walkers = problem.ensemble(bench.device, psi, count, tau, single=single)
            for kind, launch in _launches(walkers, tau).items():
                timing = replayed(bench.device, launch)
                text = f"{name} {count} walkers, {problem.REAL[single]}: {kind}"
                sweeps = SWEEPS if kind == f"{SWEEPS} sweeps" else 1 if kind == "1 sweep" else 0
                rate: dict[str, Any] = {"sweeps_per_s": count * sweeps / timing.seconds} if sweeps else {}
                bench.row(text, timing, kind=kind, system=name, walkers=count, **rate)
                if sweeps == SWEEPS and not single:
                    bench.goal(
                        f"{name}: sweeps of a walker", rate["sweeps_per_s"], goal, "1/s", at_least=True
                    )


def _launches(walkers: Walkers, tau: float) -> dict[str, Callable[[], None]]:
    """Return the launch of each kernel of these walkers."""
    launch, stream = walk.launch_of(walkers.mine, walkers.tables), walkers.stream(problem.SECTION)
    how, error = (np.float64(tau), np.int32(DRIFT)), walkers.device.xp.zeros(walkers.count)
    limits = tuple(map(np.float64, (0.0, ENERGY, ENERGY, 1.0)))
    found: dict[str, Callable[[], None]] = {
        f"{SWEEPS} sweeps": lambda: launch("walk", (*how, np.int32(SWEEPS)), stream),
        "1 sweep": lambda: launch("walk", (*how, np.int32(1)), stream),
        "local energies": lambda: launch("energies", (), stream, (np.uint64(0),)),
        "local energies and weights": lambda: launch("weigh", limits, stream),
        "recomputation": lambda: launch("recompute", (error,)),
    }
    if launch.has_nonlocal:
        found["T-moves"] = lambda: launch("nonlocal_steps", (np.float64(tau),), stream)
    return found
