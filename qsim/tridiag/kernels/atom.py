"""Steps of an electron in a central potential and a laser field, many angular momenta side by side in SIMD lanes.

A row of the state holds ``[Re even | Re odd | Im even | Im odd]``, K lanes each: lane k stands for l = |m| + k, and the even
lanes lie before the odd ones, so that the pairs (0, 1), (2, 3), ... are aligned and the pairs (1, 2), (3, 4), ... shifted
by one.  The state is ``f = r' phi`` (:mod:`qsim.tridiag.atom.grid`).

Radial step, ``(1 + i tau H_l) phi' = (1 - i tau H_l) phi`` with tau = dt/2: with ``B = a (V_l - i W) / 6 - 1``,
``a = r'^2 / (6 tau)`` (both of a row, B also of l)

    q = 1 / (B - i a),    (M2 + q) w = -q f,    f' = w + (B + i a) M2 w,

one complex symmetric tridiagonal system per l whose off-diagonal is 1/12.  It is eliminated from either end; the substitution
of one step runs the way of the elimination of the next, and what is local in r lies between them: one sweep per step.

Length gauge: pairs (l, l+1) turn by ``dt E r c_l``.  Velocity gauge, pairs (l, l+1), g = A dt: ``ang``, a real rotation by
``g c (l+1) / r``, and ``mix``, ``(M1 + k D / r') v' = (M1 - k D / r') v`` with ``k = +-g c / 4`` for the sum and the difference
of a pair and ``v = f / sqrt(r')``.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from qsim.tridiag.kernels.jit import JIT

__all__ = ["atom_sums", "length_steps", "pivots", "velocity_steps"]

TWELFTH = 1.0 / 12.0


@nb.njit(**JIT)
def _pivots_cpu(a, potential, rotation, ll, first, up, out):
    """Fill the inverse pivots of the elimination from the first row (`up` False) or the last (`up` True)."""
    n, lanes = a.shape[0], ll.shape[0]
    for i in range(lanes):
        pr, pi = 0.0, 0.0
        for k in range(n):
            j = n - 1 - k if up else k
            br = potential[j, 0] + rotation[j] * ll[i] - 1.0
            bi = a[j] - potential[j, 1]
            d = 1.0 / (br * br + bi * bi)
            diagonal = first[i] if j == 0 else 10.0 * TWELFTH
            zr = diagonal + br * d - TWELFTH * TWELFTH * pr
            zi = bi * d - TWELFTH * TWELFTH * pi
            d = 1.0 / (zr * zr + zi * zi)
            pr, pi = zr * d, -zi * d
            out[j, i] = pr
            out[j, lanes + i] = pi


def pivots(a, potential, rotation, ll, first):
    """Return the inverse pivots of ``M2 + q`` from either end.

    Parameters
    ----------
    a : (n,) float64
        ``r'^2 / (6 tau)``.
    potential : (n, 2) float64
        ``r'^2 (V + Q / 2r'^2) / 6`` and its imaginary part, ``-r'^2 W / 6``.
    rotation : (n,) float64
        ``r'^2 / (12 r^2)``, which `ll` multiplies.
    ll : (2 K,) float64
        ``l (l + 1)`` of each lane.
    first : (2 K,) float64
        ``(M2)_11`` of each lane.

    Returns
    -------
    down, up : (n, 4 K) float64
        Real parts, then imaginary parts.
    """
    down = np.empty((a.size, 2 * ll.size))
    up = np.empty_like(down)
    _pivots_cpu(a, potential, rotation, ll, first, False, down)
    _pivots_cpu(a, potential, rotation, ll, first, True, up)
    return down, up


@nb.njit(inline="always", **JIT)
def _tangent(x):
    """Return tan x to 1e-6 for |x| < 0.6, to rounding for |x| < 0.1: any value makes a unitary rotation."""
    y = x * x
    return x * (1.0 + y * (1.0 / 3.0 + y * (2.0 / 15.0 + y * (17.0 / 315.0 + y * (62.0 / 2835.0)))))


@nb.njit(**JIT)
def _turn(x, first, second, size, angle, c):
    """Turn pairs by ``exp(-i angle c sigma_x)``: amplitudes at `first` and `second`, imaginary parts 2K further on."""
    half = x.shape[0] // 2
    for i in range(size):
        t = _tangent(0.5 * angle * c[i])
        s = 1.0 / (1.0 + t * t)
        cos = (1.0 - t * t) * s
        sin = 2.0 * t * s
        ar, br = x[first + i], x[second + i]
        ai, bi = x[half + first + i], x[half + second + i]
        x[first + i] = cos * ar + sin * bi
        x[half + first + i] = cos * ai - sin * br
        x[second + i] = cos * br + sin * ai
        x[half + second + i] = cos * bi - sin * ar


@nb.njit(**JIT)
def _turns(x, angles, r, even, odd):
    """Turn the odd, the even and again the odd pairs of one row."""
    k = even.shape[0]
    if angles[0] != 0.0:
        _turn(x, k, 1, k - 1, angles[0] * r, odd)
    if angles[1] != 0.0:
        _turn(x, 0, k, k, angles[1] * r, even)
    if angles[2] != 0.0:
        _turn(x, k, 1, k - 1, angles[2] * r, odd)


@nb.njit(**JIT)
def _substitute(y, p, after, w):
    """``w = p (y - after / 12)``."""
    n = y.shape[0] // 2
    for i in range(n):
        dr = y[i] - TWELFTH * after[i]
        di = y[n + i] - TWELFTH * after[n + i]
        w[i] = p[i] * dr - p[n + i] * di
        w[n + i] = p[i] * di + p[n + i] * dr


@nb.njit(**JIT)
def _finish(w, one, other, diagonal, a, v, absorbed, rotation, ll, f):
    """``f' = w + (B + i a) M2 w``."""
    n = ll.shape[0]
    ci = a + absorbed
    for i in range(n):
        mr = diagonal[i] * w[i] + TWELFTH * (one[i] + other[i])
        mi = diagonal[i] * w[n + i] + TWELFTH * (one[n + i] + other[n + i])
        br = v + rotation * ll[i] - 1.0
        f[i] = w[i] + br * mr - ci * mi
        f[n + i] = w[n + i] + br * mi + ci * mr


