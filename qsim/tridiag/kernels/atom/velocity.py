"""Steps in velocity gauge of an electron in a central potential.

State, lanes and scratch are those of `atom/length`.  Pairs (l, l+1), g = A dt: ``ang``, a real rotation by
``g c (l+1) / r`` in Cayley's form, and ``mix``, ``(M1 + k D / r') v' = (M1 - k D / r') v`` with ``k = +-g c / 4`` for the sum and
the difference of a pair and ``v = f / sqrt(r')``: two real tridiagonal systems per pair.  A pair makes ang(1/2) mix ang(1/2).
"""

from __future__ import annotations

from functools import partial

import numba as nb
import numpy as np

from qsim.core.device.jit import variant
from qsim.core.device.pool import Shared, each_together
from qsim.core.device.team import ranges, share
from qsim.tridiag.kernels.atom.cuda_tables import CudaTables
from qsim.tridiag.kernels.atom.launch import launch_velocity, operations
from qsim.tridiag.kernels.atom.length import (
    EVEN,
    EVEN_GROWTH,
    HALF,
    IMAG,
    ODD,
    ODD_GROWTH,
    RATE,
    F,
    _read,
    _write,
)
from qsim.tridiag.kernels.atom.records import Kicks, Pivots, Way
from qsim.tridiag.kernels.atom.sharing import ALONE, TRIAL, progress
from qsim.tridiag.kernels.atom.sweeps import mix_work, share_of, velocity_sweep
from qsim.tridiag.kernels.jit import JIT, PART, largest

__all__ = ["velocity_steps"]

# segments of x in velocity gauge: [Re sum | Im sum | Re difference | Im difference] of three rows and the right side
Z0, Z1, Z2, R, V = 26 * HALF, 30 * HALF, 34 * HALF, 38 * HALF, 42 * HALF
# inverse pivots of sum and difference
P = 46 * HALF


def _load(name, shift, growth):
    """Return the kernel that reads pairs.

    It turns the pairs (even i + shift, odd i) of F by `angle` and writes sums and differences, times `scale`, to Z2.
    """

    @variant(name, **PART)
    def kernel(x, size, angle, scale):
        """Write sums and differences of the turned pairs."""
        for i in range(size):
            # half the turn of the pair in Cayley's form, c (l + 1) / r per A dt: unitary for any angle
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
            # d/dr mixes a and b of a pair; a + b and a - b are eigenvectors of that mixing, so each obeys a
            # tridiagonal system of its own, with real matrices for real and imaginary parts alike
            x[Z2 + i] = pr + qr
            x[Z2 + HALF + i] = pi + qi
            x[Z2 + 2 * HALF + i] = pr - qr
            x[Z2 + 3 * HALF + i] = pi - qi

    return kernel


def _store(name, shift, growth):
    """Return the kernel that undoes `_load`: sums and differences V back to pairs F, times `scale`, and turned by `angle`."""

    @variant(name, **PART)
    def kernel(x, size, angle, scale):
        for i in range(size):
            t = 0.5 * angle * x[growth + i]
            # 0.5 undoes the sum and the difference
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


_load_even, _load_odd = _load("even", 0, EVEN_GROWTH), _load("odd", 1, ODD_GROWTH)
_store_even, _store_odd = _store("even", 0, EVEN_GROWTH), _store("odd", 1, ODD_GROWTH)


