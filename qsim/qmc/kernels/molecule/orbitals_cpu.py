"""Molecular orbitals at a point, on the CPU: radial tables, solid harmonics, linear combinations."""

from __future__ import annotations

import math

import numba as nb
from numba import types

from qsim.core.device.cpu.vectors import get, lane, lanes, pack, put, root, same, wide
from qsim.core.device.jit import apart
from qsim.qmc.kernels.common.jit import INLINE, JIT
from qsim.qmc.kernels.common.radial_cpu import LARGEST, locate

__all__ = ["combinations", "orbital_rows", "own_radial"]

TINY = 1e-12  # bohr; closer to a nucleus the direction is lost, not the radius


@nb.njit(**INLINE)
def _slopes_of_harmonics(l, x, y, z, G):
    """Set ``G`` (2 l + 1, 4) to the gradients over l of the solid harmonics of l = 3 or 4, without their factors, and a zero."""
    xx, yy, zz = x * x, y * y, z * z
    if l == 3:
        # Gradients of the unnormalised harmonics of l = 3, m = -3 ... 3, divided by l: their product
        # with r gives the harmonic back (Euler), so that value and gradient need one set of numbers.
        third = 1.0 / 3.0
        put(G, 0, pack(2.0 * x * y, xx - yy, 0.0, 0.0))
        put(G, 4, pack(third * y * z, third * x * z, third * x * y, 0.0))
        put(
            G,
            8,
            pack(-2.0 * third * x * y, third * (4.0 * zz - xx - 3.0 * yy), 8.0 * third * y * z, 0.0),
        )
        put(G, 12, pack(-2.0 * x * z, -2.0 * y * z, 2.0 * zz - xx - yy, 0.0))
        put(
            G,
            16,
            pack(third * (4.0 * zz - 3.0 * xx - yy), -2.0 * third * x * y, 8.0 * third * x * z, 0.0),
        )
        put(G, 20, pack(2.0 * third * x * z, -2.0 * third * y * z, third * (xx - yy), 0.0))
        put(G, 24, pack(xx - yy, -2.0 * x * y, 0.0, 0.0))
        return
    # The same for l = 4, m = -4 ... 4, divided by 4.
    rr, difference = xx + yy + zz, xx - yy
    a, b, c = 7.0 * zz - rr, 7.0 * zz - 3.0 * rr, 3.0 * rr - 15.0 * zz
    put(G, 0, pack(0.25 * y * (3.0 * xx - yy), 0.25 * x * (xx - 3.0 * yy), 0.0, 0.0))
    put(G, 4, pack(1.5 * x * y * z, 0.75 * z * difference, 0.25 * y * (3.0 * xx - yy), 0.0))
    put(G, 8, pack(0.25 * y * (a - 2.0 * xx), 0.25 * x * (a - 2.0 * yy), 3.0 * x * y * z, 0.0))
    put(G, 12, pack(-1.5 * x * y * z, 0.25 * z * (b - 6.0 * yy), 0.25 * y * (b + 8.0 * zz), 0.0))
    put(G, 16, pack(x * c, y * c, z * (20.0 * zz - 12.0 * rr), 0.0))
    put(G, 20, pack(0.25 * z * (b - 6.0 * xx), -1.5 * x * y * z, 0.25 * x * (b + 8.0 * zz), 0.0))
    put(G, 24, pack(0.5 * x * (a - difference), -0.5 * y * (a + difference), 3.0 * z * difference, 0.0))
    put(G, 28, pack(0.75 * z * difference, -1.5 * x * y * z, 0.25 * x * (xx - 3.0 * yy), 0.0))
    put(G, 32, pack(x * (xx - 3.0 * yy), y * (yy - 3.0 * xx), 0.0, 0.0))


@nb.njit(**INLINE)
def _far(orbitals, first, last, r):
    """Tell whether all shells of an atom vanish at a distance."""
    # Tight shells end early: one look at their reaches spares the whole atom.
    for s in range(first, last):  # noqa: SIM110  # numba compiles no generators
        if r < get(orbitals.reach, s):
            return False
    return True


