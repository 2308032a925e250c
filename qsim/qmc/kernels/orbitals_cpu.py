"""Molecular orbitals at a point, on the CPU: radial tables, solid harmonics, linear combinations."""

from __future__ import annotations

import math

import numba as nb

from qsim.qmc.kernels.jit import INLINE, JIT
from qsim.qmc.kernels.types import BINS, OCTAVES, SMALLEST

__all__ = ["combination", "locate", "orbital_rows", "table_value"]

FIRST_OCTAVE = int(math.log2(SMALLEST))
LARGEST = SMALLEST * 2.0**OCTAVES
INNER = BINS / SMALLEST  # 1 / width of the intervals below the first octave
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
    """Return interval, place t of [0, 1) in it, and 1 / width on the graded grid; r below ``LARGEST``."""
    if r < SMALLEST:
        x = r * INNER
        i = int(x)
        return i, x - i, INNER
    m, e = math.frexp(r)  # r = m 2^e with m of [1/2, 1)
    octave = e - 1 - FIRST_OCTAVE
    x = (2.0 * m - 1.0) * BINS
    i = int(x)
    return BINS * (octave + 1) + i, x - i, INNER / (1 << octave)


@nb.njit(**INLINE)
def table_value(table, r):
    """Return the tabulated function at r; 0 beyond the grid."""
    if r >= LARGEST:
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
    one for every orbital.
    """
    total = 0.0
    atom = -1
    dx = dy = dz = r = 0.0
    for s in range(orbitals.shell_l.shape[0]):
        if orbitals.shell_atom[s] != atom:
            atom = orbitals.shell_atom[s]
            dx, dy, dz = x - orbitals.atom[atom, 0], y - orbitals.atom[atom, 1], z - orbitals.atom[atom, 2]
            r = math.sqrt(dx * dx + dy * dy + dz * dz)
        if r >= orbitals.reach[s]:
            continue
        i, t, _ = locate(r)
        c = orbitals.table[s, i]
        R = c[0] + t * (c[1] + t * (c[2] + t * (c[3] + t * (c[4] + t * c[5]))))
        l, b = orbitals.shell_l[s], orbitals.shell_first[s]
        if l == 0:
            total += R * _C0 * d[b]
            continue
        _harmonics(l, dx, dy, dz, S)
        part = 0.0
        for m in range(2 * l + 1):
            part += S[m] * d[b + m]
        total += R * part
    return total


@nb.njit(**INLINE)
def orbital_rows(orbitals, spin, x, y, z, rows, S, G):
    """Set ``rows`` (5, M) to values, gradients and Laplacians; ``S`` (9,) and ``G`` (9, 3) are work space."""
    coefficients = orbitals.coefficients[spin]
    M = rows.shape[1]
    for k in range(5):
        for o in range(M):
            rows[k, o] = 0.0
    atom = -1
    dx = dy = dz = r = over = 0.0
    for s in range(orbitals.shell_l.shape[0]):
        if orbitals.shell_atom[s] != atom:
            atom = orbitals.shell_atom[s]
            dx, dy, dz = x - orbitals.atom[atom, 0], y - orbitals.atom[atom, 1], z - orbitals.atom[atom, 2]
            r = math.sqrt(dx * dx + dy * dy + dz * dz)
            over = 1.0 / max(r, TINY)
        if r >= orbitals.reach[s]:
            continue
        i, t, inverse_h = locate(r)
        c = orbitals.table[s, i]
        R = c[0] + t * (c[1] + t * (c[2] + t * (c[3] + t * (c[4] + t * c[5]))))
        dR = inverse_h * (c[1] + t * (2.0 * c[2] + t * (3.0 * c[3] + t * (4.0 * c[4] + t * 5.0 * c[5]))))
        ddR = inverse_h * inverse_h * (2.0 * c[2] + t * (6.0 * c[3] + t * (12.0 * c[4] + t * 20.0 * c[5])))
        l, b = orbitals.shell_l[s], orbitals.shell_first[s]
        slope = dR * over
        bend = ddR + 2.0 * (l + 1) * slope
        _harmonic_gradients(l, dx, dy, dz, S, G)
        for m in range(2 * l + 1):
            v = R * S[m]
            gx = slope * dx * S[m] + R * G[m, 0]
            gy = slope * dy * S[m] + R * G[m, 1]
            gz = slope * dz * S[m] + R * G[m, 2]
            lap = bend * S[m]
            for o in range(M):
                c0 = coefficients[b + m, o]
                rows[0, o] += v * c0
                rows[1, o] += gx * c0
                rows[2, o] += gy * c0
                rows[3, o] += gz * c0
                rows[4, o] += lap * c0


@nb.njit(**JIT)
def _rows_of_points(orbitals, spin, points, out, S, G):
    """Rows at many points, for tests and set-up: (k, 3) to (k, 5, M)."""
    for k in range(points.shape[0]):
        orbital_rows(orbitals, spin, points[k, 0], points[k, 1], points[k, 2], out[k], S, G)
