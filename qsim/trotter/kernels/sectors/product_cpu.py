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

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
PART: dict[str, Any] = {**JIT, **_PART}
# of an entry of the neighbours of a string; the bit is above
RANK = (1 << 24) - 1
# numbers of a column of a tile: eight rows of a real vector, four of a complex one
LANES = 8
# the tables would be copied, array by array, at every call
INLINE: dict[str, Any] = {
    **JIT,
    "inline": "always",
}


@nb.njit(**INLINE)
def streams_of(streams, x_base, size, high_first, high_to, high_value, place, alpha):
    """List the rows that flips within the high part lead to, with their factors; return their number."""
    # a flip within the high part keeps its weight: the partner is a row of the same block, equally long,
    # and all columns of it are taken alike
    count = 0
    for k in range(high_first[place], high_first[place + 1]):
        streams.source[count] = x_base + high_to[k] * size
        streams.factor[count] = alpha * high_value[k]
        count += 1
    return count


@nb.njit(**INLINE)
def runs_of(streams, count, cross, strings, row, down, alpha):
    """Append the flips of the top low bit with high bits that are down (1) or up (0); return the number of streams then.

    Strings with that bit 0 are the first of a row: where the high spin is down, flips make those columns; else the others.
    """
    # p spins down in the high string h, w in the low strings of its row. The flip moves one spin down
    # across the cut: the partner row has low strings of weight v
    low_offset, half, bits = strings.low_offset, strings.half, strings.bits
    p, w, h = row.p, row.w, row.h
    v = w + 1 if down else w - 1
    if v < 0 or v > bits:
        return count
    # low strings of weight w without the top bit come first in a row, C(L - 1, w) of them, and half[w] is
    # the sum of C(L - 1, 0 ... w - 1). The other bits keep their order under the flip, so that one shift
    # leads from the columns here to the columns of the partner
    columns = low_offset[v + 1] - low_offset[v]
    shift = half[v + 1] - half[v] if down else half[w] - half[w + 1]
    for m in range(cross.count):
        k = cross.high[m]
        # only the top low bit makes runs; h must have the spin
        # of its site as `down` says, or both spins are equal
        if cross.low[m] != bits - 1 or (h >> k & 1) != down:
            continue
        run = strings.block[p - 1 if down else p + 1] + strings.high_rank[h ^ (1 << k)] * columns
        streams.source[count] = strings.width * (run + shift)
        streams.factor[count] = alpha * cross.value[m]
        count += 1
    return count


@nb.njit(**PART)
def range_into(vectors, start, place, first, end, diagonal, alpha, gamma, streams, count):
    """Set columns first .. end of a row to its diagonal part, the older vector and the rows of `streams`.

    The row begins at `start` in the vectors and at `place` in the buffer:
    ``buffer = (alpha energy + shift) x + gamma y + sum factor x[source + column]``, the sum in registers. The last numbers may
    be made twice, from the same input.
    """
    x, y, g = vectors.x, vectors.y, vectors.buffer
    energy, of, d = diagonal.energy, diagonal.of, diagonal.shift
    source, factor = streams.source, streams.factor
    i = first
    # sixteen numbers in registers while all streams pass: the row is read and written once, whatever the number of streams
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
            # the last sixteen overlap with those before, instead of a tail of single numbers
            i = min(i, end - 16)
    # short rows, of small weights
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
    # fewer than four columns are left, or none
    while i < end:
        # a row of the lowest or the highest weight: too short for registers
        v = x[start + i]
        t = (alpha * energy[of + i] + d) * v
        if gamma != 0.0:
            t += gamma * y[start + i]
        for k in range(count):
            t += factor[k] * x[source[k] + i]
        g[place + i] = t
        i += 1


@nb.njit(**INLINE)
def row_into(vectors, row, diagonal, alpha, gamma, streams, inside, cross, strings):
    """Set the buffer of a row to all but gathered flips; `inside` streams are those within the high part."""
    # flips of the top low bit are runs of columns: of the first half of the row where the high spin is down, else of the second
    for down in (1, 0):
        count = runs_of(streams, inside, cross, strings, row, down, alpha)
        first = 0 if down else row.less
        last = row.less if down else row.size
        range_into(vectors, row.start, row.place, first, last, diagonal, alpha, gamma, streams, count)


