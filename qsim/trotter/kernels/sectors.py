"""H psi in a sector of conserved Sz, without a matrix, and sums of spin flips: public wrappers of ``sectors.cu``, and CPU twins.

A vector is a direct sum of dense matrices, row = string of the high sites, column = string of the low ones
(:mod:`qsim.trotter.sectors.basis`).  A flip within the low part moves columns, in every row alike; a flip within the high part
moves whole rows; one across the cut pairs rows with rows and columns with columns; with inversion, a flip of the site that is
left out reverses both.

On the CPU rows are made eight at a time: first what comes from whole rows, in contiguous runs, into a
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
from qsim.trotter.kernels.sectors_cpu import (
    JIT,
    across_into,
    diagonal_of,
    eight_low,
    eight_low_complex,
    mirrored_into,
    one_low,
    rows_into,
    start_row,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device

__all__ = ["FlipTables", "ProductTables", "SectorTables", "sector_flips", "sector_product"]

THREADS = 256
FLIP_BLOCKS = 512  # of a pair on a GPU, on any device alike, so that the order of additions is the same
ROWS = 8  # of a tile


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
    energy_pairs : (2 patterns 2^L,) float64
        The same, every entry twice, for the two numbers of a complex amplitude.
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
    energy_pairs: Any
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
    tiles : (T, 2) int64 or None
        Weight p and first row of every tile of the CPU twin.
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
    tiles: NDArray[np.int64] | None
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
    assert tables.host is not None and tables.tiles is not None  # noqa: PT018
    width = 2 if psi.dtype.kind == "c" else 1
    real = np.float32 if psi.dtype.itemsize == 4 * width else np.float64
    x, y = psi.view(real), out.view(real)
    tiles, host = tables.tiles, tables.host
    most = max((columns for *_, columns in tables.blocks), default=1)
    each_part(
        lambda first, last: _sector_product_cpu(
            x,
            y,
            host,
            tiles[first:last],
            np.empty(ROWS * width * most),
            np.empty(width * most),
            width,
            alpha,
            beta,
            gamma,
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


@nb.njit(**JIT)
def _sector_product_cpu(x, y, t, tiles, g, energy, width, alpha, beta, gamma):
    """Tiles of :func:`sector_product`; vectors are given as their real and imaginary parts, or real (width 1)."""
    # taken out of the tuple once: each access would count references
    down = t.down
    low_offset = t.low_offset
    high_offset = t.high_offset
    block = t.block
    half = t.half
    clear = t.clear
    filled = t.filled
    low_first = t.low_first
    low_to = t.low_to
    low_value = t.low_value
    high_first = t.high_first
    high_to = t.high_to
    high_value = t.high_value
    cross_low = t.cross_low
    cross_high = t.cross_high
    cross_value = t.cross_value
    mirror_site = t.mirror_site
    mirror_value = t.mirror_value
    high_string = t.high_string
    high_rank = t.high_rank
    pattern = t.pattern
    high_energy = t.high_energy
    across = t.across
    low_string = t.low_string
    energies = t.energy_pairs if width == 2 else t.energy
    for tile in range(tiles.shape[0]):
        p = tiles[tile, 0]
        first = tiles[tile, 1]
        w = down - p
        columns = low_offset[w + 1] - low_offset[w]
        size = width * columns
        base = width * block[p]
        rows = min(ROWS, high_offset[p + 1] - high_offset[p] - first)
        for q in range(rows):
            r = first + q
            place = high_offset[p] + r
            h = high_string[place]
            e = high_energy[place]
            start = base + r * size
            own = x[start : start + size]
            old = y[start : start + size]
            to = g[q * size : (q + 1) * size]
            if pattern[place] >= 0:
                of = width * (pattern[place] * low_string.size + low_offset[w])
                start_row(to, own, old, energies[of : of + size], e, alpha, beta, gamma)
            else:
                diagonal_of(energy, low_offset, high_string, across, t.energy, low_string, width, w, place)
                start_row(to, own, old, energy, e, alpha, beta, gamma)
            rows_into(to, x, high_first, high_offset, high_to, high_value, base, p, r, alpha)
            if cross_low.size:
                across_into(
                    to,
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
                )
            if mirror_site.size:
                mirrored_into(
                    to,
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
                )
        start = base + first * size
        starts = low_first[low_offset[w] :]
        if rows == ROWS:
            whole = x[start : start + rows * size]
            out = y[start : start + rows * size]
            if width == 2:
                eight_low_complex(whole, out, g, starts, low_to, low_value, columns, alpha)
            else:
                eight_low(whole, out, g, starts, low_to, low_value, columns, alpha)
            continue
        for q in range(rows):
            row = x[start : start + size]
            one_low(
                row, y[start : start + size], g[q * size :], starts, low_to, low_value, columns, width, alpha
            )
            start += size


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
                v = t.down - q
                if v < 0 or v > low:
                    continue
                others = t.low_offset[v + 1] - t.low_offset[v]
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
