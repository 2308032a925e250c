"""Many small decks by one sweep, beside as many commands: ``python bench/sweeps.py [OUT.json] [--decks 100]``.

A command pays for the interpreter, its imports and the kernels from the cache; a sweep pays once for each of its processes.
Times are processor time (of all child processes, user and system) and wall time; some of the commands are run and stand for all.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DECK = ROOT / "inputs/tridiag/solve_random.yaml"
SMALL = "system.n=2000"
# a key that changes the deck, and not its work
KEY = "system.seed"
# commands that are run in place of all
COMMANDS = 5


def timed(words: list[str], folder: str) -> dict[str, float]:
    """Run a command of qsim; return its wall time and processor time, s."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "qsim", *words],
        cwd=folder,
        env=environ,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {"wall": round(wall, 3), "processor": round(processor, 3)}


def compared(decks: int) -> dict[str, Any]:
    """Return the times of a sweep and of its decks as commands, with their ratios."""
    alone = ["tridiag", str(DECK), "--set", SMALL, "--no-figures", "--quiet", "--force", "-o", "one"]
    with tempfile.TemporaryDirectory() as folder:
        # compiles, where nothing is in the cache
        timed(alone, folder)
        each = [timed(alone, folder) for _ in range(COMMANDS)]
        over = f"{KEY}=1:{decks}:{decks}"
        words = ["sweep", str(DECK), "--set", SMALL, "--over", over, "--jobs", "1", "-o", "many"]
        sweep = timed(words, folder)
    command = {name: min(one[name] for one in each) for name in ("wall", "processor")}
    ratio = {name: round(decks * command[name] / sweep[name], 1) for name in command}
    return {"decks": decks, "sweep": sweep, "command": command, "commands by sweep": ratio}


def main() -> None:
    """Measure, print, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--decks", type=int, default=100)
    options = parser.parse_args()
    found = compared(options.decks)
    text = json.dumps(found, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
