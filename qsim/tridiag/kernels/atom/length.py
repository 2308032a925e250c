"""Steps of an electron in a central potential and a laser field, many angular momenta side by side in SIMD lanes.

A row of the state holds ``[Re even | Re odd | Im even | Im odd]``, K lanes each: lane k stands for l = |m| + k, and the even
lanes lie before the odd ones, so that the pairs (0, 1), (2, 3), ... are aligned and the pairs (1, 2), (3, 4), ... shifted
by one.  The state is ``f = r' phi`` (:mod:`qsim.tridiag.atom.states.grid`).

Radial step, ``(1 + i tau H_l) phi' = (1 - i tau H_l) phi`` with tau = dt/2: with ``B = a (V_l - i W) / 6 - 1``,
``a = r'^2 / (6 tau)`` (both of a row, B also of l)

    q = 1 / (B - i a),    (M2 + q) w = -q f,    f' = w + (B + i a) M2 w,

one complex symmetric tridiagonal system per l whose off-diagonal is 1/12.  It is eliminated from either end; the substitution
of one step runs the way of the elimination of the next, and what is local in r lies between them: one sweep per step.

Length gauge: pairs (l, l+1) turn by ``dt E r c_l``.  Steps in velocity gauge are in :mod:`qsim.tridiag.kernels.atom.velocity`.
"""

from __future__ import annotations

from functools import partial

import numba as nb
import numpy as np

from qsim.core.device.jit import variant
from qsim.core.device.pool import Shared, each_together
from qsim.core.device.team import ranges, share
from qsim.tridiag.kernels.atom.cuda_tables import CudaTables
from qsim.tridiag.kernels.atom.launch import launch_length, moves
from qsim.tridiag.kernels.atom.records import Pivots, Rows, Way
from qsim.tridiag.kernels.atom.sharing import ALONE, TRIAL, progress
from qsim.tridiag.kernels.atom.sweeps import length_sweep, masked, radial_carries, share_of
from qsim.tridiag.kernels.jit import JIT, PART

__all__ = ["HALF", "atom_sums", "length_steps", "pivots", "scratch"]

TWELFTH = 1.0 / 12.0


@nb.njit(**JIT)
def _pivots_cpu(a, potential, rotation, ll, first, up, out):
    """Fill the inverse pivots of the elimination from the first row (`up` False) or the last (`up` True)."""
    n, lanes = a.shape[0], ll.shape[0]
    for i in range(lanes):
        pr, pi = 0.0, 0.0
        # p_j = 1 / ((M2)_jj + q_j - p_(j-1) / 144) with q = 1 / (B - i a): a chain of divisions along r, one
        # per lane, made once for a length of step
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
HALF = 2616
# state, part of M2 w, w, right side: [Re even | Re odd | Im even | Im odd]
F, T, C, Y = (0, 4 * HALF, 8 * HALF, 12 * HALF)
# l (l + 1); (M2)_11 - 10/12: [even | odd]
LL, FIRST = 16 * HALF, 18 * HALF
EVEN, ODD, EVEN_GROWTH, ODD_GROWTH, RATE = 20 * HALF, 21 * HALF, 22 * HALF, 23 * HALF, 24 * HALF
IMAG = 2 * HALF
# cos and sin of the turn of the frame: [cos even | cos odd | sin even | sin odd]
PHASE = 48 * HALF
SCRATCH = 64 * HALF
# of linear polarisation
NO_SWAPS = np.zeros((0, 2), np.int64)


def _turn(name, shift, c):
    """Return the kernel that turns pairs (even i + shift, odd i) of F by ``exp(-i angle c sigma_x)``.

    Offsets are constants of each kernel: the compiler writes vectors only where it knows how far apart all accesses are.
    """

    @variant(name, **PART)
    def turn(x, size, angle):
        for i in range(size):
            # cosine and sine from t, the tangent of half the angle: their squares add up to 1 whatever t is
            t = _tangent(0.5 * angle * x[c + i])
            s = 1.0 / (1.0 + t * t)
            cos = (1.0 - t * t) * s
            sin = 2.0 * t * s
            ar, br = x[shift + i], x[HALF + i]
            ai, bi = x[IMAG + shift + i], x[IMAG + HALF + i]
            # a' = cos a - i sin b, b' = cos b - i sin a, in real and imaginary parts
            x[shift + i] = cos * ar + sin * bi
            x[IMAG + shift + i] = cos * ai - sin * br
            x[HALF + i] = cos * br + sin * ai
            x[IMAG + HALF + i] = cos * bi - sin * ar

    return turn


