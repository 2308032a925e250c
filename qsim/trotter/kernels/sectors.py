"""H psi in a sector of conserved Sz, without a matrix, and sums of spin flips: public wrappers of ``sectors.cu``, and CPU twins.

A vector is a direct sum of dense matrices, row = string of the high sites, column = string of the low ones
(:mod:`qsim.trotter.sectors.basis`).  A flip within the low part moves columns, in every row alike; a flip within the high part
moves whole rows; one across the cut pairs rows with rows and columns with columns; with inversion, a flip of the site that is
left out reverses both.

On the CPU rows are made four at a time (eight of a real vector): first what comes from whole rows, in contiguous runs, into a
buffer in cache; then the flips of the low part, whose tables are read once for all of them; then the result is written, in which
the older vector of a recurrence is included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import each_part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device

__all__ = ["FlipTables", "ProductTables", "SectorTables", "sector_flips", "sector_product"]

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
INLINE: dict[str, Any] = {
    **JIT,
    "inline": "always",
}  # the tables would be copied, array by array, at every call
THREADS = 256
FLIP_BLOCKS = 512  # of a pair on a GPU, on any device alike, so that the order of additions is the same
ROWS = {1: 8, 2: 4}  # rows of a tile by the doubles of an amplitude


class ProductTables(NamedTuple):
    """A Hamiltonian in a sector as the CPU twin takes it: L low and H high bits; ranks are within a weight.

    Attributes
    ----------
    down : int
        Spins down n in all.
    low_offset, high_offset, block : int64
        First string of every weight, first index of every block of the high weight.
    half : (L + 2,) int64
        Sums of ``C(L - 1, w)``: where the strings of a weight begin in `clear`, of the next one in `filled`.
    clear, filled : (L, 2^(L - 1)) uint32
        Ranks of the low strings in which a bit is 0 or 1.
    low_first, low_to, low_value
        Flips within the low part: of string u those from ``low_first[u]``; rank, ``(Jx + Jy) / 4``.
    high_first, high_to, high_value
        Those within the high part.
    cross_low, cross_high, cross_value
        Bits of the low and the high part that a flip joins, and its value.
    mirror_site, mirror_value
        Sites whose flip with the site that is left out leads to the complement, and its value with the sign of the inversion.
    high_string, high_rank
        Of the high part.
    energy : (patterns 2^L,) float64
        Diagonal of the low part with the couplings across, for every pattern of the fields of the high part on it.
    pattern : (2^H,) int64
        Pattern of every high string; all -1 where there are too many, and `across` is used.
    high_energy : (2^H,) float64
        Diagonal of the high part.
    across : (H, L) float64
        Couplings Jz between the high and the low part.
    low_string : (2^L,) int64
    """

    down: int
    low_offset: Any
    high_offset: Any
    block: Any
    half: Any
    clear: Any
    filled: Any
    low_first: Any
    low_to: Any
    low_value: Any
    high_first: Any
    high_to: Any
    high_value: Any
    cross_low: Any
    cross_high: Any
    cross_value: Any
    mirror_site: Any
    mirror_value: Any
    high_string: Any
    high_rank: Any
    energy: Any
    pattern: Any
    high_energy: Any
    across: Any
    low_string: Any


class FlipTables(NamedTuple):
    """Where the strings of a sector are, for :func:`sector_flips`; names as in `ProductTables`."""

    down: int
    low_offset: Any
    high_offset: Any
    block: Any
    low_string: Any
    low_rank: Any
    high_string: Any
    high_rank: Any


@dataclass(frozen=True)
class SectorTables:
    """A Hamiltonian in a sector.

    Attributes
    ----------
    dimension : int
    bits : (int, int)
        Bits of the low and of the high part.
    blocks : list of (p, first, rows, columns)
        Blocks that are not empty.
    host : ProductTables or None
        What the CPU twin takes; None on a GPU.
    tiles : dict of int to (T, 2) int64
        Weight p and first row of every tile, by the doubles of an amplitude.
    strings : FlipTables
        On the device.
    flips : tuple
        On a GPU: numbers of flips within the low part, within the high part, across, and of mirrored ones; their masks (uint64)
        and values (float64) in this order.
    diagonal : tuple
        On a GPU: energies of the low and the high strings; number, masks of the low and the high bit, and values Jz of the
        couplings across.
    """

    dimension: int
    bits: tuple[int, int]
    blocks: list[tuple[int, int, int, int]]
    host: ProductTables | None
    tiles: dict[int, NDArray[np.int64]]
    strings: FlipTables
    flips: tuple[Any, ...] = ()
    diagonal: tuple[Any, ...] = ()


# ----------------------------------------------------------------------------------------- H psi


def sector_product(
    device: Device,
    tables: SectorTables,
    psi: Any,
    out: Any,
    alpha: float = 1.0,
    beta: float = 0.0,
    gamma: float = 0.0,
) -> None:
    """Compute ``out = alpha H psi + beta psi + gamma out``.

    Parameters
    ----------
    psi : (D,) real or complex
        Vector of the sector, on the device.
    out : (D,) of the same type, in/out
        Another array; with ``gamma = 0`` it is not read.
    """
    if psi.shape != (tables.dimension,) or out.shape != psi.shape or out.dtype != psi.dtype:
        raise ValueError(
            f"psi {psi.dtype} {psi.shape} and out {out.dtype} {out.shape} must be alike, of the shape ({tables.dimension},)"
        )
    if device.is_cuda:
        _launch_product(tables, psi, out, alpha, beta, gamma)
        return
    assert tables.host is not None
    width = 2 if psi.dtype.kind == "c" else 1
    real = np.float32 if psi.dtype.itemsize == 4 * width else np.float64
    x, y = psi.view(real), out.view(real)
    tiles, host = tables.tiles[width], tables.host
    most = max((columns for *_, columns in tables.blocks), default=1)
    each = _sector_product_cpu if width == 2 else _sector_product_real
    each_part(
        lambda first, last: each(
            x, y, host, tiles[first:last], np.empty(8 * most), np.empty(most), alpha, beta, gamma
        ),
        len(tiles),
        psi.size,
        device.threads,
    )


def _launch_product(
    tables: SectorTables, psi: Any, out: Any, alpha: float, beta: float, gamma: float
) -> None:
    kernel = kernels.function("trotter/kernels", "sectors", "sector_product", _defines(psi.dtype))
    low, high = tables.bits
    for p, first, rows, columns in tables.blocks:
        grid = -(-rows * columns // THREADS)
        kernel(
            (grid,),
            (THREADS,),
            (
                psi,
                out,
                *_place(tables, low, high, p, first, rows, columns),
                *tables.strings[3:],
                *tables.flips,
                *tables.diagonal,
                np.float64(alpha),
                np.float64(beta),
                np.float64(gamma),
            ),
        )


def _defines(dtype: Any) -> dict[str, str | int]:
    kind = np.dtype(dtype)
    width = 2 if kind.kind == "c" else 1
    return {"REAL": "float" if kind.itemsize == 4 * width else "double", "WIDTH": width}


def _place(
    tables: SectorTables, low: int, high: int, p: int, first: int, rows: int, columns: int
) -> tuple[Any, ...]:
    """Return the arguments that say which block of the sector a launch is for."""
    return (
        np.int32(low),
        np.int32(high),
        np.int32(tables.strings.down),
        np.int32(p),
        np.int64(first),
        np.int64(rows),
        np.int64(columns),
        tables.strings.low_offset,
        tables.strings.high_offset,
    )


@nb.njit(**INLINE)
def _rows_into(g, x, t, block, width, p, r, alpha):
    """Add the flips within the high part of row r, and nothing else, to its buffer."""
    k = t.high_first[t.high_offset[p] + r]
    end = t.high_first[t.high_offset[p] + r + 1]
    size = g.size
    while k + 4 <= end:
        a = block + t.high_to[k] * size
        b = block + t.high_to[k + 1] * size
        c = block + t.high_to[k + 2] * size
        d = block + t.high_to[k + 3] * size
        xa = x[a : a + size]
        xb = x[b : b + size]
        xc = x[c : c + size]
        xd = x[d : d + size]
        ca = alpha * t.high_value[k]
        cb = alpha * t.high_value[k + 1]
        cc = alpha * t.high_value[k + 2]
        cd = alpha * t.high_value[k + 3]
        for i in range(size):
            g[i] += (ca * xa[i] + cb * xb[i]) + (cc * xc[i] + cd * xd[i])
        k += 4
    while k < end:
        a = block + t.high_to[k] * size
        xa = x[a : a + size]
        ca = alpha * t.high_value[k]
        for i in range(size):
            g[i] += ca * xa[i]
        k += 1


@nb.njit(**INLINE)
def _across_into(g, x, t, width, p, w, h, alpha):
    """Add the flips across the cut to the buffer of the row with the high string h."""
    bits = t.low_offset.size - 2
    for m in range(t.cross_low.size):
        j = t.cross_low[m]
        k = t.cross_high[m]
        c = alpha * t.cross_value[m]
        down = h >> k & 1  # then the low spin is up here and down there
        other = p - 1 if down else p + 1
        source = w + 1 if down else w - 1
        if source < 0 or source > bits:
            continue
        columns = t.low_offset[source + 1] - t.low_offset[source]
        start = width * (t.block[other] + t.high_rank[h ^ (1 << k)] * columns)
        row = x[start : start + width * columns]
        less = w if down else w - 1  # weight of the low string without bit j
        count = t.half[less + 1] - t.half[less]
        if j == bits - 1:  # those with the top bit 0 are the first
            to = 0 if down else g.size - width * count
            of = row.size - width * count if down else 0
            for i in range(width * count):
                g[to + i] += c * row[of + i]
            continue
        to = t.clear[j] if down else t.filled[j]
        of = t.filled[j] if down else t.clear[j]
        to = to[t.half[less] : t.half[less + 1]]
        of = of[t.half[less] : t.half[less + 1]]
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
def _mirrored_into(g, x, t, width, p, w, h, alpha):
    """Add the flips of the site that is left out: they lead to the complement, whose ranks count from the other end."""
    bits = t.low_offset.size - 2
    top = t.high_offset.size - 2
    columns = g.size // width
    for m in range(t.mirror_site.size):
        j = t.mirror_site[m]
        c = alpha * t.mirror_value[m]
        flipped = ~h & ((1 << top) - 1)
        if j >= bits:  # of the high part: all columns, reversed
            k = j - bits
            if not h >> k & 1:
                continue
            flipped |= 1 << k
            start = width * (t.block[top - p + 1] + t.high_rank[flipped] * columns)
            row = x[start : start + width * columns]
            for i in range(columns):
                for q in range(width):
                    g[width * i + q] += c * row[width * (columns - 1 - i) + q]
            continue
        source = bits - w + 1
        if w == 0:
            continue
        others = t.low_offset[source + 1] - t.low_offset[source]
        start = width * (t.block[top - p] + t.high_rank[flipped] * others)
        row = x[start : start + width * others]
        to = t.filled[j][t.half[w - 1] : t.half[w]]
        of = t.filled[j][t.half[source - 1] : t.half[source]]
        for i in range(to.size):
            for q in range(width):
                g[width * to[i] + q] += c * row[width * of[to.size - 1 - i] + q]


@nb.njit(**INLINE)
def _diagonal_of(energy, t, w, place):
    """Set the diagonal of a row but for the energy of its high string, from its fields on the low spins."""
    first = t.low_offset[w]
    last = t.low_offset[w + 1]
    h = t.high_string[place]
    bits = t.low_offset.size - 2
    under = bits // 2
    fields = np.zeros(bits)
    for k in range(t.across.shape[0]):
        s = -0.5 if h >> k & 1 else 0.5
        for j in range(bits):
            fields[j] += s * t.across[k, j]
    below = np.zeros(1 << under)
    above = np.zeros(1 << (bits - under))
    for i in range(below.size):
        for j in range(under):
            below[i] += -0.5 * fields[j] if i >> j & 1 else 0.5 * fields[j]
    for i in range(above.size):
        for j in range(bits - under):
            above[i] += -0.5 * fields[under + j] if i >> j & 1 else 0.5 * fields[under + j]
    row = t.energy
    mask = below.size - 1
    for i in range(last - first):
        s = t.low_string[first + i]
        energy[i] = row[first + i] + below[s & mask] + above[s >> under]


@nb.njit(**JIT)
def _start_row(g, x, y, energy, e, width, alpha, beta, gamma):
    """Set a buffer to what the row itself contributes; energy: its diagonal less e."""
    d = alpha * e + beta
    if width == 1 and gamma == 0.0:
        for i in range(x.size):
            g[i] = (alpha * energy[i] + d) * x[i]
    elif width == 1:
        for i in range(x.size):
            g[i] = (alpha * energy[i] + d) * x[i] + gamma * y[i]
    elif gamma == 0.0:
        for i in range(x.size // 2):
            c = alpha * energy[i] + d
            g[2 * i] = c * x[2 * i]
            g[2 * i + 1] = c * x[2 * i + 1]
    else:
        for i in range(x.size // 2):
            c = alpha * energy[i] + d
            g[2 * i] = c * x[2 * i] + gamma * y[2 * i]
            g[2 * i + 1] = c * x[2 * i + 1] + gamma * y[2 * i + 1]


@nb.njit(**JIT)
def _one_low(x, y, g, starts, to, value, columns, width, alpha):
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


@nb.njit(**JIT)
def _four_low(x, y, g, starts, to, value, columns, alpha):
    """Add the flips within the low part to four rows of a complex vector, and write them; indices are unsigned for speed."""
    two = np.uint64(2)
    one = np.uint64(1)
    size = two * np.uint64(columns)
    o1 = size
    o2 = two * size
    o3 = o1 + o2
    for u in range(np.uint64(0), np.uint64(columns)):
        i = two * u
        a0 = 0.0
        a1 = 0.0
        a2 = 0.0
        a3 = 0.0
        b0 = 0.0
        b1 = 0.0
        b2 = 0.0
        b3 = 0.0
        for k in range(np.uint64(starts[u]), np.uint64(starts[u + one])):
            v = two * np.uint64(to[k])
            c = value[k]
            a0 += c * x[v]
            b0 += c * x[v + one]
            a1 += c * x[o1 + v]
            b1 += c * x[o1 + v + one]
            a2 += c * x[o2 + v]
            b2 += c * x[o2 + v + one]
            a3 += c * x[o3 + v]
            b3 += c * x[o3 + v + one]
        y[i] = g[i] + alpha * a0
        y[i + one] = g[i + one] + alpha * b0
        i += size
        y[i] = g[i] + alpha * a1
        y[i + one] = g[i + one] + alpha * b1
        i += size
        y[i] = g[i] + alpha * a2
        y[i + one] = g[i + one] + alpha * b2
        i += size
        y[i] = g[i] + alpha * a3
        y[i + one] = g[i + one] + alpha * b3


@nb.njit(**JIT)
def _eight_low(x, y, g, starts, to, value, columns, alpha):
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


@nb.njit(**INLINE)
def _prepare(x, y, t, g, energy, width, p, r, alpha, beta, gamma):
    """Set the buffer of row r to everything but the flips within the low part."""
    w = t.down - p
    columns = t.low_offset[w + 1] - t.low_offset[w]
    place = t.high_offset[p] + r
    h = t.high_string[place]
    size = width * columns
    start = width * t.block[p] + r * size
    e = t.high_energy[place]
    own = x[start : start + size]
    old = y[start : start + size]
    if t.pattern[place] >= 0:
        of = t.pattern[place] * t.low_string.size + t.low_offset[w]
        _start_row(g, own, old, t.energy[of : of + columns], e, width, alpha, beta, gamma)
    else:
        _diagonal_of(energy, t, w, place)
        _start_row(g, own, old, energy, e, width, alpha, beta, gamma)
    _rows_into(g, x, t, width * t.block[p], width, p, r, alpha)
    _across_into(g, x, t, width, p, w, h, alpha)
    _mirrored_into(g, x, t, width, p, w, h, alpha)


@nb.njit(**JIT)
def _sector_product_cpu(x, y, t, tiles, g, energy, alpha, beta, gamma):
    """Tiles of :func:`sector_product` for complex vectors, given as their real and imaginary parts (2 D,)."""
    for tile in range(tiles.shape[0]):
        p = tiles[tile, 0]
        r = tiles[tile, 1]
        w = t.down - p
        columns = t.low_offset[w + 1] - t.low_offset[w]
        size = 2 * columns
        rows = min(4, t.high_offset[p + 1] - t.high_offset[p] - r)
        for q in range(rows):
            _prepare(x, y, t, g[q * size : (q + 1) * size], energy, 2, p, r + q, alpha, beta, gamma)
        start = 2 * t.block[p] + r * size
        starts = t.low_first[t.low_offset[w] :]
        if rows == 4:
            end = start + 4 * size
            _four_low(x[start:end], y[start:end], g, starts, t.low_to, t.low_value, columns, alpha)
            continue
        for q in range(rows):
            end = start + size
            _one_low(
                x[start:end], y[start:end], g[q * size :], starts, t.low_to, t.low_value, columns, 2, alpha
            )
            start = end


@nb.njit(**JIT)
def _sector_product_real(x, y, t, tiles, g, energy, alpha, beta, gamma):
    """Tiles of :func:`sector_product` for real vectors (D,)."""
    for tile in range(tiles.shape[0]):
        p = tiles[tile, 0]
        r = tiles[tile, 1]
        w = t.down - p
        columns = t.low_offset[w + 1] - t.low_offset[w]
        rows = min(8, t.high_offset[p + 1] - t.high_offset[p] - r)
        for q in range(rows):
            _prepare(x, y, t, g[q * columns : (q + 1) * columns], energy, 1, p, r + q, alpha, beta, gamma)
        start = t.block[p] + r * columns
        starts = t.low_first[t.low_offset[w] :]
        if rows == 8:
            end = start + 8 * columns
            _eight_low(x[start:end], y[start:end], g, starts, t.low_to, t.low_value, columns, alpha)
            continue
        for q in range(rows):
            end = start + columns
            _one_low(
                x[start:end], y[start:end], g[q * columns :], starts, t.low_to, t.low_value, columns, 1, alpha
            )
            start = end


# -------------------------------------------------------------------------------------- spin flips


def sector_flips(
    device: Device,
    tables: FlipTables,
    blocks: Any,
    bits: tuple[int, int],
    psi: Any,
    masks: Any,
    sign: int = 0,
) -> NDArray[np.float64]:
    """Return ``<S+_j S-_k + S-_j S+_k>`` of pairs, not divided by the norm, (P,) float64.

    It is the sum of ``Re psi(s)* psi(s')`` over the strings s in which the two spins differ, s' with both of them flipped.

    Parameters
    ----------
    blocks : list of (p, first, rows, columns)
        Of the sector.
    bits : (int, int)
        Bits of the low and of the high part.
    psi : (D,) real or complex
        Vector of the sector.
    masks : (P,) uint64
        The two bits of each pair, on the host; one bit alone stands for a pair with the site that is left out.
    sign : int
        Sign of the inversion, 0 without it.
    """
    masks = np.ascontiguousarray(masks, np.uint64)
    if not device.is_cuda:
        out = np.zeros(len(masks))
        each_part(
            lambda first, last: _sector_flips_cpu(
                psi, tables, bits[0], bits[1], masks, first, last, sign, out
            ),
            len(masks),
            len(masks) * psi.size,
            device.threads,
        )
        return out
    xp = device.xp
    kernel = kernels.function("trotter/kernels", "sectors", "sector_flips", _defines(psi.dtype))
    sums = xp.zeros((len(masks), FLIP_BLOCKS))
    on_device = device.asarray(masks)
    low, high = bits
    for p, first, rows, columns in blocks:
        kernel(
            (FLIP_BLOCKS, len(masks)),
            (THREADS,),
            (
                psi,
                np.int32(low),
                np.int32(high),
                np.int32(tables.down),
                np.int32(p),
                np.int64(first),
                np.int64(rows),
                np.int64(columns),
                tables.low_offset,
                tables.high_offset,
                *tables[3:],
                on_device,
                np.int32(sign),
                sums,
            ),
        )
    return device.to_host(sums.sum(axis=1))


@nb.njit(**JIT)
def _weight(bits):
    """Return the number of bits set."""
    count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count


@nb.njit(**JIT)
def _sector_flips_cpu(psi, t, low, high, masks, begin, end, sign, out):
    """Pairs begin .. end of :func:`sector_flips`."""
    under = (1 << low) - 1
    over = (1 << high) - 1
    for m in range(begin, end):
        mask = np.int64(masks[m])
        top = mask >> low
        bottom = mask & under
        single = _weight(mask) == 1
        total = 0.0
        for p in range(high + 1):
            w = t.down - p
            if w < 0 or w > low:
                continue
            first = t.low_offset[w]
            columns = t.low_offset[w + 1] - first
            for r in range(t.high_offset[p + 1] - t.high_offset[p]):
                h = t.high_string[t.high_offset[p] + r]
                wanted = 1 - _weight(h & top)  # bits of the low part that must be set in the mask
                if wanted < 0 or wanted > _weight(bottom):
                    continue
                to = (~h & over) | top if single else h ^ top
                q = _weight(to)
                others = t.low_offset[t.down - q + 1] - t.low_offset[t.down - q]
                start = t.block[q] + t.high_rank[to] * others
                row = t.block[p] + r * columns
                for u in range(columns):
                    s = t.low_string[first + u]
                    inside = s & bottom
                    if (inside != 0) != (wanted == 1) or inside & (inside - 1):
                        continue
                    of = (~s & under) | bottom if single else s ^ bottom
                    a = psi[row + u]
                    b = psi[start + t.low_rank[of]]
                    total += a.real * b.real + a.imag * b.imag
        out[m] = sign * total if single else total
