r"""Launches of the CUDA kernels of an electron in a central potential, and the lists of what they do between sums.

A launch makes many steps.  In length gauge a sweep ends one step and begins the next (`moves`); in velocity gauge it ends one
operation of a step and begins the next (`operations`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device import kernels
from qsim.tridiag.kernels.atom.cuda_tables import ROWS, WARP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.tridiag.kernels.atom.cuda_tables import CudaTables

__all__ = ["launch_length", "launch_velocity", "moves", "operations", "planar_operations"]

# of a block in velocity gauge
MIX_THREADS = 256
# the source whose blocks hold their rows in registers
WARPS = "warps"
RADIAL_STEP, NOTHING = -1, -2
CLEAR, MASK, CHANGES = 1, 2, 4
SUMS = 6


def moves(
    fields: NDArray[np.float64],
    dt: float,
    samples: NDArray[np.int32],
    directions: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return what the couplings do between the radial steps, (members, steps + 1, 4).

    Per bohr, the angles of half the step before and half the step after; the turns of the frame before and after a sample.

    Parameters
    ----------
    fields : (members, steps) float64
        E of every step, a.u. (in a plane, its magnitude).
    dt : float
    samples : (steps + 1,) int32
        Not negative where a sample is taken: there the frame is the fixed one.
    directions : (members, steps) float64, optional
        Angle of the field with the x axis, radian.
    """
    members, steps = fields.shape
    out = np.zeros((members, steps + 1, 4))
    # the sweep between two steps ends the one before and begins the one after: half a step of each field
    out[:, 1:, 0] = 0.5 * dt * fields
    out[:, :-1, 1] = 0.5 * dt * fields
    if directions is not None:
        frame = np.zeros((members, steps + 2))
        # from one direction of the field to the next; sums are taken in the fixed frame, so the turn is made in two parts there
        frame[:, 1:-1] = directions
        before, after = frame[:, :-1], frame[:, 1:]
        fixed = samples >= 0
        out[:, :, 2] = np.where(fixed, -before, after - before)
        out[:, :, 3] = np.where(fixed, after, 0.0)
    return out


