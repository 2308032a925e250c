"""Stop requests: signals of batch systems, of a lost terminal, and Ctrl-C.

A run of the command line has three times.  Before the work begins (imports, deck, plan), `before_the_work`
ends the process at once: nothing is lost.  `leaving_later` holds a request back while a file is made whose
removal cannot be asked for yet.  During the work, `Signals` notes the request, and the run loop, which looks for it, stops
with a checkpoint.  When the results are written, requests no longer matter and are ignored.

Nothing heavy is imported here, since the first handlers come before everything else.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from types import FrameType, TracebackType

    from qsim.core.run.stops.deaf import Deaf

__all__ = ["NAMES", "Signals", "before_the_work", "leaving_later", "on_early_exit"]

# Signals that request a stop; SIGHUP: the terminal is gone, SIGXCPU: the CPU time is nearly used up.
NAMES = ("SIGTERM", "SIGUSR1", "SIGINT", "SIGHUP", "SIGXCPU")

# Not imported from there: that module would be loaded before the first handler is set.
STOPPED, INTERRUPTED = 75, 130  # exit codes of `qsim.core.errors.Stopped` and `Interrupted`
_cleanups: list[Callable[[], None]] = []
_held_back: list[int] | None = None  # requests that arrived in `leaving_later`; None outside it


def _install(
    handler: Callable[[int, FrameType | None], None], previous: dict[int, Any] | None = None
) -> None:
    """Set a handler for all signals, but for a SIGHUP that is ignored, as ``nohup`` does."""
    if threading.current_thread() is not threading.main_thread():
        return  # Python allows handlers there only
    for name in NAMES:
        number = getattr(signal, name, None)  # Windows has no SIGUSR1
        if number is None or (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
            continue
        before = signal.signal(number, handler)
        if previous is not None:
            previous[number] = before


def before_the_work(arguments: Iterable[str], methods: Iterable[str]) -> None:
    """Let stop requests end the process at once and say so, if the command line asks for a run.

    Parameters
    ----------
    arguments
        The command line without the name of the program.
    methods
        Commands that run decks.
    """
    # Options of the group take no value, so the first word without a dash is the command.
    first = next((word for word in arguments if not word.startswith("-")), "")
    if first in methods:
        _install(_leave)


def on_early_exit(cleanup: Callable[[], None]) -> None:
    """Have this done when a stop request ends the process before its work has begun; replaces what was asked before."""
    _cleanups[:] = [cleanup]


@contextmanager
def leaving_later() -> Iterator[None]:
    """Let a stop request that would end the process at once do so only after this context."""
    global _held_back
    # Local to this context: the handler appends, also between the two statements of `finally`.
    requests: list[int] = []
    _held_back = requests
    try:
        yield
    finally:
        _held_back = None
        if requests:
            _leave(requests[0], None)


def _leave(number: int, frame: FrameType | None) -> None:
    """End the process.  No exception: code that catches too much must not swallow the request."""
    if _held_back is not None:
        _held_back.append(number)
        return
    hint = "" if number == signal.SIGINT else "hint: repeat the same command\n"
    name = signal.Signals(number).name
    _end(number, f"qsim: stopped by {name} before the run began; nothing was written\n{hint}")


def _leave_work(number: int, frame: FrameType | None, press: str = "third") -> None:
    """End the process in the middle of its work."""
    _end(number, f"\nqsim: interrupted by a {press} Ctrl-C; the last checkpoint, if any, is kept\n")


def _end(number: int, said: str) -> None:
    with suppress(OSError):
        os.write(2, said.encode())
    for cleanup in _cleanups:
        with suppress(Exception):
            cleanup()
    with suppress(Exception):
        sys.stdout.flush()
    # No exit handlers: they wait for threads, which may be in the middle of a kernel.
    os._exit(INTERRUPTED if number == signal.SIGINT else STOPPED)


class Signals:
    """Context in which SIGTERM, SIGUSR1, SIGHUP, SIGXCPU and Ctrl-C only ask for a stop.

    The run looks at :attr:`stop` and :attr:`at_once` between its steps, and raises there: an exception of a handler comes out
    in any line, and is lost in a callback of a weak reference or a ``__del__``.  After a second Ctrl-C, which stops at the next
    report, a third one does what Ctrl-C did before; the command line then ends the process, also where Python hears nothing
    (:mod:`qsim.core.run.stops.deaf`), and while kernels are compiled the second one does.  Outside the main thread,
    where Python does not allow handlers, the context does nothing.  A SIGHUP that is ignored (``nohup``) stays
    ignored.

    Parameters
    ----------
    lock
        File of a run of the command line to remove where the process ends while Python hears nothing.
    """

    NAMES = NAMES

    def __init__(self, lock: Path | None = None) -> None:
        self.stop: str | None = None
        """Name of the signal that requested a stop; None without one."""
        self.at_once = False
        """True after a second Ctrl-C: stop at the next report, without a checkpoint."""
        self._interrupted = False
        self._compiling = False
        self._lock = lock
        self._deaf: Deaf | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        _install(self._handle, self._previous)
        # Not where Ctrl-C is an exception of Python, which a program may catch.
        if self._lock is not None and self._previous.get(signal.SIGINT) is _leave:
            from qsim.core.run.stops.deaf import Deaf

            self._deaf = Deaf(self._lock).__enter__()
        return self

    def compiling(self, now: bool) -> None:
        """Say whether kernels are being compiled: then no report is near, and nothing is lost."""
        self._compiling = now
        if self._deaf is not None:
            self._deaf.compiling(now)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._deaf is not None:
            self._deaf.__exit__()
            self._deaf = None
        for number, handler in self._previous.items():
            # None: a handler that was not set by Python and cannot be set again from here
            previous = signal.SIG_DFL if handler is None else handler
            # What is left of this process are its last lines: it is too late to say that nothing was begun.  Python takes
            # handlers of its own away before it ends, which would let the signal kill a run that is complete.
            signal.signal(number, signal.SIG_IGN if previous is _leave else previous)
        self._previous.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Note a request; the run acts on it at its next report."""
        self.stop = self.stop or signal.Signals(number).name
        if number != signal.SIGINT:
            return
        # First Ctrl-C: stop with a checkpoint. Second: at the next report, without. Third: at once.
        text = b"\nstopping after this step; press Ctrl-C again to stop at once\n"
        if self._interrupted:
            self.at_once = True
            previous = self._previous.get(number)
            if self._compiling and previous is _leave:
                _leave_work(number, frame, "second")
            signal.signal(number, _leave_work if previous in (_leave, None) else previous)
            text = b"\nstopping without a checkpoint; press Ctrl-C again to end the process\n"
        # Another signal (a batch system repeats itself) never escalates; only a person at a terminal does.
        self._interrupted = True
        # not print: a handler may run in the middle of a write to the same stream
        with suppress(OSError):
            os.write(2, text)
