"""Threads for compiled CPU kernels, which release the interpreter lock.

A call of a thread costs some microseconds of the interpreter, one thread after another, and on a virtual machine whose idle cores
are taken away a hundred times as much.  `each_part` therefore measures what the work of each caller takes and what threads cost,
and wakes only as many as shorten the work: work of duration w on t threads takes w/t + c t, which is least for t = (w/c)^(1/2);
where tasks are few, of those t that share them evenly.

Kernels that are called as `Shared` are handed to threads that never take the interpreter's lock, see `qsim.core.device.team`.

Python hears signals in the main thread alone, between two calls.  Work that takes longer than `LISTEN` seconds is therefore cut
into calls of about that length, and whoever has asked for it (`listening`) looks for a stop after as many seconds of such calls.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from queue import SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from qsim.core.device.team import Team

__all__ = ["PARALLEL_SIZE", "Shared", "each_call", "each_part", "each_together", "listen", "listening"]

PARALLEL_SIZE = 32768  # numbers below which work that was never timed is done by one thread
WAKE = 12e-6  # seconds that each thread of a call costs until this process has measured it; bench/threads.py does, too
CHEAPEST, DEAREST = 2e-7, 5e-3  # bounds of what is measured
LATE = 10.0  # times the cost so far that one call counts for at most
FEW = 8  # tasks of a thread below which it counts that they cannot be cut
FORGET = 0.999  # per call that is left to one thread because threads cost much: they may have become cheaper
HALVINGS = 3  # most times that a thread's share is cut in half
LISTEN = 0.5  # seconds of work between two looks for a stop
UNTIMED = 1 << 22  # numbers of the first call of work whose time nobody knows, where someone listens

_seconds: dict[Hashable, float] = {}  # per number, of each caller's work
_looks: list[Callable[[], None]] = []  # of those who listen; the last one does
_looked = [0.0]  # when


@dataclass
class _Cost:
    """Cost of threads of a kind.

    Attributes
    ----------
    usual
        Seconds of each thread of a call, until this process has measured it.
    short
        Seconds of the shortest range that is worth its beginning.
    long
        Seconds of all threads from which a call tells nothing of what threads cost: other programs delay one or another of them.
    wake
        Seconds of each thread of a call, as measured last.
    """

    usual: float
    short: float
    long: float
    wake: float

    def measured(self, lost: float) -> None:
        """Follow what each thread of a call has cost; one that was late once, beside other programs, is not slow."""
        # A thread that was cheaper than thought is believed more quickly than a dearer one,
        # which other programs may have delayed.
        weight = 0.5 if lost < self.wake else 0.1
        lost = min(lost, LATE * self.wake)
        self.wake = min(max((1.0 - weight) * self.wake + weight * lost, CHEAPEST), DEAREST)


# without and with compiled calls
_costs = {False: _Cost(WAKE, 2e-4, 20e-3, WAKE), True: _Cost(1e-6, 1e-5, 5e-3, 1e-6)}


@dataclass(frozen=True, slots=True)
class Shared:
    """A compiled kernel with its arguments, which threads share without the interpreter.

    Attributes
    ----------
    launch
        Launcher of the kernel, see `qsim.core.device.team`.
    arguments
        What the kernel takes after ``first, last, worker``.
    """

    launch: Callable[..., int]
    arguments: tuple[Any, ...]

    def __call__(self, first: int, last: int, worker: int = 0) -> None:
        """Do one range on this thread, with the work space of a worker."""
        self.run(0, 1, (first, last), worker)

    def run(self, team: int, threads: int, edges: Sequence[int], worker: int = 0) -> None:
        """Do ranges on some threads of the team at an address, or on this one if it is 0.

        Raises
        ------
        MemoryError
            If the kernel raised an error, of which there is no other: it had no memory.
        """
        ticket = np.array([team, threads, worker, len(edges) - 1, *edges])
        if self.launch(ticket, *self.arguments):
            raise MemoryError("a compiled kernel failed, probably for want of memory")


class _Call:
    """Ranges that the threads of one call take in turn; the call is over with the last range, whoever has not come by then."""

    def __init__(self, work: Callable[[int, int], object], edges: list[int]) -> None:
        self.work: Callable[..., object] = work
        self.edges = edges
        self.turn, self.ended = itertools.count(), itertools.count()
        self.seconds: list[float] = []
        self.errors: list[BaseException] = []
        self.over = threading.Lock()  # released with the last range
        self.over.acquire()

    def join(self, worker: int) -> None:
        """Take ranges until none is left; after an error they are taken, but not done."""
        own = (worker,) if isinstance(self.work, Shared) else ()
        ranges = len(self.edges) - 1
        # `next` of a counter is atomic under the interpreter's lock: no range is taken twice,
        # without a lock of our own.
        while (part := next(self.turn)) < ranges:
            begun = perf_counter()
            try:
                if not self.errors:
                    self.work(self.edges[part], self.edges[part + 1], *own)
            except BaseException as error:  # raised again by the thread that called
                self.errors.append(error)
            self.seconds.append(perf_counter() - begun)
            # The thread that ends the last range, whichever it is, wakes the caller.
            if next(self.ended) == ranges - 1:
                self.over.release()


class _Team:
    """Threads that sleep until they are called, and start with the first call; the caller's own thread is one of the team."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.calls: list[SimpleQueue[_Call]] = []
        self.free = threading.Lock()
        self.ready: set[bool] = set()  # which threads have started: those of Python, those of compiled code
        self.compiled: Team | None = None

    def run(self, work: Callable[[int, int], object], edges: list[int], threads: int) -> tuple[float, float]:
        """Do all ranges on some threads; return the seconds of the call and of all ranges, and raise the first error."""
        if isinstance(work, Shared) and (team := self._shared()) is not None:
            work.run(team.address, threads, edges)
            return team.seconds()
        if not self.calls:
            self._start()
        begun = perf_counter()
        call = _Call(work, edges)
        # The caller takes ranges, too: the call ends even if no other thread wakes in time.
        for calls in self.calls[: threads - 1]:
            calls.put(call)
        call.join(0)
        call.over.acquire()
        if call.errors:
            raise call.errors[0]
        return perf_counter() - begun, math.fsum(call.seconds)

    def _start(self) -> None:
        self.calls = [SimpleQueue() for _ in range(self.threads - 1)]
        for k, calls in enumerate(self.calls):
            threading.Thread(target=_wait, args=(calls, k + 1), name=f"qsim-{k + 1}", daemon=True).start()

    def _shared(self) -> Team | None:
        """Return threads of compiled code; None where the system has no semaphores for them."""
        if self.compiled is None:
            from qsim.core.device import team

            self.compiled = team.Team(self.threads) if team.SUPPORTED else None
        return self.compiled