_turn_even, _turn_odd = _turn("even", 0, EVEN), _turn("odd", 1, ODD)


@nb.njit(**PART)
def _swap(x, swaps):
    """Exchange lanes of F: between pairs (l, l+1; m, m-1) and (l, l+1; m, m+1) side by side."""
    for i in range(swaps.shape[0]):
        a, b = swaps[i, 0], swaps[i, 1]
        x[F + a], x[F + b] = x[F + b], x[F + a]
        x[F + IMAG + a], x[F + IMAG + b] = x[F + IMAG + b], x[F + IMAG + a]


@nb.njit(**PART)
def _phase(x, k):
    """Turn the frame: multiply the lanes of F by their phases."""
    for i in range(k):
        c, s = x[PHASE + i], x[PHASE + IMAG + i]
        ar, ai = x[F + i], x[F + IMAG + i]
        x[F + i] = c * ar - s * ai
        x[F + IMAG + i] = c * ai + s * ar


@nb.njit(**PART)
def _turns_planar(x, angles, r, k, swaps):
    """Complete a step, turn the frame, begin the next one: pairs to m - 1 lie side by side, pairs to m + 1 when swapped.

    ``angles``: half a step of the field before and after, and whether the frame turns.
    """
    # Qo Qe Po Pe of the step that ends, the turn of the frame in swapped order (its phases are those of swapped
    # lanes), then Pe Po Qe Qo of the step that begins; pairs to m + 1, when swapped, couple with the other sign
    here, after = angles[0] * r, angles[1] * r
    if here != 0.0:
        _turn_odd(x, k - 1, here)
        _turn_even(x, k, here)
    _swap(x, swaps)
    if here != 0.0:
        _turn_odd(x, k - 1, -here)
        _turn_even(x, k, -here)
    if angles[2] != 0.0:
        _phase(x, k)
        _phase(x[HALF:], k)
    if after != 0.0:
        _turn_even(x, k, -after)
        _turn_odd(x, k - 1, -after)
    _swap(x, swaps)
    if after != 0.0:
        _turn_even(x, k, after)
        _turn_odd(x, k - 1, after)


@nb.njit(**PART)
def _turns(x, angles, r, k, swaps):
    """Turn the odd, the even and again the odd pairs of one row."""
    if swaps.shape[0] > 0:
        _turns_planar(x, angles, r, k, swaps)
        return
    if angles[0] != 0.0:
        _turn_odd(x, k - 1, angles[0] * r)
    if angles[1] != 0.0:
        _turn_even(x, k, angles[1] * r)
    if angles[2] != 0.0:
        _turn_odd(x, k - 1, angles[2] * r)


@nb.njit(**PART)
def _next_row(x, yr, yi, pr, pi, k, ci, v, rotation, edge):
    """Substitute one row, ``w = p (y - w(before) / 12)``, and finish the row before: ``f' = w + (B + i a) M2 w``.

    x begins with the even lanes, or with the odd ones; `edge`: 1 if the new row is the first of the grid.
    """
    for i in range(k):
        # w of this row from w of the row before
        cr, ci_ = x[C + i], x[C + IMAG + i]
        dr = yr[i] - TWELFTH * cr
        di = yi[i] - TWELFTH * ci_
        wr = pr[i] * dr - pi[i] * di
        wi = pr[i] * di + pi[i] * dr
        # its last term completes M2 w of the row before: f' there is final
        mr = x[T + i] + TWELFTH * wr
        mi = x[T + IMAG + i] + TWELFTH * wi
        br = v + rotation * x[LL + i] - 1.0
        x[F + i] = cr + br * mr - ci * mi
        x[F + IMAG + i] = ci_ + br * mi + ci * mr
        # T becomes what is known of M2 w in this row; the first row of the grid has its own entry of M2, which
        # makes u ~ r^(l+1) exact to the order of the scheme
        m = 10.0 * TWELFTH + edge * x[FIRST + i]
        x[T + i] = TWELFTH * cr + m * wr
        x[T + IMAG + i] = TWELFTH * ci_ + m * wi
        x[C + i] = wr
        x[C + IMAG + i] = wi


