"""Bloch orbitals at a point on the CPU: tricubic B-splines of one primitive cell with phases, or plane waves."""

from __future__ import annotations

import math

import numba as nb
import numpy as np
from numba import types

from qsim.core.device.jit import apart
from qsim.qmc.kernels.common.jit import INLINE, JIT
from qsim.qmc.kernels.crystal.muffin_tins_cpu import blend_tin, locate_tin, tin_sums
from qsim.qmc.kernels.crystal.types import MIXED, WAVES

__all__ = ["bloch_ratio", "bloch_rows", "bloch_sums", "bloch_values"]

TWO_PI = 2.0 * math.pi
ONE, ALL = np.int64(1), np.int64(5)  # rows to set, not as literals: numba would compile a copy for each


@nb.njit(**INLINE)
def spline_weights(t, n, w):
    """Set w (3, 4): weights of the four coefficients around a place t of [0, 1), their first and second derivatives in u."""
    # Cubic B-spline: four basis functions at t, and their derivatives by u in [0, 1) with n points of
    # the mesh per period.
    s = 1.0 - t
    w[0, 0], w[0, 3] = s * s * s / 6.0, t * t * t / 6.0
    w[0, 1], w[0, 2] = (4.0 + t * t * (3.0 * t - 6.0)) / 6.0, (4.0 + s * s * (3.0 * s - 6.0)) / 6.0
    w[1, 0], w[1, 3] = -0.5 * n * s * s, 0.5 * n * t * t
    w[1, 1], w[1, 2] = 0.5 * n * t * (3.0 * t - 4.0), -0.5 * n * s * (3.0 * s - 4.0)
    w[2, 0], w[2, 3] = n * n * s, n * n * t
    w[2, 1], w[2, 2] = n * n * (3.0 * t - 2.0), n * n * (3.0 * s - 2.0)


@nb.njit(**INLINE)
def locate_spline(orbitals, x, y, z, w):
    """Set the weights at a point; return the first coefficient of each axis and the numbers of its primitive cell."""
    # Coordinates in the primitive cell. The table has three more points for each axis, continued with
    # the phase of the k point, so that indices never wrap.
    A, table = orbitals.primitive, orbitals.table
    first, cell = (0, 0, 0), (0.0, 0.0, 0.0)
    u = (
        x * A[0, 0] + y * A[1, 0] + z * A[2, 0],
        x * A[0, 1] + y * A[1, 1] + z * A[2, 1],
        x * A[0, 2] + y * A[1, 2] + z * A[2, 2],
    )
    c0, c1, c2 = math.floor(u[0]), math.floor(u[1]), math.floor(u[2])
    n0, n1, n2 = table.shape[1] - 3, table.shape[2] - 3, table.shape[3] - 3
    # Rounding may put u - floor(u) at 1: the last interval is taken then.
    p0, p1, p2 = (u[0] - c0) * n0, (u[1] - c1) * n1, (u[2] - c2) * n2
    i0, i1, i2 = min(int(p0), n0 - 1), min(int(p1), n1 - 1), min(int(p2), n2 - 1)
    spline_weights(p0 - i0, n0, w[0])
    spline_weights(p1 - i1, n1, w[1])
    spline_weights(p2 - i2, n2, w[2])
    first, cell = (i0, i1, i2), (float(c0), float(c1), float(c2))
    return first, cell


@nb.njit(**INLINE)
def turn(orbitals, spin, cell, rows, sums):
    """Multiply the channels of each function by the phase of the primitive cell."""
    # Both spins have the same orbitals where there is one table.
    s = min(spin, orbitals.channel.shape[0] - 1)
    for p in range(orbitals.channel.shape[1]):
        kappa, c = orbitals.kappa[s, p], orbitals.channel[s, p]
        # psi(r + n) = exp(2 pi i kappa n) psi(r). A real function has cos = +-1, a complex one two
        # channels that turn into each other.
        angle = TWO_PI * (kappa[0] * cell[0] + kappa[1] * cell[1] + kappa[2] * cell[2])
        real = sums.dtype.type
        cosine, sine = real(math.cos(angle)), real(math.sin(angle))
        if orbitals.parts[s, p] == 1:
            for k in range(rows):
                sums[k, c] *= cosine
        elif orbitals.parts[s, p] == 2:
            for k in range(rows):
                a, b = sums[k, c], sums[k, c + 1]
                sums[k, c], sums[k, c + 1] = a * cosine - b * sine, a * sine + b * cosine


