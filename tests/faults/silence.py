"""How long a run does not look whether it should stop, and how long it takes from SIGTERM to its end.

``python tests/faults/silence.py --after 5 qoc tridiag`` runs the decks of ``inputs/`` of these methods, asks each to stop after
5 seconds of work and prints a table; without a method all have their turn.  ``--deck FILE --set KEY=VALUE`` runs one deck.  Time
that kernels take to compile does not count: there a second Ctrl-C ends the process.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The command line, which tells when its monitor looked for a stop.
PROGRAM = """
import atexit, json, os, sys
told = sys.argv.pop(1)
from qsim.core.run import progress
from qsim.__main__ import main

looks, Monitor = [], progress.Monitor
enter_, poll_, listen_ = Monitor.__enter__, Monitor.poll, Monitor.listen
begun_, ended_ = Monitor._compilation_begun, Monitor._compilation_ended

def enter(self):
    looks.append(self.working())
    open(told + ".begun", "w").close()
    return enter_(self)

def poll(self, state=None):
    looks.append(self.working())
    return poll_(self, state)

def listen(self):
    looks.append(self.working())
    return listen_(self)

def begun(self):
    open(told + ".compiling", "w").close()
    begun_(self)

def ended(self, seconds):
    os.unlink(told + ".compiling")
    ended_(self, seconds)

def tell():
    with open(told, "w") as file:
        json.dump([b - a for a, b in zip(looks, looks[1:])], file)

Monitor.__enter__, Monitor.poll, Monitor.listen = enter, poll, listen
Monitor._compilation_begun, Monitor._compilation_ended = begun, ended
atexit.register(tell)
main()
"""


@dataclass(frozen=True)
class Silence:
    """What was measured of one run.

    Attributes
    ----------
    method, task, deck
        What was run.
    looks
        Longest time between two looks for a stop, s; None if the process had to be killed.
    term
        Time from SIGTERM to the end of the process, s; None if it was complete before.
    code
        Exit code, negative for a signal.
    """

    method: str
    task: str
    deck: str
    looks: float | None
    term: float | None
    code: int

    def row(self) -> str:
        """Return the line of the table."""
        looks = "killed" if self.looks is None else f"{self.looks:.2f}"
        term = "complete" if self.term is None else f"{self.term:.2f}"
        return f"| {self.method} | {self.task} | {self.deck} | {looks} | {term} | {self.code} |"


HEAD = "| method | task | deck | between looks (s) | TERM to the end (s) | code |\n|---|---|---|---|---|---|"


def measure(deck: Path, after: float, changes: Sequence[str] = (), patience: float = 60.0) -> Silence:
    """Run a deck, ask it to stop after some seconds of its work, and measure.

    Parameters
    ----------
    deck
        The file.
    after
        Seconds from the end of the plan to SIGTERM.
    changes
        ``KEY=VALUE``.
    patience
        Seconds after SIGTERM in which the run must end by itself; it is killed then.
    """
    import yaml

    content = yaml.safe_load(deck.read_text(encoding="utf-8"))
    task = content.get("task", "")
    task = task.get("type", "") if isinstance(task, dict) else task
    with tempfile.TemporaryDirectory(prefix="qsim-silence-") as folder:
        told, output = Path(folder, "looks"), Path(folder, "run.h5")
        words = [
            sys.executable,
            "-c",
            PROGRAM,
            told,
            content["method"],
            deck,
            "--no-figures",
            "-q",
            "-o",
            output,
        ]
        words += [word for change in changes for word in ("--set", change)]
        environ = {**os.environ, "QSIM_TUNE": "off", "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not told.with_name("looks.begun").exists():
            time.sleep(0.02)
        _work(process, after, told)
        term = None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            term = _work(process, patience, told)
            process.kill()
            process.wait()
        gaps = json.loads(told.read_text(encoding="utf-8")) if told.exists() else None
        looks = None if gaps is None else max(gaps, default=0.0)
        return Silence(content["method"], str(task), deck.stem, looks, term, process.returncode)


def _work(process: subprocess.Popen, seconds: float, told: Path) -> float:
    """Wait until a process has worked for some seconds, compilation not counted, or has ended; return the seconds."""
    worked, before, compiling = 0.0, time.monotonic(), told.with_name("looks.compiling")
    while process.poll() is None and worked < seconds:
        time.sleep(0.01)
        now = time.monotonic()
        worked += 0.0 if compiling.exists() else now - before
        before = now
    return worked


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", help="methods; all by default")
    parser.add_argument("--after", type=float, default=5.0, help="seconds of work before SIGTERM")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds in which a run must end then")
    parser.add_argument("--deck", type=Path, action="append", help="decks instead of those of inputs/")
    parser.add_argument("--set", dest="changes", action="append", default=[], help="KEY=VALUE")
    asked = parser.parse_args()
    folders = asked.methods or sorted(path.name for path in (ROOT / "inputs").iterdir() if path.is_dir())
    decks = asked.deck or [
        deck for name in folders for deck in sorted((ROOT / "inputs" / name).glob("*.yaml"))
    ]
    sys.stdout.write(HEAD + "\n")
    for deck in decks:
        sys.stdout.write(measure(deck.resolve(), asked.after, asked.changes, asked.patience).row() + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