@nb.njit(**PART)
def _mix_eliminate(x, size, low, mid, high, above, m):
    """Eliminate one row of ``(M1 + k D / r') v' = (M1 - k D / r') v`` for sums (+k) and differences (-k).

    R and P are overwritten.  ``low``, ``high``: 1 / r' of the rows before and after, ``mid``: the diagonal of D / r',
    ``above``: 1 / r' of this row, in the off-diagonal of the row before; ``m``: the diagonal of M1.
    """
    sixth = 1.0 / 6.0
    for i in range(size):
        # lower and upper elements of M1 -+ k D / r' for k (sums) and -k (differences): the right side has the
        # sign that the left side has not
        k = x[RATE + i]
        lp, lm = sixth + k * low, sixth - k * low
        hp, hm = sixth + k * high, sixth - k * high
        mp, mm = m + k * mid, m - k * mid
        # Thomas elimination with the inverse pivots of the row before
        fs = lm * x[P + i]
        fd = lp * x[P + HALF + i]
        ps = mp - fs * (sixth + k * above)
        pd = mm - fd * (sixth - k * above)
        # two reciprocals for one division
        both = 1.0 / (ps * pd)
        x[P + i] = both * pd
        x[P + HALF + i] = both * ps
        # right side of this row, less what the row before contributes: [Re sum | Im sum | Re difference | Im
        # difference]
        x[R + i] = lp * x[Z0 + i] + mm * x[Z1 + i] + hm * x[Z2 + i] - fs * x[R + i]
        x[R + HALF + i] = (
            lp * x[Z0 + HALF + i] + mm * x[Z1 + HALF + i] + hm * x[Z2 + HALF + i] - fs * x[R + HALF + i]
        )
        a, b = 2 * HALF + i, 3 * HALF + i
        x[R + a] = lm * x[Z0 + a] + mp * x[Z1 + a] + hp * x[Z2 + a] - fd * x[R + a]
        x[R + b] = lm * x[Z0 + b] + mp * x[Z1 + b] + hp * x[Z2 + b] - fd * x[R + b]
        # the window of three rows moves on by one
        x[Z0 + i], x[Z0 + HALF + i], x[Z0 + a], x[Z0 + b] = x[Z1 + i], x[Z1 + HALF + i], x[Z1 + a], x[Z1 + b]
        x[Z1 + i], x[Z1 + HALF + i], x[Z1 + a], x[Z1 + b] = x[Z2 + i], x[Z2 + HALF + i], x[Z2 + a], x[Z2 + b]


@nb.njit(**PART)
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


@nb.njit(**PART)
def _copy(row, x, at, size):
    for i in range(size):
        row[i] = x[at + i]


@nb.njit(**PART)
def _load_pairs(x, odd_pairs, size, angle, scale):
    if odd_pairs:
        _load_odd(x, size, angle, scale)
    else:
        _load_even(x, size, angle, scale)


@nb.njit(**PART)
def _pairs(s, odd_pairs, g, r, slope, pivot, y, x):
    """Make ang(1/2) mix ang(1/2) on the even or the odd pairs."""
    n = s.shape[0]
    k = s.shape[1] // 4
    size, c = (k - 1, ODD) if odd_pairs else (k, EVEN)
    if size == 0 or g == 0.0:
        return
    # D and M1 have corners of y = sqrt(3) - 2, with which M1^-1 D is antisymmetric and the step unitary
    sixth = 1.0 / 6.0
    corner = 3.0**0.5 - 2.0
    # the rows before the first are zero: right side, substituted row and pivots begin with zero
    # the lower l is the odd lane of an odd pair
    turn = -0.5 * g if odd_pairs else 0.5 * g
    for i in range(size):
        # k = g c / 4 of every pair, without its 1 / r'
        x[RATE + i] = 0.25 * g * x[c + i]
    x[Z0 : Z0 + 16 * HALF] = 0.0
    x[V : V + 4 * HALF] = 0.0
    x[P : P + 2 * HALF] = 0.0
    _read(x, F, s[0], k)
    _load_pairs(x, odd_pairs, size, turn / r[0], 1.0 / slope[0] ** 0.5)
    x[Z1 : Z1 + 4 * HALF] = x[Z2 : Z2 + 4 * HALF]
    # down: three rows of sums and differences are at hand (Z0 to Z2); eliminate the middle one, keep its right side and pivots
    for j in range(n):
        if j + 1 < n:
            _read(x, F, s[j + 1], k)
            _load_pairs(x, odd_pairs, size, turn / r[j + 1], 1.0 / slope[j + 1] ** 0.5)
        else:
            x[Z2 : Z2 + 4 * HALF] = 0.0
        # M1 and D have corners in the first and the last row, where d/dr is one-sided
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
    # up: substitute, and turn back to pairs row by row
    for j in range(n - 1, -1, -1):
        high = 1.0 / slope[j + 1] if j + 1 < n else 0.0
        _mix_substitute(x, y[j, 0], y[j, 1], y[j, 2], y[j, 3], pivot[j, 0], pivot[j, 1], size, high)
        _read(x, F, s[j], k)
        if odd_pairs:
            _store_odd(x, size, turn / r[j], slope[j] ** 0.5)
        else:
            _store_even(x, size, turn / r[j], slope[j] ** 0.5)
        _write(s[j], x, F, k)


@nb.njit(**PART)
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
def _velocity_steps_shared(ticket, *arguments):
    return share(ticket, ranges(_velocity_steps_cpu, arguments))


