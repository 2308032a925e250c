"""Decks of crystals from start to end on a GPU, in both precisions, and on all threads of its host: do energies agree?

Each run has random numbers of its own, so that its error is independent of the others.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import qsim
from bench.harness import Bench, Timing, case
from bench.qmc.problem import DECKS
from qsim.core.device.hardware import available_threads

NAMES = ("hydrogen_bcc", "electron_gas", "diamond_primitive", "diamond16")
# What makes the decks shorter or, where error bars would say little, longer
OVERRIDES: dict[str, tuple[str, ...]] = {
    "electron_gas": ("series.2.dmc.timesteps=[0.3]", "series.2.dmc.extrapolate=none"),
    "diamond_primitive": ("series.2.dmc.blocks=80",),
}
ENERGIES = ("vmc_energy", "dmc_energy")
SIGMAS = 3.0
RUNS = {"CPU": 1, "GPU, double": 2, "GPU, mixed": 3}  # with their seeds


@dataclass(frozen=True)
class Found:
    """An energy with its standard error, hartree."""

    value: float
    error: float


@case(
    "qmc-crystal-decks",
    "energies of the decks of crystals: GPU in both precisions against all threads of its host",
    devices=("cuda",),
)
def decks(bench: Bench) -> None:
    """Rows with the energies of each run and their deviation from the CPU in standard errors."""
    for name in NAMES[: 1 if bench.quick else None]:
        base: dict[str, Found] = {}
        for run, seed in RUNS.items():
            seconds, energies = _run(name, run, seed)
            for key, found in energies.items():
                numbers: dict[str, Any] = {"energy": found.value, "energy_error": found.error}
                if run == "CPU":
                    base[key] = found
                else:
                    apart = abs(found.value - base[key].value) / math.hypot(found.error, base[key].error)
                    numbers["sigmas"] = apart
                    text = f"{name}, {key}, {run}: deviation from the CPU"
                    bench.goal(text, apart, SIGMAS, "standard errors")
                label = f"{name}, {run}: {key}"
                timing = Timing(seconds, seconds, 1, "wall")
                bench.row(label, timing, deck=name, run=run, kind=key, **numbers)


def _run(name: str, run: str, seed: int) -> tuple[float, dict[str, Found]]:
    """Run a deck; return the seconds, compilations included, and the energies."""
    overrides = [*OVERRIDES.get(name, ()), f"run.seed={seed}"]
    if run == "GPU, mixed":
        overrides.append("run.precision=mixed")
    device = "cpu" if run == "CPU" else "cuda"
    threads: dict[str, Any] = {"threads": available_threads()} if run == "CPU" else {}
    begin = time.perf_counter()
    with TemporaryDirectory() as folder:
        output = Path(folder) / "run.h5"
        with qsim.run(
            DECKS / f"{name}.yaml", device=device, output=output, overrides=overrides, **threads
        ) as results:
            energies = {key: _found(results.scalars[key]) for key in ENERGIES}
    return time.perf_counter() - begin, energies


def _found(scalar: Any) -> Found:
    """Return an energy of a results file, which has an error if there are enough blocks."""
    return Found(float(scalar.value), float(scalar.error))