@nb.njit(**JIT)
def _eliminate(f, before, p, a, v, absorbed, rotation, ll, y):
    """``y = -q f - p before / 12`` with the inverse pivot p of the row before."""
    n = ll.shape[0]
    bi = a - absorbed
    for i in range(n):
        br = v + rotation * ll[i] - 1.0
        d = 1.0 / (br * br + bi * bi)
        qr, qi = br * d, bi * d
        y[i] = -(qr * f[i] - qi * f[n + i]) - TWELFTH * (p[i] * before[i] - p[n + i] * before[n + i])
        y[n + i] = -(qr * f[n + i] + qi * f[i]) - TWELFTH * (p[i] * before[n + i] + p[n + i] * before[i])


@nb.njit(**JIT)
def _sweep(s, pd, pu, down, solve, go_on, angles, r, a, potential, rotation, ll, diagonals, even, odd, ring):
    """Go through the rows once: substitute (`solve`), turn the pairs, eliminate (`go_on`).

    ``down``: from the first row to the last, after an elimination from the last row (inverse pivots pu), and as the elimination
    from the first row (pd); otherwise the other way round.
    """
    n = s.shape[0]
    wide = s.shape[1]
    ps, pe = (pu, pd) if down else (pd, pu)
    step = 1 if down else -1
    j = 0 if down else n - 1
    zero = ring[4]
    zero[:] = 0.0
    ring[:4] = 0.0
    if not solve:
        for _ in range(n):
            _turns(s[j], angles, r[j], even, odd)
            if go_on:
                edge = j == (0 if down else n - 1)
                _eliminate(
                    s[j], zero if edge else s[j - step], zero if edge else pe[j - step],
                    a[j], potential[j, 0], potential[j, 1], rotation[j], ll, ring[3],
                )  # fmt: skip
                s[j] = ring[3]
            j += step
        return
    # w of the row before, of this row, and of the row after it
    k0, k1, k2 = 0, 1, 2
    _substitute(s[j], ps[j], zero, ring[k1])
    for count in range(n):
        if count + 1 < n:
            _substitute(s[j + step], ps[j + step], ring[k1], ring[k2])
        else:
            ring[k2, :wide] = 0.0
        _finish(
            ring[k1], ring[k0], ring[k2], diagonals[0] if j == 0 else diagonals[1],
            a[j], potential[j, 0], potential[j, 1], rotation[j], ll, ring[3],
        )  # fmt: skip
        _turns(ring[3], angles, r[j], even, odd)
        if go_on:
            _eliminate(
                ring[3], zero if count == 0 else s[j - step], zero if count == 0 else pe[j - step],
                a[j], potential[j, 0], potential[j, 1], rotation[j], ll, s[j],
            )  # fmt: skip
        else:
            s[j] = ring[3]
        k0, k1, k2 = k1, k2, k0
        j += step


