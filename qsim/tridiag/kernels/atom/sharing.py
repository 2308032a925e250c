"""Number of threads that share the steps of one run: the quickest one.

Threads that share a run wait for each other some times for every few rows (:mod:`qsim.tridiag.kernels.atom.sweeps`), so all
of them must have a core, or most of the time goes into waiting.  Whether they have one depends on what else the machine does.
Results do not depend on it at all, so it is tried: a few steps of a copy of the state, at the beginning and now and then.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device.team import LINE
from qsim.tridiag.kernels.atom.records import Samples
from qsim.tridiag.kernels.simd import WIDTH

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["ALONE", "TRIAL", "Sharing", "lined", "progress", "unsampled"]

# steps of a trial
TRIAL = 4
# of each number of threads
TRIALS = 2
# seconds after which it is tried again, in the end, if one thread remains the quickest
AGAIN, RARELY = (3.0, 100.0)
# of the time of fewer threads that more of them may take
WORTH = 0.95
# times what one thread takes: too much for several
LATE = 1.5


def progress(parts: int) -> NDArray[np.int64]:
    """Return what threads tell each other by, each in a line of the cache of its own: (parts, 8)."""
    return np.zeros((parts, LINE // 8), np.int64)


def unsampled(steps: int, last: int | NDArray[np.int64]) -> Samples:
    """Return that no sums are taken in some steps; `last`, of any value, gives its type."""
    return Samples(np.full(steps + 1, -1), np.empty((0, 0, 0)), last)


def lined(state: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a copy of a state that begins with a line of the cache, so that vectors of whole lines share none."""
    numbers = LINE // 8
    memory = np.empty(state.size + numbers)
    start = (-memory.ctypes.data // 8) % numbers
    copy = memory[start : start + state.size].reshape(state.shape)
    copy[:] = state
    return copy


class Sharing:
    """The number of threads of a run.

    Parameters
    ----------
    threads
        At most.
    pairs
        Pairs of l of the run; a thread has as many as its vectors hold, at least.

    Attributes
    ----------
    choices : list of int
        Numbers of threads to choose from.
    parts : int
        What was chosen.
    """

    def __init__(self, threads: int = 1, pairs: int = 1) -> None:
        # a thread with less than a full vector of pairs would do the work of one with a full vector
        most = max(1, min(threads, -(-pairs // WIDTH)))
        self.threads = threads
        # powers of two: each choice costs a trial
        self.choices = sorted({1, *(2**k for k in range(1, 8) if 2**k < most), most})
        self.parts = 1
        # seconds of a step
        self._alone = np.inf
        # when it is tried again, and seconds between
        self._next, self._pause = -np.inf, AGAIN
        self._late = 0

    def do(self, steps: int, run: Callable[[int], None], trial: Callable[[], Callable[[int], None]]) -> None:
        """Make some steps by ``run(threads)``.

        Parameters
        ----------
        steps
            That it makes.
        run
            Makes them on that number of threads.
        trial
            Returns what makes `TRIAL` steps, or as many as there are, on a copy of the state.
        """
        if len(self.choices) == 1 or steps == 0:
            run(1)
            return
        # what the other processes of the machine do changes in a run, so the choice is made anew now and then
        if perf_counter() > self._next:
            self._choose(trial(), min(steps, TRIAL))
        begun = perf_counter()
        run(self.parts)
        # a thread that has lost its core holds up all others at the next exchange: the step then takes longer
        # than alone
        late = self.parts > 1 and perf_counter() - begun > LATE * steps * self._alone
        self._late = self._late + 1 if late else 0
        # once may be an accident
        if self._late > 1:
            # until the next trial
            self.parts, self._late = 1, 0

    def _choose(self, trial: Callable[[int], None], steps: int) -> None:
        # compiles
        trial(1)
        self._alone = best = _shortest(trial, 1) / steps
        self.parts = 1
        for parts in self.choices[1:]:
            seconds = _shortest(trial, parts, LATE * best * steps) / steps
            # still more threads would wait still longer
            if seconds > LATE * best:
                break
            if seconds < WORTH * best:
                self.parts, best = parts, seconds
        # if one thread wins again and again, trials are a waste: the pause doubles up to RARELY
        self._pause = AGAIN if self.parts > 1 else min(2.0 * self._pause, RARELY)
        self._next = perf_counter() + self._pause


def _shortest(trial: Callable[[int], None], parts: int, limit: float = np.inf) -> float:
    """Return the shortest time of some trials; one that takes far longer than `limit` is the only one."""
    seconds: list[float] = []
    while len(seconds) < TRIALS and not (seconds and seconds[-1] > 4.0 * limit):
        begun = perf_counter()
        trial(parts)
        seconds.append(perf_counter() - begun)
    return min(seconds)


ALONE = Sharing()
"""One thread."""
