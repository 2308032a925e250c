r"""Tables of the CUDA kernels of an electron in a central potential (``length.cu`` and its likes).

Radial step.  With the inverse pivots p and p' of the elimination of ``M2 + q`` from either end, ``w = -(M2 + q)^-1 q f`` is

    w_j = -G_j (y_j + y'_j - q_j f_j),   y_j = q_j f_j - p_(j-1) y_(j-1) / 12,   y'_j = q_j f_j - p'_(j+1) y'_(j+1) / 12,

``1 / G = 1 / p + 1 / p' - (M2)_jj - q``: no substitution follows the elimination, and the two recurrences are independent.  As
``M2 w = -q (f + w)``, ``f' = w + (B + i a) M2 w`` needs no neighbours either.  With ``z = y / q``

    z_j = f_j + alpha_j z_(j-1),   z'_j = f_j + beta_j z'_(j+1),   f'_j = gain_j (z_j + beta_j z'_(j+1)) - keep_j f_j,
    alpha_j = -p_(j-1) q_(j-1) / (12 q_j),   beta_j = -p'_(j+1) q_(j+1) / (12 q_j),
    gain = 2 i a q^2 G,   keep = q (B + i a').

(a' has the absorber with the other sign.)  Products of alpha decay with the distance: a chunk of rows looks back over as many
others as have a product above `NEGLIGIBLE`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import DeviceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device

__all__ = [
    "MOST_LANES",
    "CudaShape",
    "CudaTables",
    "Families",
    "Mixing",
    "Observed",
    "marching",
    "mixing_decay",
    "radial_tables",
    "shape",
    "waits_of",
]

# rows of a thread
ROWS = 4
# of which ROWS points fit in the shared memory of a block of any device (compute capability 8.0: 163 kB)
MOST_LANES = 1400
# of a block; in velocity gauge MIX_THREADS of launch.py
THREADS, STREAMED_THREADS = 512, 256
# parts of a chunk (`ROWS` rows each) that a thread adds up
GROUP = 8
# steps of g in which reaches are kept
BUCKET = 1.25
# of a chunk: shorter ones must look back far
LEAST_ROWS = 16
# threads
WARP = 32
# of blocks that keep their rows in registers (warps.cuh): most lanes, rows, pairs of lanes of a warp
WARP_LANES, WARP_ROWS, WARP_PAIRS = 64, 32, 4
# between sums of such a warp
STRIDE = 20
# complex numbers in shared memory per thread of such a block
PLACES = 36
# rows before and after it, of which it keeps 1 / r'
AROUND = 64
# numbers of a message between such blocks
MAIL = 3
# of warps that march along r (march.cuh): columns of a warp, warps of a multiprocessor, least and most rows of a chunk
OWNED, MARCHING, LEAST_MARCH, MOST_MARCH = 30, 8, 16, 168
# lanes from which on they are faster than blocks that keep the state on the chip
WIDE = 121
# of a multiprocessor, of a thread
REGISTERS, MOST_REGISTERS = 65_536, 256
# relative difference of 1/r' up to which a grid is uniform
ALIKE = 1e-15
# of shared memory: two blocks on a multiprocessor
STREAMED_BYTES = 113_000
STREAMED_ROWS = 32
# of a sum: a tenth of its rounding
NEGLIGIBLE = 1e-17
# complex numbers per lane beside: a phase, what comes from other chunks (with one part: over its sums)
OTHERS = 3
# bytes of static shared memory of a block, and a margin
STATIC = 2048
# of logarithms
FLOOR = -1e4


@dataclass(frozen=True)
class CudaShape:
    """Layout of a run on the device.

    Attributes
    ----------
    points, lanes : int
        Of the state of one member.
    rows : int
        Points of a chunk.
    chunks : int
        Chunks of a member.
    blocks : int
        CUDA blocks of a member: `chunks`, or fewer, each of which does several chunks.
    threads : int
        Of a block in length gauge (in velocity gauge MIX_THREADS of launch.py, with `warps` `warps_threads`).
    together : int
        Members of a launch.
    waits : bool
        Whether blocks of a launch wait for each other; if not, a launch makes one sweep.
    warps : bool
        Whether the kernels of ``warps.cu`` can make the steps along z, with chunks in registers: only if `waits`, or
        with one chunk.
    strips : int
        Parts of the lanes that warps of ``march.cu`` have, each in all rows of a chunk; 0: these kernels do not make the steps.
    """

    points: int
    lanes: int
    rows: int
    chunks: int
    blocks: int
    threads: int
    together: int
    waits: bool = True
    warps: bool = False
    strips: int = 0

    @property
    def padded(self) -> int:
        """Points of all chunks."""
        return self.rows * self.chunks

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: its state, the ends of threads' rows, `OTHERS` per lane."""
        others = OTHERS if self.rows > ROWS else 1
        return 16 * self.lanes * (self.rows + 2 * (self.rows // ROWS) + others)

    @property
    def warps_bytes(self) -> int:
        """The same of a block of ``warps.cu``: tables of threads, sums and products of warps, lanes between warps."""
        teams, warps = self.rows // ROWS, self.warps_threads // WARP
        own = 16 * (2 * teams * self.lanes + 2 * self.rows) + 8 * (4 * self.rows + 2 * AROUND)
        return own + warps * (16 * PLACES * WARP + 32 * teams * STRIDE + 32 * self.rows)

    @property
    def warps_threads(self) -> int:
        """Threads of such a block: a warp has `WARP_PAIRS` pairs of lanes in all rows."""
        return WARP * -(-self.lanes // (2 * WARP_PAIRS))

    @property
    def resident(self) -> int:
        """Such blocks whose registers a multiprocessor has."""
        return max(REGISTERS // (MOST_REGISTERS * self.warps_threads), 1)


def shape(
    points: int,
    lanes: int,
    members: int,
    processors: int,
    shared: int,
    *,
    velocity: bool = False,
    waits: bool = True,
    warps: bool = True,
) -> CudaShape:
    """Return a shape for a number of members.

    Parameters
    ----------
    points, lanes, members : int
    processors : int
        Multiprocessors of the device.
    shared : int
        Bytes of shared memory that a block may have.
    velocity : bool
        Gauge: the registers of its kernels allow one block on a multiprocessor.
    waits : bool
        Whether the device holds all blocks of a cooperative launch at once.
    warps : bool
        Whether the kernels of ``warps.cu`` may be taken: not in a plane.

    Raises
    ------
    DeviceError
        If not even `ROWS` points fit in a block.
    """

    def most(limit: int) -> int:
        """Return the largest number of rows, a multiple of `ROWS`, within a number of bytes."""
        # state, two ends per thread and OTHERS numbers per lane, 16 bytes each; ROWS rows alone need less,
        # since one thread has nobody to exchange with
        rows = ROWS * int((limit - STATIC - 16 * OTHERS * lanes) // (16 * lanes * (ROWS + 2)))
        return max(rows, ROWS * (limit - STATIC >= 16 * lanes * (ROWS + 3)))

    if not warps and most(shared) < 1:
        raise DeviceError(
            f"{ROWS} radial points of {lanes} channels do not fit in the {shared} bytes of shared memory of a CUDA block",
            hint="run.device: cpu, or a lower grid.l_max",
        )
    if warps and lanes <= WARP_LANES and waits:
        chunks = -(-points // WARP_ROWS)
        layout = CudaShape(points, lanes, WARP_ROWS, chunks, chunks, THREADS, 1, waits)
        at_once = processors * min(layout.resident, shared // (layout.warps_bytes + STATIC))
        if layout.chunks <= at_once:
            together = members if layout.chunks == 1 else min(members, at_once // layout.chunks)
            return replace(layout, together=together, warps=True)
    if warps and lanes >= WIDE:
        return marching(points, lanes, members, processors)
    each = max(1, processors // members)
    rows = min(-(-max(-(-points // each), LEAST_ROWS) // ROWS) * ROWS, most(shared))
    layout = _of_rows(points, lanes, rows, waits=waits)
    if layout.chunks <= processors:
        at_once = members if layout.chunks == 1 else processors // layout.chunks
        return replace(layout, together=min(members, at_once))
    if warps:
        return marching(points, lanes, members, processors)
    rows = min(max(most(min(STREAMED_BYTES, shared)), ROWS), STREAMED_ROWS)
    chunks = -(-points // rows)
    two = not velocity and 2 * (16 * lanes * (rows + 2 * (rows // ROWS) + OTHERS) + STATIC) <= shared
    return CudaShape(
        points, lanes, rows, chunks, min(chunks, (1 + two) * processors), STREAMED_THREADS, 1, waits
    )


def marching(points: int, lanes: int, members: int, processors: int) -> CudaShape:
    """Return a shape for the kernels of ``march.cu``: one wave of warps, if their chunks are not too short."""
    strips = max(1, -(-(lanes // 2 - 1) // OWNED))
    # longer chunks begin less often, but their rows lie farther apart in memory than several waves of shorter ones
    rows = min(max(-(-points * strips * members // (MARCHING * processors)), LEAST_MARCH), MOST_MARCH)
    chunks = -(-points // (-(-rows // ROWS) * ROWS))
    rows = -(-points // (chunks * ROWS)) * ROWS
    chunks = -(-points // rows)
    return CudaShape(points, lanes, rows, chunks, chunks * strips, WARP, members, strips=strips)


def _of_rows(points: int, lanes: int, most: int, *, waits: bool) -> CudaShape:
    """Return chunks of at most that many rows, of about the same size, for one member."""
    chunks = -(-points // most)
    rows = -(-points // (chunks * ROWS)) * ROWS
    chunks = -(-points // rows)
    return CudaShape(points, lanes, rows, chunks, chunks, THREADS, 1, waits)


def radial_tables(
    a: NDArray[np.float64],
    potential: NDArray[np.float64],
    rotation: NDArray[np.float64],
    ll: NDArray[np.float64],
    first: NDArray[np.float64],
    down: NDArray[np.float64],
    up: NDArray[np.float64],
) -> tuple[NDArray[Any], ...]:
    """Return alpha, beta, gain and keep, (n, lanes) each, from the arrays of :func:`qsim.tridiag.kernels.atom.length.pivots`."""
    lanes = ll.size
    p = down[:, :lanes] + 1j * down[:, lanes:]
    back = up[:, :lanes] + 1j * up[:, lanes:]
    # B without the absorber; q, G, gain and keep as in the module's text
    b = potential[:, :1] + rotation[:, None] * ll - 1.0
    absorbed = potential[:, 1:]
    q = 1.0 / (b - 1j * (a[:, None] - absorbed))
    diagonal = q + 10.0 / 12.0
    diagonal[0] = q[0] + first
    # 1/G = 1/p + 1/p' - (M2)_jj - q: both eliminations meet in row j
    gain = np.asarray(2j * a[:, None] * q**2 / (1.0 / p + 1.0 / back - diagonal), dtype=np.complex128)
    keep = np.asarray(q * (b + 1j * (a[:, None] + absorbed)), dtype=np.complex128)
    # the first row has nothing before it, the last one nothing after it
    alpha, beta = np.zeros(q.shape, dtype=np.complex128), np.zeros(q.shape, dtype=np.complex128)
    alpha[1:] = -p[:-1] * q[:-1] / (12.0 * q[1:])
    beta[:-1] = -back[1:] * q[1:] / (12.0 * q[:-1])
    return alpha, beta, gain, keep


@dataclass(frozen=True)
class Families:
    """Disjoint pairs of lanes, family by family, in the order in which a step begins.

    Attributes
    ----------
    pairs : list of (2, count) int32
        Lanes of l and of l + 1.
    coupling, growth : list of (count,) float64
        ``<l + 1|cos|l>`` (in a plane: with its sign) and that times (l + 1).
    momenta : (lanes,) float64 or None
        m of the lanes, of a frame that turns.
    """

    pairs: list[NDArray[np.int32]]
    coupling: list[NDArray[np.float64]]
    growth: list[NDArray[np.float64]]
    momenta: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Observed:
    """Weights of the sums.

    Attributes
    ----------
    weight, force : (n,) float64
        ``1 / r'^2``; dV/dr with the weights of its integral.
    last : (count,) int64
        Lanes of the largest l.
    """

    weight: NDArray[np.float64]
    force: NDArray[np.float64]
    last: NDArray[np.int64]


def mixing_decay(k: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how the influence of a row on a Cayley step with ``k = g c / (4 r')`` decays per row, at least, in e-foldings."""
    # either way and for either sign of k: off-diagonal over pivot
    return np.asarray(-np.log((1.0 / 3.0 + 2.0 * k) / (2.0 / 3.0 + np.sqrt(1.0 / 3.0 + 4.0 * k**2))))


class Mixing:
    """Tables of the Cayley steps of ``A d/dr``, beside the tables of the radial step.

    Parameters
    ----------
    device : Device
    layout : CudaShape
    r, slope : (n,) float64
        Radii and r'.
    strongest : float
        Largest coupling of the families.
    inner : (rows, lanes) float64
        ``1 / r'^2`` where the core of high l is emptied, 0 elsewhere.
    members : int
    radial : (2, chunks) int32, optional
        Chunks before and after each that are felt in the radial step.
    """

    def __init__(
        self,
        device: Device,
        layout: CudaShape,
        r: NDArray[np.float64],
        slope: NDArray[np.float64],
        strongest: float,
        inner: NDArray[np.float64],
        members: int,
        radial: NDArray[np.int32] | None = None,
    ) -> None:
        self._device, self._shape, self._strongest = device, layout, strongest
        self._slope = slope
        put = device.asarray
        padded = np.zeros((3, layout.padded))
        padded[:, : r.size] = 1.0 / r, 1.0 / slope, np.sqrt(slope)
        self.inverse_r, self.inverse_slope, self.root = (put(one) for one in padded)
        self.inner_rows = inner.shape[0]
        self.inner = put(inner if inner.size else np.zeros((1, layout.lanes)))
        segments = layout.chunks * (layout.rows // ROWS)
        with device.use():
            # and groups of them
            segments += layout.chunks * -(-(layout.rows // ROWS) // GROUP)
            parts = (1,) if layout.warps else (members, 2, segments, layout.lanes)
            self.products = device.xp.zeros(parts)
            self.wholes = device.xp.zeros((2, members, 2, layout.chunks, layout.lanes))
            self.lost = device.xp.zeros((members, layout.chunks))
        self._radial = np.zeros((2, layout.chunks), np.int32) if radial is None else radial
        self._felt: dict[int, tuple[Any, Any, int]] = {}

    def felt(self, g: float) -> tuple[Any, Any, int]:
        """Return what is felt before and after each chunk for steps up to g, and who is waited for.

        The first, (3, chunks): parts before, parts after; rows from which pivots are found, -1 where they are those of a
        uniform grid without end.  Then `waits_of` all parts of a step, (2, chunks), and the largest of them.
        The influence on a pivot decays by the square of `mixing_decay`.
        """
        # tables for the next larger power of BUCKET: a pulse needs a few of them instead of one per step
        bucket = math.ceil(math.log(g) / math.log(BUCKET)) if g > 0.0 else -(10**6)
        if bucket not in self._felt:
            k = np.zeros(self._shape.padded)
            k[: self._slope.size] = (
                0.25 * self._strongest * (BUCKET**bucket if g > 0.0 else 0.0) / self._slope
            )
            decay = mixing_decay(k)
            parts = self._shape.rows // ROWS
            # decay from the first row to the end of each part: differences tell how far two parts are apart in
            # e-foldings
            sums = np.concatenate([[0.0], np.cumsum(decay.reshape(-1, ROWS).sum(axis=1))])
            edges = np.arange(self._shape.chunks + 1) * parts
            enough = -math.log(NEGLIGIBLE)
            # first part before a chunk, and first part after it, from which nothing above NEGLIGIBLE comes
            low = np.maximum(np.searchsorted(sums, sums[edges[:-1]] - enough, side="right") - 1, 0)
            high = np.minimum(np.searchsorted(sums, sums[edges[1:]] + enough), sums.size - 1)
            reach = np.array([edges[:-1] - low, high - edges[1:], self._warm(decay)], dtype=np.int32)
            # the flags of a launch serve the radial step, too: the larger of both distances counts
            waits = waits_of(np.maximum(self._radial, -(-reach[:2] // parts)))
            put = self._device.asarray
            self._felt[bucket] = put(reach), put(waits), int(waits.max(initial=0))
        return self._felt[bucket]

    def _warm(self, decay: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return how many rows before and after each team its pivots depend on, -1 for none, (chunks,)."""
        n, rows = self._slope.size, self._shape.rows
        sums = np.concatenate([[0.0], np.cumsum(decay)])
        first = np.arange(self._shape.chunks) * rows
        # influence on a pivot goes with the square of the decay: half the distance is enough
        enough = -0.5 * math.log(NEGLIGIBLE)
        inner = np.arange(0, rows + 1, ROWS)[:, None] + first
        low = np.maximum(np.searchsorted(sums, sums[inner] - enough, side="right") - 1, 0)
        high = np.minimum(np.searchsorted(sums, sums[inner] + enough), sums.size - 1)
        warm = np.maximum(inner - low, high - inner).max(axis=0) + 1
        # where 1 / r' is constant all around, pivots are those of an endless uniform grid and need no warm-up
        change = np.abs(self._slope[1:] / self._slope[:-1] - 1.0) > ALIKE
        changes = np.concatenate([[0], np.cumsum(change)])
        low, high = first - warm - 1, first + rows + warm + 1
        inside = (low > 0) & (high < n - 1)
        alike = changes[np.clip(high, 0, n - 1)] == changes[np.clip(low, 0, n - 1)]
        return np.where(inside & alike, -1, warm)

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return sum(int(one.nbytes) for one in vars(self).values() if hasattr(one, "nbytes"))


class CudaTables:
    """Arrays of a run on the device, for steps of one length.

    Parameters
    ----------
    device : Device
    layout : CudaShape
    radial : tuple of (n, lanes) complex128
        Of `radial_tables`.
    r : (n,) float64
    families : Families
    observed : Observed
    mask : (n,) float64 or None
        Factor after every step.
    members : int
    """

    def __init__(
        self,
        device: Device,
        layout: CudaShape,
        radial: tuple[NDArray[np.complex128], ...],
        r: NDArray[np.float64],
        families: Families,
        observed: Observed,
        *,
        mask: NDArray[np.float64] | None = None,
        members: int = 1,
    ) -> None:
        self.device, self.shape, self.members = device, layout, members
        chunks, rows, lanes = layout.chunks, layout.rows, layout.lanes
        put = device.asarray
        padded = [self._rows(one) for one in radial]
        self.alpha, self.beta, self.gain, self.keep = (put(one) for one in padded)
        # products of the factors over the rows of a thread, over groups of these, and over a chunk:
        # with them a sum from zero is continued from elsewhere
        parts = [one.reshape(-1, ROWS, lanes).prod(axis=1) for one in padded[:2]]
        self.alpha_part, self.beta_part = (put(one) for one in parts)
        self.more = put(
            np.stack(_before(parts, chunks, lanes)) if layout.warps else _more(parts, chunks, lanes)
        )
        whole = [one.reshape(chunks, rows // ROWS, lanes).prod(axis=1) for one in parts]
        self.alpha_chunk, self.beta_chunk = (put(one) for one in whole)
        # how many chunks away the product is below rounding: that many neighbours are read
        reach = np.array([_reach(whole[0]), _reach(whole[1][::-1])[::-1]], dtype=np.int32)
        self.window = int(reach.max(initial=0))
        self.radial_reach, self.reach, self.waits = reach, put(reach), put(waits_of(reach))
        self.families = len(families.pairs)
        self.counts = put(np.array([one.shape[1] for one in families.pairs], dtype=np.int32))
        self.pairs = put(_joined([one.ravel() for one in families.pairs], np.int32))
        self.coupling = put(_joined(families.coupling, np.float64))
        self.growth = put(_joined(families.growth, np.float64))
        self.momenta = None if families.momenta is None else put(families.momenta)
        self.r = put(self._rows(r))
        self.mask = None if mask is None else put(self._rows(mask))
        self.weight, self.force = put(self._rows(observed.weight)), put(self._rows(observed.force))
        edge = np.zeros(lanes)
        edge[observed.last] = 1.0
        self.edge = put(edge)
        xp = device.xp
        with device.use():
            # two sets, which take turns: others may still read the set of the sweep before
            self.tips = xp.zeros((2, members, 2, chunks, lanes), dtype=np.complex128)
            self.flags = xp.zeros((members, chunks), dtype=np.int32)
            several = layout.blocks < chunks
            wide = (layout.together, chunks, 2, rows // ROWS, lanes) if several else (1,)
            self.kept = xp.zeros(wide, dtype=np.complex128)
            # messages of warps: 16 bytes each, with the number of the operation in them
            letters = (2, 2, chunks, lanes, MAIL, 4) if layout.warps else (1,)
            self.mail = xp.zeros((members, *letters), dtype=np.uint32)
        self.base = 0
        self.mix: Mixing | None = None

    def _rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return an array (n, ...) with the rows of all chunks, those beyond the grid 0."""
        out = np.zeros((self.shape.padded, *values.shape[1:]), dtype=values.dtype)
        out[: values.shape[0]] = values
        return out

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return sum(int(one.nbytes) for one in vars(self).values() if hasattr(one, "nbytes"))


def _before(parts: list[NDArray[np.complex128]], chunks: int, lanes: int) -> list[NDArray[np.complex128]]:
    """Return products over the parts of a chunk before each and after each, (chunks, parts, lanes) each."""
    products = []
    for back, one in enumerate(parts):
        # from the end for the recurrence that comes from the last row
        each = one.reshape(chunks, -1, lanes)
        each = each[:, ::-1] if back else each
        before = np.ones_like(each)
        before[:, 1:] = np.cumprod(each[:, :-1], axis=1)
        products.append(before[:, ::-1] if back else before)
    return products


def _more(parts: list[NDArray[np.complex128]], chunks: int, lanes: int) -> NDArray[np.complex128]:
    """Return products over groups of parts, in the direction of each sum, then the products of `_before`, flat."""
    products = []
    for back, one in enumerate(parts):
        each = one.reshape(chunks, -1, lanes)
        each = each[:, ::-1] if back else each
        count = -(-each.shape[1] // GROUP)
        # factors of 1 fill up the last group
        wide = np.ones((chunks, count * GROUP, lanes), dtype=np.complex128)
        wide[:, : each.shape[1]] = each
        products.append(wide.reshape(chunks, count, GROUP, lanes).prod(axis=2))
    return np.concatenate([one.ravel() for one in products + _before(parts, chunks, lanes)])


def _joined(parts: list[NDArray[Any]], dtype: type) -> NDArray[Any]:
    """Return arrays one after the other; one element at least, so that there is an address."""
    return np.concatenate([*parts, np.zeros(1)]).astype(dtype)


def waits_of(reach: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return for how many chunks before and after each is waited, (2, chunks).

    A chunk waits for those that it feels, and for all up to those that feel it; whoever is waited for waits as well.  Then
    none is more than one exchange ahead of another that reads what it has sent.

    Parameters
    ----------
    reach : (2, chunks) int32
        Chunks before and after each that are felt.
    """
    waits = np.array(reach, dtype=np.int32)
    # symmetric closure: repeated until nobody has to wait for one more
    while True:
        before, after = waits.copy()
        for d in range(1, min(int(waits.max(initial=0)) + 1, before.size)):
            np.maximum(waits[1, :-d], d * (before[d:] >= d), out=waits[1, :-d])
            np.maximum(waits[0, d:], d * (after[:-d] >= d), out=waits[0, d:])
        if np.array_equal(waits, (before, after)):
            return waits


def _reach(products: NDArray[np.complex128]) -> NDArray[np.int64]:
    """Return how many chunks before each are felt: up to a product of magnitude `NEGLIGIBLE`, (chunks,)."""
    chunks = products.shape[0]
    # logarithms, since products of many factors underflow; FLOOR stands for those that have
    size = np.maximum(np.log(np.maximum(np.abs(products), 1e-300)), FLOOR)
    sums = np.concatenate([np.zeros((1, products.shape[1])), np.cumsum(size, axis=0)])
    # a chunk has no more others before it than its number; then the shortest distance over which every lane's
    # product is small
    reach = np.arange(chunks)
    for d in range(1, chunks):
        small = (sums[d:chunks] - sums[: chunks - d]).max(axis=1) <= np.log(NEGLIGIBLE)
        here = reach[d:]
        here[small] = np.minimum(here[small], d)
        if np.all(reach <= d):
            break
    return reach
