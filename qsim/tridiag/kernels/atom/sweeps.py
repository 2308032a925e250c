"""Sweeps along r of an electron in a central potential, in a field along z: one pass over the memory per step.

A sweep goes through the rows, up or down, in ranges that stay in the caches.  It substitutes the radial step whose
elimination ran the other way, couples the pairs, and eliminates the next radial step.  In length gauge the couplings are local
in r; in velocity gauge each follows the one before it at the distance from which a row is no longer felt (``until``).

In velocity gauge threads share a sweep by pairs (`Share`), each with lanes ``first ... last`` of the even and of the odd l.  Its
odd pairs reach into the even lane ``last`` of the next thread.  So before odd pairs a thread waits for the next one, after them
for the one before it, range by range; the arithmetic of a lane does not depend on the number of threads.  (In length gauge they
share a step by lanes and rows in turn, :mod:`qsim.tridiag.kernels.atom.phases`.)
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from qsim.core.device.team import await_as_far, tell_next
from qsim.tridiag.kernels.atom.records import Carries, Cayley, PairTile, Ring, Rows, Share, Tile
from qsim.tridiag.kernels.atom.tiles import (
    MIX_CARRY,
    MIX_ROW,
    RADIAL_CARRY,
    eliminate,
    mix_down,
    mix_up,
    substitute,
    turn,
)
from qsim.tridiag.kernels.jit import PART
from qsim.tridiag.kernels.simd import WIDTH

__all__ = [
    "length_sweep",
    "masked",
    "mix_work",
    "radial_carries",
    "share_of",
    "turned",
    "velocity_sweep",
]

#: For functions that allocate nothing: counting references at each call takes as long as some rows.
BARE: dict[str, Any] = {**PART, "_nrt": False}
# rows that stay in the caches
RANGE, MIX_RANGE = 16, 64
# e^-38 = 3e-17: what is not felt
ENOUGH = 38.0
# steps of g in which distances are kept
BUCKET = 1.25
# smallest k of the distances
FLOOR = 1e-3

_substitute, _substitute_last = substitute
_eliminate, _eliminate_last = eliminate
_turn, _turn_last = turn
_mix_down, _mix_down_last = mix_down
_mix_up, _mix_up_last = mix_up


@nb.njit(**PART)
def share_of(part, parts, lanes, progress):
    """Return a thread's share: whole tiles of pairs, as many as the other threads have, up to one."""
    # shares begin at whole vectors: only the last thread has a tile that is not full
    pairs = lanes // 2
    tiles = (pairs + WIDTH - 1) // WIDTH
    first, last = tiles * part // parts * WIDTH, min(tiles * (part + 1) // parts * WIDTH, pairs)
    return Share(part, parts, first, last, lanes, np.int64(progress.ctypes.data))


@nb.njit(**BARE)
def _completed(share):
    """Tell the others that a part of a range is complete."""
    if share.parts > 1:
        tell_next(share.done, share.part)


@nb.njit(**BARE)
def _await_next(share):
    """Wait until the next thread has come as far as this one."""
    if share.part + 1 < share.parts:
        await_as_far(share.done, share.part + 1, share.part)


@nb.njit(**BARE)
def _await_before(share):
    """Wait until the thread before has come as far as this one."""
    if share.part > 0:
        await_as_far(share.done, share.part - 1, share.part)


@nb.njit(**BARE)
def _halves(share):
    """Return the ranges of lanes of a thread: two of them, or all lanes, and none."""
    if share.parts == 1:
        return 0, share.lanes, 0, 0
    pairs = share.lanes // 2
    return share.first, share.last, pairs + share.first, pairs + share.last


@nb.njit(**BARE)
def _substituted(s, p, share, rows, n, radial, carries):
    """Substitute the radial step on a range of rows, in both halves of a thread's lanes."""
    begin0, end0, begin1, end1 = _halves(share)
    _substituted_lanes(s, p, share.lanes, (begin0, end0), rows, n, radial, carries.own)
    if begin1 < end1:
        _substituted_lanes(s, p, share.lanes, (begin1, end1), rows, n, radial, carries.other)


