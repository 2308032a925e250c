"""Calls of libraries beside which a run hears a stop request."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from qsim.core.run.stops import aside as module
from qsim.core.run.stops.aside import aside


def hermitian(size):
    draw = np.random.default_rng(7)
    matrix = draw.normal(size=(size, size)) + 1j * draw.normal(size=(size, size))
    return matrix + matrix.conj().T


@pytest.mark.parametrize("size", [1, 31, 64, 130])
def test_the_numbers_are_those_of_the_same_call_in_the_main_thread(size):
    matrix = hermitian(size)
    here = [*np.linalg.eigh(matrix), np.linalg.eigvalsh(matrix), np.linalg.eigvals(matrix)]
    there = [
        *aside(lambda: np.linalg.eigh(matrix), int),
        aside(lambda: np.linalg.eigvalsh(matrix), int),
        aside(lambda: np.linalg.eigvals(matrix), int),
    ]
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_error_of_the_call_is_that_of_the_caller_whose_settings_hold():
    with pytest.raises(np.linalg.LinAlgError):
        aside(lambda: np.linalg.inv(np.zeros((3, 3))), int)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        aside(lambda: np.ones(3) / np.zeros(3), int)


def test_a_stop_is_heard_in_the_middle_of_a_call(monkeypatch):
    monkeypatch.setattr(module, "LOOK", 0.01)
    end, looks = threading.Event(), []

    def look():
        looks.append(time.monotonic())
        if len(looks) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        aside(lambda: end.wait(60), look)
    assert len(looks) == 3
    end.set()
    module._left.pop().join(10)


PROGRAM = """
import atexit, sys, threading
from qsim.core.run.stops.aside import aside, leave
atexit.register(lambda: print("tidied"))
begun = threading.Event()

def look():
    raise SystemExit(75)

try:
    aside(lambda: {call}, look)
except SystemExit as end:
    print("leaving")
    leave(end.code)
print("stayed")
"""


@pytest.mark.parametrize(
    ("call", "said"), [("threading.Event().wait()", "leaving\ntidied\n"), ("7", "stayed\ntidied\n")]
)
def test_a_process_that_stops_waits_for_no_call(call, said):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(call=call)], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == (said, 75 if "leaving" in said else 0)


LEVELS = """
method: trotter
task: levels
system:
  spins: 8
  terms:
    - {type: heisenberg, lattice: chain}
    - {type: field, axis: z, random: {kind: box, W: 3.0, seed: 7}}
sector: {sz: 0}
ensemble: {disorder: 3}
levels: {statistics: [gap_ratio, participation]}
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_run_that_is_stopped_while_it_diagonalises_continues_to_the_same_bits(tmp_path, monkeypatch):
    """The call never ends by itself: whoever waits for it is killed by the time limit."""
    deck = tmp_path / "levels.yaml"
    deck.write_text(LEVELS)
    environ = {**os.environ, "QSIM_DEVICE": "cpu"}
    words = ["trotter", str(deck), "--no-figures", "-q", "-o"]
    slow = """
import sys, time
import numpy as np
solve, calls = np.linalg.eigh, []
def eigh(matrix):
    calls.append(1)
    if len(calls) == 2:
        print("deaf", flush=True)
        time.sleep(600)
    return solve(matrix)
np.linalg.eigh = eigh
from qsim.__main__ import main
main()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", slow, *words, str(tmp_path / "a.h5")],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "deaf\n"
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 75, said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.ckpt.h5", "levels.yaml"]
    for name, more in (("a", ["--resume"]), ("b", [])):
        subprocess.run(
            [sys.executable, "-m", "qsim", *words, str(tmp_path / f"{name}.h5"), *more],
            env=environ,
            check=True,
            timeout=120,
        )
    from qsim.core.results.results import open_results

    with open_results(tmp_path / "a.h5") as one, open_results(tmp_path / "b.h5") as other:
        for name in ("levels", "participation"):
            np.testing.assert_array_equal(one[name], other[name])