@nb.njit(**JIT)
def _length_steps_cpu(s, pd, pu, fields, dt, r, a, potential, rotation, ll, diagonals, even, odd, mask, ring):
    steps = fields.shape[0]
    angles = np.zeros(3)
    tables = (r, a, potential, rotation, ll, diagonals, even, odd)
    angles[1] = 0.5 * dt * fields[0]
    angles[2] = angles[1]
    down = True
    _sweep(s, pd, pu, down, False, True, angles, *tables, ring)
    for k in range(1, steps + 1):
        down = not down
        last = k == steps
        here = 0.5 * dt * fields[k - 1]
        after = 0.0 if last else 0.5 * dt * fields[k]
        angles[0] = here
        if mask.shape[0] > 0:  # after the step is complete
            angles[1] = here
            angles[2] = 0.0
            _sweep(s, pd, pu, down, True, False, angles, *tables, ring)
            for j in range(s.shape[0]):
                if mask[j] != 1.0:
                    s[j] *= mask[j]
            if not last:
                angles[0] = 0.0
                angles[1] = after
                angles[2] = after
                _sweep(s, pd, pu, down, False, True, angles, *tables, ring)
            continue
        angles[1] = here + after
        angles[2] = after
        _sweep(s, pd, pu, down, True, not last, angles, *tables, ring)


def length_steps(s, tables, fields, dt):
    """Make ``len(fields)`` steps in length gauge; the state is whole before and after.

    Parameters
    ----------
    s : (n, 4 K) float64
        State, worked on in place.
    tables : qsim.tridiag.atom.propagator.Tables
        What a step needs of grid, potential and lanes.
    fields : (steps,) float64
        E of every step, a.u.
    dt : float
        Time step, a.u.
    """
    t = tables
    _length_steps_cpu(
        s, t.down, t.up, fields, dt, t.r, t.a, t.potential, t.rotation, t.ll, t.diagonals, t.even, t.odd, t.mask, t.ring
    )  # fmt: skip


# --------------------------------------------------------------------------------------- velocity gauge


@nb.njit(**JIT)
def _load(x, first, second, size, angle, c, scale, z):
    """Turn the pairs of a row by `angle` and write sums and differences, times `scale`, to z (4, K): sum, difference; re, im."""
    half = x.shape[0] // 2
    for i in range(size):
        t = 0.5 * angle * c[i]
        s = scale / (1.0 + t * t)
        cos = (1.0 - t * t) * s
        sin = 2.0 * t * s
        ar, br = x[first + i], x[second + i]
        ai, bi = x[half + first + i], x[half + second + i]
        pr = cos * ar - sin * br
        pi = cos * ai - sin * bi
        qr = sin * ar + cos * br
        qi = sin * ai + cos * bi
        z[0, i] = pr + qr
        z[1, i] = pi + qi
        z[2, i] = pr - qr
        z[3, i] = pi - qi


@nb.njit(**JIT)
def _store(x, first, second, size, angle, c, scale, z):
    """Undo `_load`: sums and differences back to pairs, times `scale`, and turned by `angle`."""
    half = x.shape[0] // 2
    for i in range(size):
        t = 0.5 * angle * c[i]
        s = 0.5 * scale / (1.0 + t * t)
        cos = (1.0 - t * t) * s
        sin = 2.0 * t * s
        ar, br = z[0, i] + z[2, i], z[0, i] - z[2, i]
        ai, bi = z[1, i] + z[3, i], z[1, i] - z[3, i]
        x[first + i] = cos * ar - sin * br
        x[half + first + i] = cos * ai - sin * bi
        x[second + i] = sin * ar + cos * br
        x[half + second + i] = sin * ai + cos * bi


