"""Numbers on their way from the device to the host and to the other ranks, while the device goes on with the next generation."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.parallel import gathered
from qsim.qmc.kernels.estimators.estimators import BLOCK, TOTALS, block_totals
from qsim.qmc.kernels.walkers.branching import FEW
from qsim.qmc.sampling.exchange import bounds, has_whole_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device
    from qsim.qmc.sampling.branching import Population
    from qsim.qmc.sampling.walkers import Walkers

__all__ = ["Message", "Numbers"]

LINE = 64  # bytes
HOST = (
    1 << 16
)  # walkers up to which a GPU is slower in choosing than the host, but for so few that it takes one launch
SINGLE = 11  # words of a walker whose rank has no whole blocks: energies, counts of moves, weight


class Message:
    """Arrays on their way from the device to the host.

    The copies are queued behind the kernels that have been started; nobody waits before :meth:`read`.

    Parameters
    ----------
    device
        Where the arrays are.
    arrays
        Contiguous.  On a CPU they are kept as they are, and must not be changed.
    """

    def __init__(self, device: Device, arrays: Sequence[Array]) -> None:
        self._arrays: list[Any] = list(arrays)
        self._event: Any = None
        self._sources: list[Any] = []
        if not device.is_cuda:
            return
        cuda = device.xp.cuda
        sources: list[Any] = list(arrays)
        # One piece of memory that is never paged out, since only copies to such run beside the
        # host; each array begins at a whole line of it.
        starts = np.cumsum([0, *(-(-array.nbytes // LINE) * LINE for array in sources)])
        memory = cuda.alloc_pinned_memory(max(int(starts[-1]), 1))
        for k, array in enumerate(sources):
            place = np.frombuffer(memory, array.dtype, array.size, int(starts[k])).reshape(array.shape)
            array.get(out=place, blocking=False)
            self._arrays[k] = place
        self._event = cuda.Event(disable_timing=True)
        self._event.record()
        # The arrays of the device must live until they have been copied.
        self._sources = sources

    def read(self) -> list[NDArray[Any]]:
        """Return the arrays on the host, once they are there."""
        if self._event is not None:
            self._event.synchronize()
            self._event, self._sources = None, []
        return self._arrays


class Numbers:
    """What a generation leaves to be known: sums over the walkers of all ranks and, before a branching, their weights.

    They are taken on the device at once, in the order of its work, and read a generation later.

    Parameters
    ----------
    walkers
        After their moves; the counts of moves begin anew.
    reference, window
        Energy and width (hartree) of the window of branching.

    Attributes
    ----------
    count : int
        Walkers of all ranks.
    totals : (13,) float64
        As of :func:`~qsim.qmc.kernels.estimators.estimators.take_totals`; once they have been read.
    whole : (walkers,) int64 or None
        Weights as integers, of all walkers; None without a branching.  One rank leaves them on its device.
    weighed : (3,) int64
        Their sum, weights out of range, persistent walkers.
    """

    def __init__(self, walkers: Walkers, reference: float, window: float) -> None:
        comm, mine = walkers.comm, walkers.mine
        self.walkers, self.window = walkers, (reference, window)
        self.count = walkers.count
        self._cuts = bounds(self.count, comm.size)
        self._blocks = has_whole_blocks(self.count, comm.size)
        self._parts: list[Array]
        # The sums of blocks of walkers are sent, not the walkers, where ranks have whole blocks.
        if comm.size == 1 or self._blocks:
            self._parts = [block_totals(walkers.device, mine, reference, window)]
        else:
            self._parts = [mine.energy.copy(), mine.moves.copy(), mine.weight.copy()]
            mine.moves[...] = 0.0
        self.whole: NDArray[np.int64] | None = None
        self.weighed = np.zeros(3, np.int64)
        self._message: Message | None = None

    def weigh(self, population: Population) -> None:
        """Take the weights for a branching, too."""
        mine = self.walkers.mine
        self.whole, sums = population.weigh(mine.weight, mine.age)
        self._parts.append(sums)
        # One rank chooses where the weights are, or on the host, which is faster; of several each
        # has to see all of them.
        if self.walkers.comm.size > 1 or FEW < self.count <= HOST:
            self._parts.append(self.whole)

    def send(self) -> None:
        """Begin the copies to the host."""
        self._message = Message(self.walkers.device, self._parts)
        self._parts = []

    def read(self, own: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bring the numbers of all ranks together; a collective call, with one message.

        Parameters
        ----------
        own : (k,) float64
            What this rank tells the others besides.

        Returns
        -------
        (ranks, k) float64
            What all of them tell.
        """
        if self._message is None:
            raise ValueError("the numbers have not been sent")
        parts, comm, told = self._message.read(), self.walkers.comm, own[None]
        if comm.size > 1:
            parts, told = self._joined(parts, own)
        self.totals = parts[0].sum(axis=0)
        if self.whole is not None:
            self.weighed = parts[1]
            if len(parts) > 2:
                self.whole = parts[2]
        return told

    def _joined(
        self, parts: list[NDArray[Any]], told: NDArray[np.float64]
    ) -> tuple[list[NDArray[Any]], NDArray[np.float64]]:
        """Return sums of blocks, sums of weights and weights of all walkers, and what all ranks tell."""
        own = np.diff(self._cuts)
        branches = self.whole is not None
        first = -(-own // BLOCK) * TOTALS if self._blocks else own * SINGLE
        lengths = told.size + first + branches * (3 + own)
        # All in one message of 64-bit words: two would take twice the latency.
        words = np.concatenate([part.reshape(-1).view(np.uint64) for part in (told, *parts)])
        every = gathered(self.walkers.comm, words[:, None], lengths)[:, 0]
        cuts = np.concatenate(([0], np.cumsum(lengths)))
        all_told = np.array([every[low : low + told.size] for low in cuts[:-1]]).view(np.float64)
        ranks = [every[low + told.size : high] for low, high in pairwise(cuts)]
        sums = [words[:n].view(np.float64) for words, n in zip(ranks, first, strict=True)]
        found = [np.concatenate(sums).reshape(-1, TOTALS) if self._blocks else self._of_walkers(sums, own)]
        if branches:
            rest = [words[n:].view(np.int64) for words, n in zip(ranks, first, strict=True)]
            found += [np.sum([words[:3] for words in rest], axis=0), np.concatenate([w[3:] for w in rest])]
        return found, all_told

    def _of_walkers(self, sums: list[NDArray[np.float64]], own: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the sums of blocks that lie on several ranks, added as one rank does."""
        device = self.walkers.device
        energy, moves, weight = (
            device.asarray(
                np.concatenate([words[n * low : n * high] for words, n in zip(sums, own, strict=True)])
            )
            for low, high in ((0, 6), (6, 10), (10, SINGLE))
        )
        state: Any = SimpleNamespace(energy=energy.reshape(-1, 6), moves=moves.reshape(-1, 4), weight=weight)
        return device.to_host(block_totals(device, state, *self.window))
