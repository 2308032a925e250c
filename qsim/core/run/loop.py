"""The one loop behind everything that can be stopped and resumed.

A long computation is a `Resumable`: `advance` computes to the end and reports a `Progress` wherever it can be interrupted,
`state` returns what continues it bit for bit, and its constructor takes that state back (``monitor.restored``).  `drive` is the
only place that begins and ends tasks, shows progress, writes checkpoints and stops, so that wall time, signals and the ranks
of a distributed run are dealt with once.

Reports are calls, not values of a generator, because some computations (SciPy's optimisers) call back from within a library.
Computations nest: an outer `advance` hands its report on to that of an inner one, and the outer `state` holds that of the inner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor

__all__ = ["Progress", "Report", "Resumable", "State", "drive"]

# Content of a checkpoint: nested mappings and lists of numbers, texts and arrays (host or device).
State = Mapping[str, object]


@dataclass(frozen=True)
class Progress:
    """A point at which a computation can be interrupted.

    Parameters
    ----------
    done
        Steps done so far, also those before a restart; None leaves the count as it was.
    observables
        Numbers to show, which must be finite.
    savable
        False where the state cannot be saved: a stop then waits for the next point.
    """

    done: int | None = None
    observables: Mapping[str, float] = field(default_factory=dict)
    savable: bool = True


# Takes a progress; does not return if the computation is to stop.
Report = Callable[[Progress], None]


class Resumable(Protocol):
    """A computation that can be saved wherever it reports."""

    def advance(self, report: Report, /) -> None:
        """Compute to the end, from where the constructor's state left off."""

    def state(self) -> State:
        """Return the state that continues the run from the report that is being made."""


def drive(
    computation: Resumable,
    monitor: Monitor,
    *,
    total: int | None,
    unit: str,
    what: str = "",
    done: int | None = None,
    at_most: bool = False,
) -> None:
    """Run a computation to its end, with progress, checkpoints and stops.

    Parameters
    ----------
    computation
        What to run.
    monitor
        Observer of the run.
    total, unit, what, done, at_most
        As for :meth:`~qsim.core.run.progress.Monitor.begin`: number of steps, what is counted, the name of the task, steps
        done in an earlier process, and whether the total is a limit that is rarely reached.

    Raises
    ------
    NumericsError
        If an observable is not finite.
    Stopped
        If a stop was requested, or the wall time is nearly over; the state is saved.
    Interrupted
        If a stop was requested and the task cannot be saved, or a second Ctrl-C came.
    """

    def report(progress: Progress) -> None:
        # The method itself, not its result: the state is made only where a checkpoint is due.
        state = computation.state if progress.savable else None
        # A report without a count looks for stops; it neither draws nor counts.
        if progress.done is None:
            monitor.poll(state)
        else:
            monitor.step(progress.done, state, **progress.observables)

    # No `finally`: where `advance` raises, the monitor ends the task when it is left.
    monitor.begin(total, unit, what, done=done, at_most=at_most)
    computation.advance(report)
    monitor.end()
