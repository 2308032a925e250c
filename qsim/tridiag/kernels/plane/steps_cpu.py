r"""Kinetic steps in two coordinates as recursive filters, eight lines side by side, with the phases of a potential between them.

The Cayley step ``(1 - i tau T)/(1 + i tau T)`` of a kinetic energy on an even lattice between hard walls is

    psi'_j = alpha psi_j + beta (r_j + l_j),   r_j = psi_j + lambda r_(j-1),   l_j = psi_j + lambda l_(j+1)

with one complex lambda for all points.  Walls are images: beyond them the wave function continues with the other sign, so that
r begins with ``-lambda l_0``, where ``l_0 = sum_j w_j psi_j``, and l with ``-lambda r_(n-1)``.

The state is held as rows [Re | Im] of one width, both numbers of rows and columns filled up with zeros to multiples of eight.  A
pass along one axis makes the second kinetic step of a time step, the phases, and the first kinetic step of the next one: it reads
and writes the state once.  Three sweeps do, since the step after the phases begins where the one before them has ended.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from qsim.core.device.cpu.vectors import get, lanes, put, same, total, transposed
from qsim.core.device.jit import variant
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share
from qsim.tridiag.kernels.jit import JIT, PART

__all__ = ["PANEL", "QUARTER", "marginals", "scratch", "step_pass"]

# lines of a panel: two vectors, so that the latency of one recurrence hides behind the other
PANEL = 8
# numbers of a vector
QUARTER = 4
# numbers of a point of a panel in the scratch: Re and Im of psi, then of one recurrence, eight lines each
POINT = 4 * PANEL
# of what a range of panels carries: a recurrence of either solve, and what the absorber takes
CARRY = 2 * 2 * PANEL + 2 * PANEL


def scratch(threads, points):
    """Return the work space of some threads for lines of some points, (threads, numbers) float64."""
    # rows a few lines of the cache apart: threads must not share sets
    return np.empty((threads, POINT * points + CARRY + 64))


@nb.njit(**PART)
def _load_along(s, width, panel, n, column):
    """Read eight columns of the state: lines along the first axis."""
    for j in range(n):
        here, there = 2 * width * j + PANEL * panel, POINT * j
        for k in range(0, PANEL, QUARTER):
            put(column, there + k, lanes(s, here + k))
            put(column, there + PANEL + k, lanes(s, here + width + k))


@nb.njit(**PART)
def _keep_along(s, width, panel, n, column):
    """Write eight columns back."""
    for j in range(n):
        here, there = 2 * width * j + PANEL * panel, POINT * j
        for k in range(0, PANEL, QUARTER):
            put(s, here + k, lanes(column, there + k))
            put(s, here + width + k, lanes(column, there + PANEL + k))


@nb.njit(**PART)
def _turn(column, n, lines, panel, twist):
    """Multiply the lines of a panel by factors of each point, line beside line."""
    for j in range(n):
        here, there = lines * j + PANEL * panel, POINT * j
        for k in range(0, PANEL, QUARTER):
            wr, wi = lanes(twist, here + k), lanes(twist, twist.shape[1] + here + k)
            fr, fi = lanes(column, there + k), lanes(column, there + PANEL + k)
            put(column, there + k, wr * fr - wi * fi)
            put(column, there + PANEL + k, wr * fi + wi * fr)


@nb.njit(**PART)
def _load_across(s, width, panel, n, column):
    """Read eight rows of the state: lines along the second axis, turned in squares of four."""
    for part in range(2):
        for k in range(0, PANEL, QUARTER):
            row = (2 * (PANEL * panel + k) + part) * width
            for j in range(0, n, QUARTER):
                a, b, c, d = transposed(
                    lanes(s, row + j),
                    lanes(s, row + 2 * width + j),
                    lanes(s, row + 4 * width + j),
                    lanes(s, row + 6 * width + j),
                )
                there = POINT * j + PANEL * part + k
                put(column, there, a)
                put(column, there + POINT, b)
                put(column, there + 2 * POINT, c)
                put(column, there + 3 * POINT, d)


@nb.njit(**PART)
def _keep_across(s, width, panel, n, column):
    """Write eight rows back; what lies beyond point n in the last square stays zero."""
    for j in range(n, -(-n // QUARTER) * QUARTER):
        for k in range(0, 2 * PANEL, QUARTER):
            put(column, POINT * j + k, same(0.0))
    for part in range(2):
        for k in range(0, PANEL, QUARTER):
            row = (2 * (PANEL * panel + k) + part) * width
            for j in range(0, n, QUARTER):
                there = POINT * j + PANEL * part + k
                a, b, c, d = transposed(
                    lanes(column, there),
                    lanes(column, there + POINT),
                    lanes(column, there + 2 * POINT),
                    lanes(column, there + 3 * POINT),
                )
                put(s, row + j, a)
                put(s, row + 2 * width + j, b)
                put(s, row + 4 * width + j, c)
                put(s, row + 6 * width + j, d)


@nb.njit(**PART)
def _image(column, n, last, head, x, y, carry, at):
    """Set a carry to what a recurrence has one point before its first, beyond a wall: ``-lambda sum_j w_j psi_j``.

    ``last``: whether the wall is beyond the last point; ``head``: weights (m, 2); ``x + i y``: lambda.
    """
    m = head.shape[0]
    for k in range(0, PANEL, QUARTER):
        sr, si = same(0.0), same(0.0)
        for j in range(m):
            there = POINT * (n - 1 - j if last else j) + k
            fr, fi = lanes(column, there), lanes(column, there + PANEL)
            wr, wi = head[j, 0], head[j, 1]
            sr = sr + wr * fr - wi * fi
            si = si + wr * fi + wi * fr
        put(carry, at + k, y * si - x * sr)
        put(carry, at + PANEL + k, -y * sr - x * si)


def _recurring(name, rows):
    """Return the sweep of one recurrence; `rows`: whether each point has its own constants."""

    @variant(name, **PART)
    def sweep(column, n, low, high, up, constants, carry, at):
        """Make a recurrence from its carry and store it, ``up`` from point low to high - 1, or down."""
        ar, ai = lanes(carry, at), lanes(carry, at + PANEL)
        br, bi = lanes(carry, at + QUARTER), lanes(carry, at + PANEL + QUARTER)
        x, y = constants[0, 0], constants[0, 1]
        for k in range(low, high):
            j = k if up else low + high - 1 - k
            there = POINT * j
            if rows:
                x, y = constants[j, 0], constants[j, 1]
            cr = lanes(column, there) - y * ai + x * ar
            ai = lanes(column, there + PANEL) + y * ar + x * ai
            ar = cr
            dr = lanes(column, there + QUARTER) - y * bi + x * br
            bi = lanes(column, there + PANEL + QUARTER) + y * br + x * bi
            br = dr
            put(column, there + 2 * PANEL, ar)
            put(column, there + 3 * PANEL, ai)
            put(column, there + 2 * PANEL + QUARTER, br)
            put(column, there + 3 * PANEL + QUARTER, bi)
        put(carry, at, ar)
        put(carry, at + PANEL, ai)
        put(carry, at + QUARTER, br)
        put(carry, at + PANEL + QUARTER, bi)

    return sweep


@nb.njit(**PART)
def _mirrored(from_, at, constants, carry, to):
    """Set a carry to the image beyond a wall: ``-lambda`` times the other recurrence at the last point before it."""
    x, y = constants[0, 0], constants[0, 1]
    for k in range(0, PANEL, QUARTER):
        fr, fi = lanes(from_, at + k), lanes(from_, at + PANEL + k)
        put(carry, to + k, y * fi - x * fr)
        put(carry, to + PANEL + k, -y * fr - x * fi)


def _finishing(name, rows):
    """Return the sweep that completes a step; `rows` as of `_recurring`."""

    @variant(name, **PART)
    def sweep(column, n, filt, carry):
        """Complete a step whose recurrence down is stored: make that up and add both."""
        for k in range(0, 2 * PANEL, QUARTER):
            put(carry, k, same(0.0))
        if not rows:
            _mirrored(column, 2 * PANEL, filt, carry, 0)
        x, y, pr, pi, qr, qi = filt[0, 0], filt[0, 1], filt[0, 4], filt[0, 5], filt[0, 6], filt[0, 7]
        ar, ai = lanes(carry, 0), lanes(carry, PANEL)
        br, bi = lanes(carry, QUARTER), lanes(carry, PANEL + QUARTER)
        for j in range(n):
            there = POINT * j
            if rows:
                x, y, pr, pi, qr, qi = filt[j, 0], filt[j, 1], filt[j, 4], filt[j, 5], filt[j, 6], filt[j, 7]
            fr, fi = lanes(column, there), lanes(column, there + PANEL)
            cr = fr - y * ai + x * ar
            ai = fi + y * ar + x * ai
            ar = cr
            sr, si = ar + lanes(column, there + 2 * PANEL), ai + lanes(column, there + 3 * PANEL)
            put(column, there, pr * fr - pi * fi + qr * sr - qi * si)
            put(column, there + PANEL, pr * fi + pi * fr + qr * si + qi * sr)
            fr, fi = lanes(column, there + QUARTER), lanes(column, there + PANEL + QUARTER)
            dr = fr - y * bi + x * br
            bi = fi + y * br + x * bi
            br = dr
            sr, si = (
                br + lanes(column, there + 2 * PANEL + QUARTER),
                bi + lanes(column, there + 3 * PANEL + QUARTER),
            )
            put(column, there + QUARTER, pr * fr - pi * fi + qr * sr - qi * si)
            put(column, there + PANEL + QUARTER, pr * fi + pi * fr + qr * si + qi * sr)

    return sweep


def _middle(name, ends, begins, rows=False):
    """Return the sweep down between two recurrences: the end of one kinetic step, the phases, the begin of the next.

    `ends`, `begins`: whether there is a kinetic step before the phases, and one after them; `rows` as of `_recurring`.
    """

    @variant(name, **PART)
    def sweep(column, low, high, first, second, phases, panel, carry):
        """Work on the points from high - 1 down to low; ``carry``: recurrences of both steps, then what was lost."""
        x, y, pr, pi, qr, qi = first[0, 2], first[0, 3], first[0, 4], first[0, 5], first[0, 6], first[0, 7]
        u, v = second[0, 2], second[0, 3]
        table, line, across = phases.table, phases.line, phases.across
        inside, kept_line, kept_across = phases.inside, phases.kept_line, phases.kept_across
        bend = phases.bend
        at = PANEL * panel
        for k in range(0, PANEL, QUARTER):
            ar, ai = lanes(carry, k), lanes(carry, PANEL + k)
            br, bi = lanes(carry, 2 * PANEL + k), lanes(carry, 3 * PANEL + k)
            gone, inner = lanes(carry, 4 * PANEL + k), lanes(carry, 5 * PANEL + k)
            tr, ti = lanes(across, at + k), lanes(across, across.shape[1] + at + k)
            lossy = kept_across.shape[0] > 0
            thin = lossy and total(lanes(kept_across, at + k)) < QUARTER
            for step in range(low, high):
                j = low + high - 1 - step
                there = POINT * j + k
                fr, fi = lanes(column, there), lanes(column, there + PANEL)
                if ends:
                    if rows:
                        x, y, pr, pi = first[j, 2], first[j, 3], first[j, 4], first[j, 5]
                        qr, qi = first[j, 6], first[j, 7]
                    cr = fr - y * ai + x * ar
                    ai = fi + y * ar + x * ai
                    ar = cr
                    sr, si = ar + lanes(column, there + 2 * PANEL), ai + lanes(column, there + 3 * PANEL)
                    cr = pr * fr - pi * fi + qr * sr - qi * si
                    fi = pr * fi + pi * fr + qr * si + qi * sr
                    fr = cr
                if lossy and (thin or kept_line[j] < 1.0):
                    # the kinetic steps keep the norm: what the phases take here is all that is lost
                    lost = (fr * fr + fi * fi) * (1.0 - kept_line[j] * lanes(kept_across, at + k))
                    gone = gone + lost
                    inner = inner + inside[j] * lost
                place = phases.origin + phases.stride * j + at + k
                wr, wi = lanes(table, place), lanes(table, table.shape[1] + place)
                # of all three phases the two without psi first: they are not in the chain of the recurrence
                er, ei = line[0, j] * tr - line[1, j] * ti, line[0, j] * ti + line[1, j] * tr
                gr, gi = wr * er - wi * ei, wr * ei + wi * er
                if bend != 0.0:
                    # exp(-i p) as (a - i b) / (a + i b) of order 8 (Pade): of modulus 1, with an error of 4e-8 p^9
                    p = bend * (fr * fr + fi * fi)
                    q = p * p
                    a, b = 1.0 + q * (q * (1.0 / 1680.0) - 3.0 / 28.0), p * (0.5 - q * (1.0 / 84.0))
                    c = 1.0 / (a * a + b * b)
                    er, ei = (a * a - b * b) * c, -2.0 * a * b * c
                    wr = gr * er - gi * ei
                    gi = gr * ei + gi * er
                    gr = wr
                cr = gr * fr - gi * fi
                fi = gr * fi + gi * fr
                fr = cr
                put(column, there, fr)
                put(column, there + PANEL, fi)
                if begins:
                    if rows:
                        u, v = second[j, 2], second[j, 3]
                    cr = fr - v * bi + u * br
                    bi = fi + v * br + u * bi
                    br = cr
                    put(column, there + 2 * PANEL, br)
                    put(column, there + 3 * PANEL, bi)
            put(carry, k, ar)
            put(carry, PANEL + k, ai)
            put(carry, 2 * PANEL + k, br)
            put(carry, 3 * PANEL + k, bi)
            put(carry, 4 * PANEL + k, gone)
            put(carry, 5 * PANEL + k, inner)

    return sweep


_recurrence = _recurring("recurrence", False)
_finish = _finishing("finish", False)
_between = _middle("between", True, True)
_ending = _middle("ending", True, False)
_beginning = _middle("beginning", False, True)
_alone = _middle("alone", False, False)
_recurrence_rows = _recurring("recurrence_rows", True)
_finish_rows = _finishing("finish_rows", True)
_between_rows = _middle("between_rows", True, True, True)
_ending_rows = _middle("ending_rows", True, False, True)
_beginning_rows = _middle("beginning_rows", False, True, True)


@nb.njit(**PART)
def _lost(carry, inside, at):
    """Return what the lines of a panel have lost where one coordinate, and where none, lies inside."""
    single, double = 0.0, 0.0
    for k in range(PANEL):
        share_across = get(inside, at + k)
        within, beyond = get(carry, 5 * PANEL + k), get(carry, 4 * PANEL + k) - get(carry, 5 * PANEL + k)
        single += within + share_across * beyond
        double += (1.0 - share_across) * beyond
    return single, double


@nb.njit(**PART)
def _sweeps(column, n, before, after, phases, panel, carry):
    """Make the sweeps of a pass up to the last one, with the images beyond both walls; see `step_pass`."""
    head = after.head.shape[0]
    first, second = before.constants, after.constants
    u, v = second[0, 0], second[0, 1]
    if before.head.shape[0] > 0:
        _image(column, n, False, before.head, first[0, 0], first[0, 1], carry, 0)
        _recurrence(column, n, 0, n, True, first, carry, 0)
        _mirrored(carry, 0, first, carry, 0)
        if head > 0:
            # the next recurrence needs the points beside the last wall to begin with
            _ending(column, n - head, n, first, second, phases, panel, carry)
            _image(column, n, True, after.head, u, v, carry, 2 * PANEL)
            _recurrence(column, n, n - head, n, False, second, carry, 2 * PANEL)
            _between(column, 0, n - head, first, second, phases, panel, carry)
        else:
            _ending(column, 0, n, first, second, phases, panel, carry)
    elif head > 0:
        _alone(column, n - head, n, first, second, phases, panel, carry)
        _image(column, n, True, after.head, u, v, carry, 2 * PANEL)
        _recurrence(column, n, n - head, n, False, second, carry, 2 * PANEL)
        _beginning(column, 0, n - head, first, second, phases, panel, carry)
    else:
        _alone(column, 0, n, first, second, phases, panel, carry)


@nb.njit(**PART)
def _sweeps_rows(column, n, before, after, phases, panel, carry):
    """Make the sweeps of a pass up to the last one with the constants of each point."""
    first, second = before.constants, after.constants
    if before.head.shape[0] > 0:
        _recurrence_rows(column, n, 0, n, True, first, carry, 0)
        for k in range(0, 2 * PANEL, QUARTER):
            put(carry, k, same(0.0))
        if after.head.shape[0] > 0:
            _between_rows(column, 0, n, first, second, phases, panel, carry)
        else:
            _ending_rows(column, 0, n, first, second, phases, panel, carry)
    elif after.head.shape[0] > 0:
        _beginning_rows(column, 0, n, first, second, phases, panel, carry)
    else:
        _alone(column, 0, n, first, second, phases, panel, carry)


def _passing(name, sweeps, finish):
    """Return the pass over some panels that has these sweeps."""

    @variant(name, **PART)
    def passed(first, last, worker, s, axis, before, after, phases, lost, work):
        """Make a pass over the panels ``first ... last - 1``; see `step_pass`."""
        width, n = s.shape[2], phases.line.shape[1]
        flat = s.reshape(-1)
        column = work[worker][: POINT * (n + QUARTER)]
        carry = work[worker][POINT * (n + QUARTER) : POINT * (n + QUARTER) + CARRY]
        for panel in range(first, last):
            if axis == 0:
                _load_along(flat, width, panel, n, column)
            else:
                _load_across(flat, width, panel, n, column)
            if phases.twist.shape[1] > 0:
                _turn(column, n, phases.twist.shape[1] // n, panel, phases.twist)
            for k in range(0, CARRY, QUARTER):
                put(carry, k, same(0.0))
            sweeps(column, n, before, after, phases, panel, carry)
            if phases.kept_line.shape[0] > 0:
                single, double = _lost(carry, phases.edges, PANEL * panel)
                lost[panel, 0] += single
                lost[panel, 1] += double
            if after.head.shape[0] > 0:
                finish(column, n, after.constants, carry)
            if axis == 0:
                _keep_along(flat, width, panel, n, column)
            else:
                _keep_across(flat, width, panel, n, column)

    return passed


_pass_cpu = _passing("pass", _sweeps, _finish)
_pass_rows_cpu = _passing("pass_rows", _sweeps_rows, _finish_rows)


@nb.njit(**JIT)
def _pass_shared(ticket, *arguments):
    return share(ticket, ranges(_pass_cpu, arguments))


@nb.njit(**JIT)
def _pass_rows_shared(ticket, *arguments):
    return share(ticket, ranges(_pass_rows_cpu, arguments))


def step_pass(s, axis, before, after, phases, lost, work):
    """Make the end of a kinetic step along an axis, the phases, and the begin of the next kinetic step along it.

    Parameters
    ----------
    s : (rows, 2, width) float64
        State, in place: rows of real and of imaginary parts, zero beyond the points of the grid.
    axis : int
        0 or 1.
    before, after : Filter
        Kinetic steps before and after the phases, or `NO_STEP`.
    phases : Phases
    lost : (panels, 2) float64
        What the absorber takes where one coordinate lies inside, and where none does, is added to it.
    work : (threads, ...) float64
        Of `scratch`.
    """
    panels = lost.shape[0]
    # constants of each point make another kernel
    rows = before.constants.shape[0] > 1 or after.constants.shape[0] > 1
    work_of = Shared(
        _pass_rows_shared if rows else _pass_shared, (s, axis, before, after, phases, lost, work)
    )
    each_part(work_of, panels, s.size, work.shape[0])


@nb.njit(**PART)
def _marginals_cpu(first, last, worker, s, inside, tables, along, across, weighted):
    """Add up the density of the blocks of eight rows ``first ... last - 1``; see `marginals`."""
    rows, columns = along.shape[0], across.shape[1]
    for block in range(first, last):
        for j in range(columns):
            across[block, j] = 0.0
        for t in range(tables.shape[0]):
            weighted[block, t] = 0.0
        for i in range(PANEL * block, min(PANEL * (block + 1), rows)):
            norm, within = 0.0, 0.0
            for j in range(columns):
                density = s[i, 0, j] * s[i, 0, j] + s[i, 1, j] * s[i, 1, j]
                across[block, j] += density
                norm += density
                within += inside[j] * density
            along[i, 0], along[i, 1] = norm, within
            for t in range(tables.shape[0]):
                mean = 0.0
                for j in range(columns):
                    mean += tables[t, i, j] * (s[i, 0, j] * s[i, 0, j] + s[i, 1, j] * s[i, 1, j])
                weighted[block, t] += mean


@nb.njit(**JIT)
def _marginals_shared(ticket, *arguments):
    return share(ticket, ranges(_marginals_cpu, arguments))


def marginals(s, rows, columns, inside, tables, threads):
    """Return the density of a state summed over either coordinate, and over both with weights.

    Parameters
    ----------
    s : (>= rows, 2, >= columns) float64
        State as of `step_pass`.
    rows, columns : int
        Points along the axes.
    inside : (columns,) float64
        Share of each column that lies inside.
    tables : (k, rows, columns) float64
        Weights.
    threads : int

    Returns
    -------
    along : (rows, 2) float64
        Of each row: sum of ``|psi|^2``, and its share that lies inside.
    across : (columns,) float64
        Sum of ``|psi|^2`` of each column.
    weighted : (k,) float64
        Sums of ``|psi|^2`` times each table.
    """
    blocks = -(-rows // PANEL)
    along, across = np.empty((rows, 2)), np.empty((blocks, columns))
    weighted = np.empty((blocks, len(tables)))
    work = Shared(_marginals_shared, (s, inside, tables, along, across, weighted))
    each_part(work, blocks, s.size, threads)
    # block by block, so that no bit depends on the threads
    return along, across.sum(axis=0), weighted.sum(axis=0)
