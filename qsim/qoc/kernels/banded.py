"""Twisted LDL^T factorisation of pentadiagonal Crank-Nicolson matrices, in SIMD lanes (CPU).

``U = I + i half (diag(h - mu eps) + o1 (shift one) + o2 (shift two))`` is complex symmetric and equals the identity plus
``i`` times a real symmetric matrix, so every pivot has a real part of at least one: no pivoting is needed.  Rows are
eliminated from both ends to a 2x2 system in the middle, which leaves two independent recurrences to run at once.

From either end, with ``l1``, ``l2`` the two sub-diagonals of L and ``D`` the inverse pivots,

    l2_i = i a2 D_{i-2},  n_i = i (a1 - a2 l1_{i-1}),  l1_i = n_i D_{i-1},  1/D_i = 1 + i b_i - n_i l1_i - i a2 l2_i,

where ``a = half * o`` and ``b = half (h - mu eps)``.  Only ``D`` and ``l1`` are kept.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from qsim.core.device.jit import PART as _PART

# Matrices factorised side by side: one AVX-512 register of doubles.
LANES = 8
# Two rows on either side of the middle pair.
MIN_POINTS = 6
JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
PART: dict[str, Any] = {**JIT, **_PART}
"""Options of functions that only kernels call."""


@nb.njit(**JIT)
def factor_shape(points):
    """Shape of the factor array: (lanes, rows from either end + padding, 8).

    The padding keeps the lanes off multiples of 4096 bytes, where stores would be mistaken for later loads.
    """
    rows = points - 2 - (points - 2) // 2 + 1
    return LANES, (rows + 63) // 64 * 64 + 9, 8


@nb.njit(**PART)
def _eliminate_row(s, b, m, c1, a2):
    """Advance the elimination of all lanes by one row.

    One flat array holds the state (lanes of D_{i-1}, D_{i-2}, l1, eps): with a single base pointer the compiler can prove
    that the lanes are independent and emits vector instructions.
    """
    # Real arithmetic throughout, real and imaginary parts in arrays of their own: complex numbers of numba would
    # interleave them, and no vector instruction would come out.
    a22 = a2 * a2
    for w in range(LANES):
        # n_i = i (a1 - a2 l1_{i-1}); the first row has no neighbour, for it c1 is zero
        nr = a2 * s[5 * LANES + w]
        ni = c1 - a2 * s[4 * LANES + w]
        dr = s[w]
        di = s[LANES + w]
        # l1_i = n_i D_{i-1}
        tr = nr * dr - ni * di
        ti = nr * di + ni * dr
        # 1/D_i = 1 + i b_i - n_i l1_i + a2^2 D_{i-2}: the last term is -i a2 l2_i
        xr = 1.0 + a22 * s[2 * LANES + w] - (nr * tr - ni * ti)
        xi = (b - m * s[6 * LANES + w]) + a22 * s[3 * LANES + w] - (nr * ti + ni * tr)
        # D_i is its inverse, |1/D_i| >= 1; the state moves on by one row
        q = 1.0 / (xr * xr + xi * xi)
        s[2 * LANES + w] = dr
        s[3 * LANES + w] = di
        s[w] = xr * q
        s[LANES + w] = -xi * q
        s[4 * LANES + w] = tr
        s[5 * LANES + w] = ti


@nb.njit(**JIT)
def factor(h, mu, eps, half, o1, o2, fac, middle, s, left):
    """Factorise ``LANES`` matrices from both ends.

    Parameters
    ----------
    h, mu : (L,) float64
        Diagonal of the field-free Hamiltonian (hartree) and dipole (a.u.).
    eps : (LANES,) float64
        Field of each lane, a.u.
    half : float
        ``tau / 2``.
    o1, o2 : float
        First and second off-diagonal of the Hamiltonian, hartree.
    fac : (LANES, >= rows, 8) float64, out
        ``D_i`` and ``l1_i`` (real, imaginary) from the top, then the same from the bottom.
    middle : (LANES, 6) float64, out
        Inverse of the 2x2 system of the middle rows: entries pp, pq, qq as real and imaginary parts.
    s, left : (7 * LANES,), (2, 6, LANES) float64
        Workspaces.
    """
    size = h.shape[0]
    p = (size - 2) // 2
    a1 = half * o1
    a2 = half * o2
    a22 = a2 * a2
    # From the top down to row p - 1, then from the bottom up to row p + 2: the two halves know nothing of each
    # other.
    for side in range(2):
        count = p if side == 0 else size - 2 - p
        c1 = 0.0
        # no rows lie before the first one; the fields take the last part of the state
        s[: 6 * LANES] = 0.0
        for w in range(LANES):
            s[6 * LANES + w] = eps[w]
        for i in range(count):
            # the off-diagonals are the same in every row, so the same step serves both ends
            row = i if side == 0 else size - 1 - i
            _eliminate_row(s, half * h[row], half * mu[row], c1, a2)
            for w in range(LANES):
                fac[w, i, 4 * side] = s[w]
                fac[w, i, 4 * side + 1] = s[LANES + w]
                fac[w, i, 4 * side + 2] = s[4 * LANES + w]
                fac[w, i, 4 * side + 3] = s[5 * LANES + w]
            c1 = a1
        # what this end leaves on its near middle row, on the far one, and on their coupling
        for w in range(LANES):
            nr = a2 * s[5 * LANES + w]
            ni = c1 - a2 * s[4 * LANES + w]
            tr = nr * s[w] - ni * s[LANES + w]
            ti = nr * s[LANES + w] + ni * s[w]
            fac[w, count, 4 * side] = 0.0
            fac[w, count, 4 * side + 1] = 0.0
            fac[w, count, 4 * side + 2] = tr
            fac[w, count, 4 * side + 3] = ti
            left[side, 0, w] = a22 * s[2 * LANES + w] - (nr * tr - ni * ti)
            left[side, 1, w] = a22 * s[3 * LANES + w] - (nr * ti + ni * tr)
            left[side, 2, w] = a22 * s[w]
            left[side, 3, w] = a22 * s[LANES + w]
            left[side, 4, w] = a2 * ti
            left[side, 5, w] = -a2 * tr
    for w in range(LANES):
        # The Schur complement of the rows p and p + 1: its own entries, what the near end takes from the near row,
        # and the far end from the far one.
        ppr = 1.0 + left[0, 0, w] + left[1, 2, w]
        ppi = half * (h[p] - mu[p] * eps[w]) + left[0, 1, w] + left[1, 3, w]
        qqr = 1.0 + left[1, 0, w] + left[0, 2, w]
        qqi = half * (h[p + 1] - mu[p + 1] * eps[w]) + left[1, 1, w] + left[0, 3, w]
        pqr = left[0, 4, w] + left[1, 4, w]
        pqi = a1 + left[0, 5, w] + left[1, 5, w]
        # its inverse in closed form, since both rows are needed at once in `substitute`
        detr = ppr * qqr - ppi * qqi - (pqr * pqr - pqi * pqi)
        deti = ppr * qqi + ppi * qqr - 2.0 * pqr * pqi
        q = 1.0 / (detr * detr + deti * deti)
        detr = detr * q
        deti = -deti * q
        middle[w, 0] = qqr * detr - qqi * deti
        middle[w, 1] = qqr * deti + qqi * detr
        middle[w, 2] = -(pqr * detr - pqi * deti)
        middle[w, 3] = -(pqr * deti + pqi * detr)
        middle[w, 4] = ppr * detr - ppi * deti
        middle[w, 5] = ppr * deti + ppi * detr


@nb.njit(**JIT)
def substitute(f, mid, a2, pr, pi, xr, xi):
    """Solve ``U x = p`` with one lane of :func:`factor`, top and bottom recurrences interleaved.

    Parameters
    ----------
    f : (>= rows, 8) float64
        Factors of this lane.
    mid : (6,) float64
        Inverse of its middle system.
    a2 : float
        ``half * o2``.
    pr, pi : (L,) float64
        Right-hand side, kept.
    xr, xi : (L,) float64, out
        Solution; holds ``D y`` on the way.
    """
    size = pr.shape[0]
    p = (size - 2) // 2
    pb = size - 2 - p
    last = size - 1
    # Forward substitution: y = p - l1 y_{i-1} - l2 y_{i-2} from the top (y, z) and from the bottom (v, u).
    # The second sub-diagonal times y_{i-2} is i a2 D_{i-2} y_{i-2}, so that z = D y is kept of the last two rows
    # instead of l2.
    # Two chains of dependent multiplications run in turn: each hides the latency of the other.
    y1r = y1i = z1r = z1i = z2r = z2i = 0.0
    v1r = v1i = u1r = u1i = u2r = u2i = 0.0
    for i in range(p):
        tr = f[i, 2]
        ti = f[i, 3]
        yr = (pr[i] + a2 * z2i) - tr * y1r + ti * y1i
        yi = (pi[i] - a2 * z2r) - tr * y1i - ti * y1r
        z2r = z1r
        z2i = z1i
        z1r = yr * f[i, 0] - yi * f[i, 1]
        z1i = yr * f[i, 1] + yi * f[i, 0]
        y1r = yr
        y1i = yi
        xr[i] = z1r
        xi[i] = z1i
        k = last - i
        tr = f[i, 6]
        ti = f[i, 7]
        yr = (pr[k] + a2 * u2i) - tr * v1r + ti * v1i
        yi = (pi[k] - a2 * u2r) - tr * v1i - ti * v1r
        u2r = u1r
        u2i = u1i
        u1r = yr * f[i, 4] - yi * f[i, 5]
        u1i = yr * f[i, 5] + yi * f[i, 4]
        v1r = yr
        v1i = yi
        xr[k] = u1r
        xi[k] = u1i
    # an odd number of rows: one more from the bottom
    if pb > p:
        k = last - p
        tr = f[p, 6]
        ti = f[p, 7]
        yr = (pr[k] + a2 * u2i) - tr * v1r + ti * v1i
        yi = (pi[k] - a2 * u2r) - tr * v1i - ti * v1r
        u2r = u1r
        u2i = u1i
        u1r = yr * f[p, 4] - yi * f[p, 5]
        u1i = yr * f[p, 5] + yi * f[p, 4]
        v1r = yr
        v1i = yi
        xr[k] = u1r
        xi[k] = u1i
    # The two rows in the middle: each takes what its own end leaves, and z of the row next to it on the other side.
    tr = f[p, 2]
    ti = f[p, 3]
    br = pr[p] + a2 * z2i - tr * y1r + ti * y1i + a2 * u1i
    bi = pi[p] - a2 * z2r - tr * y1i - ti * y1r - a2 * u1r
    tr = f[pb, 6]
    ti = f[pb, 7]
    cr = pr[p + 1] + a2 * u2i - tr * v1r + ti * v1i + a2 * z1i
    ci = pi[p + 1] - a2 * u2r - tr * v1i - ti * v1r - a2 * z1r
    # their solution by the inverse of the 2x2 system
    x1r = mid[0] * br - mid[1] * bi + mid[2] * cr - mid[3] * ci
    x1i = mid[0] * bi + mid[1] * br + mid[2] * ci + mid[3] * cr
    w1r = mid[2] * br - mid[3] * bi + mid[4] * cr - mid[5] * ci
    w1i = mid[2] * bi + mid[3] * br + mid[4] * ci + mid[5] * cr
    xr[p] = x1r
    xi[p] = x1i
    xr[p + 1] = w1r
    xi[p + 1] = w1i
    # Back substitution from the middle outwards, x_i = D y - l1 x_{i+1} - a2 i D x_{i+2}: the row above the pair
    # sees row p first, the row below it row p + 1.
    x2r = w1r
    x2i = w1i
    w2r = x1r
    w2i = x1i
    if pb > p:
        k = last - p
        tr = f[p + 1, 6]
        ti = f[p + 1, 7]
        dr = f[p, 4] * a2
        di = f[p, 5] * a2
        cr = (xr[k] + dr * w2i + di * w2r) - tr * w1r + ti * w1i
        ci = (xi[k] - dr * w2r + di * w2i) - tr * w1i - ti * w1r
        w2r = w1r
        w2i = w1i
        w1r = cr
        w1i = ci
        xr[k] = cr
        xi[k] = ci
    # the halves are again independent, and again taken in turn
    for i in range(p - 1, -1, -1):
        tr = f[i + 1, 2]
        ti = f[i + 1, 3]
        dr = f[i, 0] * a2
        di = f[i, 1] * a2
        br = (xr[i] + dr * x2i + di * x2r) - tr * x1r + ti * x1i
        bi = (xi[i] - dr * x2r + di * x2i) - tr * x1i - ti * x1r
        x2r = x1r
        x2i = x1i
        x1r = br
        x1i = bi
        xr[i] = br
        xi[i] = bi
        k = last - i
        tr = f[i + 1, 6]
        ti = f[i + 1, 7]
        dr = f[i, 4] * a2
        di = f[i, 5] * a2
        cr = (xr[k] + dr * w2i + di * w2r) - tr * w1r + ti * w1i
        ci = (xi[k] - dr * w2r + di * w2i) - tr * w1i - ti * w1r
        w2r = w1r
        w2i = w1i
        w1r = cr
        w1i = ci
        xr[k] = cr
        xi[k] = ci


@nb.njit(**JIT)
def split_rows(count, size):
    """Return zeros of shape (count, size) whose rows do not lie a multiple of 4096 bytes apart."""
    pitch = (size + 511) // 512 * 512 + 88
    return np.zeros((count, pitch))[:, :size]
