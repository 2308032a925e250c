"""Jastrow functions on the CPU: one distance, one electron, all pairs."""

from __future__ import annotations

import math

import numba as nb

from qsim.qmc.kernels.jit import INLINE

__all__ = ["electron_gradient", "electron_value", "function", "function_value"]

BSPLINE, PADE, LOGARITHM = 1, 2, 3
TINY = 1e-12


@nb.njit(**INLINE)
def function_value(jastrow, f, r):
    """Return u(r) of function f; psi has exp(-u)."""
    kind = jastrow.kind[f]
    if kind == BSPLINE:
        if r >= jastrow.rcut[f]:
            return 0.0
        x = r * jastrow.inverse_h[f]
        i = int(x)
        t = x - i
        s = 1.0 - t
        c = jastrow.spline[f]
        return (
            c[i] * s * s * s
            + c[i + 1] * (4.0 + t * t * (3.0 * t - 6.0))
            + c[i + 2] * (4.0 + s * s * (3.0 * s - 6.0))
            + c[i + 3] * t * t * t
        ) / 6.0
    if kind == PADE:
        return -jastrow.pade[f, 0] * r / (1.0 + jastrow.pade[f, 1] * r)
    if kind == LOGARITHM:
        return -math.log(1.0 + jastrow.pade[f, 0] * r)
    return 0.0


@nb.njit(**INLINE)
def function(jastrow, f, r):
    """Return u, u' and u'' of function f at r."""
    kind = jastrow.kind[f]
    if kind == BSPLINE:
        if r >= jastrow.rcut[f]:
            return 0.0, 0.0, 0.0
        inverse_h = jastrow.inverse_h[f]
        x = r * inverse_h
        i = int(x)
        t = x - i
        s = 1.0 - t
        c = jastrow.spline[f]
        a, b, d, e = c[i], c[i + 1], c[i + 2], c[i + 3]
        u = (
            a * s * s * s
            + b * (4.0 + t * t * (3.0 * t - 6.0))
            + d * (4.0 + s * s * (3.0 * s - 6.0))
            + e * t * t * t
        ) / 6.0
        du = 0.5 * inverse_h * (-a * s * s + b * t * (3.0 * t - 4.0) - d * s * (3.0 * s - 4.0) + e * t * t)
        ddu = inverse_h * inverse_h * (a * s + b * (3.0 * t - 2.0) + d * (3.0 * s - 2.0) + e * t)
        return u, du, ddu
    if kind == PADE:
        a, b = jastrow.pade[f, 0], jastrow.pade[f, 1]
        q = 1.0 / (1.0 + b * r)
        return -a * r * q, -a * q * q, 2.0 * a * b * q * q * q
    if kind == LOGARITHM:
        a = jastrow.pade[f, 0]
        q = a / (1.0 + a * r)
        return -math.log(1.0 + a * r), -q, q * q
    return 0.0, 0.0, 0.0


@nb.njit(**INLINE)
def electron_value(jastrow, atom, R, e, n_up, x, y, z):
    """Return the sum of all functions of electron e if it were at (x, y, z)."""
    total = 0.0
    spin = e < n_up
    if jastrow.kind[0] != 0 or jastrow.kind[1] != 0:
        for j in range(R.shape[0]):
            if j != e:
                dx, dy, dz = x - R[j, 0], y - R[j, 1], z - R[j, 2]
                r = math.sqrt(dx * dx + dy * dy + dz * dz)
                total += function_value(jastrow, 0 if (j < n_up) == spin else 1, r)
    for a in range(atom.shape[0]):
        f = 2 + jastrow.species[a]
        if jastrow.kind[f] != 0:
            dx, dy, dz = x - atom[a, 0], y - atom[a, 1], z - atom[a, 2]
            total += function_value(jastrow, f, math.sqrt(dx * dx + dy * dy + dz * dz))
    return total


@nb.njit(**INLINE)
def electron_gradient(jastrow, atom, R, e, n_up, x, y, z):
    """Return sum, gradient (x, y, z) and Laplacian of all functions of electron e if it were at (x, y, z)."""
    total = gx = gy = gz = lap = 0.0
    spin = e < n_up
    if jastrow.kind[0] != 0 or jastrow.kind[1] != 0:
        for j in range(R.shape[0]):
            if j != e:
                dx, dy, dz = x - R[j, 0], y - R[j, 1], z - R[j, 2]
                r = max(math.sqrt(dx * dx + dy * dy + dz * dz), TINY)
                u, du, ddu = function(jastrow, 0 if (j < n_up) == spin else 1, r)
                total += u
                slope = du / r
                gx += slope * dx
                gy += slope * dy
                gz += slope * dz
                lap += ddu + 2.0 * slope
    for a in range(atom.shape[0]):
        f = 2 + jastrow.species[a]
        if jastrow.kind[f] != 0:
            dx, dy, dz = x - atom[a, 0], y - atom[a, 1], z - atom[a, 2]
            r = max(math.sqrt(dx * dx + dy * dy + dz * dz), TINY)
            u, du, ddu = function(jastrow, f, r)
            total += u
            slope = du / r
            gx += slope * dx
            gy += slope * dy
            gz += slope * dz
            lap += ddu + 2.0 * slope
    return total, gx, gy, gz, lap
