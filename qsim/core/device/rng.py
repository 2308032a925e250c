r"""Counter-based random numbers: the same bits on CPU, GPU, any number of processes, and after a restart.

The generator is Philox4x32-10 [1]_: a keyed bijection of a 128-bit counter, so there is no state to save.

* The key comes from the seed of the run: ``SeedSequence(seed).generate_state(2)``.
* The counter is ``(step, index, draw // 2, stream)``, four unsigned 32-bit words: the time step or sweep, the
  *global* number of the walker or realisation, the number of the draw within the step, and a constant that
  keeps the uses of one method apart.
* The four output words make two doubles, for the even and the odd ``draw``.

Uniform numbers are :math:`(k + 1/2)\,2^{-52}` with the upper 52 bits *k* of two words, so never 0 or 1.
Normal numbers are the two results of Box and Muller from the pair of uniforms.  ``qsim.cuh`` holds the
same in CUDA and :mod:`qsim.core.device.cpu.rng` in numba.  Integers and uniforms agree in every bit; normals to
rounding, since logarithm and cosine differ between libraries.

References
----------
.. [1] J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
       Proc. SC'11 (2011), doi:10.1145/2063384.2063405.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["draw_seed", "key_from_seed", "normal", "normals", "philox4x32", "uniform"]

# Constants of Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC11): multipliers, increments of the key (golden
# ratio and sqrt(3) - 1), rounds.
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
LOW = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)


def draw_seed() -> int:
    """Return a seed below 2**32 from the system's entropy, for a deck that gives none."""
    return secrets.randbits(32)


def key_from_seed(seed: int) -> NDArray[np.uint32]:
    """Return the Philox key of a seed.

    Parameters
    ----------
    seed
        Non-negative integer of any size.

    Returns
    -------
    (2,) uint32
        The key.
    """
    return np.random.SeedSequence(seed).generate_state(2, np.uint32).astype(np.uint32)


def philox4x32(counter: ArrayLike, key: ArrayLike) -> NDArray[np.uint32]:
    """Return Philox4x32-10 of one counter or of many.

    Parameters
    ----------
    counter : (4,) or (..., 4) uint32
        Counters.
    key : (2,) uint32
        Key.

    Returns
    -------
    (4,) or (..., 4) uint32
        Four random words per counter.
    """
    words = np.asarray(counter, dtype=np.uint32)
    lanes = [words[..., lane].astype(np.uint64) for lane in range(4)]
    # The key changes in every round by a constant (a Weyl sequence), in Python integers: it is
    # the same for all counters.
    low, high = (int(word) for word in np.asarray(key, dtype=np.uint32))
    for _ in range(ROUNDS):
        # Products of 32-bit numbers in 64 bits: high and low half are the two outputs of a multiplication.
        first = lanes[0] * np.uint64(MULTIPLIERS[0])
        second = lanes[2] * np.uint64(MULTIPLIERS[1])
        lanes = [
            (second >> SHIFT) ^ lanes[1] ^ np.uint64(low),
            second & LOW,
            (first >> SHIFT) ^ lanes[3] ^ np.uint64(high),
            first & LOW,
        ]
        low, high = (low + WEYL[0]) & 0xFFFFFFFF, (high + WEYL[1]) & 0xFFFFFFFF
    return np.stack(lanes, axis=-1).astype(np.uint32)


def _one(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return :func:`philox4x32` of one counter in integers of Python."""
    a, b, c, d = (word & 0xFFFFFFFF for word in counter)
    low, high = key
    for _ in range(ROUNDS):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = (
            (second >> 32) ^ b ^ low,
            second & 0xFFFFFFFF,
            (first >> 32) ^ d ^ high,
            first & 0xFFFFFFFF,
        )
        low, high = (low + WEYL[0]) & 0xFFFFFFFF, (high + WEYL[1]) & 0xFFFFFFFF
    return a, b, c, d


def uniform(
    key: ArrayLike, stream: int, step: int, n: int, *, draw: int = 0, first: int = 0
) -> NDArray[np.float64]:
    """Return uniform numbers in the open interval (0, 1).

    Parameters
    ----------
    key : (2,) uint32
        Key of the run.
    stream, step
        Words of the counter.
    n
        Number of values: one for each index ``first ... first + n - 1``.
    draw
        Number of the draw within the step.
    first
        Global number of the first walker or realisation.

    Returns
    -------
    (n,) float64
        Odd multiples of 2**-53.
    """
    # A pair of draws shares one counter.
    return _pair(key, stream, step, n, draw, first)[draw % 2]


def normal(
    key: ArrayLike, stream: int, step: int, n: int, *, draw: int = 0, first: int = 0
) -> NDArray[np.float64]:
    """Return normal numbers of mean 0 and variance 1; parameters as in :func:`uniform`.

    Returns
    -------
    (n,) float64
        At most 8.6 in size, the largest value that Box and Muller make of 53 bits.
    """
    one, two = _pair(key, stream, step, n, draw, first)
    # Box and Muller: both numbers of the pair are used, cosine for even draws, sine for odd ones.
    radius, angle = np.sqrt(-2.0 * np.log(one)), 2.0 * np.pi * two
    return np.asarray(radius * (np.sin(angle) if draw % 2 else np.cos(angle)))


def normals(
    key: ArrayLike, stream: int, step: int, n: int, draws: int, *, first: int = 0
) -> NDArray[np.float64]:
    """Return what :func:`normal` gives for draws 0, 1, ..., side by side, with each pair made once.

    Returns
    -------
    (n, draws) float64
    """
    found = np.empty((n, draws))
    for pair in range(0, draws, 2):
        one, two = _pair(key, stream, step, n, pair, first)
        radius, angle = np.sqrt(-2.0 * np.log(one)), 2.0 * np.pi * two
        found[:, pair] = radius * np.cos(angle)
        if pair + 1 < draws:
            found[:, pair + 1] = radius * np.sin(angle)
    return found


def _pair(
    key: ArrayLike, stream: int, step: int, n: int, draw: int, first: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the two uniforms of each counter."""
    if n == 1:  # some microseconds instead of a tenth of a millisecond
        of_key = tuple(int(word) for word in np.asarray(key, np.uint32))
        one: NDArray[np.uint64] = np.array([_one((step, first, draw // 2, stream), of_key)], np.uint64)
        return _to_unit(one[:, 0], one[:, 1]), _to_unit(one[:, 2], one[:, 3])
    counter = np.empty((n, 4), dtype=np.uint32)
    # The counter has the layout of qsim.cuh and of the numba twin: step, walker, pair of draws, stream.
    counter[:, 0] = step
    counter[:, 1] = np.arange(first, first + n, dtype=np.uint32)
    counter[:, 2] = draw // 2
    counter[:, 3] = stream
    words = philox4x32(counter, key).astype(np.uint64)
    return _to_unit(words[:, 0], words[:, 1]), _to_unit(words[:, 2], words[:, 3])


def _to_unit(low: NDArray[np.uint64], high: NDArray[np.uint64]) -> NDArray[np.float64]:
    # 52 bits, not 53: with 53 the largest value would round to 1
    return (((high << SHIFT) | low) >> np.uint64(12)).astype(np.float64) * 2.0**-52 + 2.0**-53
