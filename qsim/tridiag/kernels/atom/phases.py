"""Steps in length gauge on several threads: radial steps lane by lane, turns row by row, to the bit as on one thread.

The radial steps of different l are independent of each other, and the turns of different r are.  So a step has two phases: each
thread eliminates and substitutes some tiles of lanes along all rows, then turns all pairs of some rows, and takes the sums of
these rows where samples are due.  After each phase the threads wait for each other (`meet`); what one has written travels to the
caches of the others twice per step, which takes far less time than the arithmetic.
"""

from __future__ import annotations

from typing import Any

import numba as nb

from qsim.core.device.jit import variant
from qsim.core.device.team import await_as_far, tell_next
from qsim.tridiag.kernels.atom.records import Rows, Share
from qsim.tridiag.kernels.atom.sweeps import eliminated_lanes, masked, substituted_lanes, turned
from qsim.tridiag.kernels.jit import PART
from qsim.tridiag.kernels.simd import WIDTH, fma, full, load, load_some, store

__all__ = ["SUMS", "edges_of", "meet", "radial_phase", "row_sums", "turn_phase"]

#: For functions that allocate nothing: counting references at each call takes as long as some rows.
BARE: dict[str, Any] = {**PART, "_nrt": False}
# rows whose turns follow each other in the nearest cache
RANGE = 16
# of a row: norm, cosine of a pair with its neighbour, norm of the last l
SUMS = 3


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
def radial_phase(s, p, share, down, n, radial, carry):
    """Make the radial step of a thread's lanes: eliminate along all rows, `down` or up, and substitute back.

    Flat arrays; `p`: inverse pivots of that elimination.
    """
    first, last = edges_of(share.part, share.parts, (share.lanes + WIDTH - 1) // WIDTH)
    begin, step = (0, 1) if down else (n - 1, -1)
    there = Rows(begin, step, 0, n)
    back = Rows(n - 1 - begin, -step, 0, n + 1)
    # a tile stays in the caches from its elimination to its substitution
    for tile in range(first, last):
        part = (tile * WIDTH, min((tile + 1) * WIDTH, share.lanes))
        # outside the grid w, y and f are zero: a tile begins with empty carries
        carry[:] = 0.0
        eliminated_lanes(s, p, share.lanes, part, there, radial, carry)
        substituted_lanes(s, p, share.lanes, part, back, n, radial, carry)


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
