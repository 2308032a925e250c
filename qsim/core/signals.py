"""Stop requests: signals of batch systems and Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from qsim.core.errors import Interrupted

if TYPE_CHECKING:
    from types import FrameType, TracebackType

__all__ = ["Signals"]


class Signals:
    """Context in which SIGTERM, SIGUSR1 and the first Ctrl-C only ask for a stop.

    The run looks at :attr:`stop` between its steps.  A second Ctrl-C stops at once.  Outside the main thread,
    where Python does not allow handlers, the context does nothing.
    """

    NAMES = ("SIGTERM", "SIGUSR1", "SIGINT")

    def __init__(self) -> None:
        self.stop: str | None = None
        """Name of the signal that asked for a stop; None as long as none did."""
        self._interrupts = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for name in self.NAMES:
                if number := getattr(signal, name, None):  # Windows has no SIGUSR1
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            # None: a handler that was not set by Python and cannot be set again from here
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        self.stop = self.stop or name
        if number != signal.SIGINT:
            return
        self._interrupts += 1
        if self._interrupts > 1:
            raise Interrupted("interrupted by a second Ctrl-C", hint="the last checkpoint, if any, is kept")
        # not print: a handler may run in the middle of a write to the same stream
        with suppress(OSError):
            os.write(2, b"\nstopping after this step; press Ctrl-C again to stop at once\n")
