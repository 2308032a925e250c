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

from bench.harness import Bench, Skip, Timing, case

ROOT = Path(__file__).resolve().parents[2]
DECKS = ("morse.yaml",)


@case("qoc-decks", "wall time of the stages of inputs/qoc/morse.yaml, and of the command")
def decks(bench: Bench) -> None:
    """The first run in this process loads or compiles kernels; the later ones show the work itself."""
    if importlib.util.find_spec("pydantic") is None:
        raise Skip("decks need pydantic, which is not installed")
    from qsim.core.pipeline import Options, execute

    for name in DECKS:
        deck = ROOT / "inputs" / "qoc" / name
        with tempfile.TemporaryDirectory() as folder:
            options = Options(device=bench.device.label, output=folder, force=True, verbosity=-1)
            stages: dict[str, list[float]] = defaultdict(list)
            for repeat in range(3 if bench.quick else 6):
                start = time.perf_counter()
                outcome = execute("qoc", deck, options)
                stages["total"].append(time.perf_counter() - start)
                for stage, seconds in outcome.summary["timing"].items():
                    stages[stage].append(seconds)
                if repeat == 0:
                    bench.row(f"{name} first run in a process", _timing(stages["total"]))
                    stages.clear()
            for stage, times in stages.items():
                bench.row(f"{name} {stage}", _timing(times))
            scalars = outcome.summary["scalars"]
            bench.note(
                f"{name}: P = {_value(scalars['probability']):.6f} after {_value(scalars['sweeps']):.0f} sweeps"
            )
            bench.row(f"{name} command, from start to exit", _command(bench, deck, folder))


def _command(bench: Bench, deck: Path, folder: str) -> Timing:
    """Time ``qsim qoc DECK`` as a process of its own: imports and figures included."""
    times = []
    command = [sys.executable, "-m", "qsim", "qoc", str(deck), "-o", folder, "--force", "--quiet"]
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([*command, "--device", bench.device.label], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return _timing(times)


def _timing(times: list[float]) -> Timing:
    return Timing(median(times), min(times), len(times), "wall")


def _value(scalar: object) -> float:
    return float(scalar["value"] if isinstance(scalar, dict) else scalar)  # type: ignore[arg-type]