@nb.njit(**INLINE)
def across_into(vectors, row, cross, strings, alpha):
    """Add the flips across the cut, without flips of the top low bit, to the buffer of a row."""
    x, g, place = vectors.x, vectors.buffer, row.place
    low_offset, half, width, bits = strings.low_offset, strings.half, strings.width, strings.bits
    p, w, h = row.p, row.w, row.h
    for m in range(cross.count):
        j = cross.low[m]
        if j == bits - 1:
            continue
        k = cross.high[m]
        c = alpha * cross.value[m]
        # where the high spin is down, the low spin is up here and down there
        down = h >> k & 1
        other = p - 1 if down else p + 1
        source = w + 1 if down else w - 1
        if source < 0 or source > bits:
            continue
        columns = low_offset[source + 1] - low_offset[source]
        start = width * (strings.block[other] + strings.high_rank[h ^ (1 << k)] * columns)
        # the strings without bit j have this weight, on either side of the flip: their ranks with the bit clear and filled are
        # listed in the same order, so that one list is read for the target and the other for the source
        less = w if down else w - 1
        first = j * (half[bits]) + half[less]
        for i in range(first, first + half[less + 1] - half[less]):
            zero = np.int64(strings.clear[i])
            one = np.int64(strings.filled[i])
            a = place + width * (zero if down else one)
            # two loops for the two numbers of a complex amplitude would read the lists of ranks twice
            b = start + width * (one if down else zero)
            g[a] += c * x[b]
            if width == 2:
                g[a + 1] += c * x[b + 1]


@nb.njit(**INLINE)
def mirrored_into(vectors, row, mirror, strings, alpha):
    """Add the flips of the site that is left out: they lead to the complement, whose ranks count from the other end."""
    x, g, place = vectors.x, vectors.buffer, row.place
    low_offset, half, width = strings.low_offset, strings.half, strings.width
    bits, top, block = strings.bits, strings.top, strings.block
    p, w, h = row.p, row.w, row.h
    columns = low_offset[w + 1] - low_offset[w]
    for m in range(mirror.count):
        j = mirror.low[m]
        c = alpha * mirror.value[m]
        # the complement of the high string: all bits turned over, except the bit of the flipped site
        flipped = ~h & ((1 << top) - 1)
        # a flip with a high bit keeps the weight of the low part: all columns, in reverse order
        if j >= bits:
            k = j - bits
            if not h >> k & 1:
                continue
            # the site left out is up; the flip needs site j down, and the complement has it down again
            flipped |= 1 << k
            start = width * (block[top - p + 1] + strings.high_rank[flipped] * columns)
            # the complement of the low string of rank i has the
            # rank C - 1 - i among the C strings of its weight
            for i in range(columns):
                a = place + width * i
                b = start + width * (columns - 1 - i)
                g[a] += c * x[b]
                if width == 2:
                    g[a + 1] += c * x[b + 1]
            continue
        # a flip with low bit j: strings with that bit, in ascending order, and their complements in descending order
        # bit j stays set in the complement, whose weight is L - w of the other bits and one more
        source = bits - w + 1
        if w == 0:
            continue
        others = low_offset[source + 1] - low_offset[source]
        start = width * (block[top - p] + strings.high_rank[flipped] * others)
        # both lists hold the strings with bit j set; the complement turns the order of the other bits
        # over, so that one list is read forwards, the other backwards
        to = j * half[bits] + half[w - 1]
        of = j * half[bits] + half[source] - 1
        for i in range(half[w] - half[w - 1]):
            a = place + width * np.int64(strings.filled[to + i])
            b = start + width * np.int64(strings.filled[of - i])
            g[a] += c * x[b]
            if width == 2:
                g[a + 1] += c * x[b + 1]


@nb.njit(**INLINE)
def diagonal_of(energy, work, tables, strings, w, h):
    """Set the diagonal of a row but for the energy of its high string h, from the fields of that string on the low spins."""
    fields, below, above = work.fields, work.below, work.above
    energies, low_string, bits = tables.energies, tables.low_string, strings.bits
    first = strings.low_offset[w]
    under = bits // 2
    # field of the high spins on each low spin, sum over k of Jz_jk s_k
    for j in range(bits):
        fields[j] = 0.0
    for k in range(strings.top):
        s = -0.5 if h >> k & 1 else 0.5
        for j in range(bits):
            fields[j] += s * tables.across[k * bits + j]
    # energies of the lower and the upper half of the low bits: two tables of 2^(L/2) numbers instead of one of 2^L
    energy_of(below, fields, 0, under)
    energy_of(above, fields, under, bits - under)
    mask = (1 << under) - 1
    count = strings.low_offset[w + 1] - first
    # energy of column i: low string alone, and its lower and upper half of bits in the fields of h
    if strings.width == 1:
        for i in range(count):
            s = low_string[first + i]
            energy[i] = energies[first + i] + below[s & mask] + above[s >> under]
        return
    for i in range(count):
        # the energy is duplicated, for both numbers of a complex
        # amplitude: the sweep over a row is the same for both types
        s = low_string[first + i]
        e = energies[first + i] + below[s & mask] + above[s >> under]
        energy[2 * i] = e
        energy[2 * i + 1] = e