@nb.njit(**BARE)
def _substituted_lanes(s, p, lanes, part, rows, n, radial, carry):
    """Substitute the radial step on a range of rows, in the lanes ``part[0] ... part[1] - 1``."""
    # the last tile may be narrower than a vector: its kernel loads and stores only the lanes that are there
    start, end = part
    for at in range(start, end, WIDTH):
        if at + WIDTH <= end:
            _substitute(s, p, Tile(lanes, at, WIDTH), rows, n, radial, carry)
        else:
            _substitute_last(s, p, Tile(lanes, at, end - at), rows, n, radial, carry)


@nb.njit(**BARE)
def _eliminated(s, p, share, rows, radial, carries):
    """Eliminate the next radial step on a range of rows, in both halves of a thread's lanes."""
    begin0, end0, begin1, end1 = _halves(share)
    _eliminated_lanes(s, p, share.lanes, (begin0, end0), rows, radial, carries.own)
    if begin1 < end1:
        _eliminated_lanes(s, p, share.lanes, (begin1, end1), rows, radial, carries.other)


@nb.njit(**BARE)
def _eliminated_lanes(s, p, lanes, part, rows, radial, carry):
    """Eliminate the radial step on a range of rows, in the lanes ``part[0] ... part[1] - 1``."""
    start, end = part
    for at in range(start, end, WIDTH):
        if at + WIDTH <= end:
            _eliminate(s, p, Tile(lanes, at, WIDTH), rows, radial, carry)
        else:
            _eliminate_last(s, p, Tile(lanes, at, end - at), rows, radial, carry)


@nb.njit(**BARE)
def turned(s, share, odd, coupling, rows, angle, r):
    """Turn the even or the odd pairs."""
    pairs = share.lanes // 2
    size = min(share.last, pairs - 1 if odd else pairs)
    if angle == 0.0:
        return
    # even pairs are lanes (a_i, b_i), odd pairs (b_i, a_(i+1)), with a the even l and b the odd l
    shift = 1 if odd else 0
    for at in range(share.first, size, WIDTH):
        lower, upper = at + shift, pairs + at
        if at + WIDTH <= size:
            _turn(s, PairTile(share.lanes, lower, upper, at, WIDTH), rows, coupling, angle, r)
        else:
            _turn_last(s, PairTile(share.lanes, lower, upper, at, size - at), rows, coupling, angle, r)


@nb.njit(**BARE)
def length_sweep(s, pivots, share, way, angles, r, radial, couplings, carries):
    """Substitute (``way.solve``), turn the odd, the even and again the odd pairs, eliminate (``way.go_on``).

    Flat arrays; ``angles``: of the three turns per bohr.
    """
    n = r.shape[0]
    # the substitution runs against the elimination that it completes, hence with the pivots of the other direction
    ps, pe = (pivots.up, pivots.down) if way.down else (pivots.down, pivots.up)
    begin, step = (0, 1) if way.down else (n - 1, -1)
    # outside the grid w, y and f are zero: a sweep begins with empty carries
    carries.own[:] = 0.0
    carries.other[:] = 0.0
    # rows whose turns are complete, from the sweep's first position on
    done = 0
    for low in range(0, n, RANGE):
        ready = min(low + RANGE, n)
        if way.solve:
            # the last row of a range waits for the next range; position n completes the last row of the grid
            whole = ready == n
            _substituted(s, ps, share, Rows(begin, step, low, n + 1 if whole else ready), n, radial, carries)
            ready = n if whole else ready - 1
        rows = Rows(begin, step, done, ready)
        turned(s, share, True, couplings.odd, rows, angles[0], r)
        turned(s, share, False, couplings.even, rows, angles[1], r)
        turned(s, share, True, couplings.odd, rows, angles[2], r)
        if way.go_on:
            _eliminated(s, pe, share, rows, radial, carries)
        done = ready


@nb.njit(**PART)
def _bucket(g):
    """Return a size of steps that is kept: ``BUCKET^k`` from abs(g) on."""
    size = abs(g)
    return BUCKET ** np.ceil(np.log(size) / np.log(BUCKET)) if size > 0.0 else 0.0