@nb.njit(**JIT)
def _mix_eliminate(before, here, after, done, size, k, low, mid, high, above, m, pivot_before, pivot, y):
    """Eliminate one row of ``(M1 + k D / r') v' = (M1 - k D / r') v`` for sums (+k) and differences (-k).

    ``low``, ``high``: 1 / r' of the rows before and after, ``mid``: the diagonal of D / r', ``above``: 1 / r' of this row, in the
    off-diagonal of the row before; ``m``: the diagonal of M1; `done`: the right side of the row before, eliminated.
    """
    sixth = 1.0 / 6.0
    for i in range(size):
        kl = k[i] * low
        km = k[i] * mid
        kh = k[i] * high
        ka = k[i] * above
        fs = (sixth - kl) * pivot_before[0, i]
        fd = (sixth + kl) * pivot_before[1, i]
        pivot[0, i] = 1.0 / (m + km - fs * (sixth + ka))
        pivot[1, i] = 1.0 / (m - km - fd * (sixth - ka))
        y[0, i] = (
            (sixth + kl) * before[0, i] + (m - km) * here[0, i] + (sixth - kh) * after[0, i] - fs * done[0, i]
        )
        y[1, i] = (
            (sixth + kl) * before[1, i] + (m - km) * here[1, i] + (sixth - kh) * after[1, i] - fs * done[1, i]
        )
        y[2, i] = (
            (sixth - kl) * before[2, i] + (m + km) * here[2, i] + (sixth + kh) * after[2, i] - fd * done[2, i]
        )
        y[3, i] = (
            (sixth - kl) * before[3, i] + (m + km) * here[3, i] + (sixth + kh) * after[3, i] - fd * done[3, i]
        )


@nb.njit(**JIT)
def _mix_substitute(y, v, pivot, size, k, high):
    """``v = p (y - (1/6 +- k / r'(after)) v(after))``; `v` holds the row after and becomes this row."""
    sixth = 1.0 / 6.0
    for i in range(size):
        us = sixth + k[i] * high
        ud = sixth - k[i] * high
        v[0, i] = pivot[0, i] * (y[0, i] - us * v[0, i])
        v[1, i] = pivot[0, i] * (y[1, i] - us * v[1, i])
        v[2, i] = pivot[1, i] * (y[2, i] - ud * v[2, i])
        v[3, i] = pivot[1, i] * (y[3, i] - ud * v[3, i])


@nb.njit(**JIT)
def _pairs(s, first, second, size, g, c, growth, r, slope, k, pivot, y, ring):
    """Make ang(1/2) mix ang(1/2) on one set of pairs; `growth` is ``(l + 1) c`` of the pairs."""
    n = s.shape[0]
    sixth = 1.0 / 6.0
    corner = 3.0**0.5 - 2.0
    for i in range(size):
        k[i] = 0.25 * g * c[i]
    ring[:] = 0.0
    k0, k1, k2 = 0, 1, 2
    _load(s[0], first, second, size, 0.5 * g / r[0], growth, 1.0 / slope[0] ** 0.5, ring[k1])
    for j in range(n):
        if j + 1 < n:
            _load(
                s[j + 1], first, second, size, 0.5 * g / r[j + 1], growth, 1.0 / slope[j + 1] ** 0.5, ring[k2]
            )  # fmt: skip
        else:
            ring[k2] = 0.0
        m, mid = 4.0 * sixth, 0.0
        if j == 0:
            m, mid = (4.0 + corner) * sixth, corner / slope[0]
        if j == n - 1:
            m, mid = (4.0 + corner) * sixth, -corner / slope[j]
        _mix_eliminate(
            ring[k0], ring[k1], ring[k2], y[j - 1] if j > 0 else ring[3], size, k,
            1.0 / slope[j - 1] if j > 0 else 0.0, mid, 1.0 / slope[j + 1] if j + 1 < n else 0.0, 1.0 / slope[j],
            m, pivot[j - 1] if j > 0 else ring[3], pivot[j], y[j],
        )  # fmt: skip
        k0, k1, k2 = k1, k2, k0
    ring[0] = 0.0
    for j in range(n - 1, -1, -1):
        _mix_substitute(y[j], ring[0], pivot[j], size, k, 1.0 / slope[j + 1] if j + 1 < n else 0.0)
        _store(s[j], first, second, size, 0.5 * g / r[j], growth, slope[j] ** 0.5, ring[0])


@nb.njit(**JIT)
def _clear(s, inner):
    """Set u_l = 0 within r_in(l), where ``u_l ~ r^(l+1)`` is negligible; return the sum of what was there (of |f|^2 / r'^2)."""
    lost = 0.0
    half = inner.shape[1]
    for j in range(inner.shape[0]):
        for i in range(half):
            if inner[j, i] != 0.0:
                lost += inner[j, i] * (s[j, i] ** 2 + s[j, half + i] ** 2)
                s[j, i] = 0.0
                s[j, half + i] = 0.0
    return lost


