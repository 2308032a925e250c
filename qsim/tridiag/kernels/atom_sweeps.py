"""Sweeps along r of an electron in a central potential, in a field along z: one pass over the memory per step.

A sweep goes through the rows, up or down, in ranges that stay in the caches.  It substitutes the radial step whose
elimination ran the other way, couples the pairs, and eliminates the next radial step.  In length gauge the couplings are local
in r; in velocity gauge each follows the one before it at the distance from which a row is no longer felt (``until``).
"""

from __future__ import annotations

import numba as nb
import numpy as np

from qsim.tridiag.kernels.atom_tiles import (
    MIX_CARRY,
    MIX_ROW,
    RADIAL_CARRY,
    eliminate,
    mix_down,
    mix_up,
    substitute,
    turn,
)
from qsim.tridiag.kernels.jit import JIT
from qsim.tridiag.kernels.simd import WIDTH

__all__ = ["length_sweep", "mix_work", "radial_carry", "velocity_sweep"]

RANGE, MIX_RANGE = 16, 32  # rows that stay in the caches
ENOUGH = 38.0  # e^-38 = 3e-17: what is not felt
BUCKET = 1.25  # steps of g in which distances are kept
FLOOR = 1e-3  # smallest k of the distances

_substitute, _substitute_last = substitute
_eliminate, _eliminate_last = eliminate
_turn, _turn_last = turn
_mix_down, _mix_down_last = mix_down
_mix_up, _mix_up_last = mix_up


@nb.njit(**JIT)
def _substituted(s, p, lanes, begin, step, low, high, rows, radial, carry):
    a, potential, rotation, ll, first = radial
    for at in range(0, lanes, WIDTH):
        if at + WIDTH <= lanes:
            _substitute(
                s, p, lanes, at, WIDTH, begin, step, low, high, rows, a, potential, rotation, ll, first, carry
            )
        else:
            count = lanes - at
            _substitute_last(
                s, p, lanes, at, count, begin, step, low, high, rows, a, potential, rotation, ll, first, carry
            )


@nb.njit(**JIT)
def _eliminated(s, p, lanes, begin, step, low, high, radial, carry):
    a, potential, rotation, ll, _ = radial
    for at in range(0, lanes, WIDTH):
        if at + WIDTH <= lanes:
            _eliminate(s, p, lanes, at, WIDTH, begin, step, low, high, a, potential, rotation, ll, carry)
        else:
            _eliminate_last(
                s, p, lanes, at, lanes - at, begin, step, low, high, a, potential, rotation, ll, carry
            )


@nb.njit(**JIT)
def _turned(s, lanes, odd, coupling, begin, step, low, high, angle, r):
    """Turn the even or the odd pairs."""
    pairs = lanes // 2
    size = pairs - 1 if odd else pairs
    if angle == 0.0:
        return
    shift = 1 if odd else 0
    for at in range(0, size, WIDTH):
        lower, upper = at + shift, pairs + at
        if at + WIDTH <= size:
            _turn(s, lanes, lower, upper, WIDTH, begin, step, low, high, coupling, at, angle, r)
        else:
            _turn_last(s, lanes, lower, upper, size - at, begin, step, low, high, coupling, at, angle, r)


@nb.njit(**JIT)
def length_sweep(s, ps, pe, lanes, down, solve, go_on, angles, r, radial, couplings, carry):
    """Substitute (``solve``), turn the odd, the even and again the odd pairs, eliminate (``go_on``).

    Flat arrays; ``ps``, ``pe``: inverse pivots of the substitution and of the elimination.
    """
    even, odd = couplings
    n = r.shape[0]
    begin, step = (0, 1) if down else (n - 1, -1)
    carry[:] = 0.0
    done = 0
    for low in range(0, n, RANGE):
        ready = min(low + RANGE, n)
        if solve:
            whole = ready == n
            _substituted(s, ps, lanes, begin, step, low, n + 1 if whole else ready, n, radial, carry)
            ready = n if whole else ready - 1
        _turned(s, lanes, True, odd, begin, step, done, ready, angles[0], r)
        _turned(s, lanes, False, even, begin, step, done, ready, angles[1], r)
        _turned(s, lanes, True, odd, begin, step, done, ready, angles[2], r)
        if go_on:
            _eliminated(s, pe, lanes, begin, step, done, ready, radial, carry)
        done = ready


@nb.njit(**JIT)
def _bucket(g):
    """Return a size of steps that is kept: ``BUCKET^k`` from abs(g) on."""
    size = abs(g)
    return BUCKET ** np.ceil(np.log(size) / np.log(BUCKET)) if size > 0.0 else 0.0


