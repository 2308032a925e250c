"""The evolution of two spins alone, in place on a vector of a sector of conserved Sz; on the CPU.

Of two spins the strings |..01..> and |..10..> turn into each other, those with equal spins get phases.  The layout of a sector
(:mod:`qsim.trotter.sectors.basis`) says where partners are: two sites of the high part pair whole rows of a block; two sites of
the low part pair columns of every row; a site of each part pairs columns of a row of one block with columns of a row of the next,
without a search: strings in which a site is up and those in which it is down follow each other in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb

from qsim.core.device.pool import each_part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.kernels.sectors.product import FlipTables

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}


class Rotation(NamedTuple):
    """The effect of a bond on a vector, up to the phase of two spins up.

    Attributes
    ----------
    aa, ab, ba, bb : complex
        From and to a = first site down, second up, and b = first up, second down: ``new a = aa a + ab b``.
    both : complex
        Phase of both sites down, relative to both sites up.
    """

    aa: complex
    ab: complex
    ba: complex
    bb: complex
    both: complex


class BondTables(NamedTuple):
    """Columns that belong to each other, by weight without the sites of the bond; empty for two sites of the high part.

    Attributes
    ----------
    offset : int64
        First entry of every weight of the other sites of the low part, and the end.
    down, up : (m,) uint32
        Ranks of strings with the first site down, and of their partners.
    both : (m',) uint32
        Ranks of strings with both sites of the low part down; unused across the parts, where `down` has them.
    """

    offset: NDArray[Any]
    down: NDArray[Any]
    up: NDArray[Any]
    both: NDArray[Any]


def sector_bond(
    device: Device,
    strings: FlipTables,
    bits: tuple[int, int],
    bond: tuple[int, int],
    tables: BondTables,
    psi: NDArray[Any],
    rotation: Rotation,
) -> None:
    """Apply the evolution of a bond, in place.

    Parameters
    ----------
    device : Device
        A CPU.
    strings : FlipTables
        Where the strings of the sector are.
    bits : (int, int)
        Of the low and the high part.
    bond : (int, int)
        Sites j < k.
    tables : BondTables
        Of the bond.
    psi : (D,) complex
        Changed.
    rotation : Rotation

    Raises
    ------
    ValueError
        On a GPU, for which there is no kernel, and if psi is not complex.
    """
    if device.is_cuda:
        raise ValueError("bonds of a sector are rotated on the CPU")
    if psi.dtype.kind != "c":
        raise ValueError(f"psi must be complex, not {psi.dtype}")
    low, high = bits
    j, k = bond
    kernel: Any
    # which part holds the sites decides the kernel: pairs of rows, pairs of columns, or both
    if j >= low:
        masks = 1 << (j - low), 1 << (k - low)
        kernel = _sector_bond_high_cpu
    elif k < low:
        masks, kernel = (0, 0), _sector_bond_low_cpu
    else:
        masks, kernel = (0, 1 << (k - low)), _sector_bond_across_cpu
    # numba takes plain tuples faster than named ones, and a bond of a small sector is a matter of microseconds
    columns, numbers = tuple(tables), tuple(rotation)
    # the twin shares rows among threads: a pair of rows is turned by the thread that has its first one,
    # so that no two threads write the same amplitudes
    each_part(
        lambda first, last: kernel(psi, strings, low, first, last, masks, columns, numbers),
        1 << high,
        psi.size,
        device.threads,
        alike=kernel.py_func,
    )


@nb.njit(inline="always")
def _weight(x):
    """Return the number of bits of a string of the high part."""
    count = 0
    while x:
        x &= x - 1
        count += 1
    return count


@nb.njit(inline="always")
def _turn(psi, x, y, aa, ab, ba, bb):
    """Turn the numbers at x and y of a vector into each other."""
    a = psi[x]
    b = psi[y]
    psi[x] = aa * a + ab * b
    psi[y] = ba * a + bb * b


@nb.njit(**JIT)
def _sector_bond_high_cpu(psi, t, low, first, last, masks, tables, rotation):
    """Rows ``first .. last - 1`` of the high part, for both sites in it."""
    j, k = masks
    aa, ab, ba, bb, phase = rotation
    # a row whose high string has site j down is turned with the one that has site k down instead: whole rows, each pair once
    for i in range(first, last):
        h = t.high_string[i]
        if not h & j:
            continue
        # blocks of the sector: w spins down in the low part must be possible
        p = _weight(h)
        w = t.down - p
        if w < 0 or w > low:
            continue
        columns = t.low_offset[w + 1] - t.low_offset[w]
        row = t.block[p] + t.high_rank[h] * columns
        # both sites down: a phase, 1 without fields
        if h & k:
            if phase != 1.0:
                for u in range(row, row + columns):
                    psi[u] = phase * psi[u]
            continue
        other = t.block[p] + t.high_rank[h ^ (j | k)] * columns
        for u in range(columns):
            _turn(psi, row + u, other + u, aa, ab, ba, bb)


@nb.njit(**JIT)
def _sector_bond_low_cpu(psi, t, low, first, last, masks, tables, rotation):
    """Rows ``first .. last - 1`` of the high part, for both sites in the low part."""
    offset, down, up, both = tables
    aa, ab, ba, bb, phase = rotation
    # the columns that the bond turns into each other are the same in all rows of a weight
    for i in range(first, last):
        h = t.high_string[i]
        p = _weight(h)
        w = t.down - p
        if w < 1 or w > low:
            # rows without a spin down in the low part have nothing to turn
            continue
        row = t.block[p] + t.high_rank[h] * (t.low_offset[w + 1] - t.low_offset[w])
        # strings in which exactly one of the two sites is down have
        # w - 1 spins down among the other sites of the low part
        if w - 1 <= low - 2:
            for u in range(offset[w - 1], offset[w]):
                _turn(psi, row + down[u], row + up[u], aa, ab, ba, bb)
        # both sites down: w - 2 among the others
        if w >= 2 and phase != 1.0:
            for u in range(offset[w - 2], offset[w - 1]):
                x = row + both[u]
                psi[x] = phase * psi[x]


@nb.njit(**JIT)
def _sector_bond_across_cpu(psi, t, low, first, last, masks, tables, rotation):
    """Rows ``first .. last - 1`` with the second site up, and those with it down, for the first site in the low part."""
    k = masks[1]
    offset, down, up = tables[:3]
    aa, ab, ba, bb, phase = rotation
    # rows in pairs, with the second site up and down: only the row with it up does the work, so that no row is turned twice
    for i in range(first, last):
        h = t.high_string[i]
        if h & k:
            continue
        p = _weight(h)
        w = t.down - p
        if w < 1 or w > low + 1:
            continue
        # the partner has one spin down more in the high part, and one fewer in the low part
        other = t.block[p + 1] + t.high_rank[h | k] * (t.low_offset[w] - t.low_offset[w - 1])
        # first site down here, second one down in the partner row
        if w <= low:
            row = t.block[p] + t.high_rank[h] * (t.low_offset[w + 1] - t.low_offset[w])
            for u in range(offset[w - 1], offset[w]):
                _turn(psi, row + down[u], other + up[u], aa, ab, ba, bb)
        # both down: in the partner row, whose low part has the first site down
        if w >= 2 and phase != 1.0:
            for u in range(offset[w - 2], offset[w - 1]):
                x = other + down[u]
                psi[x] = phase * psi[x]