@nb.njit(**JIT)
def _velocity_steps_cpu(
    s, pd, pu, kicks, halves, dt, r, slope, a, potential, rotation, ll, diagonals, even, odd, even_growth, odd_growth,
    mask, inner, ring, k, pivot, y, small,
):  # fmt: skip
    steps = halves.shape[0]
    n = s.shape[0]
    K = even.shape[0]
    still = np.zeros(3)
    tables = (r, a, potential, rotation, ll, diagonals, even, odd)
    lost = 0.0
    _pairs(s, 0, K, K, 0.5 * dt * kicks[0], even, even_growth, r, slope, k, pivot, y, small)
    for step in range(steps):
        g = 0.5 * dt * halves[step]
        _pairs(s, K, 1, K - 1, g, odd, odd_growth, r, slope, k, pivot, y, small)
        _sweep(s, pd, pu, True, False, True, still, *tables, ring)
        _sweep(s, pd, pu, False, True, False, still, *tables, ring)
        _pairs(s, K, 1, K - 1, g, odd, odd_growth, r, slope, k, pivot, y, small)
        last = step + 1 == steps
        whole = mask.shape[0] == 0 and not last
        share = 1.0 if whole else 0.5
        _pairs(s, 0, K, K, share * dt * kicks[step + 1], even, even_growth, r, slope, k, pivot, y, small)
        lost += _clear(s, inner)
        if mask.shape[0] > 0:
            for j in range(n):
                if mask[j] != 1.0:
                    s[j] *= mask[j]
            if not last:
                _pairs(
                    s, 0, K, K, 0.5 * dt * kicks[step + 1], even, even_growth, r, slope, k, pivot, y, small
                )
    return lost


def velocity_steps(s, tables, kicks, halves, dt):
    """Make ``len(halves)`` steps in velocity gauge; the state is whole before and after.

    Parameters
    ----------
    s : (n, 4 K) float64
        State, worked on in place.
    tables : qsim.tridiag.atom.propagator.Tables
        What a step needs of grid, potential and lanes.
    kicks : (steps + 1,) float64
        A at the ends of the steps, a.u.: of the even pairs.
    halves : (steps,) float64
        A at the midpoints: of the odd pairs.
    dt : float
        Time step, a.u.

    Returns
    -------
    float
        Norm that was set to zero near the nucleus.
    """
    t = tables
    return _velocity_steps_cpu(
        s, t.down, t.up, kicks, halves, dt, t.r, t.slope, t.a, t.potential, t.rotation, t.ll, t.diagonals, t.even,
        t.odd, t.even_growth, t.odd_growth, t.mask, t.inner, t.ring, t.k, t.pivot, t.y, t.small,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------ observables


@nb.njit(**JIT)
def _atom_sums_cpu(s, weight, r, force, even, odd, last, out):
    """Fill norm, ``<z>``, ``<cos(theta) V'>`` and the norm of lane `last`."""
    k = even.shape[0]
    half = 2 * k
    out[:] = 0.0
    for j in range(s.shape[0]):
        norm = 0.0
        cosine = 0.0
        for i in range(2 * half):
            norm += s[j, i] * s[j, i]
        for i in range(k):
            cosine += even[i] * (s[j, i] * s[j, k + i] + s[j, half + i] * s[j, half + k + i])
        for i in range(k - 1):
            cosine += odd[i] * (s[j, k + i] * s[j, i + 1] + s[j, half + k + i] * s[j, half + i + 1])
        out[0] += weight[j] * norm
        out[1] += 2.0 * weight[j] * r[j] * cosine
        out[2] += 2.0 * weight[j] * force[j] * cosine
        out[3] += weight[j] * (s[j, last] * s[j, last] + s[j, half + last] * s[j, half + last])


def atom_sums(s, tables, weight, force, last):
    """Return norm, dipole ``<z>``, mean force ``<cos(theta) V'>`` and the norm of one lane, (4,) float64.

    Parameters
    ----------
    s : (n, 4 K) float64
        State, read.
    tables : qsim.tridiag.atom.propagator.Tables
        Radii and couplings.
    weight : (n,) float64
        ``1 / r'^2``.
    force : (n,) float64
        dV/dr with the weights of its integral.
    last : int
        Lane.
    """
    out = np.empty(4)
    _atom_sums_cpu(s, weight, tables.r, force, tables.even, tables.odd, last, out)
    return out
