"""Run independent trajectories on a few threads; the compiled kernels release the interpreter lock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def each_trajectory(count: int, work: Callable[[int], object], threads: int) -> None:
    """Call ``work(0) ... work(count - 1)`` on at most ``threads`` threads and wait.

    Trajectories share no output, so the result does not depend on the number of threads.
    """
    if threads <= 1 or count <= 1:
        for index in range(count):
            work(index)
        return
    with ThreadPoolExecutor(min(threads, count)) as pool:
        for _ in pool.map(work, range(count)):  # re-raises the first error
            pass
