"""Bloch functions in muffin tins on the CPU: radial splines times real solid harmonics, and the passage into B-splines."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from qsim.qmc.kernels.common.jit import INLINE, JIT, PART

__all__ = ["blend_tin", "locate_tin", "tin_sums"]

TINY = 1e-12  # bohr


@nb.njit(**INLINE)
def locate_tin(orbitals, x, y, z):
    """Return the ion (-1: none), the vector from its nearest image, its length, and the numbers of its primitive cell."""
    # Tins do not overlap: the first ion whose image is within the outer radius is the one.
    A, near = orbitals.primitive, orbitals.tin_near
    found, r = -1, 0.0
    dx = dy = dz = n0 = n1 = n2 = 0.0
    limit = orbitals.tin_outer * orbitals.tin_outer
    for i in range(orbitals.tin_centre.shape[0]):
        ox, oy, oz = (
            x - orbitals.tin_centre[i, 0],
            y - orbitals.tin_centre[i, 1],
            z - orbitals.tin_centre[i, 2],
        )
        B, C = orbitals.tin_reduced, orbitals.tin_unreduce
        # Fold into the reduced cell, then try the few lattice vectors that can bring the point
        # closer.
        m0 = np.rint(ox * C[0, 0] + oy * C[1, 0] + oz * C[2, 0])
        m1 = np.rint(ox * C[0, 1] + oy * C[1, 1] + oz * C[2, 1])
        m2 = np.rint(ox * C[0, 2] + oy * C[1, 2] + oz * C[2, 2])
        fx = ox - (m0 * B[0, 0] + m1 * B[1, 0] + m2 * B[2, 0])
        fy = oy - (m0 * B[0, 1] + m1 * B[1, 1] + m2 * B[2, 1])
        fz = oz - (m0 * B[0, 2] + m1 * B[1, 2] + m2 * B[2, 2])
        for k in range(near.shape[0]):
            px, py, pz = fx + near[k, 0], fy + near[k, 1], fz + near[k, 2]
            square = px * px + py * py + pz * pz
            if square < limit:
                found, r = i, max(math.sqrt(square), TINY)
                dx, dy, dz = px, py, pz
                # The lattice vector between the point and its tin, as three whole numbers: the phase
                # of the functions there.
                tx, ty, tz = ox - px, oy - py, oz - pz
                n0 = np.rint(tx * A[0, 0] + ty * A[1, 0] + tz * A[2, 0])
                n1 = np.rint(tx * A[0, 1] + ty * A[1, 1] + tz * A[2, 1])
                n2 = np.rint(tx * A[0, 2] + ty * A[1, 2] + tz * A[2, 2])
                return found, dx, dy, dz, r, (n0, n1, n2)
    return found, dx, dy, dz, r, (n0, n1, n2)


@nb.njit(**JIT)
def harmonics(lmax, x, y, z, S):
    """Set S (4, (lmax + 1)^2) to real solid harmonics and their gradients, m ascending from -l.

    ``S_lm = N_lm P_lm(z, r^2) Re or Im (x + i y)^|m|``; P and its derivatives by z and by r^2 follow one recurrence in l.
    """
    # P_lm(z, r^2) and its derivatives by z and by r^2 follow from l - 1 and l - 2, beginning with
    # P_mm = (2m - 1)!!, and (x + i y)^m by products: no trigonometric functions, and no division by
    # r.
    rr = x * x + y * y + z * z
    a, b, la, lb = 1.0, 0.0, 0.0, 0.0  # (x + i y)^m and the power below it
    diagonal = 1.0
    for m in range(lmax + 1):
        p1 = d1 = e1 = 0.0
        p0, d0, e0 = diagonal, 0.0, 0.0
        for l in range(m, lmax + 1):
            if l > m:
                q = 1.0 / (l - m)
                p2, d2, e2 = p1, d1, e1
                p1, d1, e1 = p0, d0, e0
                u, v = (2 * l - 1) * q, (l + m - 1) * q
                p0 = u * z * p1 - v * rr * p2
                d0 = u * (p1 + z * d1) - v * rr * d2
                e0 = u * z * e1 - v * (p2 + rr * e2)
            # Normalised so that the integral of S^2 over the unit sphere is 1; m > 0 come as cosine
            # and sine with a factor sqrt(2).
            ratio = 1.0  # (l - m)! / (l + m)!
            for k in range(l - m + 1, l + m + 1):
                ratio /= k
            norm = math.sqrt((2 * l + 1) / (4.0 * math.pi) * ratio * (1.0 if m == 0 else 2.0))
            P, D, E = norm * p0, norm * d0, norm * e0
            c = l * l + l
            S[0, c + m] = a * P
            S[1, c + m] = m * la * P + 2.0 * x * a * E
            S[2, c + m] = -m * lb * P + 2.0 * y * a * E
            S[3, c + m] = a * (D + 2.0 * z * E)
            # The partner with -m: imaginary instead of real part of the power.
            if m > 0:
                S[0, c - m] = b * P
                S[1, c - m] = m * lb * P + 2.0 * x * b * E
                S[2, c - m] = m * la * P + 2.0 * y * b * E
                S[3, c - m] = b * (D + 2.0 * z * E)
        # The next power of x + i y, and the one below it for gradients.
        la, lb = a, b
        a, b = la * x - lb * y, la * y + lb * x
        diagonal *= 2 * m + 1


@nb.njit(**INLINE)
def hermite(t, w):
    """Set w (3, 6): weights of value, slope and curvature at both ends of [0, 1), and those of two derivatives."""
    # Quintic Hermite functions: value, slope and curvature at t = 0 (0, 1, 2) and at t = 1 (3, 4, 5).
    # Radial functions are then twice continuously differentiable, as Laplacians need it.
    t2 = t * t
    t3 = t2 * t
    w[0, 3] = t3 * (10.0 + t * (6.0 * t - 15.0))
    w[0, 0] = 1.0 - w[0, 3]
    w[0, 1] = t + t3 * (-6.0 + t * (8.0 - 3.0 * t))
    w[0, 4] = t3 * (-4.0 + t * (7.0 - 3.0 * t))
    w[0, 2] = 0.5 * t2 * (1.0 + t * (-3.0 + t * (3.0 - t)))
    w[0, 5] = 0.5 * t3 * (1.0 + t * (t - 2.0))
    w[1, 3] = 30.0 * t2 * (1.0 + t * (t - 2.0))
    w[1, 0] = -w[1, 3]
    w[1, 1] = 1.0 + t2 * (-18.0 + t * (32.0 - 15.0 * t))
    w[1, 4] = t2 * (-12.0 + t * (28.0 - 15.0 * t))
    w[1, 2] = 0.5 * t * (2.0 + t * (-9.0 + t * (12.0 - 5.0 * t)))
    w[1, 5] = 0.5 * t2 * (3.0 + t * (5.0 * t - 8.0))
    w[2, 3] = t * (60.0 + t * (120.0 * t - 180.0))
    w[2, 0] = -w[2, 3]
    w[2, 1] = t * (-36.0 + t * (96.0 - 60.0 * t))
    w[2, 4] = t * (-24.0 + t * (84.0 - 60.0 * t))
    w[2, 2] = 0.5 * (2.0 + t * (-18.0 + t * (36.0 - 20.0 * t)))
    w[2, 5] = 0.5 * t * (6.0 + t * (20.0 * t - 24.0))


@nb.njit(**PART)
def tin_sums(orbitals, spin, ion, x, y, z, r, rows, sums, space):
    """Set the first ``rows`` (1 or 5) of ``sums`` (5, C): values, gradients and Laplacians of all channels in a tin.

    ``space`` (7, at least (lmax + 1)^2 and 6) is for the harmonics with their gradients, and the weights of radial splines.
    """
    S, w = space[0:4], space[4:7]
    # Radial functions f_q of each harmonic q: psi = sum_q S_q f_q(r) with f = R / r^l, so that
    # nothing is divided by a power of r.
    real = sums.dtype.type
    lmax = orbitals.tin_lmax
    table = orbitals.tin_table[min(spin, orbitals.tin_table.shape[0] - 1), ion]
    last, channels = table.shape[0] - 1, table.shape[3]
    harmonics(lmax, x, y, z, S)
    scale = last / orbitals.tin_outer
    i = min(int(r * scale), last - 1)
    hermite(r * scale - i, w)
    for j in range(rows):
        for c in range(channels):
            sums[j, c] = real(0.0)
    # Derivatives by t become those by r; 1 / r is finite, since r is at least TINY.
    one, two = scale / r, scale * scale
    for l in range(lmax + 1):
        for q in range(l * l, (l + 1) * (l + 1)):
            # Both ends of the interval, for all channels side by side.
            a, b = table[i, q], table[i + 1, q]
            s = S[0, q]
            v0, v1, v2 = real(s * w[0, 0]), real(s * w[0, 1]), real(s * w[0, 2])
            v3, v4, v5 = real(s * w[0, 3]), real(s * w[0, 4]), real(s * w[0, 5])
            for c in range(channels):
                sums[0, c] += (
                    v0 * a[0, c] + v1 * a[1, c] + v2 * a[2, c] + v3 * b[0, c] + v4 * b[1, c] + v5 * b[2, c]
                )
            if rows == 1:
                continue
            # grad(S f) = f grad S + S f' r / |r|;  lap(S f) = S (f'' + 2 (l + 1) f' / r), since S is
            # harmonic of degree l.
            gx, gy, gz = real(S[1, q]), real(S[2, q]), real(S[3, q])
            sx, sy, sz = real(s * x * one), real(s * y * one), real(s * z * one)
            f0, f1 = real(s * two), real(2.0 * (l + 1) * s * one)
            for c in range(channels):
                a0, a1, a2, b0, b1, b2 = a[0, c], a[1, c], a[2, c], b[0, c], b[1, c], b[2, c]
                u = w[0, 0] * a0 + w[0, 1] * a1 + w[0, 2] * a2 + w[0, 3] * b0 + w[0, 4] * b1 + w[0, 5] * b2
                d = w[1, 0] * a0 + w[1, 1] * a1 + w[1, 2] * a2 + w[1, 3] * b0 + w[1, 4] * b1 + w[1, 5] * b2
                h = w[2, 0] * a0 + w[2, 1] * a1 + w[2, 2] * a2 + w[2, 3] * b0 + w[2, 4] * b1 + w[2, 5] * b2
                sums[1, c] += real(gx * u + sx * d)
                sums[2, c] += real(gy * u + sy * d)
                sums[3, c] += real(gz * u + sz * d)
                sums[4, c] += real(f0 * h + f1 * d)


@nb.njit(**INLINE)
def blend_tin(orbitals, x, y, z, r, rows, sums, tin):
    """Set ``sums`` (5, C), of splines, to the passage from those in a tin."""
    real = sums.dtype.type
    # psi = s + c(r) (tin - s) with a quintic c from 1 to 0 whose first two derivatives vanish at both
    # ends: the local energy has no step.
    width = orbitals.tin_outer - orbitals.tin_inner
    t = (r - orbitals.tin_inner) / width
    weight = real(1.0 - t * t * t * (10.0 - 15.0 * t + 6.0 * t * t))
    channels = orbitals.tin_table.shape[5]
    if rows == 1:
        for c in range(channels):
            sums[0, c] += weight * (tin[0, c] - sums[0, c])
        return
    # c' and c'' + 2 c' / r, for the product rule of gradient and Laplacian.
    slope = -30.0 * t * t * (1.0 - t) * (1.0 - t) / width
    bend = real(-60.0 * t * (1.0 - t) * (1.0 - 2.0 * t) / (width * width) + 2.0 * slope / r)
    sx, sy, sz = real(slope * x / r), real(slope * y / r), real(slope * z / r)
    for c in range(channels):
        v = tin[0, c] - sums[0, c]
        gx, gy, gz = tin[1, c] - sums[1, c], tin[2, c] - sums[2, c], tin[3, c] - sums[3, c]
        sums[0, c] += weight * v
        sums[1, c] += weight * gx + sx * v
        sums[2, c] += weight * gy + sy * v
        sums[3, c] += weight * gz + sz * v
        sums[4, c] += weight * (tin[4, c] - sums[4, c]) + real(2.0) * (sx * gx + sy * gy + sz * gz) + bend * v
