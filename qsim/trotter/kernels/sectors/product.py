"""H psi in a sector of conserved Sz, without a matrix, and sums of spin flips: public wrappers of ``product.cu``, and CPU twins.

A vector is a direct sum of dense matrices, row = string of the high sites, column = string of the low ones
(:mod:`qsim.trotter.sectors.basis`).  A flip within the low part moves columns, in every row alike; a flip within the high part
moves whole rows; one across the cut pairs rows with rows and columns with columns; with inversion, a flip of the site that is
left out reverses both.

On the CPU eight rows are made at a time, four of a complex vector: first the sums of whole rows, in contiguous runs and
with the sums in registers, into a buffer in cache, the older vector of a recurrence included; then the rows are transposed, so
that a flip of the low part is one operation of all of them; then the sum of both is written. Flips across the cut are runs, too,
where they take the top bit of the low part; others are gathered, or, if there are many, taken for all rows at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.cpu.scratch import scratch
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share
from qsim.trotter.kernels.amplitudes import macros
from qsim.trotter.kernels.sectors.lanes import pointer
from qsim.trotter.kernels.sectors.product_cpu import (
    JIT,
    LANES,
    PART,
    across_into,
    diagonal_of,
    flipped_into,
    joined_into,
    mirrored_into,
    row_into,
    rows_out,
    streams_of,
    tile_in,
)
from qsim.trotter.kernels.sectors.product_tables import (
    Diagonal,
    FieldTables,
    FieldWork,
    Flips,
    Groups,
    JoinedWork,
    Near,
    ProductTables,
    Row,
    Scalars,
    Space,
    Streams,
    Strings,
    Vectors,
)

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.arrays import Array, IndexArray
    from qsim.core.device.device import Device

THREADS = 256
# rows that a thread of a GPU makes at a time, and blocks of a multiprocessor that registers are kept for, by the bytes of an
# amplitude: the fastest of 1 to 8 rows and 1 to 6 blocks with 32 spins (H200)
SHAPES = {16: (3, 4), 8: (4, 6), 4: (4, 6)}
# columns of a block of threads
SPAN = 512
# of a pair on a GPU, on any device alike, so that the order of additions is the same
FLIP_BLOCKS = 512


class FlipTables(NamedTuple):
    """Places of the strings of a sector, for :func:`sector_flips`; names as in `ProductTables`."""

    down: int
    low_offset: IndexArray
    high_offset: IndexArray
    block: IndexArray
    low_string: IndexArray
    low_rank: IndexArray
    high_string: IndexArray
    high_rank: IndexArray


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
    strings: FlipTables
    flips: tuple[Any, ...] = ()
    diagonal: tuple[Any, ...] = ()

    @cached_property
    # a tile is a group of rows that are made together, and the unit
    # of work that threads share: no two tiles write the same row
    def tiles(self) -> dict[int, NDArray[np.int64]]:
        """Weight p and first row of every tile of the CPU twin, (T, 2), for real (1) and complex (2) vectors."""
        by_width = {}
        for width in (1, 2):
            each = LANES // width
            rows = [(p, row) for p, _, count, _ in self.blocks for row in range(0, count, each)]
            by_width[width] = np.array(rows, np.int64).reshape(-1, 2)
        return by_width

    @cached_property
    def scratch(self) -> tuple[int, int]:
        """Numbers and indices of work space of the CPU twin, for a thread: a buffer, tiles and a diagonal of eight long rows."""
        # the longest row; the tables of fields, 2^((L + 1) / 2) numbers, may be longer in small systems
        low, high = self.bits
        longest = max(math.comb(low, low // 2), 2 ** ((low + 1) // 2), 128)
        factors = int(_factors(low, high))
        return 4 * LANES * longest + factors, 4 * LANES + factors


# ----------------------------------------------------------------------------------------- H psi


def sector_product(
    device: Device,
    tables: SectorTables,
    psi: Array,
    out: Array,
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
    # real and imaginary parts side by side: the kernel
    # sees real numbers, `width` of them for an amplitude
    width = 2 if psi.dtype.kind == "c" else 1
    real = np.float32 if psi.dtype.itemsize == 4 * width else np.float64
    x, y = psi.view(real), out.view(real)
    tiles, host, sizes = tables.tiles[width], tables.host, tables.scratch
    numbers = scratch(device.threads, sizes[0])
    indices = np.empty((device.threads, sizes[1] + LANES), np.int64)
    work = Shared(
        _sector_product_shared,
        (
            x,
            y,
            host,
            tiles,
            numbers,
            sizes[0],
            indices,
            width,
            float(alpha),
            float(beta),
            float(gamma),
        ),
    )
    each_part(work, len(tiles), psi.size, device.threads)


@nb.njit(**JIT)
def _factors(bits, top):
    """Return the number of factors that a thread keeps.

    Flips in the high part and of one bit across; 2 LANES of every low bit; all flips across, twice.
    """
    return top * top + top + 2 * LANES * (bits + 1) + 2 * top * bits


def _launch_product(
    tables: SectorTables, psi: Array, out: Array, alpha: float, beta: float, gamma: float
) -> None:
    """Launch the kernel once for each block of the sector."""
    low, high = tables.bits
    within_high, across, mirrored = (int(count) for count in tables.flips[1:4])
    couplings = int(tables.diagonal[2])
    rows_of_thread = SHAPES[psi.dtype.itemsize][0]
    # factors, and a number of 8 bytes for each row of a thread and each flip and each coupling that takes part of the high string
    shared = 8 * (within_high + rows_of_thread * (within_high + across + mirrored + couplings))
    kernel = kernels.function(
        "trotter/kernels/sectors", "product", "sector_product", _defines(psi.dtype), shared_bytes=shared
    )
    for p, first, rows, columns in tables.blocks:
        kernel(
            (-(-columns // SPAN), -(-rows // rows_of_thread)),
            (THREADS,),
            (
                psi,
                out,
                *_place(tables, low, high, p, first, rows, columns),
                *tables.strings[3:],
                *tables.flips,
                *tables.diagonal,
                np.int32(SPAN),
                np.float64(alpha),
                np.float64(beta),
                np.float64(gamma),
            ),
            shared_mem=shared,
        )


def _defines(dtype: DTypeLike) -> dict[str, str | int]:
    rows, resident = SHAPES[np.dtype(dtype).itemsize]
    return {**macros(dtype), "ROWS": rows, "RESIDENT": resident}


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
def _sector_product_shared(ticket, *a):
    # grouped here: Python hands over single arrays faster than named tuples of them
    space, scalars = Space(a[4], a[5], a[6]), Scalars(a[8], a[9], a[10])
    return share(ticket, ranges(_sector_product_cpu, (a[0], a[1], a[2], a[3], space, a[7], scalars)))


@nb.njit(**PART)
def _sector_product_cpu(begin, end, worker, vector, out, t, tiles, space, width, scalars):
    """Tiles ``begin ... end`` of :func:`sector_product`; vectors are real and imaginary parts, or real (width 1)."""
    alpha, beta, gamma = scalars.alpha, scalars.beta, scalars.gamma
    down, ints, ranks, reals, at = t.down, t.ints, t.places, t.reals, t.at
    numbers, indices = space.numbers[worker, : space.size], space.indices[worker]
    # the arrays of ProductTables, in the order of its INTS, PLACES and REALS: a pointer costs a register, an array seven
    low_offset = pointer(ints, at[0])
    high_offset = pointer(ints, at[1])
    block = pointer(ints, at[2])
    half = pointer(ints, at[3])
    high_first = pointer(ints, at[8])
    high_to = pointer(ints, at[9])
    cross_low = pointer(ints, at[10])
    high_string = pointer(ints, at[13])
    pattern = pointer(ints, at[15])
    high_value = pointer(reals, at[27])
    energies = pointer(reals, at[31] if width == 2 else at[30])
    high_energy = pointer(reals, at[32])
    cross = pointer(reals, at[34])
    bits = at[1] - at[0] - 2
    top = at[2] - at[1] - 2
    crossings = at[11] - at[10]
    mirrors = at[13] - at[12]
    joined = at[35] > at[34]
    longest = (numbers.size - _factors(bits, top)) // (4 * LANES)
    # work space of this thread: buffer, tile of results, tile of sources, and a diagonal, of eight long rows each
    made = pointer(numbers, LANES * longest)
    tile = pointer(numbers, 2 * LANES * longest)
    # later the second tile of flips across
    energy = pointer(numbers, 3 * LANES * longest)
    factor = pointer(numbers, 4 * LANES * longest)
    starts = pointer(indices, 0)
    places = pointer(indices, 2 * LANES)
    scaled = pointer(factor, _factors(bits, top) - 2 * top * bits)
    vectors = Vectors(pointer(vector, 0), pointer(out, 0), pointer(numbers, 0))
    strings = Strings(
        low_offset,
        block,
        pointer(ints, at[14]),
        half,
        pointer(ranks, at[19]),
        pointer(ranks, at[20]),
        bits,
        top,
        width,
    )
    crossed = Flips(cross_low, pointer(ints, at[11]), pointer(reals, at[28]), crossings)
    mirror_site = pointer(ints, at[12])
    mirror = Flips(mirror_site, mirror_site, pointer(reals, at[29]), mirrors)
    groups = Groups(
        pointer(ints, at[4]),
        pointer(ints, at[5]),
        pointer(ints, at[6]),
        pointer(ints, at[7]),
        pointer(ranks, at[21]),
        pointer(ranks, at[22]),
        pointer(reals, at[26]),
    )
    near = Near(pointer(ranks, at[23]), pointer(ints, at[17]), pointer(ranks, at[24]), scaled)
    streams = Streams(pointer(indices, 4 * LANES), factor)
    fields = FieldTables(pointer(reals, at[33]), pointer(reals, at[30]), pointer(ints, at[16]))
    # both tiles are not in use yet when a diagonal is made
    field_work = FieldWork(tile, pointer(tile, 64), made)
    joined_work = JoinedWork(
        tile, LANES * longest, factor, pointer(indices, LANES), pointer(indices, 3 * LANES)
    )
    if joined:
        for k in range(top * bits):
            for q in range(width):
                scaled[width * k + q] = alpha * cross[k]
    # flips across the cut that are no runs of columns
    gathered = False
    for k in range(crossings):
        gathered |= cross_low[k] != bits - 1
    for m in range(begin, end):
        p = tiles[m, 0]
        first = tiles[m, 1]
        w = down - p
        columns = low_offset[w + 1] - low_offset[w]
        size = width * columns
        base = width * block[p]
        rows = min(LANES // width, high_offset[p + 1] - high_offset[p] - first)
        # the columns without the top bit are the first
        less = width * (half[w + 1] - half[w])
        # rows beyond the last are made as copies of it: all tiles have the same shape
        for q in range(LANES // width):
            r = min(q, rows - 1)
            starts[q] = base + (first + r) * size
            places[q] = r * size
        # row by row into the buffer: diagonal, older vector, and all flips that are runs of columns; then the gathered ones
        for q in range(rows):
            place = high_offset[p] + first + q
            h = high_string[place]
            row = Row(q * size, starts[q], less, size, p, w, h)
            d = alpha * high_energy[place] + beta
            inside = streams_of(streams, base, size, high_first, high_to, high_value, place, alpha)
            if pattern[place] >= 0:
                # few patterns of the fields: the diagonal of each is a table
                diagonal = Diagonal(energies, width * (pattern[place] * (1 << bits) + low_offset[w]), d)
            else:
                diagonal_of(energy, field_work, fields, strings, w, h)
                diagonal = Diagonal(energy, np.int64(0), d)
            row_into(vectors, row, diagonal, alpha, gamma, streams, inside, crossed, strings)
            if gathered:
                across_into(vectors, row, crossed, strings, alpha)
            if mirrors:
                mirrored_into(vectors, row, mirror, strings, alpha)
        # eight rows together, transposed: a flip within the low part is the same for all of them
        tile_in(tile, vectors.x, starts, size, width)
        flipped_into(made, tile, groups, w, alpha)
        if joined:
            joined_into(made, joined_work, vectors.x, near, strings, p, w, high_offset[p] + first, rows)
        # rows are written once, by this thread alone
        rows_out(vectors.y, starts, vectors.buffer, places, made, size, width)


# -------------------------------------------------------------------------------------- spin flips


def sector_flips(
    device: Device,
    tables: FlipTables,
    blocks: list[tuple[int, int, int, int]],
    bits: tuple[int, int],
    psi: Array,
    masks: IndexArray,
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
        work = Shared(_sector_flips_shared, (psi, tables, *bits, masks, sign, out))
        each_part(work, len(masks), len(masks) * psi.size, device.threads)
        return out
    xp = device.xp
    kernel = kernels.function("trotter/kernels/sectors", "product", "sector_flips", _defines(psi.dtype))
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
def _sector_flips_shared(ticket, *arguments):
    return share(ticket, ranges(_sector_flips_cpu, arguments))


@nb.njit(**PART)
def _sector_flips_cpu(begin, end, worker, psi, t, low, high, masks, sign, out):
    # bits of the low and of the high part
    """Pairs begin .. end of :func:`sector_flips`."""
    under = (1 << low) - 1
    over = (1 << high) - 1
    for m in range(begin, end):
        # the part of the pair in the high and in the low string
        mask = np.int64(masks[m])
        top = mask >> low
        bottom = mask & under
        single = _weight(mask) == 1
        total = 0.0
        # sum over all strings of the sector, block by block: high weight p, low weight w
        for p in range(high + 1):
            w = t.down - p
            if w < 0 or w > low:
                continue
            first = t.low_offset[w]
            columns = t.low_offset[w + 1] - first
            # rows of the block; the conditions on the high string are tested once for a row
            for r in range(t.high_offset[p + 1] - t.high_offset[p]):
                h = t.high_string[t.high_offset[p] + r]
                # exactly one of the two spins is down, the others do not flip: if it is not in the high
                # string it must be in the low one
                wanted = 1 - _weight(h & top)
                if wanted < 0 or wanted > _weight(bottom):
                    continue
                # partner of the high string. A single bit stands for a pair with the site left out, which
                # is up: the flip is followed by the complement
                to = (~h & over) | top if single else h ^ top
                q = _weight(to)
                v = t.down - q
                if v < 0 or v > low:
                    continue
                # row of the partner; its length differs where the spin down moves across the cut
                others = t.low_offset[v + 1] - t.low_offset[v]
                start = t.block[q] + t.high_rank[to] * others
                row = t.block[p] + r * columns
                for u in range(columns):
                    # column by column, the same condition on the
                    # low string: one bit of the mask set, or none
                    s = t.low_string[first + u]
                    inside = s & bottom
                    if (inside != 0) != (wanted == 1) or inside & (inside - 1):
                        continue
                    of = (~s & under) | bottom if single else s ^ bottom
                    a = psi[row + u]
                    b = psi[start + t.low_rank[of]]
                    total += a.real * b.real + a.imag * b.imag
        # the state has <s|psi> = sign <complement|psi>, so that a
        # flip of the site left out has the sign of the inversion
        out[m] = sign * total if single else total
