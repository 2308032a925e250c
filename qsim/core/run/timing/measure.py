"""Estimate the time of a run from its own first steps: ``--dry-run --measure``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qsim.core.text import long_time, rough_time

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor
    from qsim.core.run.task import Task

__all__ = ["SECONDS", "Measured", "Stopwatch", "measured"]

# Of steps from which the speed is taken.
SECONDS = 10.0


@dataclass(frozen=True)
class Measurement:
    """Times of the first steps.

    Attributes
    ----------
    seconds
        Of the whole run without compilation; None where the number of steps is not known.
    at_most
        True if the number of steps is a limit that is rarely reached.
    rate, unit, what
        Steps per second of the task that was measured; 0 for a run that ended before.
    compiled
        Seconds that kernels took to compile, which later runs save.
    """

    seconds: float | None
    at_most: bool
    rate: float
    unit: str
    what: str
    compiled: float

    def text(self) -> str:
        """Return it in words."""
        speed = f"{self.rate:.3g} {self.unit}/s" if self.rate else "it ended within that"
        if self.seconds is None:
            return f"not known: the number of {self.unit} is not ({speed})"
        time = long_time(self.seconds) if self.seconds >= 60.0 else rough_time(self.seconds)
        limit = "at most " if self.at_most else "about "
        of = f" of '{self.what}'" if self.what else ""
        return f"{limit}{time}, from {SECONDS:g} s{of}: {speed}"


class Measured(BaseException):
    """The first steps have been timed: nothing else is to be done.

    No ordinary error: a judgement of results would take it for a failure of its own.
    """

    def __init__(self, found: Measurement) -> None:
        super().__init__(found.text())
        self.found = found


class Stopwatch:
    """Watch the tasks of a run, and end it when one has been going on for a time.

    Parameters
    ----------
    seconds
        How long a task is watched after its first report.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.start = 0.0

    def look(self, monitor: Monitor, task: Task) -> None:
        """Raise `Measured` where the steps of a task have been watched for long enough."""
        if task.observed is None:
            return
        done, since = task.observed
        if task.now - since < self.seconds or task.done <= done:
            return
        rate = (task.done - done) / (task.now - since)
        total: float | None = None
        if task.total:
            left = (task.total - task.done) / rate
            later = 0.0
            if monitor.sections is not None:
                share = (task.done - task.first) / task.total
                later = monitor.sections.left_after(share, task.now - task.start) or 0.0
            total = monitor.working() - self.start + left + later
        compiled = monitor.timing.get("compile", 0.0)
        raise Measured(Measurement(total, task.at_most, rate, task.unit, task.what, compiled))


def measured(run: Callable[[Monitor], Any], monitor: Monitor) -> Measurement:
    """Return how long a run takes.

    Parameters
    ----------
    run
        Builds the problem and computes, with a monitor that saves nothing.
    monitor
        With a stopwatch.
    """
    start = monitor.working()
    if monitor.stopwatch is not None:
        monitor.stopwatch.start = start
    try:
        run(monitor)
    except Measured as stop:
        return stop.found
    # it is over: what it took is what it takes
    return Measurement(monitor.working() - start, False, 0.0, "", "", monitor.timing.get("compile", 0.0))
