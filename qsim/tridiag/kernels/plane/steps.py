"""Passes of two coordinates on a GPU: how a line is cut into windows, and the launches of ``steps.cu``; the twin is `steps_cpu`.

A window is read with a halo on either side, beyond which a kinetic step is not felt: a pass reads one array and writes another.
Bytes per point and pass: a state read and written, 32 in double precision, 48 with a table of both coordinates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device import kernels
from qsim.core.errors import DeviceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device
    from qsim.tridiag.kernels.plane.records import Filter

__all__ = ["ROWS", "Cut", "Launch", "PlaneKernels", "cut", "pair"]

# points of a thread
ROWS = 8
# lines and threads of a block, blocks of a multiprocessor, and the time of a point next to the first
SHAPES = ((8, 256, 2, 0.85), (4, 256, 2, 1.0), (2, 256, 2, 1.15), (1, 256, 2, 1.6), (1, 512, 1, 1.8))
# windows whose lines lie side by side in memory and that follow each other: a kilobyte of a row
GANG = 16
# by bytes of a real number: amplitude that may be missed beyond a halo, and beyond the neighbours of a thread
TAIL, FAR = {8: 1e-16, 4: 1e-8}, {8: 1e-17, 4: 1e-9}
# threads of a block of `marginals`, its rows, and threads of a warp
COLUMNS, STRIP, WARP = 256, 32, 32


class Cut(NamedTuple):
    """How lines are cut.

    Attributes
    ----------
    lines, threads, resident : int
        Lines and threads of a block, and blocks that a multiprocessor must hold.
    windows, window, halo : int
        Windows of a line, the points that one writes, and those that it reads beyond them on either side.
    """

    lines: int
    threads: int
    resident: int
    windows: int
    window: int
    halo: int

    @property
    def span(self) -> int:
        """Points of a line that a block can hold."""
        return ROWS * self.threads // self.lines

    def tiles(self, lines: int, gang: int) -> int:
        """Return the windows of so many lines, which come in gangs."""
        return -(-lines // (self.lines * gang)) * gang * self.windows


def cut(points: int, decay: float, item: int) -> Cut:
    """Return how lines of so many points are cut.

    Parameters
    ----------
    points : int
    decay : float
        Smallest ``-ln |lambda|`` of the filters.
    item : int
        Bytes of a real number.

    Raises
    ------
    DeviceError
        If a kinetic step is felt further than a block can hold.
    """
    reach = -math.log(TAIL[item])
    # two filters: their convolution falls as (2 + j) |lambda|^j
    halo = (reach + math.log((2.0 + reach / decay) / -math.expm1(-decay))) / decay
    # even, so that windows begin with a sector of memory
    halo = 2 * math.ceil(0.5 * halo)
    found = []
    for lines, threads, resident, cost in SHAPES:
        most = (ROWS * threads // lines - 2 * halo) // ROWS * ROWS
        if most > 0:
            windows = -(-points // most)
            window = -(-points // (windows * ROWS)) * ROWS
            found.append((cost * windows * (window + 2 * halo), lines, threads, resident, windows, window))
    if not found:
        room = max(ROWS * threads // lines for lines, threads, *_ in SHAPES)
        raise DeviceError(
            f"a kinetic step is felt over {halo} points; a GPU holds {(room - ROWS) // 2}",
            hint="lower time.dt, take fewer points of grid, or run.device: cpu",
        )
    return Cut(*min(found)[1:], halo)


def pair(
    before: Filter, after: Filter, item: int
) -> tuple[NDArray[np.float64], tuple[int, int], complex | NDArray[np.complex128]]:
    """Return what the kernel needs of both filters: 12 constants, neighbours that are felt, and the product of all beta.

    Where points have constants of their own: those of all points, and beta of the filter before.
    """
    n = max(len(one.constants) for one in (before, after))
    if n > 1:
        return _pair_of_rows(before, after, n, item)
    rows, reach, scale = [], [], 1.0 + 0.0j
    for one in (before, after):
        turn, _turn, alpha, beta = (complex(number) for number in one.numbers[0])
        rows += [turn, alpha / beta, turn**ROWS]
        reach.append(_felt(abs(turn), item))
        scale *= beta
    return np.array(rows).view(float), (reach[0], reach[1]), scale


def _pair_of_rows(
    before: Filter, after: Filter, points: int, item: int
) -> tuple[NDArray[np.float64], tuple[int, int], NDArray[np.complex128]]:
    """Return what `pair` does for filters with constants of each point; a filter of no step has none."""
    rows = np.empty((2, points, 4), complex)
    for place, one in zip(rows, (before, after), strict=True):
        place[:] = one.numbers
    rows[:, :, 2] /= rows[:, :, 3]
    first, second = (_felt(float(np.abs(one[:, :2]).max()), item) for one in rows)
    return rows.view(float), (first, second), rows[0, :, 3]


def _felt(turn: float, item: int) -> int:
    """Return the neighbours of a thread that are felt; the kernel ends at the ends of a line."""
    far = math.log(FAR[item]) / (ROWS * math.log(turn)) if turn else 0.0
    return math.ceil(min(far, 1e6))


class Launch(NamedTuple):
    """What a pass takes besides the states: arrays on the device.

    Attributes
    ----------
    axis : int
    constants, reach
        As of `pair`.
    line, across : (points,), (lines,) complex
        Factors of both coordinates, those of the line with beta.
    table : (numbers,) complex or None
        Factors of both coordinates: of their difference, or (n1, pitch).
    origin, stride : int
        Of a table of the difference, as of :class:`~qsim.tridiag.kernels.plane.records.Phases`.
    weight, bend : float
        ``|beta|^2`` of the filter before the phases; phase per ``|psi|^2``.
    kept : pair of arrays or None
        Squares of the factors of the absorber along the line and across.
    twist : float
        Of a factor ``exp(i twist x y)`` in front, or 0.
    places : (4,) array or None
        First point and spacing along the line, and across.
    """

    axis: int
    constants: Array
    reach: tuple[int, int]
    line: Array
    across: Array
    table: Array | None
    origin: int
    stride: int
    weight: float
    bend: float
    kept: tuple[Array, Array] | None
    twist: float = 0.0
    places: Array | None = None


def _processors(device: Device) -> int:
    """Return the number of multiprocessors."""
    with device.use():
        return int(device.xp.cuda.runtime.getDeviceProperties(device.index)["multiProcessorCount"])


class PlaneKernels:
    """The kernels for states of one shape.

    Parameters
    ----------
    device : Device
    shape : (int, int)
        Points of both coordinates.
    cuts : (Cut, Cut)
    inside : pair of (n,) float64
        Shares of the points that lie inside.
    single : bool
        Whether numbers are of single precision.

    Attributes
    ----------
    pitch : int
        Numbers of a row of a state.
    lost : pair of (blocks, 2) arrays
        What the absorber has taken, by axis of the pass, where one coordinate lies inside and where none does.
    """

    def __init__(
        self,
        device: Device,
        shape: tuple[int, int],
        cuts: tuple[Cut, Cut],
        inside: tuple[NDArray[np.float64], NDArray[np.float64]],
        *,
        single: bool = False,
    ) -> None:
        self.device, self.shape, self.cuts = device, shape, cuts
        self.real: Any = np.float32 if single else np.float64
        self.complex: Any = np.complex64 if single else np.complex128
        # rows begin with a line of the cache, and those of 2^k points do not share one channel of memory
        self.pitch = -(-shape[1] // ROWS) * ROWS + ROWS
        self.inside = [device.asarray(one, self.real) for one in inside]
        # a kilobyte of neighbouring lines goes through together; lines along the second axis lie apart
        self.gangs = (GANG, 1)
        # as many blocks as run at once: each goes on from window to window
        resident = _processors(device)
        self.tiles = tuple(one.tiles(shape[1 - axis], self.gangs[axis]) for axis, one in enumerate(cuts))
        self.blocks = tuple(
            min(most, resident * one.resident) for most, one in zip(self.tiles, cuts, strict=True)
        )
        with device.use():
            self.lost = tuple(device.xp.zeros((one, 2), self.real) for one in self.blocks)

    def step_pass(self, one: Launch, source: Array, target: Array) -> None:
        """Make the end of a kinetic step, the phases, and the begin of the next one, from a state (n1, pitch) to another."""
        axis = one.axis
        found, points, lines = self.cuts[axis], self.shape[axis], self.shape[1 - axis]
        kind = 0
        if one.table is not None:
            kind = 1 if one.stride else 2
        defines: dict[str, str | int] = {
            "REAL": "float" if self.real is np.float32 else "double",
            "AXIS": axis,
            "LINES": found.lines,
            "THREADS": found.threads,
            "MINBLOCKS": found.resident,
            "TABLE": kind,
            "LOSSY": int(one.kept is not None),
            "BEND": int(one.bend != 0.0),
            "TWIST": int(one.twist != 0.0),
            "ROWWISE": int(one.constants.ndim == 3),
        }
        own = ROWS * found.threads
        stage = own + found.threads + 8 if axis else own
        # what comes, and the table or what goes
        sums = (8 if one.constants.ndim == 3 else 4) * found.threads
        shared = 2 * self.real().itemsize * (sums + stage * (1 + (axis == 1 or kind == 2)))
        null = np.intp(0)
        kept = (null, null) if one.kept is None else one.kept
        kernel = kernels.function("tridiag/kernels/plane", "steps", "step_pass", defines, shared_bytes=shared)
        kernel(
            (self.blocks[axis],),
            (found.threads,),
            (
                source,
                target,
                np.int64(self.pitch),
                *map(np.int32, (points, lines, found.windows, found.window, found.halo, self.gangs[axis])),
                np.int32(self.tiles[axis]),
                one.constants,
                *map(np.int32, one.reach),
                one.line,
                one.across,
                null if one.table is None else one.table,
                np.int64(one.origin),
                np.int32(one.stride),
                self.real(one.weight),
                self.real(one.bend),
                self.real(one.twist),
                null if one.places is None else one.places,
                *kept,
                self.inside[axis],
                self.inside[1 - axis],
                self.lost[axis],
            ),
            shared_mem=shared,
        )

    def marginals(
        self, state: Array, tables: Array
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the sums of the density (n1, 2), (n2,), (k,) as `marginals` of the CPU does, k being 2 at most.

        Parameters
        ----------
        state : (n1, pitch) complex
        tables : (k, n1, n2) real
        """
        rows, columns = self.shape
        wide, strips = -(-columns // COLUMNS), -(-rows // STRIP)
        xp = self.device.xp
        with self.device.use():
            along = xp.empty((rows, wide * (COLUMNS // WARP), 2), self.real)
            across = xp.empty((strips, columns), self.real)
            weighted = xp.empty((wide * strips, 2), self.real)
            defines = {"REAL": "float" if self.real is np.float32 else "double", "THREADS": COLUMNS}
            kernels.function("tridiag/kernels/plane", "steps", "marginals", defines)(
                (wide, strips),
                (COLUMNS,),
                (
                    state,
                    np.int64(self.pitch),
                    np.int32(rows),
                    np.int32(columns),
                    self.inside[1],
                    tables,
                    np.int32(len(tables)),
                    along,
                    across,
                    weighted,
                ),
            )
            # single precision holds the parts, not their sums
            sums = (xp.sum(one, axis=k, dtype=float) for k, one in ((1, along), (0, across), (0, weighted)))
            first, second, third = (self.device.to_host(one) for one in sums)
        return first, second, third[: len(tables)]
