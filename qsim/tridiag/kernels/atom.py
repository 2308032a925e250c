"""Steps of an electron in a central potential and a laser field, many angular momenta side by side in SIMD lanes.

A row of the state holds ``[Re even | Re odd | Im even | Im odd]``, K lanes each: lane k stands for l = |m| + k, and the even
lanes lie before the odd ones, so that the pairs (0, 1), (2, 3), ... are aligned and the pairs (1, 2), (3, 4), ... shifted
by one.  The state is ``f = r' phi`` (:mod:`qsim.tridiag.atom.grid`).

Radial step, ``(1 + i tau H_l) phi' = (1 - i tau H_l) phi`` with tau = dt/2: with ``B = a (V_l - i W) / 6 - 1``,
``a = r'^2 / (6 tau)`` (both of a row, B also of l)

    q = 1 / (B - i a),    (M2 + q) w = -q f,    f' = w + (B + i a) M2 w,

one complex symmetric tridiagonal system per l whose off-diagonal is 1/12.  It is eliminated from either end; the substitution
of one step runs the way of the elimination of the next, and what is local in r lies between them: one sweep per step.

Length gauge: pairs (l, l+1) turn by ``dt E r c_l``.  Steps in velocity gauge are in :mod:`qsim.tridiag.kernels.atom_velocity`.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from qsim.tridiag.kernels.jit import JIT

__all__ = ["HALF", "atom_sums", "length_steps", "pivots", "scratch"]

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


# One row at a time is worked on in a scratch array x whose segments lie a constant distance apart: with one base pointer
# the compiler can prove that the lanes are independent, and writes vectors.  HALF is the most lanes of either
# parity, and no multiple of a page: segments must not share cache sets.
HALF = 552
F, T, C, Y = (
    0,
    4 * HALF,
    8 * HALF,
    12 * HALF,
)  # state, part of M2 w, w, right side: [Re even | Re odd | Im even | Im odd]
LL, FIRST = 16 * HALF, 18 * HALF  # l (l + 1); (M2)_11 - 10/12: [even | odd]
EVEN, ODD, EVEN_GROWTH, ODD_GROWTH, RATE = 20 * HALF, 21 * HALF, 22 * HALF, 23 * HALF, 24 * HALF
IMAG = 2 * HALF
SCRATCH = 64 * HALF


def _turn(shift, c):
    """Return the kernel that turns pairs (even i + shift, odd i) of F by ``exp(-i angle c sigma_x)``.

    Offsets are constants of each kernel: the compiler writes vectors only where it knows how far apart all accesses are.
    """

    @nb.njit(**JIT)
    def turn(x, size, angle):
        for i in range(size):
            t = _tangent(0.5 * angle * x[c + i])
            s = 1.0 / (1.0 + t * t)
            cos = (1.0 - t * t) * s
            sin = 2.0 * t * s
            ar, br = x[shift + i], x[HALF + i]
            ai, bi = x[IMAG + shift + i], x[IMAG + HALF + i]
            x[shift + i] = cos * ar + sin * bi
            x[IMAG + shift + i] = cos * ai - sin * br
            x[HALF + i] = cos * br + sin * ai
            x[IMAG + HALF + i] = cos * bi - sin * ar

    return turn


_turn_even, _turn_odd = _turn(0, EVEN), _turn(1, ODD)


@nb.njit(**JIT)
def _turns(x, angles, r, k):
    """Turn the odd, the even and again the odd pairs of one row."""
    if angles[0] != 0.0:
        _turn_odd(x, k - 1, angles[0] * r)
    if angles[1] != 0.0:
        _turn_even(x, k, angles[1] * r)
    if angles[2] != 0.0:
        _turn_odd(x, k - 1, angles[2] * r)


@nb.njit(**JIT)
def _next_row(x, yr, yi, pr, pi, k, ci, v, rotation, edge):
    """Substitute one row, ``w = p (y - w(before) / 12)``, and finish the row before: ``f' = w + (B + i a) M2 w``.

    x begins with the even lanes, or with the odd ones; `edge`: 1 if the new row is the first of the grid.
    """
    for i in range(k):
        cr, ci_ = x[C + i], x[C + IMAG + i]
        dr = yr[i] - TWELFTH * cr
        di = yi[i] - TWELFTH * ci_
        wr = pr[i] * dr - pi[i] * di
        wi = pr[i] * di + pi[i] * dr
        mr = x[T + i] + TWELFTH * wr
        mi = x[T + IMAG + i] + TWELFTH * wi
        br = v + rotation * x[LL + i] - 1.0
        x[F + i] = cr + br * mr - ci * mi
        x[F + IMAG + i] = ci_ + br * mi + ci * mr
        m = 10.0 * TWELFTH + edge * x[FIRST + i]
        x[T + i] = TWELFTH * cr + m * wr
        x[T + IMAG + i] = TWELFTH * ci_ + m * wi
        x[C + i] = wr
        x[C + IMAG + i] = wi


@nb.njit(**JIT)
def _eliminate(x, pr, pi, k, bi, v, rotation):
    """``y = -q f - p y / 12`` with the inverse pivot p and y of the row before."""
    for i in range(k):
        br = v + rotation * x[LL + i] - 1.0
        d = 1.0 / (br * br + bi * bi)
        qr, qi = br * d, bi * d
        fr, fi = x[F + i], x[F + IMAG + i]
        yr, yi = x[Y + i], x[Y + IMAG + i]
        x[Y + i] = -(qr * fr - qi * fi) - TWELFTH * (pr[i] * yr - pi[i] * yi)
        x[Y + IMAG + i] = -(qr * fi + qi * fr) - TWELFTH * (pr[i] * yi + pi[i] * yr)


@nb.njit(**JIT)
def _read(x, to, row, k):
    for i in range(k):
        x[to + i] = row[i]
    for i in range(k):
        x[to + HALF + i] = row[k + i]
    for i in range(k):
        x[to + IMAG + i] = row[2 * k + i]
    for i in range(k):
        x[to + IMAG + HALF + i] = row[3 * k + i]


@nb.njit(**JIT)
def _write(row, x, at, k):
    for i in range(k):
        row[i] = x[at + i]
    for i in range(k):
        row[k + i] = x[at + HALF + i]
    for i in range(k):
        row[2 * k + i] = x[at + IMAG + i]
    for i in range(k):
        row[3 * k + i] = x[at + IMAG + HALF + i]


@nb.njit(**JIT)
def _row_eliminated(x, p, k, a, v, absorbed, rotation):
    bi = a - absorbed
    _eliminate(x, p[:k], p[2 * k : 3 * k], k, bi, v, rotation)
    _eliminate(x[HALF:], p[k : 2 * k], p[3 * k :], k, bi, v, rotation)


@nb.njit(**JIT)
def _sweep(s, pd, pu, down, solve, go_on, angles, r, a, potential, rotation, zero, x):
    """Go through the rows once: substitute (`solve`), turn the pairs, eliminate (`go_on`).

    ``down``: from the first row to the last, after an elimination from the last row (inverse pivots pu), and as the elimination
    from the first row (pd); otherwise the other way round.
    """
    n = s.shape[0]
    k = s.shape[1] // 4
    ps, pe = (pu, pd) if down else (pd, pu)
    step = 1 if down else -1
    j = 0 if down else n - 1
    before = zero
    x[T : T + 4 * HALF] = 0.0
    x[C : C + 4 * HALF] = 0.0
    x[Y : Y + 4 * HALF] = 0.0
    if not solve:
        for _ in range(n):
            _read(x, F, s[j], k)
            _turns(x, angles, r[j], k)
            if go_on:
                _row_eliminated(x, before, k, a[j], potential[j, 0], potential[j, 1], rotation[j])
                before = pe[j]
                _write(s[j], x, Y, k)
            else:
                _write(s[j], x, F, k)
            j += step
        return
    for count in range(n + 1):  # substitute row j, finish row `last`
        last = j - step
        y, p = (s[j], ps[j]) if count < n else (zero, zero)
        here = last if count > 0 else j
        ci, v, turn = a[here] + potential[here, 1], potential[here, 0], rotation[here]
        edge = 1.0 if j == 0 else 0.0
        _next_row(x, y[:k], y[2 * k : 3 * k], p[:k], p[2 * k : 3 * k], k, ci, v, turn, edge)
        _next_row(x[HALF:], y[k : 2 * k], y[3 * k :], p[k : 2 * k], p[3 * k :], k, ci, v, turn, edge)
        if count > 0:
            _turns(x, angles, r[last], k)
            if go_on:
                _row_eliminated(x, before, k, a[last], potential[last, 0], potential[last, 1], rotation[last])
                before = pe[last]
                _write(s[last], x, Y, k)
            else:
                _write(s[last], x, F, k)
        j += step


@nb.njit(**JIT)
def _length_steps_cpu(s, pd, pu, fields, dt, r, a, potential, rotation, mask, zero, x):
    steps = fields.shape[0]
    angles = np.zeros(3)
    tables = (r, a, potential, rotation, zero, x)
    angles[1] = 0.5 * dt * fields[0]
    angles[2] = angles[1]
    down = True
    _sweep(s, pd, pu, down, False, True, angles, *tables)
    for k in range(1, steps + 1):
        down = not down
        last = k == steps
        here = 0.5 * dt * fields[k - 1]
        after = 0.0 if last else 0.5 * dt * fields[k]
        angles[0] = here
        if mask.shape[0] > 0:  # after the step is complete
            angles[1] = here
            angles[2] = 0.0
            _sweep(s, pd, pu, down, True, False, angles, *tables)
            for j in range(s.shape[0]):
                if mask[j] != 1.0:
                    s[j] *= mask[j]
            if not last:
                angles[0] = 0.0
                angles[1] = after
                angles[2] = after
                _sweep(s, pd, pu, down, False, True, angles, *tables)
            continue
        angles[1] = here + after
        angles[2] = after
        _sweep(s, pd, pu, down, True, not last, angles, *tables)


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
        s, t.down, t.up, fields, dt, t.r, t.a, t.potential, t.rotation, t.mask, t.zero, t.scratch
    )


def scratch(ll, first, even, odd, even_growth, odd_growth):
    """Return the scratch array of a run with what depends on l alone: arrays (2 K,) of `pivots`, couplings (K,)."""
    x = np.zeros(SCRATCH)
    k = even.size
    for parity in range(2):
        lanes = slice(parity * k, (parity + 1) * k)
        x[LL + parity * HALF :][:k] = ll[lanes]
        x[FIRST + parity * HALF :][:k] = first[lanes] - 10.0 * TWELFTH
    for at, values in ((EVEN, even), (ODD, odd), (EVEN_GROWTH, even_growth), (ODD_GROWTH, odd_growth)):
        x[at : at + k] = values
    return x


<<<<<<< HEAD
=======
# --------------------------------------------------------------------------------------- velocity gauge


# segments of x in velocity gauge: [Re sum | Im sum | Re difference | Im difference] of three rows and the right side
Z0, Z1, Z2, R, V = 26 * HALF, 30 * HALF, 34 * HALF, 38 * HALF, 42 * HALF
P, PB = 46 * HALF, 48 * HALF  # inverse pivots of sum and difference: of this row, of the row before


def _load(shift, growth):
    """Return the kernel: turn the pairs (even i + shift, odd i) of F by `angle` and write sums and differences, times `scale`, to Z2."""

    @nb.njit(**JIT)
    def kernel(x, size, angle, scale):
        for i in range(size):
            t = 0.5 * angle * x[growth + i]
            s = scale / (1.0 + t * t)
            cos = (1.0 - t * t) * s
            sin = 2.0 * t * s
            ar, br = x[shift + i], x[HALF + i]
            ai, bi = x[IMAG + shift + i], x[IMAG + HALF + i]
            pr = cos * ar - sin * br
            pi = cos * ai - sin * bi
            qr = sin * ar + cos * br
            qi = sin * ai + cos * bi
            x[Z2 + i] = pr + qr
            x[Z2 + HALF + i] = pi + qi
            x[Z2 + 2 * HALF + i] = pr - qr
            x[Z2 + 3 * HALF + i] = pi - qi

    return kernel


def _store(shift, growth):
    """Return the kernel: undo `_load`: sums and differences V back to pairs F, times `scale`, and turned by `angle`."""

    @nb.njit(**JIT)
    def kernel(x, size, angle, scale):
        for i in range(size):
            t = 0.5 * angle * x[growth + i]
            s = 0.5 * scale / (1.0 + t * t)
            cos = (1.0 - t * t) * s
            sin = 2.0 * t * s
            ar, br = x[V + i] + x[V + 2 * HALF + i], x[V + i] - x[V + 2 * HALF + i]
            ai, bi = x[V + HALF + i] + x[V + 3 * HALF + i], x[V + HALF + i] - x[V + 3 * HALF + i]
            x[shift + i] = cos * ar - sin * br
            x[IMAG + shift + i] = cos * ai - sin * bi
            x[HALF + i] = sin * ar + cos * br
            x[IMAG + HALF + i] = sin * ai + cos * bi

    return kernel


_load_even, _load_odd = _load(0, EVEN_GROWTH), _load(1, ODD_GROWTH)
_store_even, _store_odd = _store(0, EVEN_GROWTH), _store(1, ODD_GROWTH)


@nb.njit(**JIT)
def _mix_eliminate(x, size, low, mid, high, above, m):
    """Eliminate one row of ``(M1 + k D / r') v' = (M1 - k D / r') v`` for sums (+k) and differences (-k); R and P become this row's.

    ``low``, ``high``: 1 / r' of the rows before and after, ``mid``: the diagonal of D / r', ``above``: 1 / r' of this row, in the
    off-diagonal of the row before; ``m``: the diagonal of M1.
    """
    sixth = 1.0 / 6.0
    for i in range(size):
        k = x[RATE + i]
        lp, lm = sixth + k * low, sixth - k * low
        hp, hm = sixth + k * high, sixth - k * high
        mp, mm = m + k * mid, m - k * mid
        fs = lm * x[P + i]
        fd = lp * x[P + HALF + i]
        ps = mp - fs * (sixth + k * above)
        pd = mm - fd * (sixth - k * above)
        both = 1.0 / (ps * pd)
        x[P + i] = both * pd
        x[P + HALF + i] = both * ps
        x[R + i] = lp * x[Z0 + i] + mm * x[Z1 + i] + hm * x[Z2 + i] - fs * x[R + i]
        x[R + HALF + i] = (
            lp * x[Z0 + HALF + i] + mm * x[Z1 + HALF + i] + hm * x[Z2 + HALF + i] - fs * x[R + HALF + i]
        )
        a, b = 2 * HALF + i, 3 * HALF + i
        x[R + a] = lm * x[Z0 + a] + mp * x[Z1 + a] + hp * x[Z2 + a] - fd * x[R + a]
        x[R + b] = lm * x[Z0 + b] + mp * x[Z1 + b] + hp * x[Z2 + b] - fd * x[R + b]
        x[Z0 + i], x[Z0 + HALF + i], x[Z0 + a], x[Z0 + b] = x[Z1 + i], x[Z1 + HALF + i], x[Z1 + a], x[Z1 + b]
        x[Z1 + i], x[Z1 + HALF + i], x[Z1 + a], x[Z1 + b] = x[Z2 + i], x[Z2 + HALF + i], x[Z2 + a], x[Z2 + b]


@nb.njit(**JIT)
def _mix_substitute(x, y0, y1, y2, y3, p0, p1, size, high):
    """``v = p (y - (1/6 +- k / r'(after)) v(after))``; V holds the row after and becomes this row."""
    sixth = 1.0 / 6.0
    for i in range(size):
        us = sixth + x[RATE + i] * high
        ud = sixth - x[RATE + i] * high
        x[V + i] = p0[i] * (y0[i] - us * x[V + i])
        x[V + HALF + i] = p0[i] * (y1[i] - us * x[V + HALF + i])
        x[V + 2 * HALF + i] = p1[i] * (y2[i] - ud * x[V + 2 * HALF + i])
        x[V + 3 * HALF + i] = p1[i] * (y3[i] - ud * x[V + 3 * HALF + i])


@nb.njit(**JIT)
def _copy(row, x, at, size):
    for i in range(size):
        row[i] = x[at + i]


@nb.njit(**JIT)
def _load_pairs(x, odd_pairs, size, angle, scale):
    if odd_pairs:
        _load_odd(x, size, angle, scale)
    else:
        _load_even(x, size, angle, scale)


@nb.njit(**JIT)
def _pairs(s, odd_pairs, g, r, slope, pivot, y, x):
    """Make ang(1/2) mix ang(1/2) on the even or the odd pairs."""
    n = s.shape[0]
    k = s.shape[1] // 4
    size, c = (k - 1, ODD) if odd_pairs else (k, EVEN)
    if size == 0 or g == 0.0:
        return
    sixth = 1.0 / 6.0
    corner = 3.0**0.5 - 2.0
    turn = -0.5 * g if odd_pairs else 0.5 * g  # the lower l is the odd lane of an odd pair
    for i in range(size):
        x[RATE + i] = 0.25 * g * x[c + i]
    x[Z0 : Z0 + 16 * HALF] = 0.0
    x[V : V + 4 * HALF] = 0.0
    x[P : P + 2 * HALF] = 0.0
    _read(x, F, s[0], k)
    _load_pairs(x, odd_pairs, size, turn / r[0], 1.0 / slope[0] ** 0.5)
    x[Z1 : Z1 + 4 * HALF] = x[Z2 : Z2 + 4 * HALF]
    for j in range(n):
        if j + 1 < n:
            _read(x, F, s[j + 1], k)
            _load_pairs(x, odd_pairs, size, turn / r[j + 1], 1.0 / slope[j + 1] ** 0.5)
        else:
            x[Z2 : Z2 + 4 * HALF] = 0.0
        m, mid = 4.0 * sixth, 0.0
        if j == 0:
            m, mid = (4.0 + corner) * sixth, corner / slope[0]
        if j == n - 1:
            m, mid = (4.0 + corner) * sixth, -corner / slope[j]
        low = 1.0 / slope[j - 1] if j > 0 else 0.0
        high = 1.0 / slope[j + 1] if j + 1 < n else 0.0
        _mix_eliminate(x, size, low, mid, high, 1.0 / slope[j], m)
        for part in range(4):
            _copy(y[j, part], x, R + part * HALF, size)
        _copy(pivot[j, 0], x, P, size)
        _copy(pivot[j, 1], x, P + HALF, size)
    for j in range(n - 1, -1, -1):
        high = 1.0 / slope[j + 1] if j + 1 < n else 0.0
        _mix_substitute(x, y[j, 0], y[j, 1], y[j, 2], y[j, 3], pivot[j, 0], pivot[j, 1], size, high)
        _read(x, F, s[j], k)
        if odd_pairs:
            _store_odd(x, size, turn / r[j], slope[j] ** 0.5)
        else:
            _store_even(x, size, turn / r[j], slope[j] ** 0.5)
        _write(s[j], x, F, k)


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
    s, pd, pu, kicks, halves, dt, r, slope, a, potential, rotation, mask, inner, pivot, y, zero, x
):
    steps = halves.shape[0]
    n = s.shape[0]
    still = np.zeros(3)
    tables = (r, a, potential, rotation, zero, x)
    work = (r, slope, pivot, y, x)
    lost = 0.0
    _pairs(s, False, 0.5 * dt * kicks[0], *work)
    for step in range(steps):
        g = 0.5 * dt * halves[step]
        _pairs(s, True, g, *work)
        _sweep(s, pd, pu, True, False, True, still, *tables)
        _sweep(s, pd, pu, False, True, False, still, *tables)
        _pairs(s, True, g, *work)
        last = step + 1 == steps
        whole = mask.shape[0] == 0 and not last
        share = 1.0 if whole else 0.5
        _pairs(s, False, share * dt * kicks[step + 1], *work)
        lost += _clear(s, inner)
        if mask.shape[0] > 0:
            for j in range(n):
                if mask[j] != 1.0:
                    s[j] *= mask[j]
            if not last:
                _pairs(s, False, 0.5 * dt * kicks[step + 1], *work)
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
        s, t.down, t.up, kicks, halves, dt, t.r, t.slope, t.a, t.potential, t.rotation, t.mask, t.inner, t.pivot, t.y, t.zero,
        t.scratch,
    )  # fmt: skip


>>>>>>> claims3
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
