"""Tables of the couplings of a tile of the state, made on the host for ``layers.cu``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def layout(low: int, bits: int) -> tuple[list[int], list[int]]:
    """Return the bits of a tile that number registers (4) and threads (bits - 4) of a CUDA block when phases are applied."""
    if low == bits:
        return list(range(4)), list(range(4, bits))
    register, thread = list(range(4, 8)), [*range(4), *range(8, bits)]
    # bits that cross over from the threads to be rotated: 8 in tiles of 13 bits, 3, 2
    for k, r, crosses in ((4, 1, bits == 13 and low <= 8), (2, 2, low <= 2), (3, 3, low <= 3)):
        if crosses:
            register[r], thread[k] = thread[k], register[r]
    return register, thread


def tile_table(pairs: NDArray[np.float64], low: int, high: int, bits: int) -> NDArray[np.float64]:
    """Tabulate the couplings within a tile, as ``layers.cu`` reads it.

    Energies of the bits that number threads (T,), their fields on the register bits (4, T), energies of the register bits
    (16,): see :func:`layout`.
    """
    of = [b if b < low else b - low + high for b in range(bits)]
    register, other = ([of[b] for b in part] for part in layout(low, bits))
    s = _spins(len(other))
    energy = 0.5 * np.einsum("ta,ab,tb->t", s, pairs[np.ix_(other, other)], s)
    fields = pairs[np.ix_(register, other)] @ s.T
    z = _spins(4)
    inside = 0.5 * np.einsum("ta,ab,tb->t", z, pairs[np.ix_(register, register)], z)
    return np.concatenate([energy, fields.ravel(), inside])


def outside_tables(
    pairs: NDArray[np.float64], fields: NDArray[np.float64], low: int, high: int, bits: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Tabulate the couplings of a tile with the spins outside, as ``layers.cu`` reads it.

    A row for every value of the lower half of these spins, and for every value of the upper half: fields on the bits of the tile
    (of the upper half with h), energy; of the upper half also its fields on the lower one.
    """
    of = [b if b < low else b - low + high for b in range(bits)]
    outside = [j for j in range(len(fields)) if j not in set(of)]
    halves = outside[: len(outside) // 2], outside[len(outside) // 2 :]
    tables = []
    for half in halves:
        s = _spins(len(half))
        energy = s @ fields[half] + 0.5 * np.einsum("ta,ab,tb->t", s, pairs[np.ix_(half, half)], s)
        tables.append([s @ pairs[np.ix_(half, of)], energy[:, None]])
    tables[1][0] = tables[1][0] + fields[of]
    tables[1].append(_spins(len(halves[1])) @ pairs[np.ix_(halves[1], halves[0])])
    lower, upper = (np.concatenate(columns, axis=1) for columns in tables)
    return lower, upper


def _spins(count: int) -> NDArray[np.float64]:
    """Return s = +-1/2 of `count` bits for every value of them, (2^count, count)."""
    down: NDArray[np.int64] = np.arange(1 << count)[:, None] >> np.arange(count) & 1
    return np.asarray(0.5 - down, np.float64)