@nb.njit(**INLINE)
def energy_of(made, fields, first, bits):
    """Set `made` to the energy of every string of some bits, in the fields from the first on; each doubles the table."""
    # all spins up, s = +1/2; a spin that turns down then lowers the energy by its field
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
    # rows shorter than a vector go number by number
    if size < 4:
        for q in range(LANES // width):
            for i in range(size):
                tile[i // width * LANES + q * width + i % width] = x[starts[q] + i]
        return
    # four columns at a time are transposed in registers; the last four may overlap with those before
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
    # a tile counts columns of amplitudes, a row counts numbers:
    # 8 / width rows of `width` numbers each per column
    if size < 4:
        for q in range(LANES // width):
            for i in range(size):
                y[starts[q] + i] = g[places[q] + i] + made[i // width * LANES + q * width + i % width]
        return
    # the buffer has the diagonal and the whole rows, the tile
    # the gathered flips: their sum is the row, written once
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
def flipped_into(made, tile, groups, w, alpha):
    """Set a tile to the flips within the low part; strings with equally many come one after the other.

    A loop whose length changes with every string is mispredicted; two strings are summed at once, for the latency of an addition.
    """
    order, to, value = groups.order, groups.to, groups.value
    for m in range(groups.first[w], groups.first[w + 1]):
        # c flips for every string of this group, so that the loop over them has one length
        c = groups.count[m]
        e = groups.entry[m]
        s = groups.string[m]
        end = groups.string[m + 1]
        # no flip at all (all spins of the low part equal, or not coupled): zero must be written, since
        # the tile holds the sums of the tile before
        if c == 0:
            while s < end:
                lanes_into(made, LANES * np.int64(order[s]), times(0.0, eight(tile, 0)))
                s += 1
            continue
        # strings s and s + 1: flips e ... e + c - 1 and the c that follow
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
        # the last string of a group of odd size
        if s < end:
            a = times(value[e], eight(tile, LANES * np.int64(to[e])))
            for k in range(e + 1, e + c):
                a = multiply_add(a, value[k], eight(tile, LANES * np.int64(to[k])))
            lanes_into(made, LANES * np.int64(order[s]), times(alpha, a))


@nb.njit(**PART)
def joined_twice(made, one, two, first, second, near, columns, flips):
    """Add the flips of the low bits from two tiles of partner rows; a factor for every bit and row.

    `near`: for every four columns, flip after flip, where the columns that it leads to begin in a tile, and the factors of its
    bits. Four columns at once hide the latency of an addition, two tiles share the loads from `near`.
    """
    at = np.int64(0)
    for u in range(0, columns, 4):
        # the last columns may be the same one again
        i = LANES * u
        j = LANES * min(u + 1, columns - 1)
        k = LANES * min(u + 2, columns - 1)
        m = LANES * min(u + 3, columns - 1)
        # sums so far of four columns, eight rows each: four registers that do not wait for each other
        a = eight(made, i)
        b = eight(made, j)
        c = eight(made, k)
        d = eight(made, m)
        # eight numbers of `near` for each flip of these columns:
        # four places in the tile, four of the factors of the bit
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
    """Add the flips of the low bits as `joined_twice`, from one tile."""
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
def joined_into(made, work, x, near, strings, p, w, first, rows):
    """Add all flips across the cut to a tile, for couplings of nearly all pairs.

    Every row of a block has p of its H high bits set. Slot s takes the s-th of them (then of those that are not set) in each row:
    the partner rows are transposed once, and each flip of a low bit is one operation of all rows, with a factor for each.
    `first` is the place of the first of the rows among the high strings, ``near.cross`` (H, L) the values of the flips, each as
    often as an amplitude has numbers.
    """
    low_offset, block = strings.low_offset, strings.block
    bits, top, width = strings.bits, strings.top, strings.width
    tile, apart, factors = work.tile, work.apart, work.factors
    columns = low_offset[w + 1] - low_offset[w]
    # first the high bits that are set (spin moves into the low part), then those that are not
    for down in (1, 0):
        source = w + 1 if down else w - 1
        other = p - 1 if down else p + 1
        if source < 0 or source > bits:
            continue
        others = low_offset[source + 1] - low_offset[source]
        # the low spin must be the opposite of the high one: each
        # low string of weight w has bits - w candidates, or w
        # low bits that are up here, or down
        flips = bits - w if down else w
        slots = p if down else top - p
        # `near` lists for a weight first the flips of bits that are 0, then of bits that are 1
        entry = pointer(near.low, near.low_first[2 * w + 1 - down])
        # slots in pairs: the tiles of two of them share the loads from `near`
        for slot in range(slots):
            odd = slot & 1
            factor = pointer(factors, odd * LANES * bits)
            # slot s of each row: rank of its partner row, and which high bit was flipped, which selects
            # the couplings J_jk of all low bits j
            for q in range(LANES // width):
                partner = near.high[(first + min(q, rows - 1)) * top + slot + (top - p if down else 0)]
                work.starts[q] = width * (block[other] + np.int64(partner & RANK) * others)
                work.rows_of[q] = np.int64(partner >> 24) * bits * width
            tile_in(factor, near.cross, work.rows_of, width * bits, width)
            # rows beyond the last repeat it; their results are not used
            tile_in(pointer(tile, odd * apart), x, work.starts, width * others, width)
            # an odd slot is the second of a pair: both tiles are full now
            if odd:
                joined_twice(made, tile, pointer(tile, apart), factors, factor, entry, columns, flips)
            elif slot == slots - 1:
                joined_once(made, tile, factors, entry, columns, flips)
