"""Steps in length gauge on several threads: radial steps lane by lane, turns row by row, to the bit as on one thread.

The radial steps of different l are independent of each other, and the turns of different r are.  So a step has two phases: each
thread eliminates and substitutes some tiles of lanes along all rows, then turns all pairs of some rows, and takes the sums of
these rows where samples are due.  After each phase the threads wait for each other (`meet`); what one has written travels to the
caches of the others twice per step, which takes far less time than the arithmetic.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from qsim.core.device.jit import variant
from qsim.core.device.team import await_as_far, tell_next
from qsim.tridiag.kernels.atom.records import Pivots, Radial, Rows, Share, Tile
from qsim.tridiag.kernels.atom.sweeps import masked, turned
from qsim.tridiag.kernels.atom.tiles import RADIAL_CARRY, eliminate, substitute
from qsim.tridiag.kernels.jit import PART
from qsim.tridiag.kernels.simd import WIDTH, fma, full, load, load_some, store, store_some

__all__ = ["SUMS", "edges_of", "meet", "radial_phase", "row_sums", "tiled", "turn_phase", "work_space"]

#: For functions that allocate nothing: counting references at each call takes as long as some rows.
BARE: dict[str, Any] = {**PART, "_nrt": False}
# rows whose turns follow each other in the nearest cache
RANGE = 16
# of a row: norm, cosine of a pair with its neighbour, norm of the last l
SUMS = 3

_eliminate, _ = eliminate
_substitute, _ = substitute


@nb.njit(**BARE)
def edges_of(part, parts, count):
    """Return where the share of a thread in `count` pieces of work begins and ends."""
    return count * part // parts, count * (part + 1) // parts


@nb.njit(**BARE)
def meet(share):
    """Wait until all threads have come here; see what they wrote before."""
    if share.parts == 1:
        return
    tell_next(share.done, share.part)
    for other in range(share.parts):
        if other != share.part:
            await_as_far(share.done, other, share.part)


@nb.njit(**BARE)
def _take(s, lanes, at, count, column):
    """Copy lanes ``at ... at + count - 1`` of all rows to a column of its own; lanes that it lacks are zero."""
    for j in range(s.shape[0] // (2 * lanes)):
        here, there = 2 * lanes * j + at, 2 * WIDTH * j
        if count == WIDTH:
            re, im = load(s, here, WIDTH), load(s, here + lanes, WIDTH)
        else:
            re, im = load_some(s, here, count), load_some(s, here + lanes, count)
        store(column, there, re, WIDTH)
        store(column, there + WIDTH, im, WIDTH)


@nb.njit(**BARE)
def _give(s, lanes, at, count, column):
    """Copy a column back."""
    for j in range(s.shape[0] // (2 * lanes)):
        here, there = 2 * lanes * j + at, 2 * WIDTH * j
        re, im = load(column, there, WIDTH), load(column, there + WIDTH, WIDTH)
        if count == WIDTH:
            store(s, here, re, WIDTH)
            store(s, here + lanes, im, WIDTH)
        else:
            store_some(s, here, re, count)
            store_some(s, here + lanes, im, count)


@nb.njit(**PART)
def radial_phase(s, pivots, share, down, radial, carry, column):
    """Make the radial step of a thread's lanes: eliminate along all rows, `down` or up, and substitute back.

    Tile by tile in `column` (n 2 WIDTH,), which stays in the caches from the elimination to the substitution: rows of the state
    lie far apart, and others have written them.  `pivots`: of that elimination; `radial`: as of `tiled`.
    """
    n = radial.a.shape[0]
    size = 2 * WIDTH * n
    first, last = edges_of(share.part, share.parts, (share.lanes + WIDTH - 1) // WIDTH)
    begin, step = (0, 1) if down else (n - 1, -1)
    there = Rows(begin, step, 0, n)
    back = Rows(n - 1 - begin, -step, 0, n + 1)
    whole = Tile(WIDTH, 0, WIDTH)
    for tile in range(first, last):
        at = tile * WIDTH
        count = min(WIDTH, share.lanes - at)
        p = pivots[tile * size : (tile + 1) * size]
        ll, entries = radial.ll[at : at + WIDTH], radial.first[at : at + WIDTH]
        own = Radial(radial.a, radial.potential, radial.rotation, ll, entries)
        _take(s, share.lanes, at, count, column)
        # outside the grid w, y and f are zero: a tile begins with empty carries
        carry[:] = 0.0
        _eliminate(column, p, whole, there, own, carry)
        _substitute(column, p, whole, back, n, own, carry)
        _give(s, share.lanes, at, count, column)


def tiled(down, up, radial):
    """Return inverse pivots and coefficients as `radial_phase` takes them.

    Parameters
    ----------
    down, up : (n, 4 K) float64
        Of `length/pivots`.
    radial : Radial

    Returns
    -------
    Pivots of (tiles n 2 WIDTH,) float64 and Radial
        Tile after tile of lanes, and in it row after row, real parts before imaginary ones; empty lanes fill the last tile.
    """
    n, lanes = down.shape[0], down.shape[1] // 2
    tiles = -(-lanes // WIDTH)

    def made(pivots):
        wide = np.zeros((n, 2, tiles * WIDTH))
        wide[:, :, :lanes] = pivots.reshape(n, 2, lanes)
        return np.ascontiguousarray(wide.reshape(n, 2, tiles, WIDTH).transpose(2, 0, 1, 3)).reshape(-1)

    missing = (0, tiles * WIDTH - lanes)
    filled = Radial(
        radial.a, radial.potential, radial.rotation, np.pad(radial.ll, missing), np.pad(radial.first, missing)
    )
    return Pivots(made(down), made(up)), filled


@nb.njit(**PART)
def work_space(n):
    """Return the carry and the column of a thread for `radial_phase`; the column begins with a line of the cache."""
    memory = np.empty(2 * WIDTH * n + 8)
    begin = (-np.int64(memory.ctypes.data) // 8) % 8
    return np.zeros(RADIAL_CARRY), memory[begin : begin + 2 * WIDTH * n]


def _add_row(name, load):
    """Return the kernel that adds the norms and cosines of a tile of pairs in one row, whole or the last one."""

    @variant(name, **PART)
    def kernel(s, row, lanes, at, count, couplings, norm, cosine):
        """Add to `norm` and `cosine`, vectors of as many partial sums as a vector has."""
        pairs = lanes // 2
        lower, upper = row + at, row + pairs + at
        ar, ai = load(s, lower, count), load(s, lower + lanes, count)
        br, bi = load(s, upper, count), load(s, upper + lanes, count)
        norm = fma(ar, ar, fma(ai, ai, fma(br, br, fma(bi, bi, norm))))
        cosine = fma(load(couplings.even, at, count), fma(ar, br, ai * bi), cosine)
        return norm, cosine, br, bi

    return kernel


_add_whole, _add_last = _add_row("whole", load), _add_row("last", load_some)


@nb.njit(**PART)
def row_sums(s, lanes, couplings, last, rows, out, partial):
    """Fill ``out[j]`` for some rows: sum of abs(f)^2, of Re conj(f) f' of pairs times their couplings, abs(f)^2 of lane `last`.

    ``s``: flat; ``rows``: ascending; ``out``: (n, 3); ``partial``: (2 * WIDTH,), work space.
    """
    pairs = lanes // 2
    for j in range(rows.low, rows.high):
        row = 2 * lanes * j
        norm, cosine = full(0.0), full(0.0)
        for at in range(0, pairs, WIDTH):
            if at + WIDTH <= pairs:
                norm, cosine, br, bi = _add_whole(s, row, lanes, at, WIDTH, couplings, norm, cosine)
            else:
                norm, cosine, br, bi = _add_last(s, row, lanes, at, pairs - at, couplings, norm, cosine)
            # odd pairs: the next even lane, none after the last one
            count = min(WIDTH, pairs - 1 - at)
            if count > 0:
                up = row + at + 1
                ar, ai = load_some(s, up, count), load_some(s, up + lanes, count)
                cosine = fma(load_some(couplings.odd, at, count), fma(ar, br, ai * bi), cosine)
        store(partial, 0, norm, WIDTH)
        store(partial, WIDTH, cosine, WIDTH)
        # in a fixed order: the same sums whatever number of empty lanes follows the others
        total, along = 0.0, 0.0
        for k in range(WIDTH):
            total += partial[k]
            along += partial[WIDTH + k]
        out[j, 0] = total
        out[j, 1] = along
        out[j, 2] = s[row + last] * s[row + last] + s[row + lanes + last] * s[row + lanes + last]


@nb.njit(**PART)
def turn_phase(s, share, angles, r, couplings, mask, samples, place, partial):
    """Turn the pairs of a thread's rows: odd, even; where a step ends mask and sums; even, odd of the step that begins.

    ``angles``: of these four turns per bohr; ``place``: of the sums, -1 for none; ``partial``: of `row_sums`.
    """
    first, last = edges_of(share.part, share.parts, r.shape[0])
    whole = Share(0, 1, 0, share.lanes // 2, share.lanes, share.done)
    for low in range(first, last, RANGE):
        rows = Rows(0, 1, low, min(low + RANGE, last))
        # one call for all turns: each place that calls a kernel has it compiled once more
        for turn in range(4):
            if turn == 2:
                if mask.shape[0] > 0:
                    masked(s, whole, rows, mask)
                if place >= 0:
                    row_sums(s, share.lanes, couplings, samples.last, rows, samples.sums[place], partial)
            odd = turn == 0 or turn == 3
            turned(s, whole, odd, couplings.odd if odd else couplings.even, rows, angles[turn], r)
