"""CPU side of the layers: tiles of the state in cache, Walsh-Hadamard rotations, split phases.

Real and imaginary parts of a tile lie apart in one scratch array, so that every loop over a contiguous run becomes vector code.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device.jit import PART as _PART

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
PART: dict[str, Any] = {**JIT, **_PART}
# lowest bits that are rotated together; a multiple of 4, so that the result is where it was
ACROSS = 8
# bits of a row whose phases are made by doubling
COLUMN = 8


@nb.njit(**PART)
def _four(s, size, stride):
    """Rotate the two bits with distances ``stride`` and ``2 stride``."""
    for base in range(0, size, 4 * stride):
        # four runs of `stride` numbers, bits 00, 01, 10, 11;
        # two bits at once halve the passes through the cache
        a = s[base : base + stride]
        b = s[base + stride : base + 2 * stride]
        c = s[base + 2 * stride : base + 3 * stride]
        d = s[base + 3 * stride : base + 4 * stride]
        for i in range(stride):
            # lower bit
            p = a[i] + b[i]
            q = a[i] - b[i]
            r = c[i] + d[i]
            t = c[i] - d[i]
            # upper bit
            a[i] = p + r
            b[i] = q + t
            c[i] = p - r
            d[i] = q - t


@nb.njit(**PART)
def _two(s, size, stride):
    # pairs of runs of `stride` numbers: neighbours in memory, so that the compiler makes vectors of the loop
    for base in range(0, size, 2 * stride):
        a = s[base : base + stride]
        b = s[base + stride : base + 2 * stride]
        for i in range(stride):
            p = a[i]
            a[i] = p + b[i]
            b[i] = p - b[i]


@nb.njit(**PART)
def _lowest(s, size):
    """Rotate bits 0 and 1."""
    for i in range(0, size, 4):
        # bits 0 and 1 at once: four neighbours are read and written once for both
        p = s[i] + s[i + 1]
        q = s[i] - s[i + 1]
        r = s[i + 2] + s[i + 3]
        t = s[i + 2] - s[i + 3]
        s[i] = p + r
        s[i + 1] = q + t
        s[i + 2] = p - r
        s[i + 3] = q - t


@nb.njit(**PART)
def _four_across(s, size, out):
    """Rotate the two highest bits and make them the lowest: only contiguous reads, and writes of four neighbours."""
    # the four quarters have the two highest bits 00, 01, 10, 11
    quarter = size // 4
    a = s[:quarter]
    b = s[quarter : 2 * quarter]
    c = s[2 * quarter : 3 * quarter]
    d = s[3 * quarter : size]
    for i in range(quarter):
        p = a[i] + b[i]
        q = a[i] - b[i]
        r = c[i] + d[i]
        t = c[i] - d[i]
        # these bits become the lowest: the numbers of one i are neighbours now
        out[4 * i] = p + r
        out[4 * i + 1] = q + t
        out[4 * i + 2] = p - r
        out[4 * i + 3] = q - t


@nb.njit(**JIT)
def rotate_across(s, bits, out):
    """Rotate all bits of a real array (2^bits,) like :func:`rotate`; return the array that holds the result, and the other one.

    Every stage is vector code, also for the lowest bits; when all bits have gone round the order is the usual one.  It takes
    twice the memory, so that it is for arrays that fit the first-level cache.
    """
    size = 1 << bits
    # two bits each time go from the top to the bottom; after all of them the order is the usual one again
    for _ in range(bits // 2):
        _four_across(s, size, out)
        s, out = out, s
    # an odd bit is left; one more turn of the order puts each bit where it was
    if bits % 2:
        half = size // 2
        a = s[:half]
        b = s[half:size]
        for i in range(half):
            out[2 * i] = a[i] + b[i]
            out[2 * i + 1] = a[i] - b[i]
        s, out = out, s
    return s, out


@nb.njit(**JIT)
def rotate(s, bits, lowest):
    """Rotate bits ``lowest .. bits - 1`` of a real array (2^bits,), without the factor 2^(-1/2) a bit."""
    size = 1 << bits
    # bits within a block that fits the first-level cache come before the rest
    block = min(bits, 10)
    across = lowest == 0 and bits >= ACROSS
    # read and written in turn with the part by `rotate_across`; 256 numbers are 2 KiB
    spare = np.empty(1 << ACROSS if across else 0)
    for start in range(0, size, 1 << block):
        part = s[start : start + (1 << block)]
        q = lowest
        if across:
            # the lowest bits: strides below a vector's length, for which the bits are moved round instead
            for run in range(0, 1 << block, 1 << ACROSS):
                rotate_across(part[run : run + (1 << ACROSS)], ACROSS, spare)
            q = ACROSS
        elif q == 0 and block >= 2:
            _lowest(part, 1 << block)
            q = 2
        # two bits at a time, while the block stays in the first-level cache
        while q + 1 < block:
            _four(part, 1 << block, 1 << q)
            q += 2
        if q < block:
            _two(part, 1 << block, 1 << q)
    # the bits above, whose pairs lie in different blocks
    q = max(block, lowest)
    while q + 1 < bits:
        _four(s, size, 1 << q)
        q += 2
    if q < bits:
        _two(s, size, 1 << q)


@nb.njit(**PART)
def spin(n, bit):
    """S^z of a bit."""
    return 0.5 - ((n >> bit) & 1)


@nb.njit(**PART)
def look_outside(pairs, fields, start, spins, low, high, bits, field):
    """Return the energy of the bits outside of a tile; ``field`` (bits,) becomes their field and h on the tile's bits."""
    # bits of the tile: those below `low`, and from `high` to `end`
    end = high + bits - low
    energy = 0.0
    # energy of the spins outside; each pair of them is met twice below
    for j in range(spins):
        # field of all spins outside on this spin, with S = +-1/2 of the string
        f = 0.0
        for k in range(low, high):
            f += pairs[j, k] * spin(start, k)
        for k in range(end, spins):
            f += pairs[j, k] * spin(start, k)
        # a spin of the tile keeps the field for later; one outside has its energy now, half of it for each of a pair
        if j < low:
            field[j] = f + fields[j]
        elif j < high or j >= end:
            energy += spin(start, j) * (fields[j] + 0.5 * f)
        else:
            field[j - high + low] = f + fields[j]
    return energy


