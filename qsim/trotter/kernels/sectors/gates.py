"""Evolution of one or two sites of any size alone, in place in a space of strings: public wrapper of ``gates.cu``, and CPU twin.

The digits of the sites fall into blocks that the matrix of the sites mixes.  The string of a block whose digits come first, its
leader, does the work of the block: it gathers the amplitudes of all its strings, multiplies and puts them back.  Every string
belongs to one block, so that strings can be gone through in any order and by several threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import each_part
from qsim.trotter.kernels.amplitudes import macros
from qsim.trotter.kernels.sectors.product_cpu import JIT

if TYPE_CHECKING:
    from qsim.core.device.arrays import Array, IndexArray
    from qsim.core.device.device import Device
    from qsim.trotter.kernels.sectors.terms import Numbering

__all__ = ["Blocks", "gate_rows"]

THREADS = 256
# strings of a block: two spins 7/2
MOST = 64


class Blocks(NamedTuple):
    """The blocks of one site or of two.

    Attributes
    ----------
    first, second : int
        Lowest bits of the digits of the two sites, of a single site twice the same.
    bits : int
        Of a digit.
    leader : (1 << 2 bits,) int64
        Number of the block that the digits a, b of ``a << bits | b`` lead, else -1.
    start : (B + 1,) int64
        First string of every block.
    change : (M,) int64
        Strings of the blocks, less the leader.
    place : (B,) int64
        First element of the matrix of every block.
    """

    first: int
    second: int
    bits: int
    leader: IndexArray
    start: IndexArray
    change: IndexArray
    place: IndexArray


def gate_rows(
    device: Device,
    strings: IndexArray,
    numbering: Numbering,
    blocks: Blocks,
    gate: Array,
    psi: Array,
) -> None:
    """Replace the amplitudes of all strings of a space by ``psi[a] = sum_b gate[a, b] psi[b]``, a, b of one block.

    Everything is on the device.

    Parameters
    ----------
    strings : (D,) int64
    numbering : Numbering
        Lin tables of the space.
    blocks : Blocks
        All strings of a block lie in the space, or none.
    gate : (n,) complex128
        Matrices of the blocks, row by row.
    psi : (D,) complex
        Changed.
    """
    if device.is_cuda:
        kernel = kernels.function("trotter/kernels/sectors", "gates", "gate_rows", macros(psi.dtype))
        shifts = map(np.int32, (blocks.first, blocks.second, blocks.bits))
        tables = numbering.above, numbering.below, *shifts, *blocks[3:], gate
        size = np.int64(len(strings)), strings, np.int32(numbering.split)
        kernel((-(-len(strings) // THREADS),), (THREADS,), (psi, *size, *tables))
        return
    given = strings, tuple(numbering), tuple(blocks), gate

    def rows(first: int, last: int) -> None:
        _gate_rows_cpu(first, last, *given, psi)

    each_part(rows, len(strings), len(strings), device.threads, alike="gate_rows")


@nb.njit(**JIT)
def _gate_rows_cpu(first, last, strings, numbering, blocks, gate, psi):
    """Blocks whose leaders are the strings ``first .. last - 1``."""
    split, above, below = numbering
    j, k, bits, leader, start, change, place = blocks
    # unsigned numbers spare the test for an index from the end
    low, shift = np.uint64((1 << split) - 1), np.uint64(split)
    mask, j, k, bits = np.uint64((1 << bits) - 1), np.uint64(j), np.uint64(k), np.uint64(bits)
    index, old = np.empty(MOST, np.uint64), np.empty(MOST, psi.dtype)
    for row in range(np.uint64(first), np.uint64(last)):
        s = np.uint64(strings[row])
        block = leader[(s >> j & mask) << bits | s >> k & mask]
        if block < 0:
            continue
        number = np.uint64(block)
        begin, g = np.uint64(start[number]), np.uint64(place[number])
        size = np.uint64(start[number + np.uint64(1)]) - begin
        if size == 1:
            psi[row] *= gate[g]
            continue
        for n in range(size):
            t = s + np.uint64(change[begin + n])
            index[n] = np.uint64(above[t >> shift] + below[t & low])
            old[n] = psi[index[n]]
        for n in range(size):
            total = gate[g] * old[0]
            for m in range(np.uint64(1), size):
                total += gate[g + m] * old[m]
            psi[index[n]] = total
            g += size
