"""Threads for compiled CPU kernels, which release the interpreter lock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PARALLEL_SIZE", "each_part"]

PARALLEL_SIZE = 32768  # numbers below which starting threads costs more than it saves


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="qsim")


def each_part(
    work: Callable[[int, int], object], tasks: int, size: int, threads: int, smallest: int | None = None
) -> None:
    """Call ``work(first, last)`` for ranges that cover ``0 .. tasks``, on several threads if there is enough to do.

    Tasks share no output, so the result does not depend on the number of threads.

    Parameters
    ----------
    work
        Function without return value that releases the interpreter lock.
    tasks
        Number of independent pieces of work.
    size
        How much there is to do in all, in numbers.
    threads
        Threads to use.
    smallest
        Size below which one thread does it; by default :data:`PARALLEL_SIZE`.
    """
    if threads <= 1 or tasks <= 1 or size < (PARALLEL_SIZE if smallest is None else smallest):
        work(0, tasks)
        return
    parts = min(tasks, 4 * threads)
    edges = [tasks * part // parts for part in range(parts + 1)]
    for _ in _pool(threads).map(work, edges[:-1], edges[1:]):  # re-raises the first error
        pass