class TileTables(NamedTuple):
    """Couplings within a tile, see :func:`tile_tables`.

    Attributes
    ----------
    rows, row_fields : (R,), (R, columns) float64
        Energy of the bits above the columns among themselves, and their fields on the column bits.
    inside_re, inside_im : (C,) float64
        Phases of the column bits among themselves.
    """

    rows: FloatArray
    row_fields: FloatArray
    inside_re: FloatArray
    inside_im: FloatArray


class Turn(NamedTuple):
    """A pass over a tile: rotations before and after the phases ``scale exp(-i pi turns E)``, and ``shift``."""

    rotate_in: bool
    rotate_out: bool
    turns: float
    shift: float
    scale: float


@nb.njit(**PART)
def apply_phase(re, im, bits, energy, field, tables, turn, down, work):
    """Multiply a tile by ``scale exp(-i pi turns E)`` and by ``exp(i pi shift)`` for every spin down.

    Parameters
    ----------
    re, im : (2^bits,) float64
    energy, field
        From :func:`look_outside`.
    tables : TileTables
    turn : Turn
    down : int
        Spins down outside of the tile.
    work : (2, C) float64
        Scratch.
    """
    rows, row_fields = tables.rows, tables.row_fields
    inside_re, inside_im = tables.inside_re, tables.inside_im
    turns, shift, scale = turn.turns, turn.shift, turn.scale
    columns = row_fields.shape[1]
    width = 1 << columns
    pr = work[0]
    pi = work[1]
    # a row of C amplitudes has the same upper bits of the tile
    for r in range(rows.shape[0]):
        # energy of this row with all column bits at zero field: outside, and the row bits among themselves and outside
        e = energy + rows[r]
        # spins down of the row, for the shift
        ups = down
        for k in range(bits - columns):
            e += field[columns + k] * (0.5 - ((r >> k) & 1))
            ups += (r >> k) & 1
        # the string with all column bits up
        for k in range(columns):
            e += 0.5 * (field[k] + row_fields[r, k])
        # phase of the string with all column bits up; each column bit doubles the table by its own phase, so that a row of C
        # amplitudes takes `columns` sines instead of C
        angle = math.pi * (turns * e - shift * ups)
        pr[0] = scale * math.cos(angle)
        pi[0] = -scale * math.sin(angle)
        m = 1
        for k in range(columns):
            angle = math.pi * (turns * (field[k] + row_fields[r, k]) + shift)
            a = math.cos(angle)
            b = math.sin(angle)
            head_r = pr[:m]
            head_i = pi[:m]
            tail_r = pr[m : 2 * m]
            tail_i = pi[m : 2 * m]
            for i in range(m):
                tail_r[i] = head_r[i] * a - head_i[i] * b
                tail_i[i] = head_r[i] * b + head_i[i] * a
            m *= 2
        # times the phases of the column bits among themselves, the same for all rows of C amplitudes
        vr = re[r * width : (r + 1) * width]
        vi = im[r * width : (r + 1) * width]
        for c in range(width):
            xr = pr[c] * inside_re[c] - pi[c] * inside_im[c]
            xi = pr[c] * inside_im[c] + pi[c] * inside_re[c]
            a = vr[c]
            vr[c] = a * xr - vi[c] * xi
            vi[c] = a * xi + vi[c] * xr


