"""Crank-Nicolson steps of eight overlapping chunks side by side in SIMD lanes: what the CPU twin of ``cn_steps`` is made of.

One elimination is a chain of divisions, some 40 cycles per row, however wide the processor; eight chunks in the lanes of one
register hide it.  A group of eight windows (chunk and halo) is copied into a scratch array in which the eight values of a row
lie next to each other, propagated for all steps of the pass, and copied back, so main memory is touched once per pass.
"""

from __future__ import annotations

from typing import Any

import numba as nb

from qsim.core.device.jit import PART as _PART

# one AVX-512 register of doubles
LANES = 8
# psi (re, im), V, W or mask, inverse pivot (re, im), reduced right-hand side (re, im), x
FIELDS = 9
ROW = FIELDS * LANES
JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
PART: dict[str, Any] = {**JIT, **_PART}


@nb.njit(**PART)
def _eliminate_three_point(s, field, shift, kappa, invs, tau_w, fr, fi):
    """Eliminate one row of the three-point system (Eq. T8) in all lanes."""
    # Eq. T8. `s` begins with the row before; this row follows at ROW. Divided by its off-diagonal size, a row
    # has exp(+-i theta) = fr +- i fi beside a diagonal of which kappa, shift and 1/sigma' are the numbers of
    # the step.
    # one flat array with constant offsets: with a single base pointer the compiler can prove that the lanes are independent
    for w in range(LANES):
        # pivot a = S_jj - 1/a(before), since the product of the two off-diagonals is 1
        ar = kappa * (s[ROW + 2 * LANES + w] + field * s[ROW + 8 * LANES + w] + shift) - s[4 * LANES + w]
        ai = (1.0 + tau_w * s[ROW + 3 * LANES + w]) * invs - s[5 * LANES + w]
        # |a| >= 1/sigma' > 0: no scaling is needed
        q = 1.0 / (ar * ar + ai * ai)
        # the lower off-diagonal carries conj(f)
        br = fr * s[4 * LANES + w] + fi * s[5 * LANES + w]
        bi = fr * s[5 * LANES + w] - fi * s[4 * LANES + w]
        dr = s[6 * LANES + w]
        di = s[7 * LANES + w]
        s[ROW + 4 * LANES + w] = ar * q
        s[ROW + 5 * LANES + w] = -ai * q
        s[ROW + 6 * LANES + w] = s[ROW + w] - (br * dr - bi * di)
        s[ROW + 7 * LANES + w] = s[ROW + LANES + w] - (br * di + bi * dr)


@nb.njit(**PART)
def _eliminate_numerov(s, field, sigma12, tau, tau_w, fr, fi):
    """Eliminate one row of the compact system (Eq. T9) in all lanes."""
    # twelve times T and M: 1, 10, 1 have no rounding errors, which would add up to a drift of the norm
    for w in range(LANES):
        # u of Eq. T9 and g = 1/u: |u| >= 1, since the absorber only adds to its real part
        ur = 1.0 + tau_w * s[ROW + 3 * LANES + w]
        ui = tau * (s[ROW + 2 * LANES + w] + field * s[ROW + 8 * LANES + w]) - sigma12
        g = 1.0 / (ur * ur + ui * ui)
        gr = ur * g
        gi = -ui * g
        # S_jj = 10 + 144 i sigma / u, less the inverse pivot of the row before (sigma12 = 12 sigma)
        ar = 10.0 - 12.0 * sigma12 * gi - s[4 * LANES + w]
        ai = 12.0 * sigma12 * gr - s[5 * LANES + w]
        q = 1.0 / (ar * ar + ai * ai)
        br = fr * s[4 * LANES + w] + fi * s[5 * LANES + w]
        bi = fr * s[5 * LANES + w] - fi * s[4 * LANES + w]
        dr = s[6 * LANES + w]
        di = s[7 * LANES + w]
        pr = s[ROW + w]
        pi = s[ROW + LANES + w]
        s[ROW + 4 * LANES + w] = ar * q
        s[ROW + 5 * LANES + w] = -ai * q
        # right side psi / u, less its part of the row before
        s[ROW + 6 * LANES + w] = (gr * pr - gi * pi) - (br * dr - bi * di)
        s[ROW + 7 * LANES + w] = (gr * pi + gi * pr) - (br * di + bi * dr)


