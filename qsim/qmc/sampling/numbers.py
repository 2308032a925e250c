"""Numbers on their way from the device to the host and to the other ranks, while the device goes on with later generations."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.parallel import gathered
from qsim.qmc.kernels.estimators.estimators import BLOCK, TOTALS, block_totals
from qsim.qmc.sampling.exchange import bounds, groups, has_whole_blocks
from qsim.qmc.sampling.messages import Message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.qmc.sampling.walkers import Walkers

__all__ = ["Numbers"]

WEIGHT = 7  # column of the sums of weights
SINGLE = 11  # words of a walker whose rank has no whole blocks: energies, counts of moves, weight


class Numbers:
    """Record of some generations: sums over the walkers of all ranks.

    They are taken on the device at once, in the order of its work, sent together, and read later.

    Parameters
    ----------
    walkers
        As many in all of these generations.
    reference, window
        Energy and width (hartree) of the window of branching.
    most
        Generations at most.

    Attributes
    ----------
    count : int
        Walkers of all ranks.
    totals : (generations, 13) float64
        As of :func:`~qsim.qmc.kernels.estimators.estimators.take_totals`; once they have been read.
    groups : (groups,) float64
        Mean weights of the groups of walkers that branch together, in the last of them.
    weighed : (3,) int64
        Of a branching: sum of the weights as integers, weights out of range, persistent walkers.
    """

    def __init__(self, walkers: Walkers, reference: float, window: float, most: int) -> None:
        self.walkers, self.window = walkers, (reference, window)
        self.count, self.generations = walkers.count, 0
        ranks = walkers.comm.size
        self._cuts = bounds(self.count, ranks)
        # The sums of blocks of walkers are sent, not the walkers, where ranks have whole blocks.
        self._blocks = ranks == 1 or has_whole_blocks(self.count, ranks)
        self._parts: list[Array] = []
        if self._blocks:
            own = -(-int(walkers.mine.weight.shape[0]) // BLOCK)
            self._parts = [walkers.device.xp.empty((most, own, TOTALS))]
        self._sums: Array | None = None
        self.weighed = np.zeros(3, np.int64)
        self._message: Message | None = None

    def add(self) -> None:
        """Take the sums of a generation, after its moves; the counts of moves begin anew."""
        walkers, mine = self.walkers, self.walkers.mine
        if self._blocks:
            block_totals(walkers.device, mine, *self.window, out=self._parts[0][self.generations])
        else:
            self._parts += [mine.energy.copy(), mine.moves.copy(), mine.weight.copy()]
            mine.moves[...] = 0.0
        self.generations += 1

    def weigh(self, sums: Array) -> None:
        """Take the sums of weights before a branching, (3,) int64, too."""
        self._sums = sums

    def send(self) -> None:
        """Begin the copies to the host."""
        parts = [self._parts[0][: self.generations]] if self._blocks else self._parts
        self._message = Message(self.walkers.device, parts if self._sums is None else [*parts, self._sums])
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
        parts, told = self._message.read(), own[None]
        if self.walkers.comm.size > 1:
            sums, told = self._joined(parts, own)
        else:
            sums = parts[0]
            if self._sums is not None:
                self.weighed = parts[1]
        # Sums over blocks in the order of the walkers: their bits do not depend on the ranks.
        self.totals = sums.sum(axis=1)
        edges = groups(self.count)
        in_groups = np.add.reduceat(sums[-1, :, WEIGHT], edges[:-1] // BLOCK)
        self.groups = in_groups / np.diff(edges)
        return told

    def _joined(
        self, parts: list[NDArray[Any]], told: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return sums of the blocks of all walkers, (generations, blocks, 13), and what all ranks tell; add sums of weights."""
        own, n = np.diff(self._cuts), self.generations
        branches = self._sums is not None
        each = -(-own // BLOCK) * TOTALS if self._blocks else own * SINGLE  # words of a generation
        lengths = told.size + n * each + 3 * branches
        # All in one message of 64-bit words: two would take twice the latency.
        words = np.concatenate([part.reshape(-1).view(np.uint64) for part in (told, *parts)])
        every = gathered(self.walkers.comm, words[:, None], lengths)[:, 0]
        cuts = np.concatenate(([0], np.cumsum(lengths)))
        all_told = np.array([every[low : low + told.size] for low in cuts[:-1]]).view(np.float64)
        ranks = [every[low + told.size : high] for low, high in pairwise(cuts)]
        sums = [
            words[: n * length].view(np.float64).reshape(n, length)
            for words, length in zip(ranks, each, strict=True)
        ]
        if branches:
            last = [words[-3:].view(np.int64) for words in ranks]
            self.weighed = np.sum(last, axis=0)
        if self._blocks:
            return np.concatenate([rows.reshape(n, -1, TOTALS) for rows in sums], axis=1), all_told
        return np.array([self._of_walkers([rows[k] for rows in sums], own) for k in range(n)]), all_told

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
