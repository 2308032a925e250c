"""The monitor: times, progress on a terminal and elsewhere, checks, checkpoints, stopping."""

import gc
import io
import logging
import math
import os
import signal
from pathlib import Path

import pytest

from qsim.core.device.compilers.compilation import COLLECTING, Compilation, compiling
from qsim.core.errors import FileError, Interrupted, NumericsError, Stopped
from qsim.core.run.checkpoint import load
from qsim.core.run.progress import Monitor, RunClock
from qsim.core.run.signals import Signals
from qsim.core.run.timing.sections import Sections


class Clock:
    """A clock that is moved by hand."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stream():
    return io.StringIO()


def lines(stream):
    return stream.getvalue().splitlines()


# ---------------------------------------------------------------------------------------------- time


def test_stages_add_up_also_when_they_fail(clock):
    monitor = Monitor(quiet=True, clock=RunClock(now=clock))
    for _ in range(2):
        with monitor.stage("run"):
            clock.now += 1.5
    with pytest.raises(ZeroDivisionError), monitor.stage("write"):
        clock.now += 0.25
        _ = 1 / 0
    assert monitor.timing == {"run": 3.0, "write": 0.25}


def test_elapsed_counts_earlier_processes_and_the_start_of_this_one(clock):
    monitor = Monitor(quiet=True, clock=RunClock(spent=2.0, earlier=100.0, now=clock))
    clock.now += 5.0
    assert monitor.elapsed == 107.0


# ---------------------------------------------------------------------------------------- log lines


def test_lines_come_after_one_second_then_every_thirty_then_at_the_end(clock, stream):
    monitor = Monitor(stream=stream, clock=RunClock(now=clock))
    monitor.begin(200, "sweeps", "optimise")
    for done in range(1, 201):
        clock.now += 0.5
        monitor.step(done, probability=done / 200, norm_error=1e-13)
    monitor.end()
    found = lines(stream)
    assert [line.split()[3] for line in found] == ["2/200", "62/200", "122/200", "182/200", "200/200"]
    # half a second of steps tells a speed, but no time left
    assert found[0] == "optimise:   1.0 %  2/200 sweeps  2/s  probability 0.01  norm error 1e-13"
    assert found[1].endswith("1e-13  1:09 left")
    assert found[-1].endswith("100.0 %  200/200 sweeps  2/s  probability 1  norm error 1e-13")


def test_unknown_total(clock, stream):
    monitor = Monitor(stream=stream, clock=RunClock(now=clock))
    monitor.begin(None, "iterations")
    clock.now += 2.0
    monitor.step(7, residual=0.5)
    clock.now += 31.0
    monitor.step(100, residual=0.5)
    assert lines(stream) == ["7 iterations  residual 0.5", "100 iterations  3/s  residual 0.5"]


def test_what_comes_before_the_first_report_does_not_count(clock, stream):
    """Kernels are compiled in the first step: its time says nothing about the others."""
    monitor = Monitor(stream=stream, clock=RunClock(now=clock))
    monitor.begin(100, "steps")
    clock.now += 60.0
    monitor.step(1)
    for done in range(2, 33):
        clock.now += 1.0
        monitor.step(done)
    assert lines(stream) == ["  1.0 %  1/100 steps", " 31.0 %  31/100 steps  1/s  1:09 left"]


@pytest.mark.parametrize(("restored", "done"), [({"done": 100}, None), (None, 102)])
def test_a_resumed_task_counts_only_its_own_steps_in_the_rate(clock, stream, restored, done):
    monitor = Monitor(stream=stream, clock=RunClock(now=clock), restored=restored)
    monitor.begin(200, "steps", done=done)
    if restored:
        clock.now += 5.0  # compilation
        monitor.step(102)
    else:
        monitor.step(102)
    clock.now += 31.0
    monitor.step(164)
    assert "164/200 steps  2/s" in lines(stream)[-1]


def test_a_limit_of_sweeps_gives_no_time_left(clock, stream):
    """A search mostly ends long before its limit: neither a share of it nor a time left means anything."""
    monitor = Monitor(stream=stream, clock=RunClock(now=clock))
    monitor.begin(10**9, "sweeps", "lbfgs", at_most=True)
    for done in range(1, 5):
        clock.now += 10.0
        monitor.step(done)
    assert lines(stream)[:2] == ["lbfgs: 1/1000000000 sweeps", "lbfgs: 4/1000000000 sweeps  0.1/s"]
    assert not monitor.warnings


@pytest.mark.parametrize(
    ("walltime", "state", "remedy"),
    [
        (None, dict, "run.walltime stops it in time with a checkpoint, from which --resume continues"),
        (86400.0, dict, "that is 12 times run.walltime, each continued with --resume"),
        (None, None, "this part of it has no checkpoint"),
    ],
)
def test_a_run_of_days_is_announced_once_its_speed_is_known(tmp_path, clock, walltime, state, remedy):
    monitor = Monitor(checkpoint=tmp_path / "a.h5", clock=RunClock(limit=walltime, now=clock), quiet=True)
    monitor.begin(20_000, "steps", "evolve")
    clock.now += 3000.0  # compilation, which says nothing about the speed
    monitor.step(1, state)
    clock.now += 9.0
    monitor.step(2, state)
    assert not monitor.warnings
    clock.now += 91.0
    monitor.step(3, state)
    (warning,) = monitor.warnings
    assert warning.startswith(f"at the present speed the rest of 'evolve' takes 12 days; {remedy}")
    clock.now += 1000.0
    monitor.step(4, state)
    assert len(monitor.warnings) == 1


def test_a_run_of_hours_is_not_announced(clock):
    monitor = Monitor(clock=RunClock(now=clock), quiet=True)
    monitor.begin(8000, "steps")
    for done in range(1, 100):
        clock.now += 10.0
        monitor.step(done)
    assert not monitor.warnings


def test_a_task_without_steps_says_nothing(clock, stream):
    with Monitor(stream=stream, clock=RunClock(now=clock)) as monitor:
        monitor.begin(10, "steps")
        monitor.begin(10, "sweeps")
    assert lines(stream) == []


def test_quiet_says_nothing_but_keeps_the_log(clock, stream):
    monitor = Monitor(stream=stream, clock=RunClock(now=clock), quiet=True)
    monitor.begin(2, "steps")
    clock.now += 2
    monitor.step(1)
    monitor.note("hello")
    monitor.warn("careful")
    assert stream.getvalue() == ""
    assert [line.split(" ", 2)[2] for line in monitor.log] == [
        " 50.0 %  1/2 steps",
        "hello",
        "warning: careful",
    ]


def test_warnings_are_kept_and_said_once(stream):
    monitor = Monitor(stream=stream)
    monitor.warn("time step is large")
    monitor.warn("time step is large")
    assert monitor.warnings == ["time step is large"]
    assert lines(stream) == ["warning: time step is large"]


def test_talk_goes_to_stderr_and_to_the_log_of_the_program(capsys, caplog):
    with caplog.at_level(logging.INFO, logger="qsim"):
        Monitor().note("[bold]not markup[/bold]")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "[bold]not markup[/bold]\n"
    assert caplog.messages == ["[bold]not markup[/bold]"]


# ------------------------------------------------------------------------------------------- terminal


def test_a_terminal_shows_a_bar_and_notes_above_it(clock, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    with Monitor(stream=stream, clock=RunClock(now=clock)) as monitor:
        monitor.begin(4, "sweeps", "[x] optimise")
        for done in (1, 2, 3, 4):
            clock.now += 1.0
            monitor.step(done, probability=0.5)
        monitor.note("[note]")
    text = stream.getvalue()
    assert "[x] optimise" in text
    assert "4/4 sweeps" in text
    assert "probability 0.5" in text
    assert "[note]" in text
    assert "\x1b[38" in text or "\x1b[3" in text
    assert text.endswith("\x1b[?25h")  # the cursor is back


def test_a_dumb_terminal_gets_lines(clock, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with Monitor(stream=stream, clock=RunClock(now=clock)) as monitor:
        monitor.begin(2, "sweeps")
        clock.now += 1.0
        monitor.step(1)
    assert lines(stream) == [" 50.0 %  1/2 sweeps"]


def test_no_color_is_respected(clock, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    with Monitor(stream=stream, clock=RunClock(now=clock)) as monitor:
        monitor.begin(2, "sweeps")
        clock.now += 1.0
        monitor.step(1)
    assert "\x1b[38" not in stream.getvalue()
    assert "\x1b[3" not in stream.getvalue()


def test_the_cursor_comes_back_after_an_error(clock, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    with pytest.raises(NumericsError), Monitor(stream=stream, clock=RunClock(now=clock)) as monitor:
        monitor.begin(2, "sweeps")
        monitor.step(1, norm=math.nan)
    assert stream.getvalue().rstrip("\n").endswith("\x1b[?25h")


# -------------------------------------------------------------------------------------------- checks


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_stops_the_run_by_name(value):
    monitor = Monitor.silent()
    monitor.begin(10, "steps")
    with pytest.raises(NumericsError, match=f"norm error is {value} after 3 steps") as caught:
        monitor.step(3, norm=1.0, norm_error=value)
    assert caught.value.exit_code == 5


def test_silent_monitor_never_saves_nor_stops():
    monitor = Monitor.silent()
    monitor.step(1, lambda: pytest.fail("state was made"), norm=1.0)
    monitor.poll(lambda: pytest.fail("state was made"))
    assert monitor.restored is None


# --------------------------------------------------------------------------------------- checkpoints


def test_checkpoints_are_written_at_the_interval_with_the_time_spent(tmp_path, clock):
    path = tmp_path / "a.ckpt.h5"
    monitor = Monitor(
        checkpoint=path,
        meta={"method": "m"},
        interval=10,
        clock=RunClock(spent=3, earlier=50, now=clock),
        quiet=True,
    )
    made = []

    def state(done):
        made.append(done)
        return {"done": done}

    for done in range(1, 26):
        clock.now += 1.0
        monitor.step(done, lambda done=done: state(done))
    assert made == [10, 20]
    assert load(path) == ({"done": 20}, {"method": "m", "elapsed": 73.0})


def test_a_step_without_a_state_saves_nothing(tmp_path, clock):
    monitor = Monitor(checkpoint=tmp_path / "a.h5", interval=1, clock=RunClock(now=clock), quiet=True)
    clock.now += 10
    monitor.step(1)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_ends_no_run_but_is_warned_of(tmp_path, clock):
    monitor = Monitor(
        checkpoint=tmp_path / "none" / "a.h5", interval=10, clock=RunClock(now=clock), quiet=True
    )
    tried = []
    for done in range(1, 25):
        clock.now += 1.0
        monitor.step(done, lambda done=done: tried.append(done) or {})
    assert tried == [10, 20]
    assert "the run continues" in monitor.warnings[0]


def test_a_checkpoint_that_fails_when_the_run_stops_is_an_error(tmp_path):
    signals = Signals()
    monitor = Monitor(checkpoint=tmp_path / "none" / "a.h5", signals=signals, quiet=True)
    signals.stop = "SIGTERM"
    with pytest.raises(FileError, match="cannot write checkpoint"):
        monitor.step(1, lambda: {})


def test_the_restored_state_is_handed_on():
    assert Monitor(restored={"done": 3}, quiet=True).restored == {"done": 3}


# ---------------------------------------------------------------------------------------------- stops


@pytest.fixture
def heard():
    """Return a function that gives a signal its usual effect: what started the tests may ignore it, as nohup does SIGHUP."""
    before = {}

    def hear(number):
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        before[number] = signal.signal(number, usual)

    yield hear
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGINT", "SIGHUP", "SIGXCPU"])
def test_a_signal_saves_and_stops(tmp_path, name, heard):
    path = tmp_path / "a.ckpt.h5"
    heard(getattr(signal, name))
    with Signals() as signals:
        monitor = Monitor(checkpoint=path, signals=signals, quiet=True)
        monitor.step(1, lambda: {"done": 1})
        assert not path.exists()
        os.kill(os.getpid(), getattr(signal, name))
        with pytest.raises(Stopped, match=f"stopped by {name}; checkpoint written to") as caught:
            monitor.step(2, lambda: {"done": 2})
    assert (caught.value.exit_code, caught.value.checkpoint) == (75, path)
    assert load(path)[0] == {"done": 2}


def test_a_stop_waits_for_a_step_that_can_save(tmp_path, clock):
    signals = Signals()
    monitor = Monitor(checkpoint=tmp_path / "a.h5", signals=signals, clock=RunClock(now=clock), quiet=True)
    monitor.poll(lambda: {})
    signals.stop = "SIGTERM"
    clock.now += 1000
    monitor.poll()
    with pytest.raises(Stopped):
        monitor.poll(lambda: {})


def test_a_task_that_cannot_save_stops_after_a_while(tmp_path, clock):
    signals = Signals()
    monitor = Monitor(checkpoint=tmp_path / "a.h5", signals=signals, clock=RunClock(now=clock), quiet=True)
    monitor.begin(10, "steps")
    signals.stop = "SIGTERM"
    monitor.step(1)
    clock.now += 11
    with pytest.raises(Interrupted, match="stopped by SIGTERM; this part of the run has no checkpoint"):
        monitor.step(2)


@pytest.mark.parametrize(("limit", "began"), [(60.0, 0.0), (8.0, 0.0), (0.001, 0.0), (8.0, 27.0)])
def test_a_task_that_cannot_save_ends_with_the_wall_time(tmp_path, clock, limit, began):
    """A long first evaluation ends before the limit, or soon after its begin where little is left; savable ones do not."""
    start = clock.now

    def monitor(name):
        monitor = Monitor(
            checkpoint=tmp_path / name, clock=RunClock(limit=limit, spent=began, now=clock), quiet=True
        )
        monitor.begin(10, "iterations")
        return monitor

    first = monitor("a.h5")
    with pytest.raises(
        Interrupted, match="stopped before the wall time limit; this part of the run has no checkpoint"
    ):
        while clock.now - start < 1000:
            clock.now += 0.1
            first.poll()
    took = clock.now - start
    assert (0.75 * limit < took <= limit) if limit - began > 2.0 else took < 2.3
    start = clock.now
    second = monitor("b.h5")
    while clock.now - start < took - 0.3:
        clock.now += 0.1
        second.poll()
    with pytest.raises(Stopped):
        while clock.now - start < max(limit, 2.3):
            second.poll(lambda: {"a": 1})
            clock.now += 0.1


def test_a_run_without_a_checkpoint_file_uses_its_wall_time(clock):
    monitor = Monitor(clock=RunClock(limit=60.0, now=clock), quiet=True)
    clock.now += 0.1
    while clock.now < 59.0:
        monitor.poll()
        clock.now += 0.1


def test_a_run_without_a_checkpoint_file_stops_at_once():
    signals = Signals()
    monitor = Monitor(signals=signals, quiet=True)
    signals.stop = "SIGINT"
    with pytest.raises(Interrupted):
        monitor.step(1, lambda: {})


def test_the_wall_time_leaves_room_for_another_step_and_the_checkpoint(tmp_path, clock):
    monitor = Monitor(checkpoint=tmp_path / "a.h5", clock=RunClock(100, spent=20, now=clock), quiet=True)
    done = 0
    with pytest.raises(Stopped, match="before the wall time limit"):
        while True:
            clock.now += 6.0
            done += 1
            monitor.step(done, lambda: {})
    used = clock.now - 1000.0 + 20
    assert used + 6.0 <= 100  # one more step would still have fitted
    assert used + 12.0 > 92  # and not much more


def test_time_of_earlier_processes_does_not_count_towards_the_wall_time(tmp_path, clock):
    """Each job of a chain has its own limit."""
    monitor = Monitor(checkpoint=tmp_path / "a.h5", clock=RunClock(100, earlier=1e6, now=clock), quiet=True)
    clock.now += 1
    monitor.step(1, lambda: {})


def test_steps_are_cheap():
    """A monitored loop of a million steps must not be felt."""
    import timeit

    monitor = Monitor(quiet=True, clock=RunClock(1e9), signals=Signals())
    monitor.begin(10**6, "steps")
    seconds = min(timeit.repeat(lambda: monitor.step(1, norm=1.0, energy=2.0), number=1000, repeat=5)) / 1000
    assert seconds < 50e-6


# ------------------------------------------------------------------------- compilation and sections


def compile_for(monitor, clock, seconds):
    """Let the clock run while a kernel is compiled; two kernels within it are not counted twice."""
    with compiling():
        clock.now += seconds / 2
        with compiling(), compiling():
            clock.now += seconds / 2


def test_compilation_is_a_stage_of_its_own(clock, stream):
    monitor = Monitor(stream=stream, clock=RunClock(now=clock))
    with monitor, monitor.stage("run"):
        clock.now += 1.0
        compile_for(monitor, clock, 8.0)
        monitor.begin(100, "steps", "evolve")
        monitor.step(1)
        clock.now += 10.0
        monitor.step(11)
        compile_for(monitor, clock, 100.0)  # a kernel that is needed later
        clock.now += 30.0
        monitor.step(41)
    assert monitor.timing == {"run": 41.0, "compile": 108.0}
    assert lines(stream) == [
        "compiling kernels, once for this machine; steps and their times are told after it",
        "compiled kernels in 8.0 s, kept for later runs",
        "evolve:  11.0 %  11/100 steps  1/s  1:29 left",
        "compiled kernels in 100.0 s, kept for later runs",
        "evolve:  41.0 %  41/100 steps  1/s  0:59 left",
    ]


def test_what_a_method_compiles_beforehand_is_that_stage(clock):
    monitor = Monitor(quiet=True, clock=RunClock(now=clock))
    with monitor, monitor.stage("run"):
        with monitor.stage("compile"):
            clock.now += 1.0
            compile_for(monitor, clock, 4.0)
        clock.now += 2.0
    assert monitor.timing == {"run": 2.0, "compile": 5.0}
    with compiling():  # nobody watches any more
        clock.now += 3.0
    assert monitor.timing["compile"] == 5.0


def test_numba_tells_of_its_compilations(stream):
    numba = pytest.importorskip("numba")
    monitor = Monitor(stream=stream)
    with monitor, monitor.stage("run"):
        numba.njit(lambda x: x + 1)(2)
    assert 0 < monitor.timing["compile"] < 60
    assert monitor.timing["run"] < monitor.timing["compile"]
    before = dict(monitor.timing)
    numba.njit(lambda x: x + 2)(2)
    assert monitor.timing == before


def test_a_terminal_shows_that_kernels_are_compiled(clock):
    stream = Terminal()
    with Monitor(stream=stream, clock=RunClock(now=clock)) as monitor:
        monitor.begin(10, "steps", "evolve")
        with compiling():
            clock.now += 2.0
        monitor.step(1)
    assert "compiling kernels" in stream.getvalue()


def test_garbage_is_collected_as_before_after_compilations_that_several_watch():
    """Two watchers, each of which had kept what it found, left the second with what the first had set."""
    usual = gc.get_threshold()
    watchers = [Compilation(lambda: None, lambda seconds: None) for _ in range(2)]
    for watcher in watchers:
        watcher.begin()
        assert gc.get_threshold() == COLLECTING
    for watcher in watchers:
        assert gc.get_threshold() == COLLECTING
        watcher.end()
    assert gc.get_threshold() == usual


def test_a_run_of_sections_tells_the_time_of_all(clock, stream):
    monitor = Monitor(stream=stream, clock=RunClock(now=clock))
    monitor.sections = Sections([10.0, 10.0, 40.0])
    for k, (what, steps) in enumerate((("vmc", 10), ("dmc a", 10), ("dmc b", 40))):
        monitor.sections.enter(k)
        monitor.begin(steps, "blocks", what, done=0)
        for done in range(1, steps + 1):
            clock.now += 5.0
            monitor.step(done)
    monitor.end()
    found = lines(stream)
    assert "vmc (1/3):  70.0 %  7/10 blocks  0.2/s  0:15 left, 4:25 of all sections" in found
    assert "dmc a (2/3):  70.0 %  7/10 blocks  0.2/s  0:15 left, 3:35 of all sections" in found
    assert "dmc b (3/3):  77.5 %  31/40 blocks  0.2/s  0:45 left" in found
    assert Sections([3.0]).label == ""
    assert Sections([3.0, 4.0]).left_after(0.0, 0.0) is None


def test_a_judgement_that_fails_costs_no_more_than_itself(stream):
    monitor = Monitor(stream=stream)
    assert monitor.judged("the error of P", lambda: 0.1, None) == 0.1
    assert monitor.warnings == []
    assert monitor.judged("the error of P", lambda: 1 / 0, None) is None
    assert monitor.warnings == [
        "the error of P could not be found: division by zero; everything else is complete"
    ]

    def stopped():
        raise Stopped(Path("deck.ckpt.h5"), "stopped by SIGTERM")

    with pytest.raises(Stopped):
        monitor.judged("the error of P", stopped, None)


def test_what_members_of_a_group_have_in_common_is_one_line(stream):
    monitor = Monitor(stream=stream)
    with pytest.raises(KeyError), monitor.together("twist"):
        for k in range(3):
            monitor.warn(f"twist ({k}, -0.5): the level at {1.5e-3 * k:g} hartree is open")
            monitor.warn(f"twist ({k}, -0.5): the level at {0.1 * k:g} hartree is open")
        monitor.note("twist (0, -0.5): no error bar")
        monitor.warn("the device is busy")
        assert monitor.warnings == ["the device is busy"]
        raise KeyError
    text = "twist (0, -0.5) and 2 more (numbers of the first): the level at 0 hartree is open"
    assert monitor.warnings == ["the device is busy", text]
    assert "twist (0, -0.5): no error bar" in stream.getvalue()
    monitor.warn("twist (1): told at once")
    assert monitor.warnings[-1] == "twist (1): told at once"
