"""Tables and launches of steps along z whose states do not fit on the chip: warps that march along r (``march.cuh``).

A sweep is one launch, ends one operation of a step and begins the next, and goes against the direction of the sweep before.
It reads one array and writes another.  Each warp has 60 lanes of a chunk of rows, and begins as far before them as is felt:
within that distance the factors of both recurrences, elimination and substitution, multiply up to less than rounding.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device import kernels
from qsim.tridiag.kernels.atom.cuda_tables import ALIKE, NEGLIGIBLE, ROWS, WARP, mixing_decay
from qsim.tridiag.kernels.atom.launch import CLEAR, MASK, NOTHING, RADIAL_STEP, SUMS, moves, operations
from qsim.tridiag.kernels.atom.length import _length_steps_cpu
from qsim.tridiag.kernels.atom.velocity import _velocity_steps_cpu

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device
    from qsim.tridiag.kernels.atom.cuda_tables import CudaShape, Families, Observed

__all__ = ["MarchTables", "march_length", "march_velocity"]

# of a block, and blocks of rows that each of its warps has in shared memory
THREADS, STAGES = 128, 4
# numbers of a row, and rows of zeros on either side of the grid
NUMBERS, MARGIN = 16, 2 * ROWS
# diagonal of rows beyond the grid: its inverse is nothing
WALL = 1e120
# steps of the strength of a Cayley step in which distances are kept, and the first of them
BUCKET, WEAK = 1.25, -60
# bits of a sweep
ENDING, BEGINNING, CLEARED, MASKED = 1, 2, 4, 8
# kinds of sweeps: in length gauge those that need the whole state; in velocity gauge two operations, even pairs 0, odd pairs 1
KIND, WHOLE = 16, 1
VELOCITY = {(0, 1): 0, (1, RADIAL_STEP): 1, (RADIAL_STEP, 1): 2, (1, 0): 3, (0, 0): 4}
# (M1)_11 = (4 + y) / 6, D_11 = y
CORNER = math.sqrt(3.0) - 2.0


class MarchTables:
    """Arrays of a run on the device, for steps of one length.

    Parameters
    ----------
    device : Device
    layout : CudaShape
    radial : tuple, tuple
        Arguments of :func:`qsim.tridiag.kernels.atom.length.pivots`, and what it returns.
    grid : (2, n) float64
        Radii and r'.
    families : Families
    observed : Observed
    inner : (rows, lanes) float64 or None
        In velocity gauge: ``1 / r'^2`` where the core of high l is emptied, 0 elsewhere.
    mask : (n,) float64 or None
        Factor after every step.
    """

    def __init__(
        self,
        device: Device,
        layout: CudaShape,
        radial: tuple[tuple[NDArray[np.float64], ...], tuple[NDArray[np.float64], NDArray[np.float64]]],
        grid: NDArray[np.float64],
        families: Families,
        observed: Observed,
        *,
        inner: NDArray[np.float64] | None,
        mask: NDArray[np.float64] | None,
    ) -> None:
        (arrays, pivots), (r, slope), members = radial, grid, layout.together
        self.device, self.shape, self.members = device, layout, members
        self.masked = mask is not None
        n, lanes, put, xp = r.size, layout.lanes, device.asarray, device.xp
        _, _, _, ll, first = arrays
        self.rows = put(_row_table(layout.padded, arrays, r, slope, observed, mask))[MARGIN:]
        self.of_lanes = put(np.stack([ll, 12.0 * first]))
        # pairs of lanes (k, K + k) and (K + k - 1, k), by the column of their even or upper lane
        columns = np.zeros((4, lanes // 2 + 1))
        for family in range(2):
            at = families.pairs[family][family]
            columns[family, at], columns[2 + family, at] = families.coupling[family], families.growth[family]
        self.of_columns = put(columns)
        edge = np.zeros(lanes)
        edge[observed.last] = 1.0
        self.edge = put(edge)
        # of w / 12: off-diagonals are 1; the pivots beside each block of rows
        down, up = (((one[:, :lanes] + 1j * one[:, lanes:]) / 12.0) for one in pivots)
        blocks = layout.padded // ROWS
        beside = np.zeros((2, blocks, lanes), dtype=np.complex128)
        known = np.arange(1, blocks) * ROWS
        beside[0, 1:][known <= n] = down[known[known <= n] - 1]
        beside[1, :-1][known < n] = up[known[known < n]]
        self.down, self.up = put(beside[0]), put(beside[1])
        # the slowest decay of any lane
        self._radial = np.minimum(*(-np.log(np.abs(one).max(axis=1)) for one in (down, up)))
        self._slope = slope
        self._begins: dict[int, Any] = {}
        self._alike: dict[int, Any] = {}
        self._strongest = max((float(np.abs(one).max(initial=0.0)) for one in families.coupling), default=0.0)
        self.inner_rows = 0 if inner is None else inner.shape[0]
        self.inner = put(np.zeros((1, lanes)) if inner is None or not inner.size else inner)
        with device.use():
            self.other = xp.zeros((members, layout.padded, lanes), dtype=np.complex128)
            between = (1,) if inner is None else (members, blocks, lanes)
            self.pivots = [xp.zeros(between), xp.zeros(between)]
            self.lost = xp.zeros((members, layout.chunks * layout.strips))

    def begins(self, g: float) -> Any:
        """Return in which blocks of rows marches down and up begin, (2, chunks), with Cayley steps up to `g`."""
        bucket = _bucket(g)
        if bucket not in self._begins:
            sums = self._decays(bucket)
            edges = np.arange(self.shape.chunks + 1) * self.shape.rows
            enough = -math.log(NEGLIGIBLE)
            low = np.maximum(np.searchsorted(sums, sums[edges[:-1]] - enough, side="right") - 1, 0)
            high = np.searchsorted(sums, sums[edges[1:]] + enough)
            high = np.minimum(np.maximum(high, edges[1:]), self.shape.padded)
            found = np.stack([low // ROWS, (high - 1) // ROWS]).astype(np.int32)
            self._begins[bucket] = self.device.asarray(found)
        return self._begins[bucket]

    def alike(self, g: float) -> Any:
        """Return in which blocks, and in the one before and after all, pivots up to `g` have the closed form."""
        bucket = _bucket(g)
        if bucket not in self._alike:
            sums, n = self._decays(bucket), self._slope.size
            first = np.arange(0, self.shape.padded, ROWS)
            # a pivot forgets by the square of the decay
            enough = -0.5 * math.log(NEGLIGIBLE)
            low = np.searchsorted(sums, sums[np.maximum(first - 2, 0)] - enough, side="right") - 2
            high = np.searchsorted(sums, sums[np.minimum(first + ROWS + 2, self.shape.padded)] + enough) + 1
            changes = np.abs(self._slope[1:] / self._slope[:-1] - 1.0) > ALIKE
            changes = np.concatenate([[0], np.cumsum(changes)])
            same = changes[np.clip(high, 0, n - 1)] == changes[np.clip(low, 0, n - 1)]
            found = np.concatenate([[False], (low > 0) & (high < n - 1) & same, [False]])
            self._alike[bucket] = self.device.asarray(found.astype(np.int32))
        return self._alike[bucket]

    def _decays(self, bucket: int) -> NDArray[np.float64]:
        """Return e-foldings by which influence has decayed before each row, at least, (padded + 1,)."""
        decay = np.zeros(self.shape.padded)
        decay[: self._slope.size] = self._radial
        if self.pivots[0].size > 1:
            k = 0.25 * self._strongest * (BUCKET**bucket if bucket > WEAK else 0.0) / self._slope
            decay[: k.size] = np.minimum(self._radial, mixing_decay(k))
        return np.concatenate([[0.0], np.cumsum(decay)])

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        own = [one for one in vars(self).values() if hasattr(one, "nbytes")]
        return sum(int(one.nbytes) for one in (*own, *self.pivots))


def _bucket(g: float) -> int:
    """Return which power of BUCKET is not below a strength."""
    return max(math.ceil(math.log(g) / math.log(BUCKET)), WEAK) if g > 0.0 else WEAK


def _row_table(
    padded: int,
    arrays: tuple[NDArray[np.float64], ...],
    r: NDArray[np.float64],
    slope: NDArray[np.float64],
    observed: Observed,
    mask: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Return what the rows have in common for all lanes, (padded + margins, NUMBERS): `Row` of ``march.cuh``."""
    a, potential, rotation, _, _ = arrays
    n = r.size
    rows = np.zeros((padded + 2 * MARGIN, NUMBERS))
    rows[:, [2, 9]] = 1.0
    rows[:, [5, 14]] = WALL
    inverse = 1.0 / slope
    corner = np.zeros(n)
    corner[0], corner[-1] = CORNER * inverse[0], -CORNER * inverse[-1]
    diagonal = np.full(n, 4.0 / 6.0)
    diagonal[[0, -1]] = (4.0 + CORNER) / 6.0
    root = np.sqrt(slope)
    absorbed = potential[:, 1]
    rows[MARGIN : MARGIN + n] = np.column_stack(
        [
            potential[:, 0] - 1.0, rotation, a - absorbed, a + absorbed, 24.0 * a, np.full(n, 10.0), r,
            observed.weight, observed.force, np.ones(n) if mask is None else mask, 1.0 / r, inverse, root,
            1.0 / root, diagonal, corner,
        ]
    )  # fmt: skip
    return rows


