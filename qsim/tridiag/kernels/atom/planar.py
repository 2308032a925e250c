r"""Steps of an electron in a central potential and a field that turns in the xy plane.

Channels (l, m) with l + m even (or odd) lie on a triangle, ``p = (l + m) / 2``, ``q = (l - m) / 2``: the field couples
neighbours in q (l + 1, m - 1) and neighbours in p (l + 1, m + 1).  Lanes run along q, row by row of p, so that the pairs in q
are the pairs of linear polarisation, with other couplings; exchanging p and q (`swaps`) puts the pairs in p into the same places,
where their couplings are the same up to the sign:

    r sin(theta) cos(phi): (l, m) to (l + 1, m -+ 1): +- r c,   c = 1/2 sqrt((l -+ m + 1) (l -+ m + 2) / ((2 l + 1) (2 l + 3))).

A step is ``Pe Po Qe Qo R Qo Qe Po Pe`` in the frame whose x axis is the direction alpha of the field in that step; the frame
turns between steps, exactly, by phases ``exp(i m (alpha' - alpha))``.  State and scratch: `atom/length`; threads share steps in
length gauge as in `atom/phases`.
"""

from __future__ import annotations

from functools import partial

import numba as nb
import numpy as np

from qsim.core.device.pool import Shared, each_part, each_together
from qsim.core.device.team import ranges, share
from qsim.tridiag.kernels.atom.cuda_tables import CudaTables
from qsim.tridiag.kernels.atom.launch import launch_length, launch_velocity, moves, planar_operations
from qsim.tridiag.kernels.atom.length import (
    HALF,
    IMAG,
    PHASE,
    F,
    _phase,
    _read,
    _swap,
    _turns_planar,
    _write,
)
from qsim.tridiag.kernels.atom.phases import edges_of, meet, radial_phase, work_space
from qsim.tridiag.kernels.atom.records import Planar, Turning
from qsim.tridiag.kernels.atom.sharing import ALONE, TRIAL, progress, unsampled
from qsim.tridiag.kernels.atom.sweeps import share_of
from qsim.tridiag.kernels.atom.velocity import _clear, _pairs
from qsim.tridiag.kernels.jit import JIT, PART

__all__ = ["planar_length_steps", "planar_summed", "planar_sums", "planar_velocity_steps"]

# of a row: norm, Re and Im of conj(b) a of the pairs times their couplings, norm of the last l
SUMS = 4


@nb.njit(**PART)
def _set_phase(x, turns, angle):
    """Fill the phases ``exp(i m angle)`` of swapped lanes."""
    k = turns.shape[0] // 2
    # few m for many lanes
    most = 0
    for i in range(2 * k):
        most = max(most, abs(int(turns[i])))
    cos, sin = np.empty(most + 1), np.empty(most + 1)
    for m in range(most + 1):
        cos[m], sin[m] = np.cos(m * angle), np.sin(m * angle)
    for half in range(2):
        for i in range(k):
            m = int(turns[half * k + i])
            at = PHASE + half * HALF + i
            x[at] = cos[abs(m)]
            x[at + IMAG] = sin[abs(m)] if m > 0 else -sin[abs(m)]


@nb.njit(**PART)
def _masked(s, mask):
    for j in range(s.shape[0]):
        if mask[j] != 1.0:
            s[j] *= mask[j]


@nb.njit(**PART)
def _planar_turns(s, own, angles, r, mask, planar, samples, place, x):
    """Turn pairs and frame in a thread's rows, then mask them and take their sums.

    ``angles``: half a step of the field before and after, and whether the frame turns by the phases in `x`; ``place``: of the
    sums, -1 for none.
    """
    k = s.shape[1] // 4
    first, last = edges_of(own.part, own.parts, s.shape[0])
    for j in range(first, last):
        _read(x, F, s[j], k)
        _turns_planar(x, angles, r[j], k, planar.swaps)
        _write(s[j], x, F, k)
        if mask.shape[0] > 0 and mask[j] != 1.0:
            for i in range(4 * k):
                s[j, i] *= mask[j]
        if place >= 0:
            _planar_row(s[j], planar.links, samples.last, samples.sums[place, j])


@nb.njit(**JIT)
def _planar_length_steps_shared(ticket, *arguments):
    return share(ticket, ranges(_planar_length_steps_cpu, arguments))


