"""Compilation of kernels as something that is seen: who watches is told when it begins and how long it took.

Numba compiles a CPU kernel at its first call that finds nothing in the cache, NVRTC a CUDA module at its first launch: in the
middle of a run, and for much longer than the steps around it.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Compilation", "collect_as_usual", "collect_rarely", "compiling"]

# Thresholds of Python's search for cyclic garbage while numba compiles, which makes none but many objects
# that live: a tenth of the time goes into looking at these with the usual ones.
COLLECTING = (50_000, 20, 20)


# While a command starts, which makes a million objects that live as long as it does.
STARTING = (1_000_000, 20, 20)
USUAL = gc.get_threshold()


def collect_rarely() -> None:
    """Let Python hardly look for garbage while a command starts: of what it imports nothing is."""
    gc.set_threshold(*STARTING)


def collect_as_usual() -> None:
    """Let Python look for garbage as it always does, but not among what a command has started with."""
    # Who runs decks from Python has thresholds of their own, which stay.
    if gc.get_threshold() == STARTING:
        gc.freeze()
        gc.set_threshold(*USUAL)


class _Collecting:
    """Python's search for garbage, less often as long as any of those who watch sees a compilation."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watching = 0
        self._usual = gc.get_threshold()

    def begin(self) -> None:
        with self._lock:
            self._watching += 1
            # The first one to watch changes the thresholds, the last one restores them.
            if self._watching == 1:
                self._usual = gc.get_threshold()
                gc.set_threshold(*COLLECTING)

    def end(self) -> None:
        with self._lock:
            self._watching -= 1
            if self._watching == 0:
                gc.set_threshold(*self._usual)


_collecting = _Collecting()


class Compilation:
    """Watches the compilation of kernels in this process.

    Kernels that need others compile them within; only the outermost is told.

    Parameters
    ----------
    begun
        Called without arguments when a compilation begins.
    ended
        Called when it ends, with its seconds.
    now
        Monotonic clock in seconds.
    """

    def __init__(
        self,
        begun: Callable[[], None],
        ended: Callable[[float], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._begun, self._ended, self._now = begun, ended, now
        self._lock = threading.RLock()
        self._depth = 0
        self._start = 0.0
        self._listener: Any = None

    @property
    def under_way(self) -> float:
        """Seconds since the compilation that is under way began; 0 if none is."""
        return self._now() - self._start if self._depth else 0.0

    def begin(self) -> None:
        """Note that a kernel is being compiled."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._start = self._now()
                _collecting.begin()
                self._begun()

    def end(self) -> None:
        """Note that it is compiled."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                _collecting.end()
                self._ended(self._now() - self._start)

    def listen(self) -> None:
        """Hear of Numba's compilations from now on, if it is loaded; may be called again."""
        # Numba is imported late, at the first kernel: until then there is nothing to hear.
        if self._listener is not None or "numba" not in sys.modules:
            return
        from numba.core import event

        # Methods with `_` for self: `self` is the compilation around it.
        class Listener(event.Listener):  # type: ignore[misc]  # numba has no types
            def on_start(_, event: object) -> None:
                self.begin()

            def on_end(_, event: object) -> None:
                self.end()

        self._listener = Listener()
        event.register("numba:compile", self._listener)

    def __enter__(self) -> Compilation:
        _watching.append(self)
        self.listen()
        return self

    def __exit__(self, *error: object) -> None:
        _watching.remove(self)
        if self._listener is not None:
            from numba.core import event

            event.unregister("numba:compile", self._listener)
            self._listener = None


_watching: list[Compilation] = []


@contextmanager
def compiling() -> Iterator[None]:
    """Tell those who watch that the block compiles a kernel, which nothing else tells."""
    # A copy: who begins to watch within the block has not heard the beginning.
    watching = list(_watching)
    for each in watching:
        each.begin()
    try:
        yield
    finally:
        for each in watching:
            each.end()
