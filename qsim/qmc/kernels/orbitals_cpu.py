"""Molecular orbitals at a point, on the CPU: radial tables, solid harmonics, linear combinations."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from qsim.qmc.kernels.jit import INLINE
from qsim.qmc.kernels.types import BINS, OCTAVES, SMALLEST

__all__ = ["combination", "locate", "orbital_rows", "table_value"]

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
def _harmonics(l, x, y, z, S):
    """Solid harmonics r^l Y_lm of one l: m = -l ... l, but x, y, z for l = 1."""
    if l == 0:
        S[0] = _C0
    elif l == 1:
        S[0] = _C1 * x
        S[1] = _C1 * y
        S[2] = _C1 * z
    elif l == 2:
        S[0] = _D * x * y
        S[1] = _D * y * z
        S[2] = _D0 * (2.0 * z * z - x * x - y * y)
        S[3] = _D * x * z
        S[4] = 0.5 * _D * (x * x - y * y)
    elif l == 3:
        xx, yy, zz = x * x, y * y, z * z
        S[0] = _F3 * y * (3.0 * xx - yy)
        S[1] = _F2 * x * y * z
        S[2] = _F1 * y * (4.0 * zz - xx - yy)
        S[3] = _F0 * z * (2.0 * zz - 3.0 * xx - 3.0 * yy)
        S[4] = _F1 * x * (4.0 * zz - xx - yy)
        S[5] = 0.5 * _F2 * z * (xx - yy)
        S[6] = _F3 * x * (xx - 3.0 * yy)
    else:
        xx, yy, zz = x * x, y * y, z * z
        rr = xx + yy + zz
        S[0] = _G4 * x * y * (xx - yy)
        S[1] = _G3 * y * z * (3.0 * xx - yy)
        S[2] = _G2 * x * y * (7.0 * zz - rr)
        S[3] = _G1 * y * z * (7.0 * zz - 3.0 * rr)
        S[4] = _G0 * (35.0 * zz * zz - 30.0 * zz * rr + 3.0 * rr * rr)
        S[5] = _G1 * x * z * (7.0 * zz - 3.0 * rr)
        S[6] = 0.5 * _G2 * (xx - yy) * (7.0 * zz - rr)
        S[7] = _G3 * x * z * (xx - 3.0 * yy)
        S[8] = 0.25 * _G4 * (xx * (xx - 3.0 * yy) - yy * (3.0 * xx - yy))


@nb.njit(**INLINE)
def _harmonic_gradients(l, x, y, z, S, G):
    """Solid harmonics S and their gradients G (m, 3)."""
    _harmonics(l, x, y, z, S)
    if l == 0:
        G[0, 0] = G[0, 1] = G[0, 2] = 0.0
    elif l == 1:
        for m in range(3):
            for a in range(3):
                G[m, a] = _C1 if m == a else 0.0
    elif l == 2:
        G[0, 0], G[0, 1], G[0, 2] = _D * y, _D * x, 0.0
        G[1, 0], G[1, 1], G[1, 2] = 0.0, _D * z, _D * y
        G[2, 0], G[2, 1], G[2, 2] = -2.0 * _D0 * x, -2.0 * _D0 * y, 4.0 * _D0 * z
        G[3, 0], G[3, 1], G[3, 2] = _D * z, 0.0, _D * x
        G[4, 0], G[4, 1], G[4, 2] = _D * x, -_D * y, 0.0
    elif l == 3:
        xx, yy, zz = x * x, y * y, z * z
        G[0, 0], G[0, 1], G[0, 2] = _F3 * 6.0 * x * y, _F3 * 3.0 * (xx - yy), 0.0
        G[1, 0], G[1, 1], G[1, 2] = _F2 * y * z, _F2 * x * z, _F2 * x * y
        G[2, 0], G[2, 1], G[2, 2] = -_F1 * 2.0 * x * y, _F1 * (4.0 * zz - xx - 3.0 * yy), _F1 * 8.0 * y * z
        G[3, 0], G[3, 1], G[3, 2] = -_F0 * 6.0 * x * z, -_F0 * 6.0 * y * z, _F0 * 3.0 * (2.0 * zz - xx - yy)
        G[4, 0], G[4, 1], G[4, 2] = _F1 * (4.0 * zz - 3.0 * xx - yy), -_F1 * 2.0 * x * y, _F1 * 8.0 * x * z
        G[5, 0], G[5, 1], G[5, 2] = _F2 * x * z, -_F2 * y * z, 0.5 * _F2 * (xx - yy)
        G[6, 0], G[6, 1], G[6, 2] = _F3 * 3.0 * (xx - yy), -_F3 * 6.0 * x * y, 0.0
    else:
        xx, yy, zz = x * x, y * y, z * z
        rr = xx + yy + zz
        G[0, 0], G[0, 1], G[0, 2] = _G4 * y * (3.0 * xx - yy), _G4 * x * (xx - 3.0 * yy), 0.0
        G[1, 0], G[1, 1], G[1, 2] = (
            _G3 * 6.0 * x * y * z,
            _G3 * 3.0 * z * (xx - yy),
            _G3 * y * (3.0 * xx - yy),
        )
        a = 7.0 * zz - rr
        G[2, 0], G[2, 1], G[2, 2] = _G2 * y * (a - 2.0 * xx), _G2 * x * (a - 2.0 * yy), _G2 * 12.0 * x * y * z
        b = 7.0 * zz - 3.0 * rr
        G[3, 0], G[3, 1], G[3, 2] = -_G1 * 6.0 * x * y * z, _G1 * z * (b - 6.0 * yy), _G1 * y * (b + 8.0 * zz)
        c = 12.0 * rr - 60.0 * zz
        G[4, 0], G[4, 1], G[4, 2] = _G0 * x * c, _G0 * y * c, _G0 * z * (80.0 * zz - 48.0 * rr)
        G[5, 0], G[5, 1], G[5, 2] = _G1 * z * (b - 6.0 * xx), -_G1 * 6.0 * x * y * z, _G1 * x * (b + 8.0 * zz)
        h = 0.5 * _G2
        G[6, 0], G[6, 1] = h * 2.0 * x * (a - (xx - yy)), -h * 2.0 * y * (a + (xx - yy))
        G[6, 2] = h * 12.0 * z * (xx - yy)
        G[7, 0], G[7, 1], G[7, 2] = (
            _G3 * 3.0 * z * (xx - yy),
            -_G3 * 6.0 * x * y * z,
            _G3 * x * (xx - 3.0 * yy),
        )
        q = 0.25 * _G4
        G[8, 0], G[8, 1], G[8, 2] = q * 4.0 * x * (xx - 3.0 * yy), q * 4.0 * y * (yy - 3.0 * xx), 0.0


@nb.njit(**INLINE)
def combination(orbitals, d, x, y, z, S):
    """Return the sum of all atomic orbitals with coefficients ``d`` (B,) at a point; ``S`` (9,) is work space.

    With the column of an electron summed into ``d`` it is the ratio of two determinants: one sum over the basis a point, and not
    one for every orbital.  Radial functions are evaluated in the precision of their tables: to convert each coefficient takes
    longer than the polynomial.
    """
    real = orbitals.table.dtype.type
    total = 0.0
    atom = made = -1
    dx = dy = dz = r = 0.0
    i, t = np.uint64(0), real(0.0)
    for s in range(orbitals.shell_l.shape[0]):
        if orbitals.shell_atom[s] != atom:
            atom, made = orbitals.shell_atom[s], -1
            dx, dy, dz = x - orbitals.atom[atom, 0], y - orbitals.atom[atom, 1], z - orbitals.atom[atom, 2]
            r = math.sqrt(dx * dx + dy * dy + dz * dz)
            i, place, _ = locate(r)  # beyond the grid it is not used
            t = real(place)
        if not r < orbitals.reach[s]:
            continue
        c = orbitals.table[s, i]
        R = c[0] + t * (c[1] + t * (c[2] + t * (c[3] + t * (c[4] + t * c[5]))))
        l, b = orbitals.shell_l[s], orbitals.shell_first[s]
        if l == 0:
            total += R * _C0 * d[b]
        elif l == 1:
            total += R * _C1 * (dx * d[b] + dy * d[b + 1] + dz * d[b + 2])
        else:
            if l != made:
                _harmonics(l, dx, dy, dz, S)
                made = l
            part = 0.0
            for m in range(2 * l + 1):
                part += S[m] * d[b + m]
            total += R * part
    return total


@nb.njit(**INLINE)
def orbital_rows(orbitals, spin, x, y, z, rows, S, G):
    """Set ``rows`` (5, M) to values, gradients and Laplacians; ``S`` (9,) and ``G`` (9, 3) are work space.

    The harmonics of a shell are summed with its coefficients first and multiplied by its radial function then: the rows are
    touched once a shell and not once an atomic orbital.  Sums are made in the precision of the rows.
    """
    real = rows.dtype.type
    coefficients = orbitals.coefficients[spin]
    M = rows.shape[1]
    for k in range(5):
        for o in range(M):
            rows[k, o] = 0.0
    atom = made = -1
    dx = dy = dz = r = over = t = inverse_h = 0.0
    i = np.uint64(0)
    for s in range(orbitals.shell_l.shape[0]):
        if orbitals.shell_atom[s] != atom:
            atom, made = orbitals.shell_atom[s], -1
            dx, dy, dz = x - orbitals.atom[atom, 0], y - orbitals.atom[atom, 1], z - orbitals.atom[atom, 2]
            r = math.sqrt(dx * dx + dy * dy + dz * dz)
            over = 1.0 / max(r, TINY)
            i, t, inverse_h = locate(r)  # beyond the grid it is not used
        if not r < orbitals.reach[s]:
            continue
        c = orbitals.table[s, i]
        R = c[0] + t * (c[1] + t * (c[2] + t * (c[3] + t * (c[4] + t * c[5]))))
        dR = inverse_h * (c[1] + t * (2.0 * c[2] + t * (3.0 * c[3] + t * (4.0 * c[4] + t * 5.0 * c[5]))))
        ddR = inverse_h * inverse_h * (2.0 * c[2] + t * (6.0 * c[3] + t * (12.0 * c[4] + t * 20.0 * c[5])))
        l, b = orbitals.shell_l[s], orbitals.shell_first[s]
        slope = dR * over
        bend = ddR + 2.0 * (l + 1) * slope
        if l == 0:
            v, lap = real(_C0 * R), real(_C0 * bend)
            slope *= _C0
            gx, gy, gz = real(slope * dx), real(slope * dy), real(slope * dz)
            for o in range(M):
                c0 = coefficients[b, o]
                rows[0, o] += v * c0
                rows[1, o] += gx * c0
                rows[2, o] += gy * c0
                rows[3, o] += gz * c0
                rows[4, o] += lap * c0
            continue
        gx, gy, gz = real(slope * dx), real(slope * dy), real(slope * dz)
        v, lap = real(R), real(bend)
        if l == 1:
            px, py, pz, q = real(_C1 * dx), real(_C1 * dy), real(_C1 * dz), real(_C1 * R)
            for o in range(M):
                cx, cy, cz = coefficients[b, o], coefficients[b + 1, o], coefficients[b + 2, o]
                A = px * cx + py * cy + pz * cz
                rows[0, o] += v * A
                rows[1, o] += gx * A + q * cx
                rows[2, o] += gy * A + q * cy
                rows[3, o] += gz * A + q * cz
                rows[4, o] += lap * A
            continue
        if l == 2:
            D = _D * R
            ux, uy, uz = real(D * dx), real(D * dy), real(D * dz)
            D0 = 2.0 * _D0 * R
            wx, wy, wz = real(D0 * dx), real(D0 * dy), real(2.0 * D0 * dz)
            s0, s1, s3 = real(_D * dx * dy), real(_D * dy * dz), real(_D * dx * dz)
            s2 = real(_D0 * (2.0 * dz * dz - dx * dx - dy * dy))
            s4 = real(0.5 * _D * (dx * dx - dy * dy))
            for o in range(M):
                c0, c1, c2 = coefficients[b, o], coefficients[b + 1, o], coefficients[b + 2, o]
                c3, c4 = coefficients[b + 3, o], coefficients[b + 4, o]
                A = s0 * c0 + s1 * c1 + s2 * c2 + s3 * c3 + s4 * c4
                rows[0, o] += v * A
                rows[1, o] += gx * A + uy * c0 - wx * c2 + uz * c3 + ux * c4
                rows[2, o] += gy * A + ux * c0 + uz * c1 - wy * c2 - uy * c4
                rows[3, o] += gz * A + uy * c1 + wz * c2 + ux * c3
                rows[4, o] += lap * A
            continue
        if l != made:
            _harmonic_gradients(l, dx, dy, dz, S, G)
            made = l
        for m in range(2 * l + 1):
            h, hx, hy, hz = real(S[m]), real(R * G[m, 0]), real(R * G[m, 1]), real(R * G[m, 2])
            v0, gx0, gy0, gz0, lap0 = v * h, gx * h + hx, gy * h + hy, gz * h + hz, lap * h
            for o in range(M):
                c0 = coefficients[b + m, o]
                rows[0, o] += v0 * c0
                rows[1, o] += gx0 * c0
                rows[2, o] += gy0 * c0
                rows[3, o] += gz0 * c0
                rows[4, o] += lap0 * c0