def _wait(calls: SimpleQueue[_Call], worker: int) -> None:
    while True:
        calls.get().join(worker)


@cache
def _team(threads: int) -> _Team:
    return _Team(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_team.cache_clear)  # threads do not survive a fork


@contextmanager
def listening(look: Callable[[], None]) -> Iterator[None]:
    """Call `look` in the block about every `LISTEN` seconds of work, between calls or parts of a long one.

    It may raise; what was worked on is lost then.  Only the main thread looks, since only there signals are heard.
    """
    _looks.append(look)
    try:
        yield
    finally:
        _looks.pop()


def listen() -> None:
    """Look for a stop if the last look was long ago; loops over calls of libraries call this themselves."""
    if (
        _looks
        and perf_counter() - _looked[0] > LISTEN
        and threading.current_thread() is threading.main_thread()
    ):
        _looked[0] = perf_counter()
        _looks[-1]()


def each_part(
    work: Callable[[int, int], object],
    tasks: int,
    size: int,
    threads: int,
    smallest: int | None = None,
    alike: Hashable | None = None,
) -> None:
    """Call ``work(first, last)`` for ranges that cover ``0 .. tasks``, on as many threads as make it shorter.

    Tasks share no output, so the result does not depend on the number of threads.  Calls from within `work`, and calls while
    another thread's call is running, are done by the thread that makes them.

    Parameters
    ----------
    work
        Function without return value that releases the interpreter lock, best a `Shared` kernel.
    tasks
        Number of independent pieces of work.
    size
        Work in all, in numbers.
    threads
        Threads to use, at most.
    smallest
        Size below which the first call, which has no time to go by, is done by one thread; by default :data:`PARALLEL_SIZE`.
    alike
        What names the work that needs the same time per number, or a function whose place in the sources does; by default `work`.
    """
    done, source = 0, _source(work if alike is None else alike)
    while done < tasks:
        # What was learnt from the calls before decides how much the next one may do.
        numbers: float = size
        if _looks:
            known = _seconds.get(source)
            numbers = UNTIMED if known is None else LISTEN * max(threads, 1) / known
        last = tasks if numbers >= size else min(tasks, done + max(1, int(numbers * tasks / size)))
        _each(work, (done, last), size * (last - done) // tasks, threads, smallest, alike)
        done = last
        listen()


def _each(
    work: Callable[[int, int], object],
    part: tuple[int, int],
    size: int,
    threads: int,
    smallest: int | None,
    alike: Hashable | None,
) -> None:
    """Do the tasks ``part[0] .. part[1] - 1`` of :func:`each_part`, whose work is `size` numbers, without a look."""
    first, tasks = part[0], part[1] - part[0]
    source = _source(work if alike is None else alike)
    if threads <= 1 or tasks <= 1 or size <= 0:
        begun = perf_counter()
        work(*part)
        if size >= UNTIMED:
            _learn(source, (perf_counter() - begun) / size)
        return
    shared = isinstance(work, Shared)
    cost = _costs[shared]
    # Unknown work: all threads, if it looks large. Afterwards the seconds per number of this
    # caller decide.
    known = _seconds.get(source)
    if known is None:
        least = PARALLEL_SIZE if smallest is None else smallest
        wanted = threads if size >= least else 1
        whole = math.inf
    else:
        whole = known * size
        wanted = _worth(whole, tasks, threads, cost.wake)
        if wanted <= 1 < int(math.sqrt(whole / cost.usual)):
            cost.wake = max(cost.usual, cost.wake * FORGET)
    wanted = min(wanted, tasks)
    team = _team(threads) if wanted > 1 else None
    # A team that is busy means a call from within another one, or from another thread: the work
    # is done here.
    if team is None or not team.free.acquire(blocking=False):
        begun = perf_counter()
        work(*part)
        spent = perf_counter() - begun
    else:
        try:
            edges = [first + edge for edge in _edges(tasks, wanted, whole, cost.short)]
            took, spent = team.run(work, edges, wanted)
            if shared in team.ready and spent < cost.long:
                cost.measured((took - spent * _share(tasks, wanted)) / wanted)
            team.ready.add(shared)
        finally:
            team.free.release()
    _learn(source, spent / size)


def _learn(source: Hashable, per_number: float) -> None:
    """Follow the seconds per number of some work: the first call may have compiled; a slow one may have been interrupted."""
    known = _seconds.get(source)
    _seconds[source] = per_number if known is None or per_number < known else 0.7 * known + 0.3 * per_number


def each_together(work: Shared, parts: int, threads: int) -> None:
    """Do some parts at the same time, each on a thread of its own, since they wait for each other.

    Where that cannot be, within another call or without threads of compiled code, `work` is called once for all parts.

    Parameters
    ----------
    work
        ``first = k, last = k + 1`` is part k of several that go on at the same time; ``0, parts`` is all of the work.
    parts
        At most `threads`.
    """
    team = _team(threads) if 1 < parts <= threads else None
    compiled = team._shared() if team is not None else None
    if team is None or compiled is None or not team.free.acquire(blocking=False):
        work(0, parts)
        return
    try:
        compiled.wait()
        work.run(compiled.address, parts, range(parts + 1))
    finally:
        team.free.release()


# `each_part` for calls of libraries such as LAPACK, which `bench/parts.py` counts for the host, not for
# kernels.
each_call = each_part


def _share(tasks: int, threads: int) -> float:
    """Return the largest share of the work that one thread has: of five tasks on four threads, two fifths."""
    return -(-tasks // threads) / tasks


def _worth(whole: float, tasks: int, threads: int, wake: float) -> int:
    """Return the number of threads that makes work of `whole` seconds shortest, if each costs `wake`."""
    if whole <= 2.0 * wake:  # a second thread saves half of it at most; short calls are many
        return 1
    # The minimum of w/t + c t over t, see the module.
    best = math.sqrt(whole / wake)
    if tasks >= FEW * threads:
        return min(threads, int(best))
    # with `best` threads, rounded down, a call takes four times `best * wake` at most, so more than that many are never shorter:
    # twice it for the share of the work, once for the task that a thread may have beyond it, once for the threads
    most = min(threads, tasks, int(min(4.0 * best, threads)) + 1)
    return min(range(1, most + 1), key=lambda t: whole * _share(tasks, t) + wake * t)


def _edges(tasks: int, threads: int, whole: float, short: float) -> list[int]:
    """Return where ranges begin and end: of each thread's share first half, then half of the rest, and so on, if that is long.

    A thread that wakes late, or shares its core, then takes fewer of the short ones at the end.
    """
    halvings = 0
    while halvings < HALVINGS and whole > 2 ** (halvings + 1) * short * threads:
        halvings += 1
    # For two halvings a share has pieces of 2, 1 and 1 quarters; every thread gets one of each
    # size.
    parts = [2**halvings >> k for k in range(1, halvings + 1)] + [1]  # of a share, in units of the last
    places = itertools.accumulate(part for part in parts for _ in range(threads))
    edges = [0, *(tasks * place // (threads << halvings) for place in places)]
    return sorted(set(edges))


def _source(work: Hashable) -> Hashable:
    if isinstance(work, Shared):
        return work.launch
    while isinstance(work, partial):
        work = work.func
    return getattr(work, "__code__", work)
