"""A time limit on what the processes of a run wait for, so that one that has stopped, or a link, is told of.

A process that dies is noticed by the launcher.  One that hangs, or a link that passes nothing on, is not: the others would wait,
and a batch system would count their time.  Exchanges of numbers and arrays come at the same point of all processes, which are
equally fast; the limit, ``QSIM_LINKS_TIMEOUT`` in seconds (0: none), ends the run if one takes longer.  Where one process works
alone (a pilot, a file) the others may wait for as long as it takes, and only say so.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol

from qsim.core.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Event", "Patience", "time_limit"]

VARIABLE = "QSIM_LINKS_TIMEOUT"
# of an exchange, in seconds: far more than the largest takes through the hosts, far less than a job
LIMIT = 1800.0
# exchanges under way of which the end is watched
MOST_EVENTS = 256
# seconds in which a launcher passes on what was written: some end at once when a rank aborts
FORWARDED = 0.5
# seconds in which MPI ends the other processes
ABORTED = 5.0


def time_limit(environ: Mapping[str, str] = os.environ) -> float:
    """Return the longest time of an exchange in seconds, 0 for none.

    Raises
    ------
    DeviceError
        If ``QSIM_LINKS_TIMEOUT`` is no number of seconds.
    """
    text = environ.get(VARIABLE, "").strip()
    if not text:
        return LIMIT
    try:
        limit = float(text)
    except ValueError:
        limit = -1.0
    if not 0.0 <= limit < 1e9:
        raise DeviceError(
            f"{VARIABLE} is {text[:40]!r}, which is no number of seconds", hint="use 1800, or 0 for no limit"
        )
    return limit


class Event(Protocol):
    """An event of a GPU."""

    @property
    def done(self) -> bool:
        """True if all work before it has ended."""


class Patience:
    """Watches, in a thread of its own, what the process waits for.

    Parameters
    ----------
    rank, size : int
        Number of this process, and of all.
    limit : float
        Seconds of an exchange; 0 for no limit.
    end : function
        Ends all processes with an exit code.
    """

    def __init__(self, rank: int, size: int, limit: float, end: Callable[[int], object]) -> None:
        self.rank, self.size, self.limit, self.end = rank, size, limit, end
        # the exchange that the process is in: what, since when, whether it has a limit
        self._now: tuple[str, float, bool] | None = None
        self._events: deque[tuple[Event, float]] = deque(maxlen=MOST_EVENTS)
        self._told: tuple[str, float, bool] | None = None
        if limit > 0.0:
            threading.Thread(target=self._watch, name="patience", daemon=True).start()

    def during(self, what: str, *, limited: bool = True) -> _Waiting:
        """Return a context for an exchange; without a limit a long one is only told."""
        return _Waiting(self, what, limited)

    def expect(self, event: Event) -> None:
        """Watch an event of a GPU that ends an exchange, of which ``event.done`` tells."""
        if self.limit > 0.0 and len(self._events) < MOST_EVENTS:
            self._events.append((event, time.monotonic()))

    def _watch(self) -> None:
        pause = min(1.0, 0.25 * self.limit)
        while True:
            time.sleep(pause)
            now = self._now
            if now is not None and time.monotonic() - now[1] > self.limit and now != self._told:
                self._told = now
                self._complain(now[0], now[1], last=now[2])
            # the oldest exchange of GPUs that has not ended
            while self._events and self._events[0][0].done:
                self._events.popleft()
            if self._events and time.monotonic() - self._events[0][1] > self.limit:
                self._complain("an exchange between GPUs", self._events[0][1], last=True)

    def _complain(self, what: str, since: float, *, last: bool) -> None:
        """Tell of a long time; end all processes if it is over the limit of an exchange."""
        waited = f"rank {self.rank} of {self.size} has waited {time.monotonic() - since:.0f} s for other ranks ({what})"
        if not last:
            _tell(f"qsim: {waited}")
            return
        _tell(f"qsim: error: {waited}: one of them, or the link to it, has stopped")
        _tell(
            f"hint: --resume continues from the last checkpoint; {VARIABLE} sets the limit in seconds, 0 sets none"
        )
        time.sleep(FORWARDED)
        code = DeviceError("").exit_code
        # the library may be stuck itself: it has some seconds
        ending = threading.Thread(target=self.end, args=(code,), daemon=True)
        ending.start()
        ending.join(ABORTED)
        os._exit(code)


def _tell(text: str) -> None:
    # the process itself waits in a library, and tells nothing
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class _Waiting:
    """The time in which a process is in an exchange."""

    __slots__ = ("limited", "patience", "what")

    def __init__(self, patience: Patience, what: str, limited: bool) -> None:
        self.patience, self.what, self.limited = patience, what, limited

    def __enter__(self) -> None:
        self.patience._now = (self.what, time.monotonic(), self.limited)

    def __exit__(self, *error: object) -> None:
        self.patience._now = None