@nb.njit(**INLINE)
def _radial_of(orbitals, tables, first, last, blocks, r, out, at):
    """Set ``out[at ...]`` to the radial functions of an atom, four shells at once; tell whether one is not zero."""
    # Nothing reaches here, but the sums below still read these numbers: they must be zero, not old.
    if not r < LARGEST or _far(orbitals, first, last, r):
        for k in range(blocks):
            put(out, at + 4 * k, same(0.0))
        return False
    # All shells of an atom share the interval and the place in it, and lie side by side: four
    # quintics by Horner's rule at once, in the precision of the table.
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
def _radial_slopes(table, blocks, t, inverse_h, over, out):
    """Set ``out`` (blocks, 3, 4) to the radial functions R of an atom, R' / r and R'', in double precision."""
    for k in range(blocks):
        c = 24 * k
        # R, R' / r and R'' from the same six coefficients. Derivatives by t are turned into those by
        # r with the width of the interval; Laplacians need double precision, since R'' and 2 (l + 1)
        # R' / r cancel near nuclei.
        c0, c1, c2 = wide(lanes(table, c)), wide(lanes(table, c + 4)), wide(lanes(table, c + 8))
        c3, c4, c5 = wide(lanes(table, c + 12)), wide(lanes(table, c + 16)), wide(lanes(table, c + 20))
        value = c0 + t * (c1 + t * (c2 + t * (c3 + t * (c4 + t * c5))))
        slope = c1 + t * (2.0 * c2 + t * (3.0 * c3 + t * (4.0 * c4 + 5.0 * t * c5)))
        bend = 2.0 * c2 + t * (6.0 * c3 + t * (12.0 * c4 + 20.0 * t * c5))
        put(out, 12 * k, value)
        put(out, 12 * k + 4, (inverse_h * over) * slope)
        put(out, 12 * k + 8, inverse_h * inverse_h * bend)


@nb.njit(**INLINE)
def own_radial(orbitals, atom, r, radial):
    """Set the last of ``radial`` to the radial functions of an atom at a distance r, for :func:`combinations`."""
    first, last = get(orbitals.atom_begin, atom), get(orbitals.atom_begin, atom + 1)
    # Behind the four points of other atoms: the points of a rule are all at one distance from their
    # own ion, so its radial functions are made once.
    table = orbitals.side_by_side[get(orbitals.atom_kind, atom)]
    _radial_of(
        orbitals, table, first, last, (last - first + 3) // 4, r, radial, 16 * orbitals.side_by_side.shape[2]
    )


@nb.njit(**INLINE)
def combinations(orbitals, d, centre, x, y, z, work):
    """Return the sums of all atomic orbitals with coefficients ``d`` (B,) at four points, whose coordinates are vectors.

    They are at one distance from the atom ``centre``, for which :func:`own_radial` has been called.

    With the column of an electron summed into ``d`` it is the ratio of two determinants: one sum over the basis a point, and not
    one for every orbital.  Radial functions are evaluated in the precision of their tables.
    """
    total = same(0.0)
    radial, side_by_side = work.radial, orbitals.side_by_side
    width = 4 * side_by_side.shape[2]
    for atom in range(orbitals.atom.shape[0]):
        dx, dy, dz = x - orbitals.atom[atom, 0], y - orbitals.atom[atom, 1], z - orbitals.atom[atom, 2]
        first, last = get(orbitals.atom_begin, atom), get(orbitals.atom_begin, atom + 1)
        # The ion in the middle of the rule: one set of radial functions for all points.
        at, step = 4 * width, 0  # of the radial functions at the four points
        if atom != centre:
            at, step = 0, width
            # Any other atom: the four points have four distances, in four intervals of the table.
            distance = root(dx * dx + dy * dy + dz * dz)
            blocks = (last - first + 3) // 4
            table = side_by_side[get(orbitals.atom_kind, atom)]
            near = _radial_of(orbitals, table, first, last, blocks, lane(distance, 0), radial, 0)
            near |= _radial_of(orbitals, table, first, last, blocks, lane(distance, 1), radial, width)
            near |= _radial_of(orbitals, table, first, last, blocks, lane(distance, 2), radial, 2 * width)
            near |= _radial_of(orbitals, table, first, last, blocks, lane(distance, 3), radial, 3 * width)
            if not near:
                continue
        # Harmonics of d shells are shared by all of them on the atom; those of f and g shells are
        # rare and made where they are needed.
        put(work.here, 0, dx)
        put(work.here, 4, dy)
        put(work.here, 8, dz)
        sxy, syz, szx = dx * dy, dy * dz, dz * dx
        szz, sxx = 2.0 * dz * dz - dx * dx - dy * dy, dx * dx - dy * dy
        for k in range(last - first):
            here = at + k
            # One sum over m for a shell, times its radial function at each of the four points.
            R = pack(
                get(radial, here),
                get(radial, here + step),
                get(radial, here + 2 * step),
                get(radial, here + 3 * step),
            )
            l, b = get(orbitals.shell_l, first + k), get(orbitals.shell_first, first + k)
            if l == 0:
                part = same(get(d, b))
            elif l == 1:
                part = get(d, b) * dx + get(d, b + 1) * dy + get(d, b + 2) * dz
            elif l == 2:
                part = (
                    get(d, b) * sxy
                    + get(d, b + 1) * syz
                    + get(d, b + 2) * szz
                    + get(d, b + 3) * szx
                    + get(d, b + 4) * sxx
                )
            else:
                # read from memory: of a register the compiler makes these harmonics ahead, for atoms that have none, too
                hx, hy, hz = lanes(work.here, 0), lanes(work.here, 4), lanes(work.here, 8)
                part = _sum_of_harmonics(l, d, b, hx, hy, hz)
            total = total + R * part
    return total


