"""Walkers that change their rank: whose places are where, and which of them have to be sent.

An ensemble is cut into blocks of `BLOCK` walkers, whose sums are taken apart; a rank that has whole blocks need not tell the
others more than those sums.  Up to `MOST` blocks are a group, whose walkers branch among themselves; a rank that has whole groups
branches by itself.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from qsim.qmc.kernels.estimators.estimators import BLOCK
from qsim.qmc.kernels.walkers.branching import FEW

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["bounds", "crossing", "groups", "has_whole_blocks", "has_whole_groups"]

EVEN = 20  # blocks or groups per rank from which one more or less does not matter
MOST = FEW // BLOCK  # blocks of a group: as many walkers as one launch branches


def has_whole_blocks(count: int, ranks: int) -> bool:
    """Return True if every rank has whole blocks of an ensemble, the last block apart."""
    blocks = -(-count // BLOCK)
    return (blocks % ranks == 0 and count % BLOCK == 0) or blocks >= EVEN * ranks


@lru_cache(maxsize=64)
def bounds(count: int, ranks: int) -> NDArray[np.int64]:
    """Return the first walker of every rank, and the number of walkers: (ranks + 1,), not to be changed."""
    r = np.arange(ranks + 1, dtype=np.int64)
    edges = count * r // ranks
    if has_whole_blocks(count, ranks):
        edges = np.minimum(-(-count // BLOCK) * r // ranks * BLOCK, count)
        # Of many groups a rank has whole ones; where their number is a multiple of the ranks, it
        # has so already.
        group = groups(count)
        if len(group) > EVEN * ranks:
            edges = group[(len(group) - 1) * r // ranks]
    # read in every generation
    edges.flags.writeable = False
    return edges


@lru_cache(maxsize=64)
def groups(count: int) -> NDArray[np.int64]:
    """Return the first walker of every group and the number of walkers, (groups + 1,), not to be changed.

    Groups are whole blocks of nearly the same number, at most `MOST`, whatever the number of ranks.
    """
    blocks = -(-count // BLOCK)
    number = max(1, -(-blocks // MOST))
    edges = np.minimum(blocks * np.arange(number + 1, dtype=np.int64) // number * BLOCK, count)
    edges.flags.writeable = False
    return edges


@lru_cache(maxsize=64)
def has_whole_groups(count: int, ranks: int) -> bool:
    """Return True if no group lies on two ranks."""
    return bool(np.isin(bounds(count, ranks), groups(count)).all())


def crossing(
    indices: NDArray[np.int64], places: NDArray[np.int64], edges: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the walkers, ascending, that are to be copied into the place of another rank.

    Parameters
    ----------
    indices : (new walkers,) int64
        Number of the old walker in each new place.
    places, edges : (ranks + 1,) int64
        Of the new ensemble and of the old one, as of :func:`bounds`.
    """
    foreign = []
    for r, (first, last) in enumerate(pairwise(edges)):
        wanted = indices[places[r] : places[r + 1]]
        foreign.append(wanted[(wanted < first) | (wanted >= last)])
    return np.unique(np.concatenate(foreign))
