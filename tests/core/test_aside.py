"""Calls of libraries, and long work of kernels, beside which a run hears a stop request."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from qsim.core.device import pool
from qsim.core.errors import Interrupted
from qsim.core.run.progress import Monitor
from qsim.core.run.signals import Signals
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


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("known", [True, False])
def test_long_work_is_done_once_with_looks_in_between(threads, known, monkeypatch):
    monkeypatch.setattr(pool, "LISTEN", 0.02)
    pool._seconds.clear()
    if known:
        pool._seconds["long work"] = 1e-3 / pool.UNTIMED
    times, looks, visits = [], [], np.zeros(400, int)

    def work(first, last):
        visits[first:last] += 1
        times.append(last - first)
        time.sleep(1e-3 * (last - first))

    with pool.listening(lambda: looks.append(threading.current_thread())):
        pool.each_part(work, 400, 400 * pool.UNTIMED, threads, alike="long work")
    assert (visits == 1).all()
    assert len(looks) >= 5
    assert set(looks) == {threading.main_thread()}
    assert max(times) <= 200  # none of the calls is all of the work
    alone = len(looks)
    pool.each_part(work, 400, 400 * pool.UNTIMED, threads, alike="long work")
    assert len(looks) == alone


def test_short_calls_look_as_often_as_long_ones_and_other_threads_do_not(monkeypatch):
    monkeypatch.setattr(pool, "LISTEN", 0.01)
    looks = []

    def work():
        for _ in range(40):
            pool.each_part(lambda first, last: time.sleep(1e-3), 1, 1, 1)

    with pool.listening(lambda: looks.append(None)):
        work()
        assert 1 <= len(looks) <= 40
        looks.clear()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert not looks


@pytest.mark.parametrize("presses", [1, 2])
def test_a_run_that_has_saved_nothing_stops_within_long_work(presses, monkeypatch, tmp_path):
    monkeypatch.setattr(pool, "LISTEN", 0.01)
    reached = []

    def work(first, last):
        reached.append(last)
        if len(reached) == 3:
            for _ in range(presses):
                signals._handle(signal.SIGINT, None)
        time.sleep(2e-3 * (last - first))

    with Signals() as signals, Monitor(quiet=True, signals=signals) as monitor:
        monitor.begin(1, "steps")
        with pytest.raises(Interrupted):
            pool.each_part(work, 400, 400 * pool.UNTIMED, 1, alike=monitor)
    assert len(reached) >= 3
    assert reached[-1] < 400


def test_long_work_of_a_task_that_can_be_saved_goes_on_to_the_next_report(monkeypatch, tmp_path):
    monkeypatch.setattr(pool, "LISTEN", 0.01)
    visits = np.zeros(100, int)

    def work(first, last):
        visits[first:last] += 1
        time.sleep(1e-3 * (last - first))

    with Signals() as signals, Monitor(checkpoint=tmp_path / "a.h5", quiet=True, signals=signals) as monitor:
        monitor.begin(2, "steps")
        monitor.step(1, dict)
        signals._handle(signal.SIGTERM, None)
        pool.each_part(work, 100, 100 * pool.UNTIMED, 1, alike=monitor)
    assert (visits == 1).all()


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
