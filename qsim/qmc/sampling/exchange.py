"""Walkers that change their rank: whose places are where, and states of walkers as rows of numbers.

An ensemble is cut into blocks of `BLOCK` walkers, whose sums are taken apart; a rank that has whole blocks need not tell the
others more than those sums.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.device import namespace
from qsim.qmc.kernels.estimators import BLOCK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.parallel import Comm
    from qsim.qmc.kernels.types import State

__all__ = ["bounds", "crossing", "gathered", "has_whole_blocks", "packed", "unpack"]

EVEN = 20  # blocks per rank from which one more or less does not matter


def has_whole_blocks(count: int, ranks: int) -> bool:
    """Return True if every rank has whole blocks of an ensemble, the last block apart."""
    blocks = -(-count // BLOCK)
    return (blocks % ranks == 0 and count % BLOCK == 0) or blocks >= EVEN * ranks


def bounds(count: int, ranks: int) -> NDArray[np.int64]:
    """Return the first walker of every rank, and the number of walkers: (ranks + 1,)."""
    r = np.arange(ranks + 1, dtype=np.int64)
    if not has_whole_blocks(count, ranks):
        return count * r // ranks
    return np.minimum(-(-count // BLOCK) * r // ranks * BLOCK, count)


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


def packed(arrays: list[Any]) -> Any:
    """Return arrays of walkers, real, complex or integer, as rows of float64, (walkers, numbers), without loss."""
    xp, count = namespace(arrays[0]), arrays[0].shape[0]
    flat = [xp.ascontiguousarray(array).reshape(count, math.prod(array.shape[1:])) for array in arrays]
    return xp.concatenate(
        [
            (part.view(part.real.dtype) if part.dtype.kind == "c" else part).astype(np.float64)
            for part in flat
        ],
        axis=1,
    )


def unpack(rows: Any, state: State, names: tuple[str, ...], places: Any) -> None:
    """Write rows of :func:`packed` into some places of a state, on its device."""
    first = 0
    for name in names:
        array = getattr(state, name)
        numbers = math.prod(array.shape[1:]) * (2 if array.dtype.kind == "c" else 1)
        part, kind = rows[:, first : first + numbers], array.real.dtype
        part = namespace(rows).ascontiguousarray(part.astype(kind))
        array[places] = part.view(array.dtype).reshape(len(rows), *array.shape[1:])
        first += numbers


def gathered(comm: Comm, rows: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the rows of all ranks, one below the other, in one exchange of memory.

    Parameters
    ----------
    rows : (own, numbers) float64
        On the host.
    counts : (ranks,) int64
        Rows of every rank, which all know.
    """
    most = int(counts.max(initial=0))
    sent = np.zeros((most, rows.shape[1]))
    sent[: len(rows)] = rows
    found = comm.gather_numbers(sent)
    return np.concatenate([found[r, :count] for r, count in enumerate(counts)])