@nb.njit(**PART)
def _eliminate(x, pr, pi, k, bi, v, rotation):
    """``y = -q f - p y / 12`` with the inverse pivot p and y of the row before."""
    for i in range(k):
        br = v + rotation * x[LL + i] - 1.0
        # q = 1 / (B - i a): one real division per row and lane
        d = 1.0 / (br * br + bi * bi)
        qr, qi = br * d, bi * d
        fr, fi = x[F + i], x[F + IMAG + i]
        yr, yi = x[Y + i], x[Y + IMAG + i]
        x[Y + i] = -(qr * fr - qi * fi) - TWELFTH * (pr[i] * yr - pi[i] * yi)
        x[Y + IMAG + i] = -(qr * fi + qi * fr) - TWELFTH * (pr[i] * yi + pi[i] * yr)


@nb.njit(**PART)
def _read(x, to, row, k):
    for i in range(k):
        x[to + i] = row[i]
    for i in range(k):
        x[to + HALF + i] = row[k + i]
    for i in range(k):
        x[to + IMAG + i] = row[2 * k + i]
    for i in range(k):
        x[to + IMAG + HALF + i] = row[3 * k + i]


@nb.njit(**PART)
def _write(row, x, at, k):
    for i in range(k):
        row[i] = x[at + i]
    for i in range(k):
        row[k + i] = x[at + HALF + i]
    for i in range(k):
        row[2 * k + i] = x[at + IMAG + i]
    for i in range(k):
        row[3 * k + i] = x[at + IMAG + HALF + i]


@nb.njit(**PART)
def _row_eliminated(x, p, k, a, v, absorbed, rotation):
    bi = a - absorbed
    _eliminate(x, p[:k], p[2 * k : 3 * k], k, bi, v, rotation)
    _eliminate(x[HALF:], p[k : 2 * k], p[3 * k :], k, bi, v, rotation)


@nb.njit(**PART)
def _sweep(s, pivots, way, angles, tables, zero, swaps, x):
    """Go through the rows once: substitute (``way.solve``), turn the pairs, eliminate (``way.go_on``).

    ``way.down``: from the first row to the last, after an elimination from the last row (inverse pivots ``up``), and as the
    elimination from the first row (``down``); otherwise the other way round.
    """
    pd, pu = pivots
    down, solve, go_on = way
    r, a, potential, rotation = tables
    n = s.shape[0]
    k = s.shape[1] // 4
    # an elimination that came from the last row is substituted from the first row on, and the reverse
    ps, pe = (pu, pd) if down else (pd, pu)
    step = 1 if down else -1
    j = 0 if down else n - 1
    before = zero
    x[T : T + 4 * HALF] = 0.0
    x[C : C + 4 * HALF] = 0.0
    x[Y : Y + 4 * HALF] = 0.0
    # the first sweep of a run: the rows hold the state, not the right side of a substitution
    if not solve:
        for _ in range(n):
            _read(x, F, s[j], k)
            _turns(x, angles, r[j], k, swaps)
            if go_on:
                _row_eliminated(x, before, k, a[j], potential[j, 0], potential[j, 1], rotation[j])
                before = pe[j]
                _write(s[j], x, Y, k)
            else:
                _write(s[j], x, F, k)
            j += step
        return
    # substitute row j, finish row `last`
    for count in range(n + 1):
        last = j - step
        # after the last row a row of zeros, which completes it
        y, p = (s[j], ps[j]) if count < n else (zero, zero)
        here = last if count > 0 else j
        ci, v, turn = a[here] + potential[here, 1], potential[here, 0], rotation[here]
        edge = 1.0 if j == 0 else 0.0
        _next_row(x, y[:k], y[2 * k : 3 * k], p[:k], p[2 * k : 3 * k], k, ci, v, turn, edge)
        _next_row(x[HALF:], y[k : 2 * k], y[3 * k :], p[k : 2 * k], p[3 * k :], k, ci, v, turn, edge)
        if count > 0:
            _turns(x, angles, r[last], k, swaps)
            if go_on:
                _row_eliminated(x, before, k, a[last], potential[last, 0], potential[last, 1], rotation[last])
                before = pe[last]
                _write(s[last], x, Y, k)
            else:
                _write(s[last], x, F, k)
        j += step


@nb.njit(**JIT)
def _length_steps_shared(ticket, *arguments):
    return share(ticket, ranges(_length_steps_cpu, arguments))