@apart(types.none, **JIT)
def wave_sums(orbitals, x, y, z, sums):
    """Set values, gradients and Laplacians of plane waves: 1, or cos kr and sin kr."""
    channel = orbitals.channel[0]
    # Waves are the only orbitals without a table: 1, or cos kr and sin kr side by side.
    for p in range(channel.shape[0]):
        k, c = orbitals.kappa[0, p], channel[p]
        if orbitals.parts[0, p] == 1:
            sums[0, c] = 1.0
            for j in range(1, 5):
                sums[j, c] = 0.0
            continue
        angle = k[0] * x + k[1] * y + k[2] * z
        cosine, sine = math.cos(angle), math.sin(angle)
        square = k[0] * k[0] + k[1] * k[1] + k[2] * k[2]
        sums[0, c], sums[0, c + 1] = cosine, sine
        for j in range(3):
            sums[1 + j, c], sums[1 + j, c + 1] = -k[j] * sine, k[j] * cosine
        sums[4, c], sums[4, c + 1] = -square * cosine, -square * sine


@apart(types.none, **JIT)
def spline_sums(orbitals, spin, x, y, z, sums, w):
    """Set ``sums`` (5, C) to values, gradients and Laplacians of all channels by splines."""
    # Sums are made in the precision of the table: its values are no better, and single precision
    # halves the memory that is read.
    real = sums.dtype.type
    first, cell = locate_spline(orbitals, x, y, z, w)
    table = orbitals.table[min(spin, orbitals.table.shape[0] - 1)]
    channels = table.shape[3]
    M = orbitals.metric
    # Laplacian in mesh coordinates: sum over the metric times second derivatives. Off-diagonal terms
    # come twice.
    m00, m11, m22 = real(M[0, 0]), real(M[1, 1]), real(M[2, 2])
    m01, m02, m12 = real(2.0 * M[0, 1]), real(2.0 * M[0, 2]), real(2.0 * M[1, 2])
    for j in range(5):
        for c in range(channels):
            sums[j, c] = real(0.0)
    wz, dz, hz = w[2, 0], w[2, 1], w[2, 2]
    # 16 lines of four coefficients along the last axis. For each line the sums over the four are made
    # once for value, slope and curvature along z, and then weighted by the products of the other
    # axes.
    for a in range(4):
        wa, da, ha = w[0, 0, a], w[0, 1, a], w[0, 2, a]
        for b in range(4):
            wb, db, hb = w[1, 0, b], w[1, 1, b], w[1, 2, b]
            v0, g0, g1 = wa * wb, da * wb, wa * db
            l0 = m00 * ha * wb + m11 * wa * hb + m01 * da * db
            l1 = m02 * da * wb + m12 * wa * db
            l2 = m22 * v0
            line = table[first[0] + a, first[1] + b]
            q0, q1, q2, q3 = line[first[2]], line[first[2] + 1], line[first[2] + 2], line[first[2] + 3]
            for c in range(channels):
                s = wz[0] * q0[c] + wz[1] * q1[c] + wz[2] * q2[c] + wz[3] * q3[c]
                d = dz[0] * q0[c] + dz[1] * q1[c] + dz[2] * q2[c] + dz[3] * q3[c]
                h = hz[0] * q0[c] + hz[1] * q1[c] + hz[2] * q2[c] + hz[3] * q3[c]
                sums[0, c] += v0 * s
                sums[1, c] += g0 * s
                sums[2, c] += g1 * s
                sums[3, c] += v0 * d
                sums[4, c] += l0 * s + l1 * d + l2 * h
    # Gradients by mesh coordinates become those by x, y, z.
    A = orbitals.primitive
    for c in range(channels):
        a0, a1, a2 = sums[1, c], sums[2, c], sums[3, c]
        for j in range(3):
            sums[1 + j, c] = real(A[j, 0]) * a0 + real(A[j, 1]) * a1 + real(A[j, 2]) * a2
    if orbitals.has_phase:
        turn(orbitals, spin, cell, ALL, sums)


