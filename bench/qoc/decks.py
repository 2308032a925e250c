"""Whole decks, as a user runs them: stages in this process, and the command from start to exit."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from bench.harness import Bench, Skip, Timing, case

ROOT = Path(__file__).resolve().parents[2]
DECKS = ("morse.yaml",)


@case("qoc-decks", "wall time of the stages of inputs/qoc/morse.yaml, and of the command")
def decks(bench: Bench) -> None:
    """The first run in a process imports and loads kernels; the later ones show the work itself."""
    if importlib.util.find_spec("pydantic") is None:
        raise Skip("decks need pydantic, which is not installed")
    repeats = 1 if bench.quick else 2 if bench.device.is_cuda else 5
    for name in DECKS:
        with tempfile.TemporaryDirectory() as folder:
            _stages(bench, name, folder, repeats)
            for label, options in (("", ()), (" without figures", ("--no-figures",))):
                timing = _command(bench, name, folder, options, repeats)
                bench.row(f"{name} command{label}, from start to exit", timing)


def _stages(bench: Bench, name: str, folder: str, repeats: int) -> None:
    from qsim.core.run.pipeline import Options, execute

    options = Options(device=bench.device.label, output=folder, force=True, verbosity=-1)
    stages: dict[str, list[float]] = defaultdict(list)
    summary: dict[str, Any] = {}
    for repeat in range(1 + repeats):
        start = time.perf_counter()
        summary = execute("qoc", ROOT / "inputs" / "qoc" / name, options).summary
        seconds = time.perf_counter() - start
        if repeat == 0:
            bench.row(f"{name} first run in a process", _timing([seconds]))
            continue
        for stage, spent in {**summary["timing"], "all": seconds}.items():
            stages[stage].append(spent)
    for stage, times in stages.items():
        bench.row(f"{name} {stage}", _timing(times))
    scalars = summary["scalars"]
    bench.note(
        f"{name}: P = {_value(scalars['probability']):.6f} after {_value(scalars['sweeps']):.0f} sweeps; "
        "the stage run is the sum of optimise, analyse and verify"
    )


def _command(bench: Bench, name: str, folder: str, options: tuple[str, ...], repeats: int) -> Timing:
    """Time ``qsim qoc DECK`` as a process of its own."""
    command = [sys.executable, "-m", "qsim", "qoc", str(ROOT / "inputs" / "qoc" / name), "-o", folder]
    command += ["--force", "--quiet", "--device", bench.device.label, *options]
    times = []
    for _ in range(min(repeats, 3)):
        start = time.perf_counter()
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return _timing(times)


def _timing(times: list[float]) -> Timing:
    return Timing(median(times), min(times), len(times), "wall")


def _value(scalar: Any) -> float:
    return float(scalar["value"] if isinstance(scalar, dict) else scalar)
