"""The run loop: what a resumable computation reports, and when it is saved and stopped."""

import math

import pytest

from qsim.core.errors import Interrupted, NumericsError, Stopped
from qsim.core.run import checkpoint
from qsim.core.run.loop import Progress, drive
from qsim.core.run.progress import Monitor


class Signals:
    """Asks for a stop as soon as `stop` is set."""

    stop = None
    at_once = False

    def compiling(self, now):
        """Take what a run says of its kernels."""


class Sum:
    """Adds up 1 + 2 + ... + n; of each two reports, the first cannot be saved."""

    def __init__(self, n, saved=None, signals=None, stop_at=0, savable=True):
        self.n, self.signals, self.stop_at, self.savable = n, signals, stop_at, savable
        saved = saved or {"i": 0, "total": 0}
        self.i, self.total = saved["i"], saved["total"]

    def state(self):
        return {"i": self.i, "total": self.total}

    def advance(self, report):
        while self.i < self.n:
            if self.i + 1 == self.stop_at:
                self.signals.stop = "SIGTERM"
            report(Progress(savable=False))
            self.i += 1
            self.total += self.i
            report(Progress(self.i, {"total": float(self.total)}, savable=self.savable))


class Twice:
    """Two sums one after the other: its state holds that of the one at work."""

    def __init__(self, n, saved=None, **options):
        self.n, self.options = n, options
        saved = saved or {"before": 0, "inner": None}
        self.before, self.inner = saved["before"], Sum(n, saved["inner"], **options)

    def state(self):
        return {"before": self.before, "inner": self.inner.state()}

    def advance(self, report):
        while True:
            self.inner.advance(report)
            self.before += self.inner.total
            if self.before >= self.n * (self.n + 1):
                return
            self.inner = Sum(self.n, **self.options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.ckpt.h5"


def test_a_computation_runs_to_its_end_and_is_counted(capsys):
    monitor = Monitor()
    done = Sum(10)
    drive(done, monitor, total=10, unit="terms", what="sum")
    assert done.total == 55
    assert "sum: 100.0 %  10/10 terms" in capsys.readouterr().err


@pytest.mark.parametrize("stop_at", [1, 4, 10])
def test_a_stop_waits_for_a_report_that_can_be_saved_and_is_continued(path, stop_at):
    signals = Signals()
    with pytest.raises(Stopped):
        drive(
            Sum(10, signals=signals, stop_at=stop_at),
            Monitor(quiet=True, checkpoint=path, signals=signals),
            total=10,
            unit="terms",
        )
    state, _ = checkpoint.load(path)
    assert state["i"] == stop_at  # not in the middle of a term
    rest = Sum(10, state)
    drive(rest, Monitor.silent(), total=10, unit="terms", done=stop_at)
    assert rest.total == 55


def test_computations_nest(path):
    signals = Signals()
    with pytest.raises(Stopped):
        drive(
            Twice(10, signals=signals, stop_at=7),
            Monitor(quiet=True, checkpoint=path, signals=signals),
            total=None,
            unit="terms",
        )
    rest = Twice(10, checkpoint.load(path)[0])
    drive(rest, Monitor.silent(), total=None, unit="terms")
    assert rest.before == 110


def test_a_task_that_cannot_be_saved_is_interrupted():
    signals = Signals()
    monitor = Monitor(quiet=True, signals=signals)
    with pytest.raises(Interrupted, match="has no checkpoint"):
        drive(Sum(10, signals=signals, stop_at=3, savable=False), monitor, total=10, unit="terms")


def test_numbers_that_are_not_finite_end_the_run():
    class Wrong(Sum):
        def advance(self, report):
            report(Progress(3, {"norm": math.nan}))

    with pytest.raises(NumericsError, match="norm is nan after 3 terms"):
        drive(Wrong(10), Monitor.silent(), total=10, unit="terms")


def test_checkpoints_are_written_in_passing(path):
    drive(Sum(3), Monitor(quiet=True, checkpoint=path, interval=0.0), total=3, unit="terms")
    assert checkpoint.load(path)[0] == {"i": 3, "total": 6}
