"""Molecular orbitals at a point, on the CPU: radial tables, solid harmonics, linear combinations."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from qsim.core.device.vectors import get, lane, lanes, pack, put, root, same, wide
from qsim.qmc.kernels.jit import INLINE
from qsim.qmc.kernels.types import BINS, OCTAVES, SMALLEST

__all__ = ["combinations", "locate", "orbital_rows", "table_value"]

FIRST_OCTAVE = int(math.log2(SMALLEST))
LARGEST = SMALLEST * 2.0**OCTAVES
INNER = BINS / SMALLEST  # 1 / width of the intervals below the first octave
# Of float64: where the number of an interval within its octave ends, and what makes intervals and widths of exponents.
INTERVAL_BITS = np.uint64(math.log2(BINS))
SHIFT = np.uint64(52) - INTERVAL_BITS
EXPONENT = np.uint64(0x7FF << 52)
MANTISSA = np.uint64((1 << 52) - 1)
ONE = np.uint64(1023 << 52)  # bits of 1.0
FIRST = np.uint64(((1023 + FIRST_OCTAVE) << int(INTERVAL_BITS)) - BINS)
TOP = np.uint64((2 * 1023 + int(INTERVAL_BITS)) << 52)  # minus an exponent: bits of 1 / width in that octave
TINY = 1e-12  # bohr; closer to a nucleus the direction is lost, not the radius

_C1 = math.sqrt(3.0 / (4.0 * math.pi))
_C0 = 0.5 / math.sqrt(math.pi)
_D = 0.5 * math.sqrt(15.0 / math.pi)
_D0 = 0.25 * math.sqrt(5.0 / math.pi)
_F3 = 0.25 * math.sqrt(35.0 / (2.0 * math.pi))
_F2 = 0.5 * math.sqrt(105.0 / math.pi)
_F1 = 0.25 * math.sqrt(21.0 / (2.0 * math.pi))
_F0 = 0.25 * math.sqrt(7.0 / math.pi)
_G4 = 0.75 * math.sqrt(35.0 / math.pi)
_G3 = 0.75 * math.sqrt(35.0 / (2.0 * math.pi))
_G2 = 0.75 * math.sqrt(5.0 / math.pi)
_G1 = 0.75 * math.sqrt(5.0 / (2.0 * math.pi))
_G0 = 3.0 / 16.0 / math.sqrt(math.pi)


@nb.njit(**INLINE)
def locate(r):
    """Return interval, place t of [0, 1) in it, and 1 / width on the graded grid; r below ``LARGEST``.

    The bits of r hold all three, exactly: its exponent is the octave, the first bits of its mantissa number the interval, the
    others are t.
    """
    if r < SMALLEST:
        x = r * INNER
        k = int(x)
        return np.uint64(k), x - k, INNER
    bits = np.float64(r).view(np.uint64)
    t = np.uint64(((bits << INTERVAL_BITS) & MANTISSA) | ONE).view(np.float64) - 1.0
    width = np.uint64(TOP - (bits & EXPONENT)).view(np.float64)
    return (bits >> SHIFT) - FIRST, t, width


@nb.njit(**INLINE)
def table_value(table, r):
    """Return the tabulated function at r; 0 beyond the grid."""
    if not r < LARGEST:
        return 0.0
    i, t, _ = locate(r)
    c = table[i]
    return c[0] + t * (c[1] + t * (c[2] + t * (c[3] + t * (c[4] + t * c[5]))))


@nb.njit(**INLINE)
def _harmonics(l, x, y, z, S, G):
    """Set solid harmonics r^l Y_lm, m = -l ... l, and a zero with their gradients for l = 3 or 4."""
    xx, yy, zz = x * x, y * y, z * z
    if l == 3:
        put(
            S,
            0,
            pack(
                _F3 * y * (3.0 * xx - yy),
                _F2 * x * y * z,
                _F1 * y * (4.0 * zz - xx - yy),
                _F0 * z * (2.0 * zz - 3.0 * xx - 3.0 * yy),
            ),
        )
        put(
            S,
            4,
            pack(_F1 * x * (4.0 * zz - xx - yy), 0.5 * _F2 * z * (xx - yy), _F3 * x * (xx - 3.0 * yy), 0.0),
        )
        put(G, 0, pack(0.0, _F3 * 6.0 * x * y, _F3 * 3.0 * (xx - yy), 0.0))
        put(G, 4, pack(0.0, _F2 * y * z, _F2 * x * z, _F2 * x * y))
        put(G, 8, pack(0.0, -_F1 * 2.0 * x * y, _F1 * (4.0 * zz - xx - 3.0 * yy), _F1 * 8.0 * y * z))
        put(G, 12, pack(0.0, -_F0 * 6.0 * x * z, -_F0 * 6.0 * y * z, _F0 * 3.0 * (2.0 * zz - xx - yy)))
        put(G, 16, pack(0.0, _F1 * (4.0 * zz - 3.0 * xx - yy), -_F1 * 2.0 * x * y, _F1 * 8.0 * x * z))
        put(G, 20, pack(0.0, _F2 * x * z, -_F2 * y * z, 0.5 * _F2 * (xx - yy)))
        put(G, 24, pack(0.0, _F3 * 3.0 * (xx - yy), -_F3 * 6.0 * x * y, 0.0))
        return
    rr = xx + yy + zz
    a, b, c = 7.0 * zz - rr, 7.0 * zz - 3.0 * rr, 12.0 * rr - 60.0 * zz
    h, q = 0.5 * _G2, 0.25 * _G4
    put(S, 0, pack(_G4 * x * y * (xx - yy), _G3 * y * z * (3.0 * xx - yy), _G2 * x * y * a, _G1 * y * z * b))
    put(
        S,
        4,
        pack(
            _G0 * (35.0 * zz * zz - 30.0 * zz * rr + 3.0 * rr * rr),
            _G1 * x * z * b,
            h * (xx - yy) * a,
            _G3 * x * z * (xx - 3.0 * yy),
        ),
    )
    S[8] = q * (xx * (xx - 3.0 * yy) - yy * (3.0 * xx - yy))
    put(G, 0, pack(0.0, _G4 * y * (3.0 * xx - yy), _G4 * x * (xx - 3.0 * yy), 0.0))
    put(G, 4, pack(0.0, _G3 * 6.0 * x * y * z, _G3 * 3.0 * z * (xx - yy), _G3 * y * (3.0 * xx - yy)))
    put(G, 8, pack(0.0, _G2 * y * (a - 2.0 * xx), _G2 * x * (a - 2.0 * yy), _G2 * 12.0 * x * y * z))
    put(G, 12, pack(0.0, -_G1 * 6.0 * x * y * z, _G1 * z * (b - 6.0 * yy), _G1 * y * (b + 8.0 * zz)))
    put(G, 16, pack(0.0, _G0 * x * c, _G0 * y * c, _G0 * z * (80.0 * zz - 48.0 * rr)))
    put(G, 20, pack(0.0, _G1 * z * (b - 6.0 * xx), -_G1 * 6.0 * x * y * z, _G1 * x * (b + 8.0 * zz)))
    put(
        G,
        24,
        pack(0.0, h * 2.0 * x * (a - (xx - yy)), -h * 2.0 * y * (a + (xx - yy)), h * 12.0 * z * (xx - yy)),
    )
    put(G, 28, pack(0.0, _G3 * 3.0 * z * (xx - yy), -_G3 * 6.0 * x * y * z, _G3 * x * (xx - 3.0 * yy)))
    put(G, 32, pack(0.0, q * 4.0 * x * (xx - 3.0 * yy), q * 4.0 * y * (yy - 3.0 * xx), 0.0))


@nb.njit(**INLINE)
def _far(orbitals, first, last, r):
    """Tell whether all shells of an atom vanish at a distance."""
    for s in range(first, last):  # noqa: SIM110  # numba compiles no generators
        if r < get(orbitals.reach, s):
            return False
    return True


@nb.njit(**INLINE)
def _radial_of(orbitals, tables, first, last, blocks, r, out, at):
    """Set ``out[at ...]`` to the radial functions of an atom, four shells at once; tell whether one is not zero."""
    if not r < LARGEST or _far(orbitals, first, last, r):
        for k in range(blocks):
            put(out, at + 4 * k, same(0.0))
        return False
    i, place, _ = locate(r)
    table = tables[i]
    t = tables.dtype.type(place)
    for k in range(blocks):
        c = 24 * k
        value = lanes(table, c + 16) + t * lanes(table, c + 20)
        value = lanes(table, c + 8) + t * (lanes(table, c + 12) + t * value)
        put(out, at + 4 * k, wide(lanes(table, c) + t * (lanes(table, c + 4) + t * value)))
    return True


@nb.njit(**INLINE)
def _radial_slopes(table, blocks, t, inverse_h, out):
    """Set ``out`` (3, 4 blocks) to the radial functions of an atom and two derivatives, in double precision."""
    for k in range(blocks):
        c = 24 * k
        c0, c1, c2 = wide(lanes(table, c)), wide(lanes(table, c + 4)), wide(lanes(table, c + 8))
        c3, c4, c5 = wide(lanes(table, c + 12)), wide(lanes(table, c + 16)), wide(lanes(table, c + 20))
        value = c0 + t * (c1 + t * (c2 + t * (c3 + t * (c4 + t * c5))))
        slope = c1 + t * (2.0 * c2 + t * (3.0 * c3 + t * (4.0 * c4 + 5.0 * t * c5)))
        bend = 2.0 * c2 + t * (6.0 * c3 + t * (12.0 * c4 + 20.0 * t * c5))
        put(out, 4 * k, value)
        put(out, 4 * (blocks + k), inverse_h * slope)
        put(out, 4 * (2 * blocks + k), inverse_h * inverse_h * bend)


@nb.njit(**INLINE)
def combinations(orbitals, d, x, y, z, work):
    """Return the sums of all atomic orbitals with coefficients ``d`` (B,) at four points, whose coordinates are vectors.

    With the column of an electron summed into ``d`` it is the ratio of two determinants: one sum over the basis a point, and not
    one for every orbital.  Radial functions are evaluated in the precision of their tables.
    """
    total = same(0.0)
    radial, side_by_side = work.radial, orbitals.side_by_side
    width = 4 * side_by_side.shape[2]
    for atom in range(orbitals.atom.shape[0]):
        dx, dy, dz = x - orbitals.atom[atom, 0], y - orbitals.atom[atom, 1], z - orbitals.atom[atom, 2]
        distance = root(dx * dx + dy * dy + dz * dz)
        first, last = get(orbitals.atom_begin, atom), get(orbitals.atom_begin, atom + 1)
        blocks = (last - first + 3) // 4
        table = side_by_side[get(orbitals.atom_kind, atom)]
        near = _radial_of(orbitals, table, first, last, blocks, lane(distance, 0), radial, 0)
        near |= _radial_of(orbitals, table, first, last, blocks, lane(distance, 1), radial, width)
        near |= _radial_of(orbitals, table, first, last, blocks, lane(distance, 2), radial, 2 * width)
        near |= _radial_of(orbitals, table, first, last, blocks, lane(distance, 3), radial, 3 * width)
        if not near:
            continue
        sxy, syz, szx = _D * dx * dy, _D * dy * dz, _D * dz * dx
        szz, sxx = _D0 * (2.0 * dz * dz - dx * dx - dy * dy), 0.5 * _D * (dx * dx - dy * dy)
        for k in range(last - first):
            R = pack(
                get(radial, k), get(radial, width + k), get(radial, 2 * width + k), get(radial, 3 * width + k)
            )
            l, b = get(orbitals.shell_l, first + k), get(orbitals.shell_first, first + k)
            if l == 0:
                part = same(_C0 * get(d, b))
            elif l == 1:
                part = _C1 * (get(d, b) * dx + get(d, b + 1) * dy + get(d, b + 2) * dz)
            elif l == 2:
                part = (
                    get(d, b) * sxy
                    + get(d, b + 1) * syz
                    + get(d, b + 2) * szz
                    + get(d, b + 3) * szx
                    + get(d, b + 4) * sxx
                )
            else:
                part = _sum_of_harmonics(l, d, b, dx, dy, dz)
            total = total + R * part
    return total


@nb.njit(**INLINE)
def _sum_of_harmonics(l, d, b, x, y, z):
    """Return the sum over m of harmonics of l = 3 or 4 with coefficients ``d[b] ...`` at four points."""
    xx, yy, zz = x * x, y * y, z * z
    difference, h = xx - yy, 4.0 * zz - xx - yy
    if l == 3:
        part = _F3 * (get(d, b) * y * (3.0 * xx - yy) + get(d, b + 6) * x * (xx - 3.0 * yy))
        part = part + _F2 * z * (get(d, b + 1) * x * y + (0.5 * get(d, b + 5)) * difference)
        part = part + _F1 * h * (get(d, b + 2) * y + get(d, b + 4) * x)
        return part + (_F0 * get(d, b + 3)) * z * (2.0 * zz - 3.0 * xx - 3.0 * yy)
    rr = xx + yy + zz
    p, q = 7.0 * zz - rr, 7.0 * zz - 3.0 * rr
    part = _G4 * (
        get(d, b) * x * y * difference
        + (0.25 * get(d, b + 8)) * (xx * (xx - 3.0 * yy) - yy * (3.0 * xx - yy))
    )
    part = part + _G3 * z * (get(d, b + 1) * y * (3.0 * xx - yy) + get(d, b + 7) * x * (xx - 3.0 * yy))
    part = part + _G2 * p * (get(d, b + 2) * x * y + (0.5 * get(d, b + 6)) * difference)
    part = part + _G1 * z * q * (get(d, b + 3) * y + get(d, b + 5) * x)
    return part + (_G0 * get(d, b + 4)) * (35.0 * zz * zz - 30.0 * zz * rr + 3.0 * rr * rr)


@nb.njit(**INLINE)
def _keep(atomic, n, base, bend, h, R, gradient):
    """Set value and gradient, then the Laplacian, of atomic orbital n, whose angular part is h."""
    put(atomic, 8 * n, base * h + R * gradient)
    put(atomic, 8 * n + 4, bend * h)


@nb.njit(**INLINE)
def orbital_rows(orbitals, spin, x, y, z, rows, work):
    """Set ``rows`` (5, M) to values, gradients and Laplacians of the orbitals at a point.

    The functions of an atom are made one after another and then combined, four orbitals at once; sums are made in the precision
    of the rows.
    """
    coefficients, side_by_side = orbitals.coefficients[spin], orbitals.side_by_side
    atomic, radial, S, G = work.atomic, work.radial, work.S, work.G
    real = rows.dtype.type
    M = rows.shape[1]
    first_unit = pack(1.0, 0.0, 0.0, 0.0)
    ex, ey, ez = pack(0.0, 1.0, 0.0, 0.0), pack(0.0, 0.0, 1.0, 0.0), pack(0.0, 0.0, 0.0, 1.0)
    for k in range(5):
        for o in range(M):
            rows[k, o] = real(0.0)
    for atom in range(orbitals.atom.shape[0]):
        dx, dy, dz = x - orbitals.atom[atom, 0], y - orbitals.atom[atom, 1], z - orbitals.atom[atom, 2]
        r = math.sqrt(dx * dx + dy * dy + dz * dz)
        first, last = get(orbitals.atom_begin, atom), get(orbitals.atom_begin, atom + 1)
        if not r < LARGEST or _far(orbitals, first, last, r):
            continue
        over = 1.0 / max(r, TINY)
        i, t, inverse_h = locate(r)
        blocks = (last - first + 3) // 4
        _radial_slopes(side_by_side[get(orbitals.atom_kind, atom), i], blocks, t, inverse_h, radial)
        away = pack(0.0, over * dx, over * dy, over * dz)
        sx, sy, sz = _C1 * dx, _C1 * dy, _C1 * dz
        sxy, syz, szx = _D * dx * dy, _D * dy * dz, _D * dz * dx
        szz, sxx = _D0 * (2.0 * dz * dz - dx * dx - dy * dy), 0.5 * _D * (dx * dx - dy * dy)
        gxy, gyz, gzx = (
            pack(0.0, _D * dy, _D * dx, 0.0),
            pack(0.0, 0.0, _D * dz, _D * dy),
            pack(0.0, _D * dz, 0.0, _D * dx),
        )
        gzz, gxx = (
            pack(0.0, -2.0 * _D0 * dx, -2.0 * _D0 * dy, 4.0 * _D0 * dz),
            pack(0.0, _D * dx, -_D * dy, 0.0),
        )
        n = 0
        for k in range(last - first):
            l = get(orbitals.shell_l, first + k)
            R, dR = get(radial, k), get(radial, 4 * blocks + k)
            base = dR * away + R * first_unit
            bend = get(radial, 8 * blocks + k) + 2.0 * (l + 1) * (dR * over)
            if l == 0:
                put(atomic, 8 * n, _C0 * base)
                put(atomic, 8 * n + 4, _C0 * bend)
            elif l == 1:
                slope = _C1 * R
                _keep(atomic, n, base, bend, sx, slope, ex)
                _keep(atomic, n + 1, base, bend, sy, slope, ey)
                _keep(atomic, n + 2, base, bend, sz, slope, ez)
            elif l == 2:
                _keep(atomic, n, base, bend, sxy, R, gxy)
                _keep(atomic, n + 1, base, bend, syz, R, gyz)
                _keep(atomic, n + 2, base, bend, szz, R, gzz)
                _keep(atomic, n + 3, base, bend, szx, R, gzx)
                _keep(atomic, n + 4, base, bend, sxx, R, gxx)
            else:
                _harmonics(l, dx, dy, dz, S, G)
                for m in range(2 * l + 1):
                    _keep(atomic, n + m, base, bend, get(S, m), R, lanes(G, 4 * m))
            n += 2 * l + 1
        _combine(coefficients, get(orbitals.shell_first, first), n, atomic, rows)


@nb.njit(**INLINE)
def _combine(coefficients, b, n, atomic, rows):
    """Add n atomic orbitals, the first of which is number b, to the rows of all orbitals."""
    M = rows.shape[1]
    many = M - M % 4
    for o in range(0, many, 4):
        value, x, y = lanes(rows, o), lanes(rows, M + o), lanes(rows, 2 * M + o)
        z, laplacian = lanes(rows, 3 * M + o), lanes(rows, 4 * M + o)
        for k in range(n):
            c = lanes(coefficients, (b + k) * M + o)
            value = value + get(atomic, 8 * k) * c
            x = x + get(atomic, 8 * k + 1) * c
            y = y + get(atomic, 8 * k + 2) * c
            z = z + get(atomic, 8 * k + 3) * c
            laplacian = laplacian + get(atomic, 8 * k + 4) * c
        put(rows, o, value)
        put(rows, M + o, x)
        put(rows, 2 * M + o, y)
        put(rows, 3 * M + o, z)
        put(rows, 4 * M + o, laplacian)
    for o in range(many, M):
        v = gx = gy = gz = lap = rows.dtype.type(0.0)
        for k in range(n):
            c = get(coefficients, (b + k) * M + o)
            v += get(atomic, 8 * k) * c
            gx += get(atomic, 8 * k + 1) * c
            gy += get(atomic, 8 * k + 2) * c
            gz += get(atomic, 8 * k + 3) * c
            lap += get(atomic, 8 * k + 4) * c
        rows[0, o] += v
        rows[1, o] += gx
        rows[2, o] += gy
        rows[3, o] += gz
        rows[4, o] += lap