@nb.njit(**JIT)
def tile_tables(pairs, low, high, bits, columns, turns):
    """Tabulate the couplings within a tile: rows, row_fields and the inside phases of :func:`apply_phase`."""
    # columns: the lowest bits of a tile; rows: all others
    width = 1 << columns
    count = 1 << (bits - columns)
    rows = np.zeros(count)
    row_fields = np.zeros((count, columns))
    inside_re = np.zeros(width)
    inside_im = np.zeros(width)
    for r in range(count):
        # bit a of the tile is site ja of the state: above `low` the tile goes on with bit `high`
        for a in range(columns, bits):
            ja = a if a < low else a - low + high
            sa = 0.5 - ((r >> (a - columns)) & 1)
            for b in range(a + 1, bits):
                jb = b if b < low else b - low + high
                rows[r] += pairs[ja, jb] * sa * (0.5 - ((r >> (b - columns)) & 1))
            for k in range(columns):
                jk = k if k < low else k - low + high
                row_fields[r, k] += pairs[ja, jk] * sa
    # couplings among the column bits are the same in all rows; their phases are multiplied in at the end
    for c in range(width):
        e = 0.0
        for a in range(columns):
            ja = a if a < low else a - low + high
            for b in range(a + 1, columns):
                jb = b if b < low else b - low + high
                e += pairs[ja, jb] * (0.5 - ((c >> a) & 1)) * (0.5 - ((c >> b) & 1))
        inside_re[c] = math.cos(math.pi * turns * e)
        inside_im[c] = -math.sin(math.pi * turns * e)
    return rows, row_fields, inside_re, inside_im


@nb.njit(**JIT)
def phase_table(energies, downs, turns, shift, scale, cosines, sines):
    """Set ``cosines + i sines`` to ``scale exp(-i pi turns E)`` times ``exp(i pi shift)`` for every spin down.

    ``energies``, ``downs``, ``cosines`` and ``sines`` are (2^n,) float64.  In half turns the argument is reduced without
    rounding, and polynomials instead of branches and calls leave a loop that becomes vector code; within a rounding or two of the
    library's functions.
    """
    for i in range(energies.shape[0]):
        # phase in half turns; the nearest quarter turn is taken off, so that |x| <= pi / 4
        u = shift * downs[i] - turns * energies[i]
        quarters = np.floor(2.0 * u + 0.5)
        x = (u - 0.5 * quarters) * math.pi
        z = x * x
        # sin x = x + x^3 s(x^2), Taylor series from 1 / 17! down: the rest is below 1e-19 for |x| <= pi/4
        s = 2.8114572543455206e-15
        s = s * z - 7.6471637318198164e-13
        s = s * z + 1.6059043836821613e-10
        s = s * z - 2.5052108385441720e-08
        s = s * z + 2.7557319223985893e-06
        s = s * z - 1.9841269841269841e-04
        s = s * z + 8.3333333333333332e-03
        s = s * z - 1.6666666666666666e-01
        s = x + x * (z * s)
        # cos x = 1 + x^2 c(x^2), Taylor series from 1 / 16! down
        c = 4.7794773323873853e-14
        c = c * z - 1.1470745597729725e-11
        c = c * z + 2.0876756987868100e-09
        c = c * z - 2.7557319223985888e-07
        c = c * z + 2.4801587301587302e-05
        c = c * z - 1.3888888888888889e-03
        c = c * z + 4.1666666666666664e-02
        c = c * z - 0.5
        c = 1.0 + z * c
        # quarter turns as signs: cos and sin of k quarter turns, k mod 4 without integers
        k = quarters - 4.0 * np.floor(0.25 * quarters)
        odd = k - 2.0 * np.floor(0.5 * k)
        # sign after two quarters
        half = 1.0 - 2.0 * np.floor(0.5 * k)
        even = 1.0 - odd
        # e^(i k pi / 2) (cos x + i sin x): even k keep cosine and sine, odd ones exchange them
        cosines[i] = scale * half * (even * c - odd * s)
        sines[i] = scale * half * (even * s + odd * c)
