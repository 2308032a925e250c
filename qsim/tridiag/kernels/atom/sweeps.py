"""Sweeps along r of an electron in a central potential, in a field along z: one pass over the memory per step.

A sweep goes through the rows, up or down, in ranges that stay in the caches.  It substitutes the radial step whose
elimination ran the other way, couples the pairs, and eliminates the next radial step.  In length gauge the couplings are local
in r; in velocity gauge each follows the one before it at the distance from which a row is no longer felt (``until``).

Threads share a sweep by pairs (`Share`), each with lanes ``first ... last`` of the even and of the odd l.  Its odd pairs reach
into the even lane ``last`` of the next thread.  So before odd pairs a thread waits for the next one, after them for the one
before it, range by range; the arithmetic of a lane is that of one thread alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device.team import await_as_far, tell_next
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

__all__ = ["Share", "length_sweep", "masked", "mix_work", "radial_carries", "share_of", "velocity_sweep"]

#: For functions that allocate nothing: counting references at each call takes as long as some rows.
BARE: dict[str, Any] = {**PART, "_nrt": False}
RANGE, MIX_RANGE = 16, 64  # rows that stay in the caches
ENOUGH = 38.0  # e^-38 = 3e-17: what is not felt
BUCKET = 1.25  # steps of g in which distances are kept
FLOOR = 1e-3  # smallest k of the distances

_substitute, _substitute_last = substitute
_eliminate, _eliminate_last = eliminate
_turn, _turn_last = turn
_mix_down, _mix_down_last = mix_down
_mix_up, _mix_up_last = mix_up


class Share(NamedTuple):
    """What one of several threads does of a sweep.

    Attributes
    ----------
    part, parts : int
        Number of the thread, and of all threads.
    first, last : int
        Its pairs; `first` is a multiple of `WIDTH`.
    told : int
        Address of how many parts of ranges each thread has completed.
    """

    part: Any
    parts: Any
    first: Any
    last: Any
    told: Any


@nb.njit(**PART)
def share_of(part, parts, pairs, told):
    """Return a thread's share."""
    tiles = (pairs + WIDTH - 1) // WIDTH
    first, last = tiles * part // parts * WIDTH, min(tiles * (part + 1) // parts * WIDTH, pairs)
    return Share(part, parts, first, last, np.int64(told.ctypes.data))


@nb.njit(**BARE)
def _completed(share):
    """Tell the others that a part of a range is complete."""
    if share.parts > 1:
        tell_next(share.told, share.part)


@nb.njit(**BARE)
def _await_next(share):
    """Wait until the next thread has come as far as this one."""
    if share.part + 1 < share.parts:
        await_as_far(share.told, share.part + 1, share.part)


@nb.njit(**BARE)
def _await_before(share):
    """Wait until the thread before has come as far as this one."""
    if share.part > 0:
        await_as_far(share.told, share.part - 1, share.part)


@nb.njit(**BARE)
def _halves(share, lanes):
    """Return the ranges of lanes of a thread: two of them, or all lanes, and none."""
    if share.parts == 1:
        return 0, lanes, 0, 0
    pairs = lanes // 2
    return share.first, share.last, pairs + share.first, pairs + share.last


@nb.njit(**BARE)
def _substituted(s, p, lanes, share, begin, step, low, high, rows, radial, carry, other):
    begin0, end0, begin1, end1 = _halves(share, lanes)
    _substituted_lanes(s, p, lanes, begin0, end0, begin, step, low, high, rows, radial, carry)
    if begin1 < end1:
        _substituted_lanes(s, p, lanes, begin1, end1, begin, step, low, high, rows, radial, other)


@nb.njit(**BARE)
def _substituted_lanes(s, p, lanes, start, end, begin, step, low, high, rows, radial, carry):
    a, potential, rotation, ll, first = radial
    for at in range(start, end, WIDTH):
        if at + WIDTH <= end:
            _substitute(
                s, p, lanes, at, WIDTH, begin, step, low, high, rows, a, potential, rotation, ll, first, carry
            )
        else:
            count = end - at
            _substitute_last(
                s, p, lanes, at, count, begin, step, low, high, rows, a, potential, rotation, ll, first, carry
            )


@nb.njit(**BARE)
def _eliminated(s, p, lanes, share, begin, step, low, high, radial, carry, other):
    begin0, end0, begin1, end1 = _halves(share, lanes)
    _eliminated_lanes(s, p, lanes, begin0, end0, begin, step, low, high, radial, carry)
    if begin1 < end1:
        _eliminated_lanes(s, p, lanes, begin1, end1, begin, step, low, high, radial, other)


@nb.njit(**BARE)
def _eliminated_lanes(s, p, lanes, start, end, begin, step, low, high, radial, carry):
    a, potential, rotation, ll, _ = radial
    for at in range(start, end, WIDTH):
        if at + WIDTH <= end:
            _eliminate(s, p, lanes, at, WIDTH, begin, step, low, high, a, potential, rotation, ll, carry)
        else:
            _eliminate_last(
                s, p, lanes, at, end - at, begin, step, low, high, a, potential, rotation, ll, carry
            )