@nb.njit(**PART)
def _felt(inverse_slope, strongest, size, down, until):
    """Fill ``until[e]``: positions below it do not feel that the elimination has come to e only; return the longest distance.

    The influence of a row decays per row by at most ``(1/3 + 2 k) / (2/3 + sqrt(1/3 + 4 k^2))``, ``k = g c / (4 r')``, for
    steps g up to `size` and couplings c up to `strongest`.
    """
    # rate of decay at each position of the sweep: 1 over the larger root of (1/6 + k) z^2 + 2/3 z + 1/6 - k,
    # the row of M1 + k D on an endless uniform grid
    n = inverse_slope.shape[0]
    decay = np.empty(n)
    for i in range(n):
        k = max(0.25 * strongest * size * inverse_slope[i if down else n - 1 - i], FLOOR)
        decay[i] = -np.log((1.0 / 3.0 + 2.0 * k) / (2.0 / 3.0 + np.sqrt(1.0 / 3.0 + 4.0 * k * k)))
    # two ends move along the rows: the largest `first` from which the decay to `end` is enough
    total = 0.0
    first = 0
    longest = 0
    until[0] = 0
    for end in range(1, n):
        total += decay[end - 1]
        while total - decay[first] >= ENOUGH:
            total -= decay[first]
            first += 1
        until[end] = first if total >= ENOUGH else 0
        longest = max(longest, end - until[end])
    until[n] = n
    return longest


