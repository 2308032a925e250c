"""Long calls of libraries, such as LAPACK's, beside which stop requests are heard.

Python calls handlers of signals in the main thread alone, between two of its own instructions: a matrix of some thousand states
that LAPACK diagonalises there makes a run deaf for minutes.  `aside` makes the call in a thread of its own while the caller looks
for a stop.  A run that stops leaves the thread behind, and its process ends without waiting for it (`leave`).
"""

from __future__ import annotations

import atexit
import contextvars
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

__all__ = ["aside", "here", "leave"]

# Seconds between two looks for a stop.
LOOK = 0.25

T = TypeVar("T")

# Threads that were left in the middle of a call.
_left: list[threading.Thread] = []


def here(call: Callable[[], T], look: Callable[[], None]) -> T:
    """Return what a call returns, made in this thread: one that is short, or bound to it; as :func:`aside`."""
    return call()


def aside(call: Callable[[], T], look: Callable[[], None]) -> T:
    """Return what a call of a library returns, and look for a stop meanwhile.

    Parameters
    ----------
    call
        A call that releases the interpreter, changes nothing that a checkpoint holds, and needs no kernel of this program, whose
        threads wait for one caller.  Its numbers do not depend on the thread.
    look
        Looks for a stop: raises where there is one.
    """
    made: list[T] = []
    failed: list[BaseException] = []
    # What the caller has set for its own thread (such as NumPy's treatment of errors) holds for the call, too.
    context = contextvars.copy_context()

    def work() -> None:
        try:
            made.append(context.run(call))
        except BaseException as error:  # the caller raises it
            failed.append(error)

    # A daemon: no thread keeps a process from ending that has saved its state.
    thread = threading.Thread(target=work, name="qsim-aside", daemon=True)
    thread.start()
    try:
        thread.join(LOOK)
        while thread.is_alive():
            look()
            thread.join(LOOK)
    except BaseException:
        if thread.is_alive():
            _left.append(thread)
        raise
    if failed:
        raise failed[0]
    return made[0]


def leave(code: object) -> None:
    """End the process with an exit code if a call was left in its middle; else do nothing.

    Libraries that end while one of their calls is at work crash.  Files, locks and helpers are dealt with before: by the run, and
    by what was registered for the end.
    """
    if not any(thread.is_alive() for thread in _left):
        return
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