@nb.njit(**BARE)
def _turned(s, lanes, share, odd, coupling, begin, step, low, high, angle, r):
    """Turn the even or the odd pairs."""
    pairs = lanes // 2
    size = min(share.last, pairs - 1 if odd else pairs)
    if angle == 0.0:
        return
    shift = 1 if odd else 0
    for at in range(share.first, size, WIDTH):
        lower, upper = at + shift, pairs + at
        if at + WIDTH <= size:
            _turn(s, lanes, lower, upper, WIDTH, begin, step, low, high, coupling, at, angle, r)
        else:
            _turn_last(s, lanes, lower, upper, size - at, begin, step, low, high, coupling, at, angle, r)


@nb.njit(**BARE)
def length_sweep(s, ps, pe, lanes, share, down, solve, go_on, angles, r, radial, couplings, carry, other):
    """Substitute (``solve``), turn the odd, the even and again the odd pairs, eliminate (``go_on``).

    Flat arrays; ``ps``, ``pe``: inverse pivots of the substitution and of the elimination.
    """
    even, odd = couplings
    n = r.shape[0]
    begin, step = (0, 1) if down else (n - 1, -1)
    carry[:] = 0.0
    other[:] = 0.0
    done = 0
    size = RANGE if share.parts == 1 else 2 * RANGE * share.parts  # they wait for each other once per range
    for low in range(0, n, size):
        ready = min(low + size, n)
        if solve:
            whole = ready == n
            _substituted(
                s, ps, lanes, share, begin, step, low, n + 1 if whole else ready, n, radial, carry, other
            )
            ready = n if whole else ready - 1
        _completed(share)
        _await_next(share)
        _turned(s, lanes, share, True, odd, begin, step, done, ready, angles[0], r)
        _completed(share)
        _await_before(share)
        _turned(s, lanes, share, False, even, begin, step, done, ready, angles[1], r)
        _completed(share)
        _await_next(share)
        _turned(s, lanes, share, True, odd, begin, step, done, ready, angles[2], r)
        _completed(share)
        _await_before(share)
        if go_on:
            _eliminated(s, pe, lanes, share, begin, step, done, ready, radial, carry, other)
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
    n = inverse_slope.shape[0]
    decay = np.empty(n)
    for i in range(n):
        k = max(0.25 * strongest * size * inverse_slope[i if down else n - 1 - i], FLOOR)
        decay[i] = -np.log((1.0 / 3.0 + 2.0 * k) / (2.0 / 3.0 + np.sqrt(1.0 / 3.0 + 4.0 * k * k)))
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

    ``until`` for either direction and the sizes for which it holds, the strongest coupling, y, its ring, the carries of the
    radial step and of four Cayley steps.
    """
    n = inverse_slope.shape[0]
    until = np.zeros((2, n + 1), np.int64)
    held = np.full(2, -1.0)
    longest = 0
    for down in range(2):
        longest = max(longest, _felt(inverse_slope, strongest, _bucket(g), down == 1, until[down]))
    tiles = (lanes // 2 + WIDTH - 1) // WIDTH
    ring = 1
    while ring < MIX_RANGE + longest + 2:
        ring *= 2
    y = np.empty((4, tiles * ring * MIX_ROW))
    return until, held, strongest, y, ring, *radial_carries(lanes), np.zeros((4, tiles * MIX_CARRY))


@nb.njit(**PART)
def radial_carries(lanes):
    """Return the carries of the radial step, of both halves of a share."""
    size = (lanes // WIDTH + 2) * RADIAL_CARRY
    return np.zeros(size), np.zeros(size)


@nb.njit(**BARE)
def _mixed(
    s,
    lanes,
    share,
    odd,
    g,
    mirrored,
    coupling,
    growth,
    begin,
    step,
    place,
    ready,
    rows,
    mix,
    until,
    y,
    ring,
    carry,
):
    """Make one Cayley step as far as it goes; ``place``: positions taken and completed so far.  Return those completed."""
    inverse_r, inverse_slope, root = mix
    pairs = lanes // 2
    size = pairs - 1 if odd else pairs
    if g == 0.0 or size == 0:
        return ready
    size = min(share.last, size)
    shift = 1 if odd else 0
    angle = -0.5 * g if odd else 0.5 * g  # the lower l is the odd lane of an odd pair
    rate = -0.25 * g if mirrored else 0.25 * g
    stop = rows + 1 if ready == rows else ready
    while place[0] < stop:
        low = place[0]
        high = min(low + MIX_RANGE, stop)
        end = high - 1
        out, to = place[1], until[end]
        for at in range(share.first, size, WIDTH):
            lower, upper = at + shift, pairs + at
            if at + WIDTH <= size:
                _mix_down(
                    s, lanes, lower, upper, WIDTH, begin, step, low, high, rows, coupling, growth, at, rate, angle,
                    inverse_r, inverse_slope, root, y, ring, carry,
                )  # fmt: skip
            else:
                _mix_down_last(
                    s, lanes, lower, upper, size - at, begin, step, low, high, rows, coupling, growth, at, rate, angle,
                    inverse_r, inverse_slope, root, y, ring, carry,
                )  # fmt: skip
        if to > out:
            for at in range(share.first, size, WIDTH):
                lower, upper = at + shift, pairs + at
                if at + WIDTH <= size:
                    _mix_up(s, lanes, lower, upper, WIDTH, begin, step, out, to, end, at, root, y, ring)
                else:
                    _mix_up_last(
                        s, lanes, lower, upper, size - at, begin, step, out, to, end, at, root, y, ring
                    )
            place[1] = to
        place[0] = high
    return place[1]


@nb.njit(**BARE)
def _emptied(s, lanes, share, begin, step, low, high, inner, lost):
    """Set u_l = 0 within r_in(l); add what was there (of |f|^2 / r'^2) to `lost`, lane by lane."""
    begin0, end0, begin1, end1 = _halves(share, lanes)
    for i in range(low, high):
        j = begin + step * i
        if j >= inner.shape[0]:
            continue
        row = 2 * lanes * j
        for half in range(2):
            for lane in range(begin0 if half == 0 else begin1, end0 if half == 0 else end1):
                if inner[j, lane] != 0.0:
                    lost[lane] += inner[j, lane] * (s[row + lane] ** 2 + s[row + lanes + lane] ** 2)
                    s[row + lane] = 0.0
                    s[row + lanes + lane] = 0.0


@nb.njit(**BARE)
def masked(s, lanes, share, begin, step, low, high, mask):
    """Multiply positions low to high of a thread's lanes with a mask."""
    begin0, end0, begin1, end1 = _halves(share, lanes)
    for i in range(low, high):
        j = begin + step * i
        if mask[j] != 1.0:
            row = 2 * lanes * j
            for half in range(2):
                for lane in range(begin0 if half == 0 else begin1, end0 if half == 0 else end1):
                    s[row + lane] *= mask[j]
                    s[row + lanes + lane] *= mask[j]


@nb.njit(**PART)
def velocity_sweep(
    s, ps, pe, lanes, share, down, solve, go_on, kinds, gs, after, radial, mix, couplings, mask, inner, lost, work
):  # fmt: skip
    """Substitute (``solve``), make Cayley steps of pairs one after the other, eliminate (``go_on``).

    Flat arrays; ``kinds`` and ``gs``: 1 for a step of the odd pairs, 0 of the even ones, and its A dt; ``after``: the number of
    steps after which the core is emptied and the mask applied, -1 for none; ``lost`` (2 K,): what was set to zero in the core,
    in each lane; ``work``: of `mix_work`.
    """
    even, odd, even_growth, odd_growth = couplings
    reach, held, strongest, y, ring, carry, other, carries = work
    n = radial[0].shape[0]
    begin, step = (0, 1) if down else (n - 1, -1)
    steps = kinds.shape[0]
    until = reach[1] if down else reach[0]
    size = _bucket(np.abs(gs).max())
    if held[int(down)] != size:
        _felt(mix[1], strongest, size, down, until)
        held[int(down)] = size
    carry[:] = 0.0
    other[:] = 0.0
    carries[:] = 0.0
    places = np.zeros((steps, 2), np.int64)
    acted = 0
    done = 0
    for low in range(0, n, MIX_RANGE):
        ready = min(low + MIX_RANGE, n)
        if solve:
            whole = ready == n
            _substituted(
                s, ps, lanes, share, begin, step, low, n + 1 if whole else ready, n, radial, carry, other
            )
            ready = n if whole else ready - 1
        _completed(share)
        for k in range(steps + 1):
            if k > 0 and kinds[k - 1] == 1:
                _await_before(share)
            if k == after:
                _emptied(s, lanes, share, begin, step, acted, ready, inner, lost)
                if mask.shape[0] > 0:
                    masked(s, lanes, share, begin, step, acted, ready, mask)
                acted = ready
                _completed(share)
            if k == steps:
                break
            if kinds[k] == 1:
                _await_next(share)
                ready = _mixed(
                    s, lanes, share, True, gs[k], not down, odd, odd_growth, begin, step, places[k], ready, n, mix, until,
                    y[k], ring, carries[k],
                )  # fmt: skip
            else:
                ready = _mixed(
                    s, lanes, share, False, gs[k], not down, even, even_growth, begin, step, places[k], ready, n, mix, until,
                    y[k], ring, carries[k],
                )  # fmt: skip
            _completed(share)
        if go_on:
            _eliminated(s, pe, lanes, share, begin, step, done, ready, radial, carry, other)
        done = ready
