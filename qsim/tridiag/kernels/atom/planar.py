r"""Steps of an electron in a central potential and a field that turns in the xy plane.

Channels (l, m) with l + m even (or odd) lie on a triangle, ``p = (l + m) / 2``, ``q = (l - m) / 2``: the field couples
neighbours in q (l + 1, m - 1) and neighbours in p (l + 1, m + 1).  Lanes run along q, row by row of p, so that the pairs in q
are the pairs of linear polarisation, with other couplings; exchanging p and q (`swaps`) puts the pairs in p into the same places,
where their couplings are the same up to the sign:

    r sin(theta) cos(phi): (l, m) to (l + 1, m -+ 1): +- r c,   c = 1/2 sqrt((l -+ m + 1) (l -+ m + 2) / ((2 l + 1) (2 l + 3))).

A step is ``Pe Po Qe Qo R Qo Qe Po Pe`` in the frame whose x axis is the direction alpha of the field in that step; the frame
turns between steps, exactly, by phases ``exp(i m (alpha' - alpha))``.  State and scratch: `atom/length`.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from qsim.tridiag.kernels.atom.cuda_tables import CudaTables
from qsim.tridiag.kernels.atom.launch import launch_length, launch_velocity, moves, planar_operations
from qsim.tridiag.kernels.atom.length import (
    HALF,
    IMAG,
    NO_SWAPS,
    PHASE,
    F,
    _phase,
    _read,
    _swap,
    _sweep,
    _write,
)
from qsim.tridiag.kernels.atom.records import Pivots, Planar, RowTables, Turning, Way
from qsim.tridiag.kernels.atom.velocity import _clear, _pairs
from qsim.tridiag.kernels.jit import JIT, PART

__all__ = ["planar_length_steps", "planar_sums", "planar_velocity_steps"]


@nb.njit(**PART)
def _set_phase(x, turns, angle):
    """Fill the phases ``exp(i m angle)`` of swapped lanes."""
    k = turns.shape[0] // 2
    for i in range(k):
        x[PHASE + i] = np.cos(turns[i] * angle)
        x[PHASE + HALF + i] = np.cos(turns[k + i] * angle)
        x[PHASE + IMAG + i] = np.sin(turns[i] * angle)
        x[PHASE + IMAG + HALF + i] = np.sin(turns[k + i] * angle)


@nb.njit(**PART)
def _masked(s, mask):
    for j in range(s.shape[0]):
        if mask[j] != 1.0:
            s[j] *= mask[j]


@nb.njit(**JIT)
def _planar_length_steps_cpu(s, pivots, field, tables, mask, planar):
    """Make steps in length gauge, each sweep completing one and beginning the next; see `planar_length_steps`."""
    fields, directions, dt = field
    zero, swaps, turns, x = planar
    steps = fields.shape[0]
    angles = np.zeros(3)
    rest = (angles, tables, zero, swaps, x)
    # the frame turns with the field: its x axis lies along the field of the step that begins
    frame = 0.0
    down = True
    for k in range(steps + 1):
        # one sweep ends step k - 1 and begins step k: half a step of either field
        before = 0.5 * dt * fields[k - 1] if k > 0 else 0.0
        after = 0.5 * dt * fields[k] if k < steps else 0.0
        target = directions[k] if k < steps else 0.0
        # after the step is complete
        if mask.shape[0] > 0 and k > 0:
            angles[0], angles[1], angles[2] = before, 0.0, 0.0
            _sweep(s, pivots, Way(down, True, False), *rest)
            _masked(s, mask)
            down = not down
        angles[0] = 0.0 if mask.shape[0] > 0 else before
        angles[1] = after
        angles[2] = 1.0 if target != frame else 0.0
        # only the difference of two directions turns the state, so a field along a line costs no phases
        _set_phase(x, turns, target - frame)
        frame = target
        # with a mask the sweep above has substituted already
        solve = k > 0 and mask.shape[0] == 0
        _sweep(s, pivots, Way(down, solve, k < steps), *rest)
        down = not down


def planar_length_steps(s, tables, fields, directions, dt, samples=None):
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
    samples : (steps + 1,) int32, optional
        On a GPU: place of the sums to be taken after that many steps, -1 for none.

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
    field = Turning(fields, directions, dt)
    _planar_length_steps_cpu(s, *_of_rows(tables, field), tables.mask, _lanes_of(tables))
    return None


def _of_rows(tables, field):
    """Return pivots, field and tables as sweeps row by row take them."""
    pivots = Pivots(tables.down, tables.up)
    return pivots, field, RowTables(tables.r, tables.a, tables.potential, tables.rotation)


def _lanes_of(tables):
    """Return what planar lanes need."""
    return Planar(tables.zero, tables.swaps, tables.turns, tables.scratch)


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
def _planar_velocity_steps_cpu(s, pivots, field, tables, mask, planar, slope, inner, work):
    """Make steps ``Pe Po Qe Qo R Qo Qe Po Pe`` in velocity gauge; return the norm that was set to zero near the nucleus."""
    fields, directions, dt = field
    zero, swaps, turns, x = planar
    pivot, y = work
    # the radial step couples no pairs, and sees neither swaps nor turns
    still = np.zeros(3)
    radial = (still, tables, zero, NO_SWAPS, x)
    rest = (tables.r, slope, pivot, y, x)
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
        # the radial step in two sweeps of its own: eliminate down, substitute up
        _sweep(s, pivots, Way(True, False, True), *radial)
        _sweep(s, pivots, Way(False, True, False), *radial)
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
    field = Turning(fields, directions, dt)
    rest = (tables.mask, _lanes_of(tables), tables.slope, tables.inner, (tables.pivot, tables.y))
    return _planar_velocity_steps_cpu(s, *_of_rows(tables, field), *rest)


# ------------------------------------------------------------------------------------------ observables


@nb.njit(**JIT)
def _planar_sums_cpu(s, weight, r, force, pairs, coupling, sign, last, out):
    """Fill norm, <x>, <y>, <x V'/r>, <y V'/r>, and the norm of the lanes `last`."""
    half = s.shape[1] // 2
    out[:] = 0.0
    for j in range(s.shape[0]):
        norm = 0.0
        for i in range(2 * half):
            norm += s[j, i] * s[j, i]
        across = 0.0
        along = 0.0
        for i in range(pairs.shape[0]):
            a, b = pairs[i, 0], pairs[i, 1]
            # the real part of conj(b) a belongs to <x>, the imaginary part to <y>, with opposite signs for
            # pairs to m + 1 and to m - 1
            re = s[j, a] * s[j, b] + s[j, half + a] * s[j, half + b]
            im = s[j, b] * s[j, half + a] - s[j, a] * s[j, half + b]
            along += coupling[i] * re
            across += sign[i] * coupling[i] * im
        edge = 0.0
        for i in last:
            edge += s[j, i] * s[j, i] + s[j, half + i] * s[j, half + i]
        out[0] += weight[j] * norm
        out[1] += 2.0 * weight[j] * r[j] * along
        out[2] += 2.0 * weight[j] * r[j] * across
        out[3] += 2.0 * weight[j] * force[j] * along
        out[4] += 2.0 * weight[j] * force[j] * across
        out[5] += weight[j] * edge


def planar_sums(s, tables, weight, force, last):
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
    """
    out = np.empty(6)
    t = tables
    _planar_sums_cpu(s, weight, t.r, force, t.links.pairs, t.links.coupling, t.links.sign, last, out)
    return out