@nb.njit(**PART)
def _substitute(s, fr, fi, own_r, own_i, next_to):
    """Substitute one row of either system, and finish psi' of the row after it."""
    # y of this row; then psi' = own y + next_to (sum of both neighbours) - psi of the row after it, which has them by now.
    # Both stencils share this form, although three_point has next_to = 0: it is large enough not to be unrolled to scalars.
    for w in range(LANES):
        zr = s[ROW + 6 * LANES + w]
        zi = s[ROW + 7 * LANES + w]
        tr = s[6 * LANES + w] - (fr * zr - fi * zi)
        ti = s[7 * LANES + w] - (fr * zi + fi * zr)
        qr = s[4 * LANES + w]
        qi = s[5 * LANES + w]
        yr = qr * tr - qi * ti
        yi = qr * ti + qi * tr
        s[6 * LANES + w] = yr
        s[7 * LANES + w] = yi
        xr = s[2 * ROW + 6 * LANES + w]
        xi = s[2 * ROW + 7 * LANES + w]
        sr = (fr * xr - fi * xi) + (fr * yr + fi * yi)
        si = (fr * xi + fi * xr) + (fr * yi - fi * yr)
        s[ROW + w] = own_r * zr - own_i * zi + next_to * sr - s[ROW + w]
        s[ROW + LANES + w] = own_r * zi + own_i * zr + next_to * si - s[ROW + LANES + w]


@nb.njit(**PART)
def _step(s, rows, step, tau, tau_w, sigma, numerov):
    """One step of all lanes; row 0 and the two rows after the last of the scratch are zero and stand for the outside."""
    if numerov:
        # psi' = 2 (12 M) y - psi with 12 M = (1, 10, 1)
        own_r, own_i, next_to = 20.0, 0.0, 2.0
        for k in range(rows):
            _eliminate_numerov(
                s[k * ROW : (k + 2) * ROW], step[0], 12.0 * sigma, tau, tau_w, step[4], step[5]
            )
    else:
        # psi' = (2 i / sigma') y - psi
        own_r, own_i, next_to = 0.0, 2.0 * step[3], 0.0
        for k in range(rows):
            _eliminate_three_point(
                s[k * ROW : (k + 2) * ROW], step[0], step[2], step[1], step[3], tau_w, step[4], step[5]
            )
    # from the last row up; the pass over row `rows` begins the recurrence with the zeros beyond it
    for k in range(rows, -1, -1):
        _substitute(s[k * ROW : (k + 3) * ROW], step[4], step[5], own_r, own_i, next_to)
    # what substitution has left in the rows that stand for the walls
    s[:ROW] = 0.0
    s[(rows + 1) * ROW : (rows + 3) * ROW] = 0.0


@nb.njit(**PART)
def _multiply_mask(s, rows):
    for k in range(1, rows + 1):
        here = k * ROW
        for w in range(LANES):
            m = s[here + 3 * LANES + w]
            s[here + w] *= m
            s[here + LANES + w] *= m


@nb.njit(**PART)
def _measure(s, rows, places, slope, xmin, dx, out):
    """Add the lanes' parts of sum |psi|^2, sum x |psi|^2, sum V' |psi|^2 into out (lanes, 3)."""
    windows, first, last = places
    for w in range(LANES):
        norm = 0.0
        dipole = 0.0
        force = 0.0
        for j in range(first[w], last[w]):
            here = (j - windows[w] + 1) * ROW + w
            # only rows that the lane writes: halos belong to other chunks
            density = s[here] * s[here] + s[here + LANES] * s[here + LANES]
            norm += density
            dipole += (xmin + dx * j) * density
            if slope.size > 0:
                force += slope[j] * density
        out[w, 0] = norm
        out[w, 1] = dipole
        out[w, 2] = force