def operations(
    g: tuple[NDArray[np.float64], NDArray[np.float64]], samples: NDArray[np.int32], *, masked: bool
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Return what steps in velocity gauge along z are made of.

    Parameters
    ----------
    g : (members, steps + 1) and (members, steps) float64
        A dt at the ends of the steps (for the even pairs) and at their midpoints (odd pairs).
    samples : (steps + 1,) int32
        Place of the sums taken after that many steps, -1 for none.
    masked : bool
        Whether a mask follows every step.

    Returns
    -------
    kinds : (operations + 1,) int32
        Family, `RADIAL_STEP` or `NOTHING`.
    actions, samples : (operations + 1,) int32
        Before the operation begins: `CLEAR`, `MASK` or both, with `CHANGES` if pairs turn otherwise than they did last;
        the place of the sums.
    moves : (members, operations + 1, 3) float64
        g of the operation, turns of the frame before and after a sample.
    """
    ends, middle = g
    members, steps = middle.shape
    # the whole state is there between two halves of an even pair's part: with a mask, for sums, and at the end
    split = (samples >= 0) | masked
    # the last half has no other beside it
    split[steps:] = False
    # a step has odd, radial, odd, even; the even pairs of two steps are one operation, or two where the state is needed between
    # numbers of the first operations of the steps; operation 0 is the first half of the even pairs
    begin = 1 + np.concatenate([[0], np.cumsum(4 + split[1:])])[: steps + 1] if steps else np.zeros(1, int)
    first, last = begin[:-1], begin[-1]
    kinds = np.full(last + 1, NOTHING, dtype=np.int32)
    actions, places = np.zeros_like(kinds), np.full_like(kinds, -1)
    out = np.zeros((members, kinds.size, 3))
    if steps:
        kinds[0] = 0
        out[:, 0, 0] = 0.5 * ends[:, 0]
    # odd, radial, odd, even: with the even half of the step before this is the palindrome that makes a step of
    # second order
    for place, kind in enumerate((1, RADIAL_STEP, 1, 0)):
        kinds[first + place] = kind
    # both halves of the odd pairs have A at the midpoint, even pairs A at the ends of the step, whose halves
    # join
    out[:, first, 0] = out[:, first + 2, 0] = 0.5 * middle
    # half a step of the even pairs where the state is needed afterwards, and at the end of the run
    halves = split[1:].copy()
    halves[steps - 1 :] = True
    out[:, first + 3, 0] = np.where(halves, 0.5, 1.0) * ends[:, 1:]
    second = first[split[1:]] + 4
    kinds[second] = 0
    out[:, second, 0] = 0.5 * ends[:, 1:][:, split[1:]]
    # where a step is complete
    # the operation before which step k is whole: the second half of the even pairs begins there, or the next
    # step
    after = np.where(split[1:], first + 4, begin[1:])
    actions[after] = CLEAR | MASK * masked
    turning = np.flatnonzero(kinds >= 0)
    # the same pairs with the same A: their numbers need not be made anew
    kept = (np.diff(kinds[turning]) == 0) & (np.diff(out[:, turning, 0], axis=1) == 0).all(axis=0)
    actions[turning[1:][~kept]] |= CHANGES
    places[after] = samples[1:]
    places[0] = samples[0]
    return kinds, actions, places, out


PLANAR = (0, 1, 2, 3, RADIAL_STEP, 3, 2, 1, 0)


def planar_operations(
    g: NDArray[np.float64], directions: NDArray[np.float64], samples: NDArray[np.int32], *, masked: bool
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Return what steps in velocity gauge in a plane are made of, as `operations`.

    Parameters
    ----------
    g, directions : (members, steps) float64
        ``|A| dt`` at the midpoints, and its angle with the x axis.
    samples : (steps + 1,) int32
    masked : bool
    """
    members, steps = g.shape
    # all operations of a step have A at its midpoint, so no two of neighbouring steps can be joined
    length = len(PLANAR)
    kinds = np.array([*PLANAR * steps, NOTHING], dtype=np.int32)
    actions = np.zeros(kinds.size, dtype=np.int32)
    places = np.full(kinds.size, -1, dtype=np.int32)
    # the core is emptied, and the mask applied, when a step is complete; sums are taken at the same places
    actions[length::length] = CLEAR | MASK * masked
    places[::length] = samples
    out = np.zeros((members, kinds.size, 3))
    out[:, :-1, 0] = np.repeat(0.5 * g, length, axis=1)
    frame = np.zeros((members, steps + 2))
    frame[:, 1:-1] = directions
    before, after, fixed = frame[:, :-1], frame[:, 1:], samples >= 0
    out[:, ::length, 1] = np.where(fixed, -before, after - before)
    out[:, ::length, 2] = np.where(fixed, after, 0.0)
    return kinds, actions, places, out


def launch_length(
    kernel: tuple[str, str],
    s: Array,
    tables: CudaTables,
    table: NDArray[np.float64],
    samples: NDArray[np.int32],
) -> Any:
    """Make steps in length gauge on the device and return the sums that were taken.

    Parameters
    ----------
    kernel : (str, str)
        Source and name.
    s : (members, padded rows, lanes) complex128
        States on the device, worked on in place.
    tables : CudaTables
    table : (members, steps + 1, 4) float64
        Of `moves`.
    samples : (steps + 1,) int32
        Place of the sums taken after that many steps, -1 for none.

    Returns
    -------
    (members, places, 6) float64
        On the device: norm, dipole and mean force along z (or x) and along y, norm of the last l.
    """
    extra, threads = _place(kernel, tables, tables.shape.threads, tables.waits)
    return _launch(kernel, s, tables, table, samples, extra, tables.window, threads)


def launch_velocity(
    kernel: tuple[str, str],
    s: Array,
    tables: CudaTables,
    made: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]],
) -> tuple[Any, Any]:
    """Make steps in velocity gauge on the device; return the sums that were taken, and what was set to zero.

    Parameters
    ----------
    kernel : (str, str)
        Source and name.
    s : (members, padded rows, lanes) complex128
        States on the device, worked on in place.
    tables : CudaTables
        With what velocity gauge needs.
    made : tuple
        Of `operations` or `planar_operations`.

    Returns
    -------
    (members, places, 6) float64, (members,) float64
        On the device: sums as of `launch_length`; norm that was set to zero near the nucleus.
    """
    kinds, actions, samples, table = made
    put, mix = tables.device.asarray, tables.mix
    assert mix is not None
    # how far Cayley steps are felt depends on the strongest A dt of the call
    felt, waits, window = mix.felt(float(np.abs(table[:, :, 0]).max()))
    mix.lost.fill(0.0)
    extra, threads = _place(kernel, tables, MIX_THREADS, waits)
    middle = [
        *extra, tables.growth, mix.inverse_r, mix.inverse_slope, mix.root, felt, np.int32(tables.shape.points), put(kinds),
        put(actions), mix.products, mix.wholes, mix.lost, mix.inner, np.int32(mix.inner_rows),
    ]  # fmt: skip
    sums = _launch(kernel, s, tables, table, samples, middle, window, threads)
    return sums, mix.lost.sum(axis=1)


