"""Rows of H psi in a sector, for the CPU twin of ``product.cu``: whole rows in vector registers, and flips of columns in tiles.

Arrays are given as pointers (:func:`qsim.trotter.kernels.sectors.lanes.pointer`).
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from qsim.core.device.jit import PART as _PART
from qsim.trotter.kernels.sectors.lanes import (
    eight,
    four,
    lanes_into,
    multiply_add,
    pairs_from_tile,
    pointer,
    rows_from_tile,
    sixteen,
    tile_from_pairs,
    tile_from_rows,
    times,
)

__all__ = [
    "JIT",
    "LANES",
    "across_into",
    "diagonal_of",
    "flipped_into",
    "joined_into",
    "mirrored_into",
    "row_into",
    "rows_out",
    "streams_of",
    "tile_in",
]

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
PART: dict[str, Any] = {**JIT, **_PART}
RANK = (1 << 24) - 1  # of an entry of the neighbours of a string; the bit is above
LANES = 8  # numbers of a column of a tile: eight rows of a real vector, four of a complex one
INLINE: dict[str, Any] = {
    **JIT,
    "inline": "always",
}  # the tables would be copied, array by array, at every call


@nb.njit(**INLINE)
def streams_of(
    source,
    factor,
    x_base,
    size,
    high_first,
    high_to,
    high_value,
    place,
    alpha,
):
    """List the rows that flips within the high part lead to, with their factors; return how many."""
    count = 0
    for k in range(high_first[place], high_first[place + 1]):
        source[count] = x_base + high_to[k] * size
        factor[count] = alpha * high_value[k]
        count += 1
    return count


@nb.njit(**INLINE)
def runs_of(
    source,
    factor,
    count,
    cross_low,
    cross_high,
    cross_value,
    crossings,
    low_offset,
    block,
    high_rank,
    half,
    bits,
    width,
    p,
    w,
    h,
    down,
    alpha,
):
    """Append the flips of the top low bit with high bits that are down (1) or up (0); return how many there are then.

    Strings with that bit 0 are the first of a row: where the high spin is down, flips make those columns; else the others.
    """
    v = w + 1 if down else w - 1
    if v < 0 or v > bits:
        return count
    columns = low_offset[v + 1] - low_offset[v]
    shift = half[v + 1] - half[v] if down else half[w] - half[w + 1]
    for m in range(crossings):
        k = cross_high[m]
        if cross_low[m] != bits - 1 or (h >> k & 1) != down:
            continue
        run = block[p - 1 if down else p + 1] + high_rank[h ^ (1 << k)] * columns
        source[count] = width * (run + shift)
        factor[count] = alpha * cross_value[m]
        count += 1
    return count


@nb.njit(**PART)
def range_into(g, place, x, y, start, first, end, energy, of, d, alpha, gamma, source, factor, count):
    """Set columns first .. end of a row to its diagonal part, the older vector and the rows of `source`.

    ``g = (alpha energy + d) x + gamma y + sum factor x[source + column]``, the sum in registers. The last numbers may be made
    twice, from the same input.
    """
    i = first
    if end - i >= 16:
        while True:
            v = sixteen(x, start + i)
            t = multiply_add(times(d, v), times(alpha, sixteen(energy, of + i)), v)
            if gamma != 0.0:
                t = multiply_add(t, gamma, sixteen(y, start + i))
            for k in range(count):
                t = multiply_add(t, factor[k], sixteen(x, source[k] + i))
            lanes_into(g, place + i, t)
            i += 16
            if i >= end:
                return
            i = min(i, end - 16)
    if end - i >= 4:
        while True:
            v = four(x, start + i)
            t = multiply_add(times(d, v), times(alpha, four(energy, of + i)), v)
            if gamma != 0.0:
                t = multiply_add(t, gamma, four(y, start + i))
            for k in range(count):
                t = multiply_add(t, factor[k], four(x, source[k] + i))
            lanes_into(g, place + i, t)
            i += 4
            if i >= end:
                return
            i = min(i, end - 4)
    while i < end:
        v = x[start + i]
        t = (alpha * energy[of + i] + d) * v
        if gamma != 0.0:
            t += gamma * y[start + i]
        for k in range(count):
            t += factor[k] * x[source[k] + i]
        g[place + i] = t
        i += 1


@nb.njit(**PART)
def row_into(
    g,
    place,
    x,
    y,
    start,
    less,
    size,
    energy,
    of,
    d,
    alpha,
    gamma,
    source,
    factor,
    inside,
    cross_low,
    cross_high,
    cross_value,
    crossings,
    low_offset,
    block,
    high_rank,
    half,
    bits,
    width,
    p,
    w,
    h,
):
    """Set the buffer of a row to all but gathered flips; `less` is where the columns with the top low bit begin."""
    for down in (1, 0):
        count = runs_of(
            source,
            factor,
            inside,
            cross_low,
            cross_high,
            cross_value,
            crossings,
            low_offset,
            block,
            high_rank,
            half,
            bits,
            width,
            p,
            w,
            h,
            down,
            alpha,
        )
        first = 0 if down else less
        last = less if down else size
        range_into(g, place, x, y, start, first, last, energy, of, d, alpha, gamma, source, factor, count)


@nb.njit(**INLINE)
def across_into(
    g,
    place,
    x,
    cross_low,
    cross_high,
    cross_value,
    crossings,
    low_offset,
    block,
    high_rank,
    half,
    clear,
    filled,
    bits,
    width,
    p,
    w,
    h,
    alpha,
):
    """Add the flips across the cut, but for those of the top low bit, to the buffer of the row with the high string h."""
    for m in range(crossings):
        j = cross_low[m]
        if j == bits - 1:
            continue
        k = cross_high[m]
        c = alpha * cross_value[m]
        down = h >> k & 1  # then the low spin is up here and down there
        other = p - 1 if down else p + 1
        source = w + 1 if down else w - 1
        if source < 0 or source > bits:
            continue
        columns = low_offset[source + 1] - low_offset[source]
        start = width * (block[other] + high_rank[h ^ (1 << k)] * columns)
        less = w if down else w - 1  # weight of the low string without bit j
        first = j * (half[bits]) + half[less]
        for i in range(first, first + half[less + 1] - half[less]):
            zero = np.int64(clear[i])
            one = np.int64(filled[i])
            a = place + width * (zero if down else one)
            b = start + width * (one if down else zero)
            g[a] += c * x[b]
            if width == 2:
                g[a + 1] += c * x[b + 1]


@nb.njit(**INLINE)
def mirrored_into(
    g,
    place,
    x,
    mirror_site,
    mirror_value,
    mirrors,
    low_offset,
    block,
    high_rank,
    half,
    filled,
    bits,
    top,
    width,
    p,
    w,
    h,
    alpha,
):
    """Add the flips of the site that is left out: they lead to the complement, whose ranks count from the other end."""
    columns = low_offset[w + 1] - low_offset[w]
    for m in range(mirrors):
        j = mirror_site[m]
        c = alpha * mirror_value[m]
        flipped = ~h & ((1 << top) - 1)
        if j >= bits:  # of the high part: all columns, reversed
            k = j - bits
            if not h >> k & 1:
                continue
            flipped |= 1 << k
            start = width * (block[top - p + 1] + high_rank[flipped] * columns)
            for i in range(columns):
                a = place + width * i
                b = start + width * (columns - 1 - i)
                g[a] += c * x[b]
                if width == 2:
                    g[a + 1] += c * x[b + 1]
            continue
        source = bits - w + 1
        if w == 0:
            continue
        others = low_offset[source + 1] - low_offset[source]
        start = width * (block[top - p] + high_rank[flipped] * others)
        to = j * half[bits] + half[w - 1]
        of = j * half[bits] + half[source] - 1
        for i in range(half[w] - half[w - 1]):
            a = place + width * np.int64(filled[to + i])
            b = start + width * np.int64(filled[of - i])
            g[a] += c * x[b]
            if width == 2:
                g[a + 1] += c * x[b + 1]


@nb.njit(**INLINE)
def diagonal_of(
    energy, fields, below, above, low_offset, across, energies, low_string, bits, top, width, w, h
):
    """Set the diagonal of a row but for the energy of its high string h, from the fields of that string on the low spins.

    `fields`, `below`, `above`: work space, of 2^((bits + 1) / 2) numbers or more.
    """
    first = low_offset[w]
    under = bits // 2
    for j in range(bits):
        fields[j] = 0.0
    for k in range(top):
        s = -0.5 if h >> k & 1 else 0.5
        for j in range(bits):
            fields[j] += s * across[k * bits + j]
    energy_of(below, fields, 0, under)
    energy_of(above, fields, under, bits - under)
    mask = (1 << under) - 1
    count = low_offset[w + 1] - first
    if width == 1:
        for i in range(count):
            s = low_string[first + i]
            energy[i] = energies[first + i] + below[s & mask] + above[s >> under]
        return
    for i in range(count):
        s = low_string[first + i]
        e = energies[first + i] + below[s & mask] + above[s >> under]
        energy[2 * i] = e
        energy[2 * i + 1] = e


@nb.njit(**INLINE)
def energy_of(made, fields, first, bits):
    """Set `made` to the energy of every string of some bits, in the fields from the first on; each doubles the table."""
    total = 0.0
    for j in range(bits):
        total += 0.5 * fields[first + j]
    made[0] = total
    for j in range(bits):
        for i in range(1 << j):
            made[(1 << j) + i] = made[i] - fields[first + j]


# --------------------------------------------------------------------------- eight rows, or four, at once


@nb.njit(**INLINE)
def tile_in(tile, x, starts, size, width):
    """Transpose rows of a vector, which begin at `starts`, into a tile (columns, 8)."""
    if size < 4:
        for q in range(LANES // width):
            for i in range(size):
                tile[i // width * LANES + q * width + i % width] = x[starts[q] + i]
        return
    k = 0
    while True:
        if width == 1:
            tile_from_rows(tile, x, starts, k)
        else:
            tile_from_pairs(tile, x, starts, k)
        k += 4
        if k >= size:
            return
        k = min(k, size - 4)


@nb.njit(**INLINE)
def rows_out(y, starts, g, places, made, size, width):
    """Set rows of a vector to their buffers and the columns of a tile."""
    if size < 4:
        for q in range(LANES // width):
            for i in range(size):
                y[starts[q] + i] = g[places[q] + i] + made[i // width * LANES + q * width + i % width]
        return
    k = 0
    while True:
        if width == 1:
            rows_from_tile(y, starts, g, places, made, k)
        else:
            pairs_from_tile(y, starts, g, places, made, k)
        k += 4
        if k >= size:
            return
        k = min(k, size - 4)


@nb.njit(**INLINE)
def flipped_into(made, tile, group_first, group_count, group_string, group_entry, order, to, value, w, alpha):
    """Set a tile to the flips within the low part; strings with equally many come one after the other.

    A loop whose length changes with every string is mispredicted; two strings are summed at once, for the latency of an addition.
    """
    for m in range(group_first[w], group_first[w + 1]):
        c = group_count[m]
        e = group_entry[m]
        s = group_string[m]
        end = group_string[m + 1]
        if c == 0:
            while s < end:
                lanes_into(made, LANES * np.int64(order[s]), times(0.0, eight(tile, 0)))
                s += 1
            continue
        while s + 2 <= end:
            a = times(value[e], eight(tile, LANES * np.int64(to[e])))
            b = times(value[e + c], eight(tile, LANES * np.int64(to[e + c])))
            for k in range(e + 1, e + c):
                a = multiply_add(a, value[k], eight(tile, LANES * np.int64(to[k])))
                b = multiply_add(b, value[k + c], eight(tile, LANES * np.int64(to[k + c])))
            lanes_into(made, LANES * np.int64(order[s]), times(alpha, a))
            lanes_into(made, LANES * np.int64(order[s + 1]), times(alpha, b))
            s += 2
            e += 2 * c
        if s < end:
            a = times(value[e], eight(tile, LANES * np.int64(to[e])))
            for k in range(e + 1, e + c):
                a = multiply_add(a, value[k], eight(tile, LANES * np.int64(to[k])))
            lanes_into(made, LANES * np.int64(order[s]), times(alpha, a))


@nb.njit(**PART)
def joined_twice(made, one, two, first, second, near, columns, flips):
    """Add the flips of the low bits from two tiles of partner rows; a factor for every bit and row.

    `near`: for every four columns, flip after flip, where the columns that it leads to begin in a tile, and the factors of its
    bits. Four columns at once hide the latency of an addition, two tiles share what is read from `near`.
    """
    at = np.int64(0)
    for u in range(0, columns, 4):
        i = LANES * u  # the last columns may be the same one again
        j = LANES * min(u + 1, columns - 1)
        k = LANES * min(u + 2, columns - 1)
        m = LANES * min(u + 3, columns - 1)
        a = eight(made, i)
        b = eight(made, j)
        c = eight(made, k)
        d = eight(made, m)
        end = at + 8 * flips
        while at < end:
            t = np.int64(near[at])
            f = np.int64(near[at + 4])
            a = multiply_add(a, eight(first, f), eight(one, t))
            a = multiply_add(a, eight(second, f), eight(two, t))
            t = np.int64(near[at + 1])
            f = np.int64(near[at + 5])
            b = multiply_add(b, eight(first, f), eight(one, t))
            b = multiply_add(b, eight(second, f), eight(two, t))
            t = np.int64(near[at + 2])
            f = np.int64(near[at + 6])
            c = multiply_add(c, eight(first, f), eight(one, t))
            c = multiply_add(c, eight(second, f), eight(two, t))
            t = np.int64(near[at + 3])
            f = np.int64(near[at + 7])
            d = multiply_add(d, eight(first, f), eight(one, t))
            d = multiply_add(d, eight(second, f), eight(two, t))
            at += 8
        lanes_into(made, i, a)
        lanes_into(made, j, b)
        lanes_into(made, k, c)
        lanes_into(made, m, d)


@nb.njit(**PART)
def joined_once(made, tile, factors, near, columns, flips):
    """Do what `joined_twice` does, from one tile."""
    at = np.int64(0)
    for u in range(0, columns, 4):
        i = LANES * u
        j = LANES * min(u + 1, columns - 1)
        k = LANES * min(u + 2, columns - 1)
        m = LANES * min(u + 3, columns - 1)
        a = eight(made, i)
        b = eight(made, j)
        c = eight(made, k)
        d = eight(made, m)
        end = at + 8 * flips
        while at < end:
            a = multiply_add(a, eight(factors, np.int64(near[at + 4])), eight(tile, np.int64(near[at])))
            b = multiply_add(b, eight(factors, np.int64(near[at + 5])), eight(tile, np.int64(near[at + 1])))
            c = multiply_add(c, eight(factors, np.int64(near[at + 6])), eight(tile, np.int64(near[at + 2])))
            d = multiply_add(d, eight(factors, np.int64(near[at + 7])), eight(tile, np.int64(near[at + 3])))
            at += 8
        lanes_into(made, i, a)
        lanes_into(made, j, b)
        lanes_into(made, k, c)
        lanes_into(made, m, d)


@nb.njit(**INLINE)
def joined_into(
    made,
    tile,
    apart,
    factors,
    starts,
    rows_of,
    x,
    cross,
    low_offset,
    near_high,
    block,
    near,
    near_first,
    bits,
    top,
    width,
    p,
    w,
    first,
    rows,
):
    """Add all flips across the cut to a tile, for couplings of nearly all pairs.

    Every row of a block has p of its H high bits set. Slot s takes the s-th of them (then of those that are not set) in each row:
    the partner rows are transposed once, and each flip of a low bit is one operation of all rows, with a factor for each.
    `first` is the place of the first of the rows among the high strings, `cross` (H, L) the values of the flips, each as often
    as an amplitude has numbers; the tiles of two slots lie `apart`.
    """
    columns = low_offset[w + 1] - low_offset[w]
    for down in (1, 0):
        source = w + 1 if down else w - 1
        other = p - 1 if down else p + 1
        if source < 0 or source > bits:
            continue
        others = low_offset[source + 1] - low_offset[source]
        flips = bits - w if down else w  # low bits that are up here, or down
        slots = p if down else top - p
        entry = pointer(near, near_first[2 * w + 1 - down])
        for slot in range(slots):
            odd = slot & 1
            factor = pointer(factors, odd * LANES * bits)
            for q in range(LANES // width):
                found = near_high[(first + min(q, rows - 1)) * top + slot + (top - p if down else 0)]
                starts[q] = width * (block[other] + np.int64(found & RANK) * others)
                rows_of[q] = np.int64(found >> 24) * bits * width
            tile_in(factor, cross, rows_of, width * bits, width)
            tile_in(pointer(tile, odd * apart), x, starts, width * others, width)
            if odd:
                joined_twice(made, tile, pointer(tile, apart), factors, factor, entry, columns, flips)
            elif slot == slots - 1:
                joined_once(made, tile, factors, entry, columns, flips)
