"""Ctrl-C once, twice and three times in any line of a run, in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from qsim.core.results.results import open_results
from tests.faults.inject import wait_until

RUNNER = Path(__file__).resolve().parents[1] / "methods" / "run_counter.py"
LINES = """
import json, os, signal, sys
sys.path.insert(0, sys.argv[1])
import run_counter
from qsim.core.run import signals

sys.argv, parts = ["qsim", "counter", sys.argv[2], "--no-figures"], json.loads(sys.argv[3])

def run(place, number=None):
    os.mkdir(place)
    os.chdir(place)
    passed = []

    def line(frame, event, argument):
        if passed or getattr(signal.getsignal(signal.SIGINT), "__func__", None) is signals.Signals._handle:
            passed.append(event)
            if number is not None and len(passed) in (number, number + 1):
                os.kill(os.getpid(), signal.SIGINT)
        return line

    sys.settrace(lambda frame, *_: line if "/qsim/" in frame.f_code.co_filename else None)
    try:
        run_counter.main()
    except SystemExit as end:
        sys.settrace(None)
        os.chdir("..")
        return end.code or 0, len(passed)

def ended(place, number):
    pid = os.fork()
    if not pid:
        for stream in (1, 2):
            os.dup2(os.open(place + ".said", os.O_CREAT | os.O_APPEND | os.O_WRONLY), stream)
        code, _ = run(place, number)
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

run("first")
code, total = run("whole")
print(json.dumps([code, {str(part): ended(str(part), 1 + int(part * total)) for part in parts}]))
"""


def test_two_ctrl_c_at_any_line_of_a_run_end_it_cleanly(counter):
    """Exit code 130 and no results, or 0 and all of them; nothing else is left, and no traceback is printed."""
    parts = [round(float(part), 4) for part in np.random.default_rng(3).uniform(size=8)]
    command = [sys.executable, "-c", LINES, RUNNER.parent, counter.deck(steps=60), json.dumps(parts)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    code, codes = json.loads(done.stdout)
    assert code == 0
    assert set(codes.values()) == {0, 130}
    for place, code in codes.items():
        folder = counter.folder / place
        said = (counter.folder / f"{place}.said").read_text()
        assert "Traceback" not in said
        assert "Exception ignored" not in said
        complete = {"deck.h5", "deck.summary.json"} if code == 0 else set()
        assert {path.name for path in folder.iterdir()} == complete
        if code:
            assert "interrupted by a second Ctrl-C" in said
        else:
            with open_results(folder / "deck.h5") as results:
                assert len(results["value"]) == 60


@pytest.mark.parametrize("presses", [2, 3])
def test_ctrl_c_within_a_long_step(counter, presses):
    """Two wait for the end of the step, three do not; the lock goes and the checkpoint stays in both cases."""
    pause = "1.5 s" if presses == 2 else "1 h"
    counter.deck(steps=3, pause=pause, extra="run: {checkpoint: 1 ms}\n")
    process = subprocess.Popen(
        [sys.executable, str(RUNNER), "counter", "deck.yaml", "--no-figures"],
        stderr=subprocess.PIPE,
        text=True,
    )
    next(line for line in process.stderr if line.startswith("checkpoint written"))
    for told in ("stopping after this step", "stopping without a checkpoint", None)[:presses]:
        process.send_signal(signal.SIGINT)
        if told is not None:  # two that come together are one
            next(line for line in process.stderr if told in line)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert ("second", "third")[presses - 2] in said
    assert counter.files() == ["deck.ckpt.h5"]


# The pause between two steps is something else than sleep: what Python does not interrupt, or a compilation.
PAUSES = """
import contextlib, itertools, sys, time
sys.path.insert(0, sys.argv.pop(1))
import run_counter
from qsim.core.device.compilers.compilation import compiling

kind, sleep = sys.argv.pop(1), time.sleep

def pause(seconds):
    if seconds < 60:
        return sleep(seconds)
    with compiling() if "compiling" in kind else contextlib.nullcontext():
        sum(itertools.repeat(1, 10**12)) if "deaf" in kind else sleep(3600)

time.sleep = pause
import llvmlite.binding
run_counter.main()
"""


@pytest.mark.parametrize(
    ("kind", "presses", "said"),
    [
        ("deaf", 3, "repeated Ctrl-C within a long step"),
        ("compiling", 2, "interrupted by a second Ctrl-C"),
        ("deaf compiling", 2, "repeated Ctrl-C within a long step"),
    ],
)
def test_ctrl_c_where_no_report_is_near(counter, kind, presses, said):
    """A kernel that holds the interpreter hears no handler, and a compilation does not end before it is done."""
    counter.deck(steps=3, pause="1 h", extra="run: {checkpoint: 1 ms}\n")
    words = [sys.executable, "-c", PAUSES, str(RUNNER.parent), kind, "counter", "deck.yaml", "--no-figures"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    next(line for line in process.stderr if line.startswith("checkpoint written"))
    time.sleep(0.5)
    for _ in range(presses):
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    begun = time.monotonic()
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert time.monotonic() - begun < 5.0
    assert said in told
    assert counter.files() == ["deck.ckpt.h5"]


def test_a_signal_for_a_group_is_one_press(counter):
    """A process that was forked shares the pipe that counts; it must not count for its parent."""
    code = (
        "import os, signal, time; from pathlib import Path; import llvmlite.binding\n"
        "from qsim.core.run.stops.deaf import Deaf\n"
        "signal.signal(signal.SIGINT, lambda *_: None)\n"
        "with Deaf(Path('no.lock')):\n"
        "    children = [os.fork() for _ in range(2)]\n"
        "    if all(children):\n"
        "        time.sleep(0.3); os.killpg(0, signal.SIGINT)\n"
        "    time.sleep(0.3) if all(children) else time.sleep(1)\n"
        "    time.sleep(0.7)\n"
        "print('over')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, start_new_session=True
    )
    assert done.returncode == 0, done.stderr
    assert "over" in done.stdout


def test_a_sweep_hears_a_signal_that_reaches_it_alone(counter):
    counter.deck(steps=600, pause="0.1 s")
    words = [sys.executable, str(RUNNER), "sweep", "deck.yaml", "--over", "count.start=0.1,0.2"]
    process = subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, env={**os.environ, "QSIM_DEVICE": "cpu"}
    )
    lock = counter.folder / "deck.sweep" / "deck-0001.lock"
    wait_until(lambda: lock.exists() or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 75, told