@nb.njit(**PART)
def _length_steps_cpu(first, last, worker, s, pivots, field, tables, mask, progress):
    """Make steps: alone, or as one of as many threads as `progress` has rows.

    ``field``: E of every step, and dt; ``tables``: r, radial, couplings.
    """
    fields, dt = field
    steps = fields.shape[0]
    if steps == 0:
        return
    rows, lanes = s.shape[0], s.shape[1] // 2
    own = share_of(first, progress.shape[0] if last == first + 1 else 1, lanes, progress)
    flat, flat_pivots = s.reshape(-1), Pivots(pivots.down.reshape(-1), pivots.up.reshape(-1))
    angles = np.zeros(3)
    r, radial, couplings = tables
    rest = (r, radial, couplings, radial_carries(lanes))
    # A step is O/2 E/2 R E/2 O/2. A sweep ends one step and begins the next: even pairs of both are one turn, since nothing lies
    # between them; odd pairs come first and last.
    angles[1] = 0.5 * dt * fields[0]
    angles[2] = angles[1]
    down = True
    length_sweep(flat, flat_pivots, own, Way(down, False, True), angles, *rest)
    for k in range(1, steps + 1):
        down = not down
        whole = k == steps
        here = 0.5 * dt * fields[k - 1]
        after = 0.0 if whole else 0.5 * dt * fields[k]
        angles[0] = here
        # after the step is complete
        if mask.shape[0] > 0:
            angles[1] = here
            angles[2] = 0.0
            length_sweep(flat, flat_pivots, own, Way(down, True, False), angles, *rest)
            masked(flat, own, Rows(0, 1, 0, rows), mask)
            if not whole:
                angles[0] = 0.0
                angles[1] = after
                angles[2] = after
                length_sweep(flat, flat_pivots, own, Way(down, False, True), angles, *rest)
            continue
        angles[1] = here + after
        angles[2] = after
        length_sweep(flat, flat_pivots, own, Way(down, True, not whole), angles, *rest)


def length_steps(s, tables, fields, dt, samples=None, sharing=ALONE):
    """Make steps in length gauge; the state is whole before and after.

    Parameters
    ----------
    s : (n, 4 K) float64, or on a GPU (members, padded n, 2 K) complex128
        State, worked on in place.
    tables : qsim.tridiag.atom.evolution.propagator.Tables, or on a GPU CudaTables
        What a step needs of grid, potential and lanes.
    fields : (steps,) float64, or on a GPU (members, steps)
        E of every step, a.u.
    dt : float
        Time step, a.u.
    samples : (steps + 1,) int32, optional
        On a GPU: place of the sums to be taken after that many steps, -1 for none.
    sharing : qsim.tridiag.kernels.atom.sharing.Sharing
        On a CPU: threads.

    Returns
    -------
    None, or on a GPU (members, places, 6) float64
        Sums as of :func:`qsim.tridiag.kernels.atom.launch.launch_length`.
    """
    if isinstance(tables, CudaTables):
        taken = np.full(fields.shape[1] + 1, -1, np.int32) if samples is None else samples
        return launch_length(("length", "length_steps"), s, tables, moves(fields, dt, taken), taken)
    pivots, grid = Pivots(tables.down, tables.up), (tables.r, tables.radial, tables.couplings)

    def run(parts, s=s, fields=fields):
        arguments = (s, pivots, (fields, dt), grid, tables.mask, progress(parts))
        each_together(Shared(_length_steps_shared, arguments), parts, sharing.threads)

    sharing.do(fields.size, run, lambda: partial(run, s=s.copy(), fields=fields[:TRIAL]))
    return None


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


# ------------------------------------------------------------------------------------------ observables


@nb.njit(**JIT)
def _atom_sums_cpu(s, weight, r, force, even, odd, last, out):
    """Fill norm, ``<z>``, ``<cos(theta) V'>`` and the norm of lane `last`."""
    k = even.shape[0]
    half = 2 * k
    out[:] = 0.0
    # <z> couples l to l + 1: twice the real part of conj(u_l) u_(l+1), with the even pairs (even i, odd i) and
    # the odd pairs (odd i, even i + 1) of the lanes
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
        # cos(theta) dV/dr has the angular factor of z = r cos(theta)
        out[2] += 2.0 * weight[j] * force[j] * cosine
        out[3] += weight[j] * (s[j, last] * s[j, last] + s[j, half + last] * s[j, half + last])


def atom_sums(s, tables, weight, force, last):
    """Return norm, dipole ``<z>``, mean force ``<cos(theta) V'>`` and the norm of one lane, (4,) float64.

    Parameters
    ----------
    s : (n, 4 K) float64
        State, read.
    tables : qsim.tridiag.atom.evolution.propagator.Tables
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