@nb.njit(**INLINE)
def spline_values(orbitals, spin, x, y, z, sums, w):
    """Set ``sums[0]`` to the values of all channels by splines."""
    real = sums.dtype.type
    first, cell = locate_spline(orbitals, x, y, z, w)
    table = orbitals.table[min(spin, orbitals.table.shape[0] - 1)]
    channels = table.shape[3]
    for c in range(channels):
        sums[0, c] = real(0.0)
    wz = w[2, 0]
    for a in range(4):
        for b in range(4):
            # Values alone: one weight for each of the 64 coefficients.
            v = w[0, 0, a] * w[1, 0, b]
            v0, v1, v2, v3 = v * wz[0], v * wz[1], v * wz[2], v * wz[3]
            line = table[first[0] + a, first[1] + b]
            q0, q1, q2, q3 = line[first[2]], line[first[2] + 1], line[first[2] + 2], line[first[2] + 3]
            for c in range(channels):
                sums[0, c] += v0 * q0[c] + v1 * q1[c] + v2 * q2[c] + v3 * q3[c]
    if orbitals.has_phase:
        turn(orbitals, spin, cell, ONE, sums)


@nb.njit(**INLINE)
def mixed_sums(orbitals, spin, x, y, z, rows, sums, w):
    """Set ``rows`` (1 or 5) of ``sums`` by the mixed basis: tins around ions, splines between.

    Rows 5 to 9 of ``sums`` are those of a tin, 10 to 13 its harmonics, 14 to 16 the weights of its radial splines.
    """
    # Inside of the inner radius the tin alone, outside of the outer one splines alone, between them
    # both.
    tin, space = sums[5:10], sums[10:17]
    ion, dx, dy, dz, r, cell = locate_tin(orbitals, x, y, z)
    if ion >= 0 and r <= orbitals.tin_inner:
        tin_sums(orbitals, spin, ion, dx, dy, dz, r, rows, sums, space)
        if orbitals.has_phase:
            turn(orbitals, spin, cell, rows, sums)
        return
    # The number of rows is known to the compiler in each caller, so that one version of this function
    # serves values alone and all five rows.
    if rows == 1:
        spline_values(orbitals, spin, x, y, z, sums, w)
    else:
        spline_sums(orbitals, spin, x, y, z, sums, w)
    if ion >= 0:
        tin_sums(orbitals, spin, ion, dx, dy, dz, r, rows, tin, space)
        if orbitals.has_phase:
            turn(orbitals, spin, cell, rows, tin)
        blend_tin(orbitals, dx, dy, dz, r, rows, sums, tin)


@nb.njit(**INLINE)
def bloch_sums(basis, orbitals, spin, x, y, z, sums, w):
    """Set ``sums`` (5, C) to values, gradients (x, y, z) and Laplacians of all channels.

    ``basis`` is that of `basis_of`: the compiler leaves out the others.
    """
    # The length of the tuple is part of its type: one branch is compiled.
    if len(basis) == WAVES:
        wave_sums(orbitals, x, y, z, sums)
    elif len(basis) == MIXED:
        mixed_sums(orbitals, spin, x, y, z, ALL, sums, w)
    else:
        spline_sums(orbitals, spin, x, y, z, sums, w)


@nb.njit(**INLINE)
def bloch_values(basis, orbitals, spin, x, y, z, sums, w):
    """Set ``sums[0]`` to the values of all channels."""
    if len(basis) == WAVES:
        wave_sums(orbitals, x, y, z, sums)
    elif len(basis) == MIXED:
        mixed_sums(orbitals, spin, x, y, z, ONE, sums, w)
    else:
        spline_values(orbitals, spin, x, y, z, sums, w)


@nb.njit(**INLINE)
def bloch_rows(basis, orbitals, spin, x, y, z, rows, sums, w):
    """Set ``rows`` (5, M) to values, gradients and Laplacians of the orbitals of a spin."""
    bloch_sums(basis, orbitals, spin, x, y, z, sums, w)
    # Two channels make one orbital of a complex determinant, one channel an orbital of a real one;
    # `unit` is (1, i) or (1, 0).
    stride = 1 + orbitals.is_complex
    one, other = orbitals.unit[0], orbitals.unit[1]
    for o in range(rows.shape[1]):
        a, b = stride * o, stride * o + orbitals.is_complex
        for j in range(5):
            rows[j, o] = sums[j, a] * one + sums[j, b] * other


@nb.njit(**INLINE)
def bloch_ratio(basis, orbitals, spin, x, y, z, column, n, sums, w):
    """Return the sum of the values of the first n orbitals with ``column``: the ratio of two determinants."""
    bloch_values(basis, orbitals, spin, x, y, z, sums, w)
    stride = 1 + orbitals.is_complex
    one, other = orbitals.unit[0], orbitals.unit[1]
    ratio = one * 0.0
    for o in range(n):
        a, b = stride * o, stride * o + orbitals.is_complex
        ratio += (sums[0, a] * one + sums[0, b] * other) * column[o]
    return ratio