@nb.njit(**PART)
def _planar_length_steps_cpu(first, last, worker, s, pivots, field, tables, planar, samples, progress):
    """Make steps in length gauge as one of as many threads as `progress` has rows; see `planar_length_steps`."""
    fields, directions, dt = field.sizes, field.directions, field.dt
    r, radial, mask = tables
    steps = fields.shape[0]
    n, lanes = s.shape[0], s.shape[1] // 2
    own = share_of(first, progress.shape[0] if last == first + 1 else 1, lanes, progress)
    flat, x = s.reshape(-1), planar.scratch[own.part]
    carry, column = work_space(n)
    angles = np.zeros(3)
    # the frame turns with the field: its x axis lies along the field of the step that begins
    frame = 0.0
    down = True
    for k in range(steps + 1):
        before, place = 0.0, samples.places[k]
        if k > 0:
            radial_phase(flat, pivots.down if down else pivots.up, own, down, radial, carry, column)
            meet(own)
            down = place >= 0 or not down
            before = 0.5 * dt * fields[k - 1]
        # the turns of a row end step k - 1 and begin step k, unless the state is needed between them, in the fixed frame
        whole = k == steps or place >= 0
        apart = k > 0 and (whole or mask.shape[0] > 0)
        for half in range(2):
            ends = half == 0
            if ends and not apart:
                continue
            if not ends and k == steps:
                continue
            target = frame
            if not ends:
                target = directions[k]
            elif whole:
                target = 0.0
            angles[0] = before
            angles[1] = 0.0 if ends else 0.5 * dt * fields[k]
            # only the difference of two directions turns the state, so a field along a line costs no phases
            angles[2] = 1.0 if target != frame else 0.0
            _set_phase(x, planar.turns, target - frame)
            factor, sums = (mask, place) if ends else (mask[:0], -1)
            _planar_turns(s, own, angles, r, factor, planar, samples, sums, x)
            frame, before = target, 0.0
        meet(own)


def planar_length_steps(s, tables, fields, directions, dt, samples=None, sharing=ALONE):
    """Make steps in length gauge; the state is whole, and in the fixed frame, before and after.

    Parameters
    ----------
    s : (n, 4 K) float64, or on a GPU (members, padded n, 2 K) complex128
        State, worked on in place.
    tables : qsim.tridiag.atom.evolution.propagator.Tables, or on a GPU CudaTables
        What a step needs of grid, potential and lanes.
    fields, directions : (steps,) float64, or on a GPU (members, steps)
        |E| of every step, a.u., and its angle with the x axis, radian.
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
        # without a list no sums are taken
        taken = np.full(fields.shape[1] + 1, -1, np.int32) if samples is None else samples
        table = moves(fields, dt, taken, directions)
        return launch_length(("planar", "planar_length_steps"), s, tables, table, taken)
    pivots, radial = tables.tiled
    grid = (tables.r, radial, tables.mask)

    def run(parts, s=s, count=fields.size, samples=samples):
        field = Turning(fields[:count], directions[:count], dt)
        taken = unsampled(count, np.zeros(0, np.int64)) if samples is None else samples
        lanes = _lanes_of(tables, parts)
        arguments = (s, pivots, field, grid, lanes, taken, progress(parts))
        each_together(Shared(_planar_length_steps_shared, arguments), parts, sharing.threads)

    few = min(TRIAL, fields.size)
    sharing.do(fields.size, run, lambda: partial(run, s=s.copy(), count=few, samples=None))
    return None


def _lanes_of(tables, parts):
    """Return what planar lanes need, with a scratch array for each of some threads."""
    if len(tables.scratch) < parts:
        tables.scratch = np.repeat(tables.scratch[:1], parts, axis=0)
    return Planar(tables.swaps, tables.turns, tables.links, tables.scratch)


@nb.njit(**PART)
def _pass(s, first, second, swaps, x):
    """Exchange lanes (`first`), turn the frame, exchange lanes (`second`)."""
    k = s.shape[1] // 4
    for j in range(s.shape[0]):
        _read(x, F, s[j], k)
        if first:
            _swap(x, swaps)
        _phase(x, k)
        _phase(x[HALF:], k)
        if second:
            _swap(x, swaps)
        _write(s[j], x, F, k)


@nb.njit(**PART)
def _exchange(s, swaps, x):
    """Exchange p and q of all channels."""
    k = s.shape[1] // 4
    for j in range(s.shape[0]):
        row = s[j]
        for i in range(swaps.shape[0]):
            a, b = swaps[i, 0], swaps[i, 1]
            a = a if a < HALF else a - HALF + k
            b = b if b < HALF else b - HALF + k
            row[a], row[b] = row[b], row[a]
            row[2 * k + a], row[2 * k + b] = row[2 * k + b], row[2 * k + a]


@nb.njit(**JIT)
def _planar_velocity_steps_cpu(s, pivots, field, tables, mask, planar, slope, inner, work, progress):
    """Make steps ``Pe Po Qe Qo R Qo Qe Po Pe`` in velocity gauge; return the norm that was set to zero near the nucleus."""
    fields, directions, dt = field
    swaps, turns, x = planar.swaps, planar.turns, planar.scratch[0]
    pivot, y = work
    r, radial = tables
    n, lanes = s.shape[0], s.shape[1] // 2
    own, flat = share_of(0, 1, lanes, progress), s.reshape(-1)
    carry, column = work_space(n)
    rest = (r, slope, pivot, y, x)
    lost = 0.0
    frame = 0.0
    for step in range(fields.shape[0]):
        g = 0.5 * dt * fields[step]
        _set_phase(x, turns, directions[step] - frame)
        frame = directions[step]
        # Pe Po of the pairs to m + 1, Qe Qo of the pairs to m - 1, R, and back: all with A at the middle of the step
        # lanes are swapped before the first step and stay so from one step to the next, since pairs to m + 1
        # begin and end each step
        _pass(s, step == 0, False, swaps, x)
        _pairs(s, False, -g, *rest)
        _pairs(s, True, -g, *rest)
        _exchange(s, swaps, x)
        _pairs(s, False, g, *rest)
        _pairs(s, True, g, *rest)
        # the radial step couples no pairs, and sees neither swaps nor turns
        radial_phase(flat, pivots.down, own, True, radial, carry, column)
        _pairs(s, True, g, *rest)
        _pairs(s, False, g, *rest)
        _exchange(s, swaps, x)
        _pairs(s, True, -g, *rest)
        _pairs(s, False, -g, *rest)
        lost += _clear(s, inner)
        if mask.shape[0] > 0:
            _masked(s, mask)
    # back to the fixed frame, in which the lanes of the caller are
    _set_phase(x, turns, -frame)
    _pass(s, False, True, swaps, x)
    return lost


def planar_velocity_steps(s, tables, fields, directions, dt, samples=None):
    """Make steps in velocity gauge; parameters as of `planar_length_steps`, with |A| and its angle.

    Returns
    -------
    float, or on a GPU (members, places, 6) and (members,) float64
        Norm that was set to zero near the nucleus; on a GPU after the sums.
    """
    if isinstance(tables, CudaTables):
        taken = np.full(fields.shape[1] + 1, -1, np.int32) if samples is None else samples
        made = planar_operations(dt * fields, directions, taken, masked=tables.mask is not None)
        return launch_velocity(("planar", "planar_velocity_steps"), s, tables, made)
    pivots, radial = tables.tiled
    arguments = (pivots, Turning(fields, directions, dt), (tables.r, radial))
    rest = (
        tables.mask,
        _lanes_of(tables, 1),
        tables.slope,
        tables.inner,
        (tables.pivot, tables.y),
        progress(1),
    )
    return _planar_velocity_steps_cpu(s, *arguments, *rest)


# ------------------------------------------------------------------------------------------ observables


@nb.njit(**PART)
def _planar_row(row, links, last, out):
    """Fill the sums of a row (4 K,): norm, real and imaginary part of the pairs' conj(b) a, coupled, norm of the lanes `last`."""
    half = row.shape[0] // 2
    norm, along, across, edge = 0.0, 0.0, 0.0, 0.0
    for i in range(2 * half):
        norm += row[i] * row[i]
    for i in range(links.pairs.shape[0]):
        a, b = links.pairs[i, 0], links.pairs[i, 1]
        # the real part of conj(b) a belongs to <x>, the imaginary part to <y>, with opposite signs for pairs to
        # m + 1 and to m - 1
        along += links.coupling[i] * (row[a] * row[b] + row[half + a] * row[half + b])
        across += links.sign[i] * links.coupling[i] * (row[b] * row[half + a] - row[a] * row[half + b])
    for i in last:
        edge += row[i] * row[i] + row[half + i] * row[half + i]
    out[0], out[1], out[2], out[3] = norm, along, across, edge