@nb.njit(**JIT)
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


@nb.njit(**JIT)
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
    return until, held, strongest, y, ring, radial_carry(lanes), np.zeros((4, tiles * MIX_CARRY))


@nb.njit(**JIT)
def radial_carry(lanes):
    """Return the carries of the radial step."""
    return np.zeros((lanes + WIDTH - 1) // WIDTH * RADIAL_CARRY)


@nb.njit(**JIT)
def _mixed(
    s, lanes, odd, g, mirrored, coupling, growth, begin, step, place, ready, rows, mix, until, y, ring, carry
):
    """Make one Cayley step as far as it goes; ``place``: positions taken and completed so far.  Return those completed."""
    inverse_r, inverse_slope, root = mix
    pairs = lanes // 2
    size = pairs - 1 if odd else pairs
    if g == 0.0 or size == 0:
        return ready
    shift = 1 if odd else 0
    angle = -0.5 * g if odd else 0.5 * g  # the lower l is the odd lane of an odd pair
    rate = -0.25 * g if mirrored else 0.25 * g
    stop = rows + 1 if ready == rows else ready
    while place[0] < stop:
        low = place[0]
        high = min(low + MIX_RANGE, stop)
        end = high - 1
        out, to = place[1], until[end]
        for at in range(0, size, WIDTH):
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
            for at in range(0, size, WIDTH):
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


@nb.njit(**JIT)
def _emptied(s, lanes, begin, step, low, high, inner):
    """Set u_l = 0 within r_in(l); return the sum of what was there (of |f|^2 / r'^2)."""
    lost = 0.0
    for i in range(low, high):
        j = begin + step * i
        if j >= inner.shape[0]:
            continue
        row = 2 * lanes * j
        for lane in range(lanes):
            if inner[j, lane] != 0.0:
                lost += inner[j, lane] * (s[row + lane] ** 2 + s[row + lanes + lane] ** 2)
                s[row + lane] = 0.0
                s[row + lanes + lane] = 0.0
    return lost


@nb.njit(**JIT)
def _masked(s, lanes, begin, step, low, high, mask):
    for i in range(low, high):
        j = begin + step * i
        if mask[j] != 1.0:
            row = 2 * lanes * j
            for lane in range(2 * lanes):
                s[row + lane] *= mask[j]


@nb.njit(**JIT)
def velocity_sweep(
    s, ps, pe, lanes, down, solve, go_on, kinds, gs, after, radial, mix, couplings, mask, inner, work
):
    """Substitute (``solve``), make Cayley steps of pairs one after the other, eliminate (``go_on``).

    Flat arrays; ``kinds`` and ``gs``: 1 for a step of the odd pairs, 0 of the even ones, and its A dt; ``after``: the number of
    steps after which the core is emptied and the mask applied, -1 for none; ``work``: of `mix_work`.  Returns what was set
    to zero in the core.
    """
    even, odd, even_growth, odd_growth = couplings
    reach, held, strongest, y, ring, carry, carries = work
    n = radial[0].shape[0]
    begin, step = (0, 1) if down else (n - 1, -1)
    steps = kinds.shape[0]
    until = reach[1] if down else reach[0]
    size = _bucket(np.abs(gs).max())
    if held[int(down)] != size:
        _felt(mix[1], strongest, size, down, until)
        held[int(down)] = size
    carry[:] = 0.0
    carries[:] = 0.0
    places = np.zeros((steps, 2), np.int64)
    acted = 0
    done = 0
    lost = 0.0
    for low in range(0, n, MIX_RANGE):
        ready = min(low + MIX_RANGE, n)
        if solve:
            whole = ready == n
            _substituted(s, ps, lanes, begin, step, low, n + 1 if whole else ready, n, radial, carry)
            ready = n if whole else ready - 1
        for k in range(steps + 1):
            if k == after:
                lost += _emptied(s, lanes, begin, step, acted, ready, inner)
                if mask.shape[0] > 0:
                    _masked(s, lanes, begin, step, acted, ready, mask)
                acted = ready
            if k == steps:
                break
            if kinds[k] == 1:
                ready = _mixed(
                    s, lanes, True, gs[k], not down, odd, odd_growth, begin, step, places[k], ready, n, mix, until,
                    y[k], ring, carries[k],
                )  # fmt: skip
            else:
                ready = _mixed(
                    s, lanes, False, gs[k], not down, even, even_growth, begin, step, places[k], ready, n, mix, until,
                    y[k], ring, carries[k],
                )  # fmt: skip
        if go_on:
            _eliminated(s, pe, lanes, begin, step, done, ready, radial, carry)
        done = ready
    return lost
