"""Rows of H psi in a sector, for the CPU twin of ``sectors.cu``: what comes from whole rows, and flips within the low part."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = [
    "JIT",
    "across_into",
    "diagonal_of",
    "eight_low",
    "eight_low_complex",
    "mirrored_into",
    "one_low",
    "rows_into",
    "start_row",
]

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
PACKED = 8  # rows of a complex vector that are made together
INLINE: dict[str, Any] = {
    **JIT,
    "inline": "always",
}  # the tables would be copied, array by array, at every call


@nb.njit(**INLINE)
def rows_into(g, x, high_first, high_offset, high_to, high_value, block, p, r, alpha):
    """Add the flips within the high part of row r, and nothing else, to its buffer."""
    k = high_first[high_offset[p] + r]
    end = high_first[high_offset[p] + r + 1]
    size = g.size
    while k + 4 <= end:
        a = block + high_to[k] * size
        b = block + high_to[k + 1] * size
        c = block + high_to[k + 2] * size
        d = block + high_to[k + 3] * size
        xa = x[a : a + size]
        xb = x[b : b + size]
        xc = x[c : c + size]
        xd = x[d : d + size]
        ca = alpha * high_value[k]
        cb = alpha * high_value[k + 1]
        cc = alpha * high_value[k + 2]
        cd = alpha * high_value[k + 3]
        for i in range(size):
            g[i] += (ca * xa[i] + cb * xb[i]) + (cc * xc[i] + cd * xd[i])
        k += 4
    if k + 2 <= end:
        a = block + high_to[k] * size
        b = block + high_to[k + 1] * size
        xa = x[a : a + size]
        xb = x[b : b + size]
        ca = alpha * high_value[k]
        cb = alpha * high_value[k + 1]
        for i in range(size):
            g[i] += ca * xa[i] + cb * xb[i]
        k += 2
    if k < end:
        a = block + high_to[k] * size
        xa = x[a : a + size]
        ca = alpha * high_value[k]
        for i in range(size):
            g[i] += ca * xa[i]


@nb.njit(**INLINE)
def across_into(
    g,
    x,
    cross_low,
    cross_high,
    cross_value,
    low_offset,
    block,
    high_rank,
    half,
    clear,
    filled,
    width,
    p,
    w,
    h,
    alpha,
):
    """Add the flips across the cut to the buffer of the row with the high string h."""
    bits = low_offset.size - 2
    for m in range(cross_low.size):
        j = cross_low[m]
        k = cross_high[m]
        c = alpha * cross_value[m]
        down = h >> k & 1  # then the low spin is up here and down there
        other = p - 1 if down else p + 1
        source = w + 1 if down else w - 1
        if source < 0 or source > bits:
            continue
        columns = low_offset[source + 1] - low_offset[source]
        start = width * (block[other] + high_rank[h ^ (1 << k)] * columns)
        row = x[start : start + width * columns]
        less = w if down else w - 1  # weight of the low string without bit j
        count = half[less + 1] - half[less]
        if j == bits - 1:  # those with the top bit 0 are the first
            into = g[: width * count] if down else g[g.size - width * count :]
            taken = row[row.size - width * count :] if down else row[: width * count]
            for i in range(into.size):
                into[i] += c * taken[i]
            continue
        to = clear[j] if down else filled[j]
        of = filled[j] if down else clear[j]
        to = to[half[less] : half[less + 1]]
        of = of[half[less] : half[less + 1]]
        if width == 1:
            for i in range(count):
                g[to[i]] += c * row[of[i]]
        else:
            for i in range(count):
                a = np.uint64(2) * np.uint64(to[i])
                b = np.uint64(2) * np.uint64(of[i])
                g[a] += c * row[b]
                g[a + np.uint64(1)] += c * row[b + np.uint64(1)]


@nb.njit(**INLINE)
def mirrored_into(
    g,
    x,
    mirror_site,
    mirror_value,
    low_offset,
    high_offset,
    block,
    high_rank,
    half,
    filled,
    width,
    p,
    w,
    h,
    alpha,
):
    """Add the flips of the site that is left out: they lead to the complement, whose ranks count from the other end."""
    bits = low_offset.size - 2
    top = high_offset.size - 2
    columns = g.size // width
    for m in range(mirror_site.size):
        j = mirror_site[m]
        c = alpha * mirror_value[m]
        flipped = ~h & ((1 << top) - 1)
        if j >= bits:  # of the high part: all columns, reversed
            k = j - bits
            if not h >> k & 1:
                continue
            flipped |= 1 << k
            start = width * (block[top - p + 1] + high_rank[flipped] * columns)
            row = x[start : start + width * columns]
            for i in range(columns):
                for q in range(width):
                    g[width * i + q] += c * row[width * (columns - 1 - i) + q]
            continue
        source = bits - w + 1
        if w == 0:
            continue
        others = low_offset[source + 1] - low_offset[source]
        start = width * (block[top - p] + high_rank[flipped] * others)
        row = x[start : start + width * others]
        to = filled[j][half[w - 1] : half[w]]
        of = filled[j][half[source - 1] : half[source]]
        for i in range(to.size):
            for q in range(width):
                g[width * to[i] + q] += c * row[width * of[to.size - 1 - i] + q]


@nb.njit(**INLINE)
def diagonal_of(energy, low_offset, high_string, across, energies, low_string, width, w, place):
    """Set the diagonal of a row but for the energy of its high string, from its fields on the low spins."""
    first = low_offset[w]
    last = low_offset[w + 1]
    h = high_string[place]
    bits = low_offset.size - 2
    under = bits // 2
    fields = np.zeros(bits)
    for k in range(across.shape[0]):
        s = -0.5 if h >> k & 1 else 0.5
        for j in range(bits):
            fields[j] += s * across[k, j]
    below = np.zeros(1 << under)
    above = np.zeros(1 << (bits - under))
    for i in range(below.size):
        for j in range(under):
            below[i] += -0.5 * fields[j] if i >> j & 1 else 0.5 * fields[j]
    for i in range(above.size):
        for j in range(bits - under):
            above[i] += -0.5 * fields[under + j] if i >> j & 1 else 0.5 * fields[under + j]
    row = energies
    mask = below.size - 1
    for i in range(last - first):
        s = low_string[first + i]
        for q in range(width):
            energy[width * i + q] = row[first + i] + below[s & mask] + above[s >> under]


@nb.njit(**JIT)
def start_row(g, x, y, energy, e, alpha, beta, gamma):
    """Set a buffer to what the row itself contributes; energy: its diagonal less e, of every number of an amplitude."""
    d = alpha * e + beta
    if gamma == 0.0:
        for i in range(x.size):
            g[i] = (alpha * energy[i] + d) * x[i]
    else:
        for i in range(x.size):
            g[i] = (alpha * energy[i] + d) * x[i] + gamma * y[i]


@nb.njit(**JIT)
def one_low(x, y, g, starts, to, value, columns, width, alpha):
    """Add the flips within the low part to one row, and write it."""
    for u in range(columns):
        re = 0.0
        im = 0.0
        for k in range(starts[u], starts[u + 1]):
            v = width * np.int64(to[k])
            re += value[k] * x[v]
            im += value[k] * x[v + width - 1]
        y[width * u] = g[width * u] + alpha * re
        if width == 2:
            y[2 * u + 1] = g[2 * u + 1] + alpha * im


@intrinsic
def _gathered(typingctx, x, y, g, to, value, alpha, begin, end, place, size):
    """Set ``y[place + r size + q] = g[...] + alpha sum_k value[k] x[r size + 2 to[k] + q]`` of eight rows r, q = 0, 1.

    Numba makes no vectors of the two numbers of an amplitude by itself; here real and imaginary part are one vector, so that a
    flip of eight rows is eight fused operations. k goes from begin to end.
    """
    if not all(isinstance(array, types.Array) for array in (x, y, g, to, value)):
        return None
    whole = types.int64
    signature = types.void(x, y, g, to, value, types.float64, whole, whole, whole, whole)

    def generate(context, builder, signature, arguments):
        double, index = ir.DoubleType(), ir.IntType(64)
        pair = ir.VectorType(double, 2)
        arrays = dict(
            zip(("x", "y", "g", "to", "value"), zip(signature.args, arguments, strict=False), strict=False)
        )
        data = {
            name: context.make_array(kind)(context, builder, array).data
            for name, (kind, array) in arrays.items()
        }
        element = {name: context.get_data_type(kind.dtype) for name, (kind, _) in arrays.items()}
        scale, first, last, start, row = arguments[5:]

        def both(number):
            found = ir.Constant(pair, ir.Undefined)
            for lane in (0, 1):
                found = builder.insert_element(found, number, ir.Constant(ir.IntType(32), lane))
            return found

        def pointer(name, at):
            kind = ir.VectorType(element[name], 2).as_pointer()
            return builder.bitcast(builder.gep(data[name], [at]), kind)

        def load(name, at):
            size = 8 if element[name] == double else 4
            found = builder.load(pointer(name, at), align=size)
            return found if element[name] == double else builder.fpext(found, pair)

        def plus(total, factor, vector):
            return builder.fadd(total, builder.fmul(factor, vector, flags=["contract"]), flags=["contract"])

        offsets = [ir.Constant(index, 0)]
        for _ in range(PACKED - 1):
            offsets.append(builder.add(offsets[-1], row))
        nothing = ir.Constant(pair, [0.0, 0.0])
        before = builder.block
        loop, done = builder.append_basic_block("flips"), builder.append_basic_block("done")
        builder.cbranch(builder.icmp_signed("<", first, last), loop, done)
        builder.position_at_end(loop)
        k = builder.phi(index)
        k.add_incoming(first, before)
        sums = [builder.phi(pair) for _ in offsets]
        column = builder.zext(builder.load(builder.gep(data["to"], [k])), index)
        column = builder.add(column, column)
        c = both(builder.load(builder.gep(data["value"], [k])))
        found = [
            plus(total, c, load("x", builder.add(column, at)))
            for total, at in zip(sums, offsets, strict=True)
        ]
        for total, new in zip(sums, found, strict=True):
            total.add_incoming(nothing, before)
            total.add_incoming(new, loop)
        following = builder.add(k, ir.Constant(index, 1))
        k.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, last), loop, done)
        builder.position_at_end(done)
        results = [builder.phi(pair) for _ in offsets]
        for total, new in zip(results, found, strict=True):
            total.add_incoming(nothing, before)
            total.add_incoming(new, loop)
        factor = both(scale)
        for total, offset in zip(results, offsets, strict=True):
            at = builder.add(start, offset)
            out = plus(load("g", at), factor, total)
            single = element["y"] != double
            out = builder.fptrunc(out, ir.VectorType(element["y"], 2)) if single else out
            builder.store(out, pointer("y", at), align=4 if single else 8)
        return context.get_dummy_value()

    return signature, generate


@nb.njit(**JIT)
def eight_low_complex(x, y, g, starts, to, value, columns, alpha):
    """Add the flips within the low part to eight rows of a complex vector, and write them."""
    for u in range(columns):
        _gathered(x, y, g, to, value, alpha, starts[u], starts[u + 1], 2 * u, 2 * columns)


@nb.njit(**JIT)
def eight_low(x, y, g, starts, to, value, columns, alpha):
    """Add the flips within the low part to eight rows of a real vector, and write them."""
    one = np.uint64(1)
    size = np.uint64(columns)
    o2 = size + size
    o3 = o2 + size
    o4 = o2 + o2
    o5 = o4 + size
    o6 = o4 + o2
    o7 = o4 + o3
    for u in range(np.uint64(0), size):
        a0 = 0.0
        a1 = 0.0
        a2 = 0.0
        a3 = 0.0
        a4 = 0.0
        a5 = 0.0
        a6 = 0.0
        a7 = 0.0
        for k in range(np.uint64(starts[u]), np.uint64(starts[u + one])):
            v = np.uint64(to[k])
            c = value[k]
            a0 += c * x[v]
            a1 += c * x[size + v]
            a2 += c * x[o2 + v]
            a3 += c * x[o3 + v]
            a4 += c * x[o4 + v]
            a5 += c * x[o5 + v]
            a6 += c * x[o6 + v]
            a7 += c * x[o7 + v]
        y[u] = g[u] + alpha * a0
        y[size + u] = g[size + u] + alpha * a1
        y[o2 + u] = g[o2 + u] + alpha * a2
        y[o3 + u] = g[o3 + u] + alpha * a3
        y[o4 + u] = g[o4 + u] + alpha * a4
        y[o5 + u] = g[o5 + u] + alpha * a5
        y[o6 + u] = g[o6 + u] + alpha * a6
        y[o7 + u] = g[o7 + u] + alpha * a7