@nb.njit(**JIT)
def _planar_rows_shared(ticket, *arguments):
    return share(ticket, ranges(_planar_rows_cpu, arguments))


@nb.njit(**PART)
def _planar_rows_cpu(first, last, worker, s, links, lanes, out):
    for j in range(first, last):
        _planar_row(s[j], links, lanes, out[j])


def planar_sums(s, tables, weight, force, last, threads=1):
    """Return norm, ``<x>``, ``<y>``, mean force along both, and the norm of lanes, (6,) float64.

    Parameters
    ----------
    s : (n, 4 K) float64
        State in the fixed frame, read.
    tables : qsim.tridiag.atom.evolution.propagator.Tables
        Radii, pairs of lanes and their couplings.
    weight : (n,) float64
        ``1 / r'^2``.
    force : (n,) float64
        dV/dr with the weights of its integral.
    last : (count,) int64
        Lanes of the largest l.
    threads : int
        At most.
    """
    sums = np.empty((1, s.shape[0], SUMS))
    each_part(Shared(_planar_rows_shared, (s, tables.links, last, sums[0])), s.shape[0], s.size, threads)
    return planar_summed(sums, tables, weight, force)[0]


def planar_summed(sums, tables, weight, force):
    """Return what `planar_sums` does, (places, 6), from the sums of rows at some steps, (places, n, 4) float64."""
    norm, along, across, edge = np.moveaxis(sums, 2, 0)
    r, push = 2.0 * weight * tables.r, 2.0 * weight * force
    columns = [norm * weight, along * r, across * r, along * push, across * push, edge * weight]
    return np.column_stack([column.sum(axis=1) for column in columns])