@nb.njit(**INLINE)
def _sum_of_harmonics(l, d, b, x, y, z):
    """Return the sum over m of harmonics of l = 3 or 4 with coefficients ``d[b] ...`` at four points."""
    xx, yy, zz = x * x, y * y, z * z
    difference, h = xx - yy, 4.0 * zz - xx - yy
    if l == 3:
        part = get(d, b) * y * (3.0 * xx - yy) + get(d, b + 6) * x * (xx - 3.0 * yy)
        part = part + z * (get(d, b + 1) * x * y + get(d, b + 5) * difference)
        part = part + h * (get(d, b + 2) * y + get(d, b + 4) * x)
        return part + get(d, b + 3) * z * (2.0 * zz - 3.0 * xx - 3.0 * yy)
    rr = xx + yy + zz
    p, q = 7.0 * zz - rr, 7.0 * zz - 3.0 * rr
    part = get(d, b) * x * y * difference + get(d, b + 8) * (xx * (xx - 3.0 * yy) - yy * (3.0 * xx - yy))
    part = part + z * (get(d, b + 1) * y * (3.0 * xx - yy) + get(d, b + 7) * x * (xx - 3.0 * yy))
    part = part + p * (get(d, b + 2) * x * y + get(d, b + 6) * difference)
    part = part + z * q * (get(d, b + 3) * y + get(d, b + 5) * x)
    return part + get(d, b + 4) * (35.0 * zz * zz - 30.0 * zz * rr + 3.0 * rr * rr)


