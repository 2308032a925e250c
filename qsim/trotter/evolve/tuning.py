"""The fastest tiles of a device, found by a few steps before a long run, or remembered from an earlier one."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device import tuning
from qsim.trotter.evolution.integrators import METHODS
from qsim.trotter.evolution.layers import Evolver, Tile, device_tiles, tilings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qsim.core.run.progress import Monitor
    from qsim.trotter.evolution.accuracy import Choice
    from qsim.trotter.evolve.problem import Problem

# below, there is hardly a choice or hardly a difference
LEAST_SPINS = {"cpu": 16, "cuda": 20}
# of a run that is worth the trial
LEAST_STEPS = 200
# of a trial; on a GPU recorded ones, as in the run
STEPS = {"cpu": 1, "cuda": 8}
# the first of them compiles
TRIALS = 3
# below this the usual tiles stay: timings are not better than that
GAIN = 0.03


def tuned(problem: Problem, how: Choice, steps: int, monitor: Monitor) -> Choice:
    """Return the choice with the fastest tiling, if it is known or worth finding out.

    Parameters
    ----------
    problem : Problem
    how : Choice
    steps : int
        Of all trajectories.
    monitor : Monitor
        Is told the choice.
    """
    device, spins = problem.device, problem.spins
    # tiles matter to layers of large states, and trials pay only in long runs
    if (
        how.method not in METHODS
        or problem.sector is not None
        or spins < LEAST_SPINS[device.kind]
        or steps < LEAST_STEPS
        or not tuning.enabled()
    ):
        return how
    candidates = tilings(spins, *device_tiles(device, np.dtype(problem.dtype).itemsize))
    if len(candidates) == 1:
        return how
    names = [_name(tiling) for tiling in candidates]
    key = {"spins": spins, "dtype": np.dtype(problem.dtype).name}
    # timings of this device are kept from run to run
    name, origin = tuning.recall("trotter", device, key), "as found earlier"
    if name not in names:
        with monitor.stage("tuning"):
            seconds = _timed(problem, candidates)
        best = int(np.argmin(seconds))
        # within GAIN of the usual tiles timings do not differ
        name = names[best if seconds[best] < (1.0 - GAIN) * seconds[0] else 0]
        path = tuning.remember("trotter", device, key, name)
        origin = "kept in " + str(path) if path is not None else "not kept, since the cache cannot be written"
        origin = (
            ", ".join(f"{n} {1e3 * s:.3g} ms" for n, s in zip(names, seconds, strict=True)) + f"; {origin}"
        )
    monitor.note(f"tiles {name} ({origin})")
    chosen = names.index(name)
    if chosen == 0:
        return how
    return replace(how, tiling=(device.kind, tuple((t.low, t.high, t.bits) for t in candidates[chosen])))


def _name(tiling: Sequence[Tile]) -> str:
    """Return the bits of the tiles and how many of them are rotated, such as ``12+8/12``."""
    return "+".join(str(t.bits) if t.low == t.bits else f"{t.bits - t.low}/{t.bits}" for t in tiling)


def _timed(problem: Problem, candidates: Sequence[Sequence[Tile]]) -> list[float]:
    """Return the seconds of a few steps with each tiling, on an array that the first trajectory takes over after it."""
    device, steps = problem.device, STEPS[problem.device.kind]
    model = problem.hamiltonian().at(0.0)
    seconds = []
    with device.use():
        # any state will do: passes cost the same whatever the amplitudes
        psi = device.xp.full(1 << problem.spins, 2.0 ** (-problem.spins / 2), problem.dtype)
    precision = problem.precision
    for tiling in candidates:
        evolver = Evolver(device, model, psi, precision=precision, own=True, tiling=tiling)
        times = []
        # the fastest of some trials, against other load of the machine
        for _ in range(TRIALS):
            device.synchronize()
            start = time.perf_counter()
            evolver.advance("ts2", 1e-3, steps)
            device.synchronize()
            times.append(time.perf_counter() - start)
        seconds.append(min(times))
    return seconds
