"""H psi without a matrix: public wrappers of ``apply.cu`` and their CPU twins.

``bonds`` gathers over coupled pairs, ``diagonal`` and ``walsh`` make ``Dz + W Dx W + P W Dy W P^dagger``, see ``apply.cu``.
:func:`apply_h` takes the cheaper one: pairs for chains and lattices, frames with one more vector otherwise.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.cpu.scratch import scratch
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share
from qsim.trotter.kernels.amplitudes import macros
from qsim.trotter.kernels.product.exchange import JIT, PART, exchange
from qsim.trotter.kernels.product.operators import Diagonal, Operator

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray, IndexArray, StateVector
    from qsim.core.device.device import Device

# most bits that a pass above the lowest tile transforms
GROUP = 8
THREADS = 256

# flags of walsh
PHASE_IN, TURN, ADD, PHASE_OUT = 1, 2, 4, 8


def apply_h(
    device: Device,
    op: Operator,
    psi: StateVector,
    out: StateVector,
    alpha: float = 1.0,
    beta: float = 0.0,
    gamma: float = 0.0,
    *,
    work: StateVector | None = None,
) -> None:
    """Compute ``out = alpha H psi + beta psi + gamma out``.

    Parameters
    ----------
    psi : (2^N,) complex or real
        On the device; site j is bit j of the index, 0 is up.  Real vectors are for H with real matrix elements.
    out : (2^N,), in/out
        Another array of that type; with ``gamma = 0`` it is not read.
    work : (2^N,), optional
        A third array, wanted if ``op.needs_work``; allocated if it is missing.
    """
    # `bonds` gathers from psi while it writes out: they must not be one array
    _check(op, psi, out)
    if op.form == "bonds":
        bonds(device, op, psi, out, alpha, beta, gamma)
        if op.cross is not None:
            exchange(device, op.cross, psi, out, alpha)
        # terms of different components are diagonal in no frame, and come after either form
        return
    diagonal(device, op, psi, out, alpha, beta, gamma)
    # one tile holds all spins of a small system: it is transformed in place, without a third vector
    if work is None and op.axes and op.spins > op.bits:
        work = device.xp.empty_like(psi)
    for axis in op.axes:
        _transverse(device, op, axis, psi, out, alpha, work)
    if op.cross is not None:
        exchange(device, op.cross, psi, out, alpha)


def groups(spins: int, bits: int) -> list[tuple[int, int]]:
    """Return (position, run) of the passes above the lowest tile: as few as ``GROUP`` allows, of nearly equal size."""
    # run = bits - size of the group: with equal groups the
    # shortest run of neighbours is as long as it can be
    high = spins - bits
    count = -(-high // GROUP)
    edges = [bits + high * k // count for k in range(count + 1)] if count else []
    return [(low, bits - (top - low)) for low, top in pairwise(edges)]


def _transverse(
    device: Device,
    op: Operator,
    axis: int,
    psi: StateVector,
    out: StateVector,
    alpha: float,
    work: StateVector | None,
) -> None:
    """Add ``alpha`` times the part of x (axis 0) or y (axis 1) of H psi to ``out``."""
    # S^y = P S^x P^dagger with P = i^(spins down), before and after the transforms
    phase_in, phase_out = (PHASE_IN, PHASE_OUT) if axis == 1 else (0, 0)
    above = groups(op.spins, op.bits)
    if not above:
        walsh(device, op, axis, psi, out, 0, 0, TURN | ADD | phase_in | phase_out, alpha)
        return
    # the frame form has one
    assert work is not None
    # W D W of one axis: transforms of the upper groups go down to the lowest tile, which turns
    # (transform, diagonal, transform), and the same groups in reverse; the outermost pass reads psi at
    # first and adds to out at last
    walsh(device, op, axis, psi, work, *above[0], phase_in)
    for position, run in above[1:]:
        walsh(device, op, axis, work, work, position, run, 0)
    walsh(device, op, axis, work, work, 0, 0, TURN)
    for position, run in above[:0:-1]:
        walsh(device, op, axis, work, work, position, run, 0)
    walsh(device, op, axis, work, out, *above[0], ADD | phase_out, alpha)


# ----------------------------------------------------------------------------------------- wrappers


def diagonal(
    device: Device,
    op: Operator,
    psi: StateVector,
    out: StateVector,
    alpha: float,
    beta: float,
    gamma: float,
    axis: int = 2,
) -> None:
    """Compute ``out = alpha D psi + beta psi + gamma out`` with the diagonal D of one axis, z by default."""
    numbers = (float(alpha), float(beta), float(gamma))
    if device.is_cuda:
        kernel = kernels.function("trotter/kernels/product", "apply", "diagonal", _macros(op, psi))
        arguments = (psi, out, np.int32(op.spins), op.J[axis], op.h[axis], op.within[axis])
        kernel(_tiles(op), (THREADS,), (*arguments, *map(np.float64, numbers)))
        return
    arrays = (_reals(psi), _reals(out), op.bits, *op.diagonal(axis), *numbers)
    _each(device, op, Shared(_diagonal_shared, arrays))


def bonds(
    device: Device, op: Operator, psi: StateVector, out: StateVector, alpha: float, beta: float, gamma: float
) -> None:
    """Compute ``out = alpha H psi + beta psi + gamma out`` pair by pair; psi and out are different arrays."""
    numbers = (float(alpha), float(beta), float(gamma))
    if device.is_cuda:
        kernel = kernels.function("trotter/kernels/product", "apply", "bonds", _macros(op, psi))
        diagonals = (psi, out, np.int32(op.spins), op.J[2], op.h[2], op.within[2])
        pairs = (np.int32(op.mask.shape[0]), op.mask, op.same, op.opposite)
        flips = (np.int32(op.site.shape[0]), op.site, op.hx, op.hy)
        kernel(_tiles(op), (THREADS,), (*diagonals, *pairs, *flips, *map(np.float64, numbers)))
        return
    lists = (op.mask, op.same, op.opposite, op.site, op.hx, op.hy)
    arrays = (_reals(psi), _reals(out), op.bits, *op.diagonal(2), *lists, *numbers)
    _each(device, op, Shared(_bonds_shared, arrays))


def walsh(
    device: Device,
    op: Operator,
    axis: int,
    source: StateVector,
    out: StateVector,
    position: int,
    run: int,
    flags: int,
    alpha: float = 1.0,
) -> None:
    """Transform the bits ``position ... position + bits - run - 1`` in tiles of ``2^run`` consecutive amplitudes.

    Parameters
    ----------
    axis : int
        Whose diagonal a turn multiplies by.
    source, out : (2^N,) complex or real
        May be one array unless ``ADD`` is set.
    position, run : int
        ``run`` is at most ``position``; both are 0 for the lowest bits, the only tile that may ``TURN``.
    flags : int
        Sum of ``PHASE_IN``, ``TURN``, ``ADD``, ``PHASE_OUT``.
    alpha : float
        Factor with ``ADD``.
    """
    # of the two transforms together; exact
    scale = 2.0**-op.spins
    if device.is_cuda:
        size = (1 << op.bits) * int(source.dtype.itemsize)
        kernel = kernels.function(
            "trotter/kernels/product", "apply", "walsh", _macros(op, source), shared_bytes=size
        )
        shape = (np.int32(position), np.int32(run), np.int32(flags), np.int32(op.spins))
        tables = (op.J[axis], op.h[axis], op.within[axis])
        numbers = (np.float64(scale), np.float64(alpha))
        kernel(_tiles(op), (THREADS,), (source, out, *shape, *tables, *numbers), shared_mem=size)
        return
    x, y = _reals(source), _reals(out)
    transform = (position, run, flags, scale, float(alpha))
    tiles = scratch(device.threads, 2 << op.bits).view(x.dtype)
    _each(device, op, Shared(_walsh_shared, (x, y, op.bits, *transform, *op.diagonal(axis), tiles)))


def _check(op: Operator, psi: StateVector, out: StateVector) -> None:
    """Check shapes once, with names."""
    for label, array in (("psi", psi), ("out", out)):
        if array.shape != (1 << op.spins,):
            raise ValueError(
                f"{label} of {op.spins} spins must have shape ({1 << op.spins},), found {array.shape}"
            )
    if psi.dtype != out.dtype:
        raise ValueError(f"psi and out must have one dtype, found {psi.dtype} and {out.dtype}")
    if psi is out:
        raise ValueError("psi and out must be different arrays")
    if psi.dtype.kind == "f" and not op.is_real:
        raise ValueError(f"psi must be complex for an H with imaginary matrix elements, found {psi.dtype}")


def _macros(op: Operator, psi: StateVector) -> dict[str, str | int]:
    return {**macros(psi.dtype), "BITS": op.bits}


def _tiles(op: Operator) -> tuple[int]:
    return (1 << (op.spins - op.bits),)


def _reals(psi: StateVector) -> Any:
    """Return the state as real numbers, of a complex one re and im in turn."""
    return psi.view(psi.real.dtype)


def _each(device: Device, op: Operator, work: Shared) -> None:
    """Share tiles among threads."""
    each_part(work, 1 << (op.spins - op.bits), 1 << op.spins, device.threads)


# -------------------------------------------------------------------------------------------- twins


class Numbers(NamedTuple):
    """The numbers of ``alpha H psi + beta psi + gamma out``."""

    alpha: float
    beta: float
    gamma: float


class Pairs(NamedTuple):
    """Pairs with a transverse coupling: their two bits, ``(Jx - Jy) / 4`` and ``(Jx + Jy) / 4``."""

    mask: IndexArray
    same: FloatArray
    opposite: FloatArray


class Flips(NamedTuple):
    """Sites with a transverse field, and half of its x and y."""

    site: IndexArray
    hx: FloatArray
    hy: FloatArray


class Transform(NamedTuple):
    """A pass of ``walsh``: its bits, its flags, and the factors of a turn and of an addition."""

    position: int
    run: int
    flags: int
    scale: float
    alpha: float


# Python hands over single arrays, 3 us faster than named tuples of them; they are grouped here.


@nb.njit(**JIT)
def _diagonal_shared(ticket, *a):
    arguments = (a[0], a[1], a[2], Diagonal(a[3], a[4], a[5], a[6]), Numbers(a[7], a[8], a[9]))
    return share(ticket, ranges(_diagonal_cpu, arguments))


@nb.njit(**JIT)
def _bonds_shared(ticket, *a):
    pairs, flips = Pairs(a[7], a[8], a[9]), Flips(a[10], a[11], a[12])
    numbers = Numbers(a[13], a[14], a[15])
    arguments = (a[0], a[1], a[2], Diagonal(a[3], a[4], a[5], a[6]), pairs, flips, numbers)
    return share(ticket, ranges(_bonds_cpu, arguments))


@nb.njit(**JIT)
def _walsh_shared(ticket, *a):
    transform = Transform(a[3], a[4], a[5], a[6], a[7])
    arguments = (a[0], a[1], a[2], transform, Diagonal(a[8], a[9], a[10], a[11]), a[12])
    return share(ticket, ranges(_walsh_cpu, arguments))


@nb.njit(**PART)
def _diagonal_cpu(first, last, worker, psi, out, bits, diagonal, numbers):
    """CPU twin of ``diagonal`` for tiles first ... last-1; psi and out (u 2^N,) real, u numbers an amplitude: 2, or 1 if real."""
    size, u = 1 << bits, psi.shape[0] >> diagonal.spins
    e = np.empty(size)
    for tile in range(first, last):
        _energy(e, tile, bits, diagonal)
        _blend(psi, out, u * size * tile, u, e, numbers)


@nb.njit(**PART)
def _bonds_cpu(first, last, worker, psi, out, bits, diagonal, pairs, flips, numbers):
    """CPU twin of ``bonds`` for tiles first ... last-1; psi and out (u 2^N,) real, as of :func:`_diagonal_cpu`."""
    mask, same, opposite = pairs.mask, pairs.same, pairs.opposite
    site, hx, hy, alpha = flips.site, flips.hx, flips.hy, numbers.alpha
    # `bits` spins within a tile, the others number tiles
    size, u = 1 << bits, psi.shape[0] >> diagonal.spins
    e = np.empty(size)
    for tile in range(first, last):
        here = u * size * tile
        # the diagonal first: it sets the tile of `out`, which stays in cache while all pairs and fields add to it
        _energy(e, tile, bits, diagonal)
        _blend(psi, out, here, u, e, numbers)
        for p in range(mask.shape[0]):
            # the two sites of the pair, j < k
            j = 0
            while not mask[p] >> np.uint64(j) & np.uint64(1):
                j += 1
            k = j + 1
            while not mask[p] >> np.uint64(k) & np.uint64(1):
                k += 1
            # equal spins both flip with (Jx - Jy) / 4, opposite ones with (Jx + Jy) / 4
            cs = psi.dtype.type(alpha * same[p])
            co = psi.dtype.type(alpha * opposite[p])
            # both bits in the tile, one of them, or none: the partner amplitudes are here, in one other tile for half of the rows
            # each, or in one other tile as a whole
            if k < bits:
                _pair_inside(psi, out, here, u * size, u << j, u << k, cs, co)
                continue
            # spin k is the same in the whole tile: where it is up, a lower spin up makes the pair equal
            up = (tile >> (k - bits) & 1) == 0
            if j < bits:
                there = u * size * (tile ^ (1 << (k - bits)))
                _pair_across(psi, out, here, there, u * size, u << j, cs if up else co, co if up else cs)
                continue
            # both spins are the same in the whole tile: one coefficient for all of its amplitudes
            equal = up == ((tile >> (j - bits) & 1) == 0)
            there = u * size * (tile ^ (1 << (k - bits)) ^ (1 << (j - bits)))
            c = cs if equal else co
            if c != 0:
                _add(out, here, psi, there, u * size, c)
        # fields: S^x and S^y flip one spin, (hx -+ i hy) / 2;
        # the spin of the result decides the sign, minus for up
        for f in range(site.shape[0]):
            re = psi.dtype.type(alpha * hx[f])
            im = psi.dtype.type(alpha * hy[f])
            k = site[f]
            if k < bits:
                _flip_inside(psi, out, here, u * size, u << k, u, re, im)
            else:
                there = u * size * (tile ^ (1 << (k - bits)))
                _flip(psi, out, here, there, u * size, u, re, im if tile >> (k - bits) & 1 else -im)


@nb.njit(**PART)
def _walsh_cpu(first, last, worker, source, out, bits, transform, diagonal, scratch):
    """CPU twin of ``walsh`` for tiles first ... last-1; source and out (u 2^N,) real, tiles of scratch (2^(bits+1),)."""
    position, run, flags = transform.position, transform.run, transform.flags
    scale, alpha = transform.scale, transform.alpha
    tile = scratch[worker]
    size, u = 1 << bits, source.shape[0] >> diagonal.spins
    gap = position - run
    # without a gap the tile is consecutive, and one row
    length = run if gap else bits
    width = u << length
    rows = 1 << (bits - length)
    e = np.empty(size if flags & TURN else 0)
    ones = _ones(length)
    a = source.dtype.type(alpha)
    # in tiles above the lowest, `run` neighbours of each value
    # of the transformed bits come along, for contiguous access
    for block in range(first, last):
        # position of the tile: bits below `run` and the
        # transformed ones are 0, the others spell its number
        base = (block >> gap << (position + bits - run)) | ((block & ((1 << gap) - 1)) << run)
        for row in range(rows):
            start = u * (base | row << position)
            tile[row * width : (row + 1) * width] = source[start : start + width]
            # P^dagger = (-i)^(spins down) of the strings themselves, hence before the transform
            if flags & PHASE_IN:
                _turn(tile, row * width, base | row << position, ones, u, -1)
        # of complex amplitudes one bit further, since real and imaginary parts alternate
        _transform(tile, run + u - 1, bits + u - 1)
        # only the lowest tile turns: all bits above are transformed by then
        if flags & TURN:
            _energy(e, block, bits, diagonal)
            for i in range(size):
                x = source.dtype.type(scale * e[i])
                for part in range(u * i, u * (i + 1)):
                    tile[part] *= x
            _transform(tile, u - 1, bits + u - 1)
        for row in range(rows):
            start = u * (base | row << position)
            if flags & PHASE_OUT:
                _turn(tile, row * width, base | row << position, ones, u, 1)
            if flags & ADD:
                _add(out, start, tile, row * width, width, a)
            else:
                out[start : start + width] = tile[row * width : (row + 1) * width]


@nb.njit(**PART)
def _energy(e, tile, bits, diagonal):
    """Diagonal on one tile, (2^bits,)."""
    spins, J, h, within = diagonal.spins, diagonal.J, diagonal.h, diagonal.within
    # spins outside of the tile: their energy among themselves and in the fields is a constant
    constant = 0.0
    for k in range(bits, spins):
        field = h[k]
        for j in range(k + 1, spins):
            field += J[k, j] * (0.5 - (tile >> (j - bits) & 1))
        constant += field * (0.5 - (tile >> (k - bits) & 1))
    # each bit of the tile doubles the table: energies with it up,
    # then with it down; its field holds h and the spins outside
    e[0] = constant
    n = 1
    for k in range(bits):
        field = h[k]
        for j in range(bits, spins):
            field += J[k, j] * (0.5 - (tile >> (j - bits) & 1))
        half = 0.5 * field
        for i in range(n):
            e[n + i] = e[i] - half
        for i in range(n):
            e[i] += half
        n *= 2
    # and the couplings within the tile, tabulated once for all tiles
    for i in range(n):
        e[i] += within[i]


@nb.njit(**PART)
def _blend(psi, out, here, u, e, numbers):
    """Set one tile to ``(alpha e + beta) psi + gamma out``."""
    alpha, beta, gamma = numbers.alpha, numbers.beta, numbers.gamma
    g = psi.dtype.type(gamma)
    size = e.shape[0]
    a = out[here : here + u * size]
    b = psi[here : here + u * size]
    # with gamma = 0 out may hold anything, even numbers that are none
    if u == 1:
        for i in range(size):
            x = psi.dtype.type(alpha * e[i] + beta) * b[i]
            a[i] = x if gamma == 0 else x + g * a[i]
        return
    for i in range(size):
        c = psi.dtype.type(alpha * e[i] + beta)
        re = c * b[2 * i]
        im = c * b[2 * i + 1]
        a[2 * i] = re if gamma == 0 else re + g * a[2 * i]
        a[2 * i + 1] = im if gamma == 0 else im + g * a[2 * i + 1]


@nb.njit(**PART)
def _add(out, here, psi, there, count, c):
    a = out[here : here + count]
    b = psi[there : there + count]
    for i in range(count):
        a[i] += c * b[i]


@nb.njit(**PART)
def _pair_inside(psi, out, here, size, low, high, same, opposite):
    """Add a pair whose bits both lie in the tile; size, low and high count real numbers."""
    # the pair flips between four runs: `low` and `high` are the
    # distances of its two bits; neighbours below `low` go along
    for top in range(here, here + size, 2 * high):
        for start in range(top, top + high, 2 * low):
            # both up and both down
            if same != 0:
                _add(out, start, psi, start + low + high, low, same)
                _add(out, start + low + high, psi, start, low, same)
            if opposite != 0:
                # one up and one down
                _add(out, start + low, psi, start + high, low, opposite)
                _add(out, start + high, psi, start + low, low, opposite)


@nb.njit(**PART)
def _pair_across(psi, out, here, there, size, low, up, down):
    """Add a pair whose lower bit lies in the tile, the other above; up and down: coefficients for the lower spin."""
    # the lower spin decides which coefficient a run has; the upper one is constant in either tile
    for start in range(0, size, 2 * low):
        if up != 0:
            _add(out, here + start, psi, there + start + low, low, up)
        if down != 0:
            _add(out, here + start + low, psi, there + start, low, down)


@nb.njit(**PART)
def _flip(psi, out, here, there, count, u, re, im):
    """Add ``(re + i im) psi``."""
    if u == 1:
        _add(out, here, psi, there, count, re)
        return
    a = out[here : here + count]
    b = psi[there : there + count]
    for i in range(count // 2):
        a[2 * i] += re * b[2 * i] - im * b[2 * i + 1]
        a[2 * i + 1] += re * b[2 * i + 1] + im * b[2 * i]


@nb.njit(**PART)
def _flip_inside(psi, out, here, size, low, u, re, im):
    for start in range(here, here + size, 2 * low):
        # matrix elements of h S: (hx - i hy) / 2 to spin up, (hx + i hy) / 2 to spin down
        _flip(psi, out, start, start + low, low, u, re, -im)
        _flip(psi, out, start + low, start, low, u, re, im)


@nb.njit(**PART)
def _turn(tile, start, n, ones, u, sign):
    """Multiply by ``i^(sign times the number of down spins)``; n: index of the first amplitude, ones: bits of 0, 1, 2, ...

    Of real amplitudes by ``(-1)^floor(number / 2)``, which is as good: S^y S^y changes the number by 0 or 2.
    """
    above = 0
    while n:
        n &= n - 1
        above += 1
    a = tile[start : start + u * ones.shape[0]]
    if u == 1:
        for i in range(ones.shape[0]):
            a[i] *= 1 - (above + ones[i] & 2)
        return
    for i in range(ones.shape[0]):
        # i^q as integers: no branches, and no rounding
        quarters = (sign * (above + ones[i])) & 3
        # 1, 0, -1, 0
        c = a.dtype.type((1 - quarters) * (1 - (quarters & 1)))
        # 0, 1, 0, -1
        s = a.dtype.type((2 - quarters) * (quarters & 1))
        re = a[2 * i]
        im = a[2 * i + 1]
        a[2 * i] = c * re - s * im
        a[2 * i + 1] = s * re + c * im


@nb.njit(**PART)
def _ones(bits):
    """Return the number of set bits of 0 ... 2^bits - 1."""
    # index n + i has one bit more than i
    ones = np.zeros(1 << bits, np.int32)
    n = 1
    for _ in range(bits):
        for i in range(n):
            ones[n + i] = ones[i] + 1
        n *= 2
    return ones


@nb.njit(**PART)
def _transform(x, first, last):
    """Transform the bits first ... last-1 of the index of real numbers, two at a time, the lower ones while in cache."""
    # blocks of 2^11 real numbers, 16 KiB in double precision, fit the first-level cache
    inner = min(last, 11)
    for base in range(0, 1 << last, 1 << inner):
        q = first
        while q + 1 < inner:
            _transform_two(x, base, 1 << inner, 1 << q)
            q += 2
        if q < inner:
            _transform_one(x, base, 1 << inner, 1 << q)
    # bits whose pairs lie in different blocks
    q = max(first, inner)
    while q + 1 < last:
        _transform_two(x, 0, 1 << last, 1 << q)
        q += 2
    if q < last:
        _transform_one(x, 0, 1 << last, 1 << q)


@nb.njit(**PART)
def _transform_two(x, base, size, st):
    for top in range(base, base + size, 4 * st):
        a = x[top : top + st]
        b = x[top + st : top + 2 * st]
        c = x[top + 2 * st : top + 3 * st]
        d = x[top + 3 * st : top + 4 * st]
        for i in range(st):
            p, q, r, s = a[i] + b[i], a[i] - b[i], c[i] + d[i], c[i] - d[i]
            a[i], b[i], c[i], d[i] = p + r, q + s, p - r, q - s


@nb.njit(**PART)
def _transform_one(x, base, size, st):
    for top in range(base, base + size, 2 * st):
        a = x[top : top + st]
        b = x[top + st : top + 2 * st]
        for i in range(st):
            p = a[i]
            a[i], b[i] = p + b[i], p - b[i]