@apart(types.none, **JIT)
def orbital_rows(orbitals, spin, x, y, z, rows, work):
    """Set ``rows`` (5, 4 n) to values, gradients and Laplacians of the orbitals at a point, whose number is rounded up.

    The sum over m of the harmonics of a shell, A = r . B with B = grad A / l (Euler), is made for four orbitals at once; it adds
    R A to the value, ``(R' / r) A r + l R B`` to the gradient, ``(R'' + 2 (l + 1) R' / r) A`` to the Laplacian.  Sums are made in
    the precision of the rows.
    """
    side_by_side, radial = orbitals.side_by_side, work.radial
    real = rows.dtype.type
    M = rows.shape[1]
    # Sums over atoms are kept in the rows themselves, four orbitals in a vector.
    for k in range(5):
        for o in range(0, M, 4):
            put(rows, k * M + o, same(real(0.0)))
    for atom in range(orbitals.atom.shape[0]):
        dx, dy, dz = x - orbitals.atom[atom, 0], y - orbitals.atom[atom, 1], z - orbitals.atom[atom, 2]
        r = math.sqrt(dx * dx + dy * dy + dz * dz)
        first, last = get(orbitals.atom_begin, atom), get(orbitals.atom_begin, atom + 1)
        if not r < LARGEST or _far(orbitals, first, last, r):
            continue
        # The radial functions of all shells of the atom first: the loop over orbitals then has
        # nothing but products and sums.
        over = 1.0 / max(r, TINY)
        i, t, inverse_h = locate(r)
        table = side_by_side[get(orbitals.atom_kind, atom), i]
        put(work.here, 0, pack(dx, dy, dz, 0.0))
        _radial_slopes(table, (last - first + 3) // 4, t, inverse_h, over, radial)
        for o in range(0, M, 4):
            _add_atom(orbitals, spin, first, last, dx, dy, dz, o, rows, work)


@nb.njit(**INLINE)
def _add_atom(orbitals, spin, first, last, dx, dy, dz, o, rows, work):
    """Add the shells of an atom, whose radial functions are in ``work.radial``, to the rows of orbitals ``o ... o + 3``."""
    coefficients, radial, G = orbitals.padded, work.radial, work.G
    real = rows.dtype.type
    M = rows.shape[1]
    x, y, z = real(dx), real(dy), real(dz)
    # Five sums of four orbitals stay in registers for all shells of the atom, and `along` collects
    # the part of the gradient that points along r.
    value, laplacian = lanes(rows, o), lanes(rows, 4 * M + o)
    gx, gy, gz = lanes(rows, M + o), lanes(rows, 2 * M + o), lanes(rows, 3 * M + o)
    along = same(real(0.0))
    at = (spin * coefficients.shape[1] + get(orbitals.shell_first, first)) * M + o
    two = real(2.0)
    for k in range(last - first):
        l = get(orbitals.shell_l, first + k)
        here = 12 * (k // 4) + k % 4
        R, slope, bend = get(radial, here), get(radial, here + 4), get(radial, here + 8)
        # Laplacian of R r^l Y: (R'' + 2 (l + 1) R' / r) times the solid harmonic, which is harmonic
        # itself.
        turn = real(bend + (2.0 * l + 2.0) * slope)
        # B = grad A / l for the sum A over m of the harmonics of this shell, so that A = r . B.
        if l == 0:
            A = lanes(coefficients, at)
            at += M
        else:
            if l == 1:
                bx, by, bz = (
                    lanes(coefficients, at),
                    lanes(coefficients, at + M),
                    lanes(coefficients, at + 2 * M),
                )
            elif l == 2:
                xy, yz, zz = (
                    lanes(coefficients, at),
                    lanes(coefficients, at + M),
                    lanes(coefficients, at + 2 * M),
                )
                zx, xx = lanes(coefficients, at + 3 * M), lanes(coefficients, at + 4 * M)
                half = real(0.5)
                bx = (half * y) * xy + (half * z) * zx + x * (xx - zz)
                by = (half * x) * xy + (half * z) * yz - y * (xx + zz)
                bz = (half * y) * yz + (half * x) * zx + (two * z) * zz
            else:
                bx = by = bz = same(real(0.0))
                here = work.here  # read from memory for the reason given in `combinations`
                _slopes_of_harmonics(l, get(here, 0), get(here, 1), get(here, 2), G)
                for m in range(2 * l + 1):
                    c = lanes(coefficients, at + m * M)
                    bx = bx + real(get(G, 4 * m)) * c
                    by = by + real(get(G, 4 * m + 1)) * c
                    bz = bz + real(get(G, 4 * m + 2)) * c
            A = x * bx + y * by + z * bz
            weight = real(l * R)
            gx = gx + weight * bx
            gy = gy + weight * by
            gz = gz + weight * bz
            at += (2 * l + 1) * M
        value = value + real(R) * A
        along = along + real(slope) * A
        laplacian = laplacian + turn * A
    put(rows, o, value)
    put(rows, M + o, gx + x * along)
    put(rows, 2 * M + o, gy + y * along)
    put(rows, 3 * M + o, gz + z * along)
    put(rows, 4 * M + o, laplacian)
