"""The time that a run takes, from its first steps: by a clock of the test, and by the command."""

import pytest

from qsim.core.run.progress import Monitor, RunClock
from qsim.core.run.timing.measure import Measured, Stopwatch, measured
from qsim.core.run.timing.sections import Sections


class Clock:
    def __init__(self):
        self.now = 1000.0  # seconds since anything

    def __call__(self):
        return self.now


def steps(monitor, clock, total, each, first=3.0, at_most=False):
    """Run a task whose first report comes late, as after compilation, and whose steps take the same time each."""
    monitor.begin(total, "steps", "evolve", at_most=at_most)
    clock.now += first
    monitor.step(0)
    for done in range(1, (total or 10_000) + 1):
        clock.now += each
        monitor.step(done)
    monitor.end()


def timed(total, each, seconds=10.0, works=(), at_most=False):
    clock = Clock()
    monitor = Monitor(quiet=True, clock=RunClock(now=clock))
    monitor.stopwatch = Stopwatch(seconds)
    if works:
        monitor.sections = Sections(works)
        monitor.sections.enter(0)

    def run(monitor):
        with monitor:
            steps(monitor, clock, total, each, at_most=at_most)

    return measured(run, monitor), clock.now - 1000.0


def test_the_rest_is_what_the_first_steps_say():
    found, spent = timed(1000, 0.5)
    assert found.rate == pytest.approx(2.0)
    assert found.seconds == pytest.approx(3.0 + 500.0)
    assert spent == pytest.approx(13.0)  # no longer than it was asked to look
    assert found.text() == "about 8.4 minutes, from 10 s of 'evolve': 2 steps/s"


def test_a_run_that_ends_before_takes_what_it_took():
    found, spent = timed(10, 0.5)
    assert found.seconds == pytest.approx(spent) == pytest.approx(8.0)
    assert "it ended within that" in found.text()


def test_sections_and_limits_count():
    found, _ = timed(100, 0.5, works=(100.0, 300.0))
    assert found.seconds == pytest.approx(13.0 + 40.0 + 300.0 * 13.0 / 20.0, rel=1e-6)
    assert timed(1000, 0.5, at_most=True)[0].text().startswith("at most 8.4 minutes")
    unknown, _ = timed(None, 0.5)
    assert unknown.seconds is None
    assert "not known" in unknown.text()


def test_no_judgement_takes_the_end_for_its_own():
    assert not issubclass(Measured, Exception)


def test_the_command_tells_the_time(counter, command):
    reply = command("counter", counter.deck(), "--dry-run", "--measure")
    assert reply.exit_code == 0
    assert "time " in reply.stderr
    assert not list(counter.folder.glob("*.h5"))
    assert command("counter", counter.deck(), "--measure").exit_code == 2