def _place(kernel: tuple[str, str], tables: CudaTables, threads: int, waits: Any) -> tuple[list[Any], int]:
    """Return what a kernel gets for its exchange beside others, and its threads per block."""
    if kernel[0] != WARPS:
        return [], threads
    return [waits, tables.mail], tables.shape.warps_threads


def _launch(
    kernel: tuple[str, str],
    s: Array,
    tables: CudaTables,
    table: NDArray[np.float64],
    samples: NDArray[np.int32],
    middle: list[Any],
    window: int,
    threads: int,
) -> Any:
    """Launch all sweeps, wave after wave of members; return the sums."""
    layout, device = tables.shape, tables.device
    steps = samples.size - 1
    places = int(samples.max(initial=-1)) + 1
    null = np.intp(0)
    with device.use():
        sums = device.xp.zeros((tables.members, max(places, 1), layout.chunks, SUMS))
        moved, taken = device.asarray(np.ascontiguousarray(table)), device.asarray(samples)
        waits = layout.waits and layout.chunks > 1
        shared = layout.warps_bytes if kernel[0] == WARPS else layout.shared_bytes
        macros = {"ROWS": ROWS, "WARPS": threads // WARP} if kernel[0] == WARPS else {"ROWS": ROWS}
        run = kernels.function("tridiag/kernels/atom", *kernel, macros, shared_bytes=shared)
        frame = [] if tables.momenta is None else [tables.momenta]
        # one launch for all steps where blocks can wait for each other; otherwise one launch per sweep
        spans = [(0, steps)] if waits or layout.chunks == 1 else [(k, k) for k in range(steps + 1)]
        for low in range(0, tables.members, layout.together):
            high = min(low + layout.together, tables.members)
            # of each member
            # arrays with a row per member are cut like the states; the others serve all members
            own = [tables.mail, None if tables.mix is None else tables.mix.lost]
            inner = [one[low:high] if any(one is each for each in own) else one for one in middle]
            for first, last in spans:
                numbers = (
                    layout.lanes, layout.rows, layout.chunks, layout.blocks, window, first, last, steps, tables.base,
                    max(places, 1), tables.members,
                )  # fmt: skip
                blocks = (high - low) * layout.blocks
                arguments = (
                    s[low:high], tables.tips, tables.flags[low:high], tables.alpha, tables.beta, tables.gain,
                    tables.keep, tables.alpha_part, tables.beta_part, tables.alpha_chunk, tables.beta_chunk,
                    tables.reach, tables.more, tables.pairs, tables.counts, tables.coupling, tables.r,
                    null if tables.mask is None else tables.mask, *frame, moved[low:high], taken,
                    tables.weight, tables.force, tables.edge, sums[low:high], tables.kept, *inner,
                    *(np.int32(number) for number in numbers),
                )  # fmt: skip
                if waits:
                    kernels.launch_together(run, blocks, threads, arguments, shared)
                else:
                    run((blocks,), (threads,), arguments, shared_mem=shared)
        # counts go round, as on the device
        tables.base = int(np.int64(tables.base + steps).astype(np.int32))
        return sums.sum(axis=2)[:, :places]
