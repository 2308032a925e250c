"""Run independent trajectories on a few threads; the compiled kernels release the interpreter lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.device.pool import each_part

if TYPE_CHECKING:
    from collections.abc import Callable


def each_trajectory(count: int, work: Callable[[int], object], threads: int) -> None:
    """Call ``work(0) ... work(count - 1)`` on at most ``threads`` threads and wait.

    Trajectories share no output, so the result does not depend on the number of threads.
    """

    def several(first: int, last: int) -> None:
        for index in range(first, last):
            work(index)

    each_part(several, count, count, threads, smallest=2, alike=work)
