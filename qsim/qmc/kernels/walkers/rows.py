"""Walkers as rows of 32-bit words: public wrappers of ``rows.cu`` and their CPU twins.

What walkers have in several arrays is collected by one launch, sent as one message, and put back by another launch: bit by bit,
whatever the arrays hold.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device import kernels
from qsim.qmc.kernels.common.tables import address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qsim.core.device.arrays import Array, IndexArray
    from qsim.core.device.device import Device

__all__ = ["copy_rows", "put_rows", "take_rows"]

THREADS, MOST_BLOCKS = 256, 4096  # as in rows.cu, whose threads go on to later words
WORD = 4  # bytes


def take_rows(device: Device, arrays: Sequence[Array], places: IndexArray) -> Array:
    """Return what some walkers have in several arrays.

    Parameters
    ----------
    device
        Where the arrays lie.
    arrays
        C-contiguous, (walkers, ...), of items of 4, 8 or 16 bytes.
    places : (count,) int64
        Walkers, on the device.

    Returns
    -------
    (count, words) uint32, on the device
    """
    starts = _starts(arrays)
    if not device.is_cuda:
        return _take_rows_cpu(arrays, places, starts)
    rows = device.xp.empty((len(places), int(starts[-1])), np.uint32)
    _launch("take_rows", device, arrays, starts, places, rows)
    return rows


def put_rows(device: Device, arrays: Sequence[Array], places: IndexArray, rows: Array) -> None:
    """Write rows of :func:`take_rows` into some places, no two of them equal, of arrays that are changed in place."""
    starts = _starts(arrays)
    if rows.shape != (len(places), int(starts[-1])):
        raise ValueError(f"rows {rows.shape} do not fit {len(places)} walkers of {int(starts[-1])} words")
    if not device.is_cuda:
        _put_rows_cpu(arrays, places, rows, starts)
        return
    _launch("put_rows", device, arrays, starts, places, rows)


def copy_rows(device: Device, arrays: Sequence[Array], indices: IndexArray) -> None:
    """Make walker i a copy of walker ``indices[i]``, in place.

    Parameters
    ----------
    indices : (count,) int64
        On the device; a walker that is copied keeps its own place: ``indices[indices] == indices``.
    """
    if not device.is_cuda:
        _copy_rows_cpu(device, arrays, indices)
        return
    starts = _starts(arrays)
    table = _table(device, tuple(map(address, arrays)), tuple(int(start) for start in starts))
    count, n = len(indices), len(arrays)
    if count:
        kernel = kernels.function("qmc/kernels/walkers", "rows", "copy_rows", {"REAL": "double"})
        kernel(
            (min(MOST_BLOCKS, count),),
            (THREADS,),
            (table[:n], table[n:], np.int32(n), indices, np.int64(count)),
        )


def _starts(arrays: Sequence[Array]) -> IndexArray:
    """Return the words of a row before each array, and all of them: (arrays + 1,)."""
    widths = [math.prod(array.shape[1:]) * array.dtype.itemsize // WORD for array in arrays]
    return np.cumsum([0, *widths], dtype=np.int64)


def _take_rows_cpu(arrays: Sequence[Array], places: IndexArray, starts: IndexArray) -> Array:
    rows = np.empty((len(places), int(starts[-1])), np.uint32)
    for array, first, last in zip(arrays, starts[:-1], starts[1:], strict=True):
        # Words of all arrays side by side, bit by bit: floats are not converted.
        rows[:, first:last] = _words(array)[places]
    return rows


def _put_rows_cpu(arrays: Sequence[Array], places: IndexArray, rows: Array, starts: IndexArray) -> None:
    for array, first, last in zip(arrays, starts[:-1], starts[1:], strict=True):
        _words(array)[places] = rows[:, first:last]


def _copy_rows_cpu(device: Device, arrays: Sequence[Array], indices: IndexArray) -> None:
    # Walkers that stay are not touched.
    places = np.flatnonzero(indices != np.arange(len(indices)))
    put_rows(device, arrays, places, take_rows(device, arrays, indices[places]))


def _words(array: Array) -> Array:
    """Return a view of an array as words, (walkers, words)."""
    count = array.shape[0]
    return array.reshape(count, math.prod(array.shape[1:])).view(np.uint32)


def _launch(
    name: str, device: Device, arrays: Sequence[Array], starts: IndexArray, places: IndexArray, rows: Array
) -> None:
    if not rows.size:
        return
    bases = tuple(map(address, arrays))
    table = _table(device, bases, tuple(int(start) for start in starts))
    n = len(arrays)
    grid = (min(MOST_BLOCKS, -(-rows.size // THREADS)),)
    kernel = kernels.function("qmc/kernels/walkers", "rows", name, {"REAL": "double"})
    kernel(grid, (THREADS,), (table[:n], table[n:], np.int32(n), places, np.int64(len(places)), rows))


@lru_cache(maxsize=64)
def _table(device: Device, bases: tuple[int, ...], starts: tuple[int, ...]) -> Array:
    """Return addresses and starts on the device; those of an ensemble are the same in every generation."""
    return device.asarray(np.array([*bases, *starts], np.int64))
