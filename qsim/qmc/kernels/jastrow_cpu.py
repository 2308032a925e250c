"""Jastrow functions on the CPU: one distance, one electron, all pairs."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from qsim.core.device.vectors import get, lanes, pack, same, total
from qsim.qmc.kernels.jit import INLINE

__all__ = ["electron_gradient", "electron_value", "function", "function_value"]

BSPLINE, PADE, LOGARITHM = 1, 2, 3
TINY = 1e-12
SIXTH = 1.0 / 6.0
FEW = 4  # electrons and ions up to which vectors cost more than they save
#: Coefficients of 1, t, t^2 and t^3 in the four basis functions of a cubic spline.
ROW0, ROW1 = (SIXTH, 4.0 * SIXTH, SIXTH, 0.0), (-0.5, 0.0, 0.5, 0.0)
ROW2, ROW3 = (0.5, -1.0, 0.5, 0.0), (-SIXTH, 0.5, -0.5, SIXTH)
I1, I2, I3 = np.uint64(1), np.uint64(2), np.uint64(3)  # indices without a sign need no test for one


@nb.njit(**INLINE)
def function_value(jastrow, f, r):
    """Return u(r) of function f; psi has exp(-u)."""
    kind = jastrow.kind[f]
    if kind == BSPLINE:
        if not r < jastrow.rcut[f]:
            return 0.0
        x = r * jastrow.inverse_h[f]
        k = int(x)
        i = np.uint64(k)
        t = x - k
        s = 1.0 - t
        tt, ss = t * t, s * s
        c = jastrow.spline[f]
        a, b, d, e = c[i], c[i + I1], c[i + I2], c[i + I3]
        return SIXTH * (
            a * (ss * s) + b * (4.0 + tt * (3.0 * t - 6.0)) + d * (4.0 + ss * (3.0 * s - 6.0)) + e * (tt * t)
        )
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
        if not r < jastrow.rcut[f]:
            return 0.0, 0.0, 0.0
        inverse_h = jastrow.inverse_h[f]
        x = r * inverse_h
        k = int(x)
        i = np.uint64(k)
        t = x - k
        c = jastrow.spline[f]
        a, b, d, e = c[i], c[i + I1], c[i + I2], c[i + I3]
        p = 0.5 * (d - a)  # u = (a + 4 b + d) / 6 + p t + q t^2 + s t^3
        q = 0.5 * (a + d) - b
        s = SIXTH * (e - a) + 0.5 * (b - d)
        u = SIXTH * (a + 4.0 * b + d) + t * (p + t * (q + t * s))
        du = inverse_h * (p + t * (2.0 * q + 3.0 * s * t))
        ddu = inverse_h * inverse_h * (2.0 * q + 6.0 * s * t)
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
def _spline(jastrow, f, r):
    """Return the four coefficients of a spline at r, as a vector, and where r lies between its knots."""
    x = r * jastrow.inverse_h[f]
    k = int(x)
    return lanes(jastrow.spline, f * jastrow.spline.shape[1] + k), x - k


@nb.njit(**INLINE)
def _partner(jastrow, atom, R, e, n_up, j, x, y, z):
    """Return the function of electron e and its partner j, electrons first and then ions, and the way from j to (x, y, z)."""
    N = R.shape[0]
    if j < N:
        f = 0 if (j < n_up) == (e < n_up) else 1
        return f, x - get(R, 3 * j), y - get(R, 3 * j + 1), z - get(R, 3 * j + 2)
    a = j - N
    return (
        2 + get(jastrow.species, a),
        x - get(atom, 3 * a),
        y - get(atom, 3 * a + 1),
        z - get(atom, 3 * a + 2),
    )


@nb.njit(**INLINE)
def electron_value(jastrow, atom, R, e, n_up, x, y, z):
    """Return the sum of all functions of electron e if it were at (x, y, z).

    Four coefficients times four basis functions of each spline are summed as they are, and only the last sum over all.
    """
    b0, b1, b2, b3 = pack(*ROW0), pack(*ROW1), pack(*ROW2), pack(*ROW3)
    N, others = R.shape[0], 0.0
    sums = same(0.0)
    pairs = jastrow.kind[0] != 0 or jastrow.kind[1] != 0
    many = N + atom.shape[0] > FEW
    for j in range(0 if pairs else N, N + atom.shape[0]):
        if j == e:
            continue
        f, dx, dy, dz = _partner(jastrow, atom, R, e, n_up, j, x, y, z)
        r = math.sqrt(dx * dx + dy * dy + dz * dz)
        if not many or get(jastrow.kind, f) != BSPLINE:
            others += function_value(jastrow, f, r)
        elif r < get(jastrow.rcut, f):
            c, t = _spline(jastrow, f, r)
            sums = sums + c * (b0 + t * (b1 + t * (b2 + t * b3)))
    return others + total(sums) if many else others


@nb.njit(**INLINE)
def electron_gradient(jastrow, atom, R, e, n_up, x, y, z):
    """Return sum, gradient (x, y, z) and Laplacian of all functions of electron e if it were at (x, y, z)."""
    b0, b1, b2, b3 = pack(*ROW0), pack(*ROW1), pack(*ROW2), pack(*ROW3)
    u = gx = gy = gz = lap = 0.0
    values = slopes_x = slopes_y = slopes_z = laplacians = same(0.0)
    N = R.shape[0]
    pairs = jastrow.kind[0] != 0 or jastrow.kind[1] != 0
    many = N + atom.shape[0] > FEW
    for j in range(0 if pairs else N, N + atom.shape[0]):
        if j == e:
            continue
        f, dx, dy, dz = _partner(jastrow, atom, R, e, n_up, j, x, y, z)
        r = max(math.sqrt(dx * dx + dy * dy + dz * dz), TINY)
        if not many or get(jastrow.kind, f) != BSPLINE:
            value, du, ddu = function(jastrow, f, r)
            slope = du / r
            u += value
            gx += slope * dx
            gy += slope * dy
            gz += slope * dz
            lap += ddu + 2.0 * slope
        elif r < get(jastrow.rcut, f):
            c, t = _spline(jastrow, f, r)
            inverse_h = get(jastrow.inverse_h, f)
            values = values + c * (b0 + t * (b1 + t * (b2 + t * b3)))
            slopes = (inverse_h / r) * (c * (b1 + t * (2.0 * b2 + (3.0 * t) * b3)))
            slopes_x = slopes_x + dx * slopes
            slopes_y = slopes_y + dy * slopes
            slopes_z = slopes_z + dz * slopes
            laplacians = (
                laplacians + (inverse_h * inverse_h) * (c * (2.0 * b2 + (6.0 * t) * b3)) + 2.0 * slopes
            )
    if not many:
        return u, gx, gy, gz, lap
    return (
        u + total(values),
        gx + total(slopes_x),
        gy + total(slopes_y),
        gz + total(slopes_z),
        lap + total(laplacians),
    )