@nb.njit(**PART)
def mix_work(inverse_slope, lanes, strongest, g):
    """Return what `velocity_sweep` keeps, for steps up to g.

    ``until`` for either direction and the sizes for which it holds, the strongest coupling, y of four Cayley steps and
    the size of its ring, the carries of the radial step and of four Cayley steps.
    """
    n = inverse_slope.shape[0]
    until = np.zeros((2, n + 1), np.int64)
    held = np.full(2, -1.0)
    longest = 0
    for down in range(2):
        longest = max(longest, _felt(inverse_slope, strongest, _bucket(g), down == 1, until[down]))
    # a ring holds what waits for its substitution: the longest distance, and the range that is taken next
    tiles = (lanes // 2 + WIDTH - 1) // WIDTH
    # a power of two: positions are taken modulo its size by a bitwise and
    ring = 1
    while ring < MIX_RANGE + longest + 2:
        ring *= 2
    y = np.empty((4, tiles * ring * MIX_ROW))
    return until, held, strongest, y, ring, radial_carries(lanes), np.zeros((4, tiles * MIX_CARRY))


@nb.njit(**PART)
def radial_carries(lanes):
    """Return the carries of the radial step, of both halves of a share."""
    size = (lanes // WIDTH + 2) * RADIAL_CARRY
    return Carries(np.zeros(size), np.zeros(size))


@nb.njit(**BARE)
def _mixed(s, share, cayley, rows, n, place, mix, until, ring, carry):
    """Make one Cayley step as far as the range goes, ``rows.high``.

    ``place``: positions taken and completed so far.  Return those completed.
    """
    # without a field the step is the identity
    begin, step, _, ready = rows
    pairs = share.lanes // 2
    size = pairs - 1 if cayley.odd else pairs
    if cayley.g == 0.0 or size == 0:
        return ready
    size = min(share.last, size)
    shift = 1 if cayley.odd else 0
    # position n, of zeros, completes the elimination of the last row
    stop = n + 1 if ready == n else ready
    while place[0] < stop:
        low = place[0]
        high = min(low + MIX_RANGE, stop)
        end = high - 1
        # rows before until[end] do not feel, to rounding, what comes from `end` on: they are substituted with zero there
        out, to = place[1], until[end]
        taken = Rows(begin, step, low, high)
        for at in range(share.first, size, WIDTH):
            lower, upper = at + shift, pairs + at
            if at + WIDTH <= size:
                tile = PairTile(share.lanes, lower, upper, at, WIDTH)
                _mix_down(s, tile, taken, n, cayley, mix, ring, carry)
            else:
                tile = PairTile(share.lanes, lower, upper, at, size - at)
                _mix_down_last(s, tile, taken, n, cayley, mix, ring, carry)
        if to > out:
            written = Rows(begin, step, out, to)
            for at in range(share.first, size, WIDTH):
                lower, upper = at + shift, pairs + at
                if at + WIDTH <= size:
                    tile = PairTile(share.lanes, lower, upper, at, WIDTH)
                    _mix_up(s, tile, written, end, mix.root, ring)
                else:
                    tile = PairTile(share.lanes, lower, upper, at, size - at)
                    _mix_up_last(s, tile, written, end, mix.root, ring)
            place[1] = to
        place[0] = high
    return place[1]


@nb.njit(**BARE)
def _emptied(s, share, rows, inner, lost):
    """Set u_l = 0 within r_in(l); add what was there (of |f|^2 / r'^2) to `lost`, lane by lane."""
    begin, step, low, high = rows
    lanes = share.lanes
    begin0, end0, begin1, end1 = _halves(share)
    for i in range(low, high):
        j = begin + step * i
        if j >= inner.shape[0]:
            continue
        row = 2 * lanes * j
        for half in range(2):
            for lane in range(begin0 if half == 0 else begin1, end0 if half == 0 else end1):
                # `inner` is 1 / r'^2 where the row lies within r_in(l): the weight of |f|^2 in the norm, too
                if inner[j, lane] != 0.0:
                    lost[lane] += inner[j, lane] * (s[row + lane] ** 2 + s[row + lanes + lane] ** 2)
                    s[row + lane] = 0.0
                    s[row + lanes + lane] = 0.0


@nb.njit(**BARE)
def masked(s, share, rows, mask):
    """Multiply a thread's lanes with a mask."""
    begin, step, low, high = rows
    lanes = share.lanes
    begin0, end0, begin1, end1 = _halves(share)
    for i in range(low, high):
        j = begin + step * i
        if mask[j] != 1.0:
            row = 2 * lanes * j
            for half in range(2):
                for lane in range(begin0 if half == 0 else begin1, end0 if half == 0 else end1):
                    s[row + lane] *= mask[j]
                    s[row + lanes + lane] *= mask[j]


@nb.njit(**PART)
def velocity_sweep(s, pivots, share, way, kicks, after, tables, lost, work):
    """Substitute (``way.solve``), make Cayley steps of pairs one after the other, eliminate (``way.go_on``).

    Flat arrays; ``kicks``: kinds and gs of the Cayley steps, 1 for a step of the odd pairs, 0 of the even ones, and its A dt;
    ``after``: the number of steps after which the core is emptied and the mask applied, -1 for none; ``tables``: radial, mix,
    couplings, mask, inner; ``lost`` (2 K,): what was set to zero in the core, in each lane; ``work``: of `mix_work`.
    """
    # see `mix_work` and `_velocity_steps_cpu` for the members
    kinds, gs = kicks
    radial, mix, couplings, mask, inner = tables
    reach, held, strongest, y, ring, carries, cayley_carries = work
    n = radial.a.shape[0]
    ps, pe = (pivots.up, pivots.down) if way.down else (pivots.down, pivots.up)
    begin, step = (0, 1) if way.down else (n - 1, -1)
    steps = kinds.shape[0]
    # distances at which rows are no longer felt hold for sizes of g up to a power of BUCKET: they change a few times per pulse
    until = reach[1] if way.down else reach[0]
    size = _bucket(np.abs(gs).max())
    if held[int(way.down)] != size:
        _felt(mix.inverse_slope, strongest, size, way.down, until)
        held[int(way.down)] = size
    carries.own[:] = 0.0
    carries.other[:] = 0.0
    cayley_carries[:] = 0.0
    # for each Cayley step the positions that it has taken and those that it has completed
    places = np.zeros((steps, 2), np.int64)
    acted = 0
    done = 0
    for low in range(0, n, MIX_RANGE):
        ready = min(low + MIX_RANGE, n)
        if way.solve:
            whole = ready == n
            _substituted(s, ps, share, Rows(begin, step, low, n + 1 if whole else ready), n, radial, carries)
            ready = n if whole else ready - 1
        _completed(share)
        # each step gets as far as the one before it has come (`ready`); odd pairs wait for the threads beside them
        for k in range(steps + 1):
            if k > 0 and kinds[k - 1] == 1:
                _await_before(share)
            if k == after:
                _emptied(s, share, Rows(begin, step, acted, ready), inner, lost)
                if mask.shape[0] > 0:
                    masked(s, share, Rows(begin, step, acted, ready), mask)
                acted = ready
                _completed(share)
            if k == steps:
                break
            rows = Rows(begin, step, 0, ready)
            rest = (n, places[k], mix, until, Ring(y[k], ring), cayley_carries[k])
            if kinds[k] == 1:
                _await_next(share)
                odd = Cayley(True, gs[k], not way.down, couplings.odd, couplings.odd_growth)
                ready = _mixed(s, share, odd, rows, *rest)
            else:
                even = Cayley(False, gs[k], not way.down, couplings.even, couplings.even_growth)
                ready = _mixed(s, share, even, rows, *rest)
            _completed(share)
        if way.go_on:
            _eliminated(s, pe, share, Rows(begin, step, done, ready), radial, carries)
        done = ready