class _Launches:
    """Sweeps of one call, with the arrays that take turns."""

    def __init__(
        self,
        name: str,
        s: Array,
        tables: MarchTables,
        moves: NDArray[np.float64],
        places: int,
        strongest: float,
    ) -> None:
        self.s, self.tables, self.places = s, tables, places
        layout, device = tables.shape, tables.device
        self.states, self.pivots, self.direction = [s, tables.other], list(tables.pivots), 1
        self.sums = device.xp.zeros((tables.members, max(places, 1), layout.chunks * layout.strips, SUMS))
        # arguments around those that change from sweep to sweep
        self._before = (
            tables.down, tables.up, tables.rows, tables.of_lanes, tables.of_columns, tables.edge,
        )  # fmt: skip
        self._between = tables.alike(strongest), device.asarray(moves), tables.inner
        numbers = (
            layout.lanes, layout.rows // ROWS, layout.chunks, layout.strips, layout.padded // ROWS, tables.members,
            moves.shape[1], max(places, 1), tables.inner_rows,
        )  # fmt: skip
        self._after = (self.sums, tables.lost, *(np.int32(number) for number in numbers))
        warps = tables.members * layout.chunks * layout.strips
        # of each stage: state, pivots beside it, what the rows have in common
        shared = THREADS // WARP * STAGES * (32 * WARP * (ROWS + 1) + 8 * NUMBERS * ROWS)
        self._grid, self._shared = (-(-warps * WARP // THREADS),), shared
        macros = {"ROWS": ROWS, "STAGES": STAGES}
        self._run = kernels.function("tridiag/kernels/atom", "march", name, macros, shared_bytes=shared)

    def sweep(self, kind: int, sweep: int, what: int, place: int, g: float = 0.0) -> None:
        """Make one sweep, with Cayley steps up to `g`; if it only begins, it is like the first of a call."""
        self.direction = -self.direction if what & ENDING else 1
        arguments = (
            *self.states, *self._before, self.tables.begins(g), *self._between, *self.pivots, *self._after,
            *(np.int32(number) for number in (self.direction, sweep, place, what + KIND * kind)),
        )  # fmt: skip
        self._run(self._grid, (THREADS,), arguments, shared_mem=self._shared)
        self.states.reverse()
        self.pivots.reverse()

    def finish(self) -> Any:
        """Return the sums; the state is in its array."""
        if self.states[0] is not self.s:
            self.s[...] = self.states[0]
        return self.sums.sum(axis=2)[:, : self.places]


def _march_length_cpu(*arguments):
    return _length_steps_cpu(*arguments)


def march_length(
    s: Array, tables: MarchTables, fields: NDArray[np.float64], dt: float, samples: NDArray[np.int32]
) -> Any:
    """Make steps in length gauge; the state is whole before and after.

    Parameters
    ----------
    s : (members, padded n, 2 K) complex128
        States on the device, worked on in place.
    tables : MarchTables
    fields : (members, steps) float64
        E of every step, a.u.
    dt : float
        Time step, a.u.
    samples : (steps + 1,) int32
        Place of the sums to be taken after that many steps, -1 for none.

    Returns
    -------
    (members, places, 6) float64
        Sums as of :func:`qsim.tridiag.kernels.atom.launch.launch_length`.
    """
    steps, table = samples.size - 1, moves(fields, dt, samples)
    with tables.device.use():
        launches = _Launches("march_length", s, tables, table, int(samples.max(initial=-1)) + 1, 0.0)
        for k, place in enumerate(samples.tolist()):
            for what, taken in _parts(k > 0, k < steps, place):
                what |= MASKED * (tables.masked and bool(what & ENDING))
                launches.sweep(WHOLE * (what != ENDING | BEGINNING), k, what, taken)
        return launches.finish()


def _march_velocity_cpu(*arguments):
    return _velocity_steps_cpu(*arguments)


def march_velocity(
    s: Array,
    tables: MarchTables,
    kicks: NDArray[np.float64],
    halves: NDArray[np.float64],
    dt: float,
    samples: NDArray[np.int32],
) -> tuple[Any, Any]:
    """Make steps in velocity gauge; the state is whole before and after.

    Parameters
    ----------
    s, tables, dt, samples
        As of `march_length`.
    kicks, halves : (members, steps + 1) and (members, steps) float64
        A at the ends of the steps and at their midpoints, a.u.

    Returns
    -------
    (members, places, 6) and (members,) float64
        Sums, and the norm that was set to zero near the nucleus.
    """
    kinds, actions, samples, table = operations((dt * kicks, dt * halves), samples, masked=tables.masked)
    strengths = np.ascontiguousarray(table[:, :, 0])
    with tables.device.use():
        strongest = np.abs(strengths).max(axis=0)
        # of the operation that ends and of the one that begins
        felt = np.maximum(strongest, np.concatenate([[0.0], strongest[:-1]])).tolist()
        places = int(samples.max(initial=-1)) + 1
        launches = _Launches("march_velocity", s, tables, strengths, places, float(strongest.max()))
        tables.lost.fill(0.0)
        for k, (kind, action, place) in enumerate(
            zip(kinds.tolist(), actions.tolist(), samples.tolist(), strict=True)
        ):
            before = int(kinds[k - 1]) if k > 0 else NOTHING
            for what, taken in _parts(before != NOTHING, kind != NOTHING, place):
                if what & ENDING:
                    what |= CLEARED * bool(action & CLEAR) | MASKED * bool(action & MASK)
                both = what & ENDING and what & BEGINNING
                launches.sweep(VELOCITY[(before, kind) if both else (0, 0)], k, what, taken, felt[k])
        return launches.finish(), tables.lost.sum(axis=1)


def _parts(ends: bool, begins: bool, place: int) -> Iterator[tuple[int, int]]:
    """Return the sweeps between two operations, and where their sums go."""
    if ends and begins and place >= 0:
        # the state is whole between them: a run that is continued from here goes on with the same sweeps
        yield ENDING, place
        yield BEGINNING, -1
    else:
        yield ENDING * ends | BEGINNING * begins, place
