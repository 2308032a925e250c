"""Many tasks on a few warm processes: compiled kernels and imported libraries serve all tasks of a process.

Processes are spawned, since threads and CUDA do not survive a fork.  One that dies (killed for its memory, crashed) costs its
own task only: the others go on in new processes.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Generic, TypeVar

from qsim.core.device.hardware import available_threads
from qsim.core.device.parallel import THREADS, number_on_node

if TYPE_CHECKING:
    from multiprocessing.synchronize import Lock

__all__ = ["Crew", "threads_shared"]

# Seconds between two looks for a stop request.
LOOK = 0.2

T = TypeVar("T")
V = TypeVar("V")


@contextlib.contextmanager
def threads_shared(jobs: int) -> Iterator[None]:
    """Give every process its share of the cores: libraries read these variables when they are loaded.

    Otherwise each process would start as many threads as there are cores, and small matrices would wait for threads.
    """
    share = str(max(1, available_threads() // jobs))
    # A variable that the user has set stays.
    added = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(added, share))
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


class Crew(Generic[T, V]):
    """Processes that work through a list of tasks.

    Parameters
    ----------
    function
        What is done with each task, at module level; it returns a value and raises nothing.
    lost
        Makes the value of a task whose process died.
    jobs
        Number of processes.
    stop
        Asked between tasks: the name of a signal ends the work, and is passed on to the processes, whose tasks then return.
    """

    def __init__(
        self,
        function: Callable[[T], V],
        lost: Callable[[T], V],
        jobs: int,
        stop: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.function, self.lost, self.jobs, self.stop = function, lost, jobs, stop

    def work(self, tasks: Sequence[T]) -> Iterator[tuple[T, V]]:
        """Yield every task with its value, in the order in which they end; fewer where a stop is requested.

        Tasks at work when a process died are repeated one by one, to find the one that it died of.
        """
        waiting, suspects = deque(tasks), deque[T]()
        with threads_shared(self.jobs):
            # A pool is broken once one of its processes has died (out of memory, a crash in a library): it is
            # replaced, and what was at work is tried alone.
            while waiting and not self.stop():
                yield from self._until_broken(waiting, suspects, self.jobs)
                while suspects and not self.stop():
                    suspect = suspects.popleft()
                    alone, again = deque([suspect]), deque[T]()
                    yield from self._until_broken(alone, again, 1)
                    if again and not self.stop():
                        yield suspect, self.lost(suspect)

    def _until_broken(self, waiting: deque[T], broken: deque[T], jobs: int) -> Iterator[tuple[T, V]]:
        """Work until nothing waits or a process died; tasks without a value are appended to `broken`."""
        # Not fork: threads of libraries and a CUDA context do not survive it.
        context = multiprocessing.get_context("spawn")
        counter, lock = context.Value("i", 0, lock=False), context.Lock()
        pool = concurrent.futures.ProcessPoolExecutor(
            min(jobs, len(waiting)), context, initializer=_begin, initargs=(counter, lock)
        )
        working: dict[concurrent.futures.Future[V], T] = {}
        passed_on = False
        with pool:
            # No more tasks are handed out than there are processes: what waits in the queue of
            # the pool would be lost with it.
            while working or (waiting and not broken and not self.stop()):
                try:
                    while waiting and not broken and len(working) < jobs and not self.stop():
                        working[pool.submit(self.function, waiting[0])] = waiting[0]
                        waiting.popleft()
                # The pool broke between two submissions: tasks at work are collected below.
                except BrokenProcessPool:
                    if not working:
                        return
                if (name := self.stop()) and not passed_on:
                    passed_on = True
                    _pass_on(name)
                # With a time limit, to hear a stop request while long tasks run.
                ended, _ = concurrent.futures.wait(
                    working, timeout=LOOK, return_when=concurrent.futures.FIRST_COMPLETED
                )
                for future in ended:
                    task = working.pop(future)
                    if isinstance(future.exception(), BrokenProcessPool):
                        broken.append(task)
                    else:
                        yield task, future.result()


def _begin(counter: object, lock: Lock) -> None:
    """Prepare a process: its number chooses a GPU, and Ctrl-C, which reaches the whole group, is the first process's to hear."""
    with lock:
        number = counter.value  # type: ignore[attr-defined]  # a ctypes int
        counter.value = number + 1  # type: ignore[attr-defined]
    number_on_node(number)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _pass_on(name: str) -> None:
    """Send a signal to the processes; SIGTERM for a Ctrl-C, which they may not have heard."""
    number = signal.SIGTERM if name == "SIGINT" else signal.Signals[name]
    # A process that ended a moment ago takes no signal.
    for process in multiprocessing.active_children():
        if process.pid is not None:
            with contextlib.suppress(OSError):
                os.kill(process.pid, number)