@nb.njit(**PART)
def _velocity_steps_cpu(first, last, worker, s, pivots, field, tables, lost, progress):
    """Make steps: alone, or as one of as many threads as `progress` has rows.

    ``tables``: radial, mix, couplings, mask, inner; ``lost`` (2 K,): what was set to zero in each lane.
    """
    kicks, halves, dt = field.ends, field.middles, field.dt
    _, mix, couplings, mask, _ = tables
    steps = halves.shape[0]
    if steps == 0:
        return
    lanes = s.shape[1] // 2
    own = share_of(first, progress.shape[0] if last == first + 1 else 1, lanes, progress)
    flat, flat_pivots = s.reshape(-1), Pivots(pivots.down.reshape(-1), pivots.up.reshape(-1))
    # distances at which rows are no longer felt are found for the strongest coupling and field
    strongest = max(largest(couplings.even), largest(couplings.odd))
    most = dt * max(largest(kicks), largest(halves))
    work = mix_work(mix.inverse_slope, lanes, strongest, most)
    masked = mask.shape[0] > 0
    kinds, gs = np.zeros(4, np.int64), np.zeros(4)
    down = True
    for step in range(steps + 1):
        # odd and even pairs of the step that ends, even and odd pairs of the one that begins
        count, after = 0, -1
        if step > 0:
            kinds[count], gs[count] = 1, 0.5 * dt * halves[step - 1]
            # A at the end of a step is that at the beginning of the next one: both halves of the even pairs are one Cayley step,
            # unless the mask lies between them
            whole = not masked and step < steps
            kinds[count + 1], gs[count + 1] = 0, (1.0 if whole else 0.5) * dt * kicks[step]
            count += 2
            after = 2
        if step < steps:
            if masked or step == 0:
                kinds[count], gs[count] = 0, 0.5 * dt * kicks[step]
                count += 1
            kinds[count], gs[count] = 1, 0.5 * dt * halves[step]
            count += 1
        way = Way(down, step > 0, step < steps)
        velocity_sweep(flat, flat_pivots, own, way, (kinds[:count], gs[:count]), after, tables, lost, work)
        down = not down


def velocity_steps(s, tables, kicks, halves, dt, samples=None, sharing=ALONE):
    """Make steps in velocity gauge; the state is whole before and after.

    Parameters
    ----------
    s : (n, 4 K) float64, or on a GPU (members, padded n, 2 K) complex128
        State, worked on in place.
    tables : qsim.tridiag.atom.evolution.propagator.Tables, or on a GPU CudaTables
        What a step needs of grid, potential and lanes.
    kicks : (steps + 1,) float64, or on a GPU (members, steps + 1)
        A at the ends of the steps, a.u.: of the even pairs.
    halves : (steps,) float64, or on a GPU (members, steps)
        A at the midpoints: of the odd pairs.
    dt : float
        Time step, a.u.
    samples : (steps + 1,) int32, optional
        On a GPU: place of the sums to be taken after that many steps, -1 for none.
    sharing : qsim.tridiag.kernels.atom.sharing.Sharing
        On a CPU: threads.

    Returns
    -------
    float, or on a GPU (members, places, 6) and (members,) float64
        Norm that was set to zero near the nucleus; on a GPU after the sums, as of
        :func:`qsim.tridiag.kernels.atom.launch.launch_velocity`.
    """
    if isinstance(tables, CudaTables):
        taken = np.full(halves.shape[1] + 1, -1, np.int32) if samples is None else samples
        made = operations((dt * kicks, dt * halves), taken, masked=tables.mask is not None)
        return launch_velocity(("velocity", "velocity_steps"), s, tables, made)
    t = tables
    pivots, grid = Pivots(t.down, t.up), (t.radial, t.mix, t.couplings, t.mask, t.inner)
    # summed lane by lane: a lane has one thread, so the result does not depend on their number
    lost = np.zeros(s.shape[1] // 2)

    def run(parts, s=s, kicks=kicks, halves=halves, lost=lost):
        arguments = (s, pivots, Kicks(kicks, halves, dt), grid, lost, progress(parts))
        each_together(Shared(_velocity_steps_shared, arguments), parts, sharing.threads)

    def trial():
        few = {"kicks": kicks[: TRIAL + 1], "halves": halves[:TRIAL]}
        return partial(run, s=s.copy(), **few, lost=np.zeros_like(lost))

    sharing.do(halves.size, run, trial)
    return float(lost.sum())
