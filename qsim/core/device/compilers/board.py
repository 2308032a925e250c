"""Who compiles which kernel: a byte for each, which all processes of a run share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import fcntl
except ImportError:  # Windows: the processes that share a board are not started
    fcntl = None  # type: ignore[assignment]

__all__ = ["DONE", "FAILED", "FREE", "HERE", "THERE", "Board"]

# What a byte says of a kernel: nobody has taken it, the run itself compiles it, it is in the cache, it cannot be compiled;
# from THERE on, the process THERE + k compiles it.
FREE, HERE, DONE, FAILED, THERE = range(5)


class Board:
    """Bytes of an open file without a name; a process that ends gives back its lock.

    Parameters
    ----------
    file
        Descriptor of the file, which is inherited.
    """

    def __init__(self, file: int) -> None:
        self.file = file

    def clear(self, kernels: int) -> None:
        """Make all of some kernels free."""
        os.pwrite(self.file, bytes(kernels), 0)

    def state(self, kernel: int) -> int:
        """Return what is known about a kernel."""
        return os.pread(self.file, 1, kernel)[0]

    def states(self) -> bytes:
        """Return what is known about all kernels."""
        return os.pread(self.file, os.fstat(self.file).st_size, 0)

    def note(self, kernel: int, state: int) -> None:
        """Write down what has become of a kernel."""
        os.pwrite(self.file, bytes([state]), kernel)

    def take(self, kernel: int, state: int) -> bool:
        """Return whether a kernel was free, and is taken now."""
        with self._alone():
            free = self.state(kernel) == FREE
            if free:
                self.note(kernel, state)
        return free

    @contextmanager
    def _alone(self) -> Iterator[None]:
        fcntl.lockf(self.file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.file, fcntl.LOCK_UN)
