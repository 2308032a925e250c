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
from qsim.core.device.pool import Shared, each_part, each_together
from qsim.core.device.team import ranges, share
from qsim.tridiag.kernels.atom.cuda_tables import CudaTables
from qsim.tridiag.kernels.atom.launch import launch_length, moves
from qsim.tridiag.kernels.atom.phases import SUMS, meet, radial_phase, row_sums, turn_phase, work_space
from qsim.tridiag.kernels.atom.records import Pivots, Rows, Way
from qsim.tridiag.kernels.atom.sharing import ALONE, TRIAL, lined, progress, unsampled
from qsim.tridiag.kernels.atom.sweeps import length_sweep, masked, radial_carries, share_of
from qsim.tridiag.kernels.jit import JIT, PART
from qsim.tridiag.kernels.simd import WIDTH

__all__ = ["HALF", "SUMS", "atom_sums", "length_steps", "pivots", "scratch", "summed"]

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
# state: [Re even | Re odd | Im even | Im odd]
F = 0
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


@nb.njit(**JIT)
def _length_steps_shared(ticket, *arguments):
    return share(ticket, ranges(_length_steps_cpu, arguments))


@nb.njit(**PART)
def _length_steps_cpu(first, last, worker, s, pivots, field, tables, mask, progress):
    """Make steps on one thread, each sweep completing one and beginning the next.

    ``field``: E of every step, and dt; ``tables``: r, radial, couplings.
    """
    fields, dt = field
    steps = fields.shape[0]
    if steps == 0:
        return
    rows, lanes = s.shape[0], s.shape[1] // 2
    own = share_of(0, 1, lanes, progress)
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


@nb.njit(**JIT)
def _length_phases_shared(ticket, *arguments):
    return share(ticket, ranges(_length_phases_cpu, arguments))


@nb.njit(**PART)
def _length_phases_cpu(first, last, worker, s, pivots, field, tables, mask, samples, progress):
    """Make the steps of `_length_steps_cpu` as one of as many threads as `progress` has rows, and take sums on the way."""
    fields, dt = field
    steps = fields.shape[0]
    if steps == 0:
        return
    n, lanes = s.shape[0], s.shape[1] // 2
    own = share_of(first, progress.shape[0] if last == first + 1 else 1, lanes, progress)
    flat = s.reshape(-1)
    r, radial, couplings = tables
    (carry, column), partial = work_space(n), np.empty(2 * WIDTH)
    angles = np.zeros(4)
    down = True
    for k in range(steps + 1):
        here = 0.5 * dt * fields[k - 1] if k > 0 else 0.0
        after = 0.5 * dt * fields[k] if k < steps else 0.0
        place = samples.places[k]
        if k > 0:
            radial_phase(flat, pivots.down if down else pivots.up, own, down, radial, carry, column)
            meet(own)
            # as calls that begin and end at the samples would go
            down = place >= 0 or not down
        # nothing lies between the even pairs of two steps, unless the state is needed there
        whole = k == 0 or mask.shape[0] > 0 or place >= 0
        angles[0] = here
        angles[1] = here if whole else here + after
        angles[2] = after if whole else 0.0
        angles[3] = after
        turn_phase(flat, own, angles, r, couplings, mask if k > 0 else mask[:0], samples, place, partial)
        meet(own)


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
    samples : (steps + 1,) int32 on a GPU, Samples on a CPU, optional
        Place of the sums to be taken after that many steps, -1 for none; on a CPU with the arrays that take the sums of rows.
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
    if samples is None and sharing.choices == [1]:
        pivots, grid = Pivots(tables.down, tables.up), (tables.r, tables.radial, tables.couplings)
        work = Shared(_length_steps_shared, (s, pivots, (fields, dt), grid, tables.mask, progress(1)))
        each_together(work, 1, 1)
        return None
    pivots, radial = tables.tiled
    grid = (tables.r, radial, tables.couplings)

    def run(parts, s=s, fields=fields, samples=samples):
        taken = unsampled(fields.size, 0) if samples is None else samples
        arguments = (s, pivots, (fields, dt), grid, tables.mask, taken, progress(parts))
        each_together(Shared(_length_phases_shared, arguments), parts, sharing.threads)

    sharing.do(fields.size, run, lambda: partial(run, s=lined(s), fields=fields[:TRIAL], samples=None))
    return None


def scratch(even, odd, even_growth, odd_growth):
    """Return the scratch array of a run with what depends on l alone: couplings (K,)."""
    x = np.zeros(SCRATCH)
    k = even.size
    for at, values in ((EVEN, even), (ODD, odd), (EVEN_GROWTH, even_growth), (ODD_GROWTH, odd_growth)):
        x[at : at + k] = values
    return x


# ------------------------------------------------------------------------------------------ observables


@nb.njit(**JIT)
def _row_sums_shared(ticket, *arguments):
    return share(ticket, ranges(_row_sums_cpu, arguments))


@nb.njit(**PART)
def _row_sums_cpu(first, last, worker, s, couplings, lane, out):
    row_sums(
        s.reshape(-1), s.shape[1] // 2, couplings, lane, Rows(0, 1, first, last), out, np.empty(2 * WIDTH)
    )


@nb.njit(**JIT)
def _summed_cpu(sums, weight, r, force, out):
    """Fill what `atom_sums` returns from the sums of rows, (places, n, 3)."""
    out[:] = 0.0
    # <z> couples l to l + 1: twice the real part of conj(u_l) u_(l+1); cos(theta) dV/dr has the angular factor of
    # z = r cos(theta)
    for place in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            norm, cosine, edge = sums[place, j, 0], 2.0 * sums[place, j, 1], sums[place, j, 2]
            out[place, 0] += weight[j] * norm
            out[place, 1] += weight[j] * r[j] * cosine
            out[place, 2] += weight[j] * force[j] * cosine
            out[place, 3] += weight[j] * edge


def atom_sums(s, tables, weight, force, last, threads=1):
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
    threads : int
        At most.
    """
    sums = np.empty((1, s.shape[0], SUMS))
    each_part(Shared(_row_sums_shared, (s, tables.couplings, last, sums[0])), s.shape[0], s.size, threads)
    return summed(sums, tables, weight, force)[0]


def summed(sums, tables, weight, force):
    """Return what `atom_sums` does, (places, 4), from the sums of rows at some steps, (places, n, 3) float64."""
    out = np.empty((len(sums), 4))
    _summed_cpu(sums, weight, tables.r, force, out)
    return out
