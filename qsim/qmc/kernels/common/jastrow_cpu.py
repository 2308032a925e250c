"""One Jastrow function at one distance, on the CPU."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from qsim.qmc.kernels.common.jit import INLINE

__all__ = ["BSPLINE", "NONE", "PADE", "SIXTH", "TINY", "function", "function_value"]

NONE, BSPLINE, PADE, LOGARITHM = 0, 1, 2, 3
TINY = 1e-12  # bohr: least distance that slopes are divided by
SIXTH = 1.0 / 6.0
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
