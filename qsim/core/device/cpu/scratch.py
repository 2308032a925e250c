"""Scratch memory of threads that work together."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["scratch"]

LINE = 8  # numbers of a line of the cache
_kept = threading.local()


def scratch(workers: int, size: int) -> NDArray[np.float64]:
    """Return uninitialised memory of at least `size` numbers for each of some threads, kept by the thread that asks.

    The next call of the same thread gives the same memory: it is for work that is over by then.
    A row begins with a line of the cache, since vectors across two lines cost a third more time, and shares none with another.

    Returns
    -------
    (workers, >= size) float64
    """
    # Whole lines, and one more between rows: two threads never write to one line.
    width = -(-size // LINE) * LINE + LINE
    # Kept per thread of Python: two calls at the same time never share it, and a loop of calls
    # allocates once.
    memory: NDArray[np.float64] | None = getattr(_kept, "array", None)
    if memory is None or memory.size < workers * width + LINE:
        memory = _kept.array = np.empty(workers * width + LINE)
    # NumPy aligns to 16 bytes only: skip to the next line.
    start = (-memory.ctypes.data // 8) % LINE
    return memory[start : start + workers * width].reshape(workers, width)
