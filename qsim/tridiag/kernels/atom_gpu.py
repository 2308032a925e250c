r"""Tables and launches of the CUDA kernels of an electron in a central potential (``atom.cu`` and its likes).

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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device import kernels
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
    "launch_length",
    "launch_velocity",
    "moves",
    "operations",
    "planar_operations",
    "radial_tables",
    "shape",
]

ROWS = 4  # rows of a thread
MOST_LANES = 1400  # of which ROWS points fit in the shared memory of a block of any device (compute capability 8.0: 163 kB)
THREADS, STREAMED_THREADS, MIX_THREADS = 512, 256, 256
PORT = 12  # numbers that a segment tells of a Cayley step of velocity gauge
RADIAL_STEP, NOTHING = -1, -2
CLEAR, MASK = 1, 2
BUCKET = 1.25  # steps of g in which reaches are kept
LEAST_ROWS = 16  # of a chunk: shorter ones must look back far
STREAMED_BYTES = 113_000  # of shared memory: two blocks on a multiprocessor
STREAMED_ROWS = 32
NEGLIGIBLE = 1e-18
SUMS = 6
STATIC = 2048  # bytes of shared memory that are not asked for by a launch, and more
FLOOR = -1e4  # of logarithms


@dataclass(frozen=True)
class CudaShape:
    """How a run lies on the device.

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
        Of a block.
    together : int
        Members of a launch.
    waits : bool
        Whether blocks of a launch wait for each other; if not, a launch makes one sweep.
    """

    points: int
    lanes: int
    rows: int
    chunks: int
    blocks: int
    threads: int
    together: int
    waits: bool = True

    @property
    def padded(self) -> int:
        """Points of all chunks."""
        return self.rows * self.chunks

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: its state, the ends of threads' rows, a phase per lane."""
        return 16 * self.lanes * (self.rows + 2 * (self.rows // ROWS) + 1)


def shape(
    points: int, lanes: int, members: int, processors: int, shared: int, *, waits: bool = True
) -> CudaShape:
    """Return a shape for a number of members.

    Parameters
    ----------
    points, lanes, members : int
    processors : int
        Multiprocessors of the device.
    shared : int
        Bytes of shared memory that a block may have.
    waits : bool
        Whether the device holds all blocks of a cooperative launch at once.

    Raises
    ------
    DeviceError
        If not even `ROWS` points fit in a block.
    """

    def most(limit: int) -> int:
        """Return the largest number of rows, a multiple of `ROWS`, within a number of bytes."""
        return ROWS * int((limit - STATIC - 16 * lanes) // (16 * lanes * (ROWS + 2)))

    if most(shared) < 1:
        raise DeviceError(
            f"{ROWS} radial points of {lanes} channels do not fit in the {shared} bytes of shared memory of a CUDA block",
            hint="run.device: cpu, or a lower grid.lmax",
        )
    each = max(1, processors // members)
    rows = max(-(-points // each), LEAST_ROWS)
    rows = min(-(-rows // ROWS) * ROWS, most(shared))
    chunks = -(-points // rows)
    if chunks <= processors:
        rows = -(-points // (chunks * ROWS)) * ROWS
        chunks = -(-points // rows)
        together = members if chunks == 1 else min(members, processors // chunks)
        return CudaShape(points, lanes, rows, chunks, chunks, THREADS, together, waits)
    rows = min(max(most(min(STREAMED_BYTES, shared)), ROWS), STREAMED_ROWS)
    chunks = -(-points // rows)
    two = 2 * (16 * lanes * (rows + 2 * (rows // ROWS) + 1) + STATIC) <= shared
    return CudaShape(
        points, lanes, rows, chunks, min(chunks, (1 + two) * processors), STREAMED_THREADS, 1, waits
    )


def radial_tables(
    a: NDArray[np.float64],
    potential: NDArray[np.float64],
    rotation: NDArray[np.float64],
    ll: NDArray[np.float64],
    first: NDArray[np.float64],
    down: NDArray[np.float64],
    up: NDArray[np.float64],
) -> tuple[NDArray[Any], ...]:
    """Return alpha, beta, gain and keep, (n, lanes) each, from the arrays of :func:`qsim.tridiag.kernels.atom.pivots`."""
    lanes = ll.size
    p = down[:, :lanes] + 1j * down[:, lanes:]
    back = up[:, :lanes] + 1j * up[:, lanes:]
    b = potential[:, :1] + rotation[:, None] * ll - 1.0
    absorbed = potential[:, 1:]
    q = 1.0 / (b - 1j * (a[:, None] - absorbed))
    diagonal = q + 10.0 / 12.0
    diagonal[0] = q[0] + first
    gain = 2j * a[:, None] * q**2 / (1.0 / p + 1.0 / back - diagonal)
    keep = q * (b + 1j * (a[:, None] + absorbed))
    alpha, beta = np.zeros_like(q), np.zeros_like(q)
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
    """What sums are taken with.

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


class Mixing:
    """What the Cayley steps of ``A d/dr`` need beside the tables of the radial step.

    Parameters
    ----------
    device : Device
    found : CudaShape
    r, slope : (n,) float64
        Radii and r'.
    strongest : float
        Largest coupling of the families.
    inner : (rows, lanes) float64
        ``1 / r'^2`` where the core of high l is emptied, 0 elsewhere.
    members : int
    """

    def __init__(
        self,
        device: Device,
        found: CudaShape,
        r: NDArray[np.float64],
        slope: NDArray[np.float64],
        strongest: float,
        inner: NDArray[np.float64],
        members: int,
    ) -> None:
        self._device, self._shape, self._strongest = device, found, strongest
        self._slope = slope
        put = device.asarray
        padded = np.zeros((3, found.padded))
        padded[:, : r.size] = 1.0 / r, 1.0 / slope, np.sqrt(slope)
        self.inverse_r, self.inverse_slope, self.root = (put(one) for one in padded)
        self.inner_rows = inner.shape[0]
        self.inner = put(inner if inner.size else np.zeros((1, found.lanes)))
        segments = found.chunks * (found.rows // ROWS)
        with device.use():
            self.ports = device.xp.zeros((2, members, PORT, segments, found.lanes))
            self.lost = device.xp.zeros((members, found.chunks))
        self._felt: dict[int, tuple[Any, int]] = {}

    def felt(self, g: float) -> tuple[Any, int]:
        """Return the segments before and after each chunk that are felt for steps up to g, (2, chunks), and their chunks.

        With ``k = g c / (4 r')`` the influence of a row decays per row, either way and for either sign of k, by at most
        ``(1/3 + 2 k) / (2/3 + sqrt(1/3 + 4 k^2))``.
        """
        bucket = math.ceil(math.log(g) / math.log(BUCKET)) if g > 0.0 else -(10**6)
        if bucket not in self._felt:
            k = np.zeros(self._shape.padded)
            k[: self._slope.size] = (
                0.25 * self._strongest * (BUCKET**bucket if g > 0.0 else 0.0) / self._slope
            )
            decay = -np.log((1.0 / 3.0 + 2.0 * k) / (2.0 / 3.0 + np.sqrt(1.0 / 3.0 + 4.0 * k**2)))
            parts = self._shape.rows // ROWS
            sums = np.concatenate([[0.0], np.cumsum(decay.reshape(-1, ROWS).sum(axis=1))])
            edges = np.arange(self._shape.chunks + 1) * parts
            enough = -math.log(NEGLIGIBLE)
            low = np.maximum(np.searchsorted(sums, sums[edges[:-1]] - enough, side="right") - 1, 0)
            high = np.minimum(np.searchsorted(sums, sums[edges[1:]] + enough), sums.size - 1)
            reach = np.array([edges[:-1] - low, high - edges[1:]], dtype=np.int32)
            self._felt[bucket] = self._device.asarray(reach), -(-int(reach.max(initial=0)) // parts)
        return self._felt[bucket]

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return sum(int(one.nbytes) for one in vars(self).values() if hasattr(one, "nbytes"))


class CudaTables:
    """Arrays of a run on the device, for steps of one length.

    Parameters
    ----------
    device : Device
    found : CudaShape
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
        found: CudaShape,
        radial: tuple[NDArray[np.complex128], ...],
        r: NDArray[np.float64],
        families: Families,
        observed: Observed,
        *,
        mask: NDArray[np.float64] | None = None,
        members: int = 1,
    ) -> None:
        self.device, self.shape, self.members = device, found, members
        chunks, rows, lanes = found.chunks, found.rows, found.lanes
        put = device.asarray
        padded = [self._rows(one) for one in radial]
        self.alpha, self.beta, self.gain, self.keep = (put(one) for one in padded)
        parts = [one.reshape(-1, ROWS, lanes).prod(axis=1) for one in padded[:2]]
        self.alpha_part, self.beta_part = (put(one) for one in parts)
        whole = [one.reshape(chunks, rows // ROWS, lanes).prod(axis=1) for one in parts]
        self.alpha_chunk, self.beta_chunk = (put(one) for one in whole)
        reach = np.array([_reach(whole[0]), _reach(whole[1][::-1])[::-1]], dtype=np.int32)
        self.window = int(reach.max(initial=0))
        self.reach = put(reach)
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
            self.tips = xp.zeros((2, members, 2, chunks, lanes), dtype=np.complex128)
            self.flags = xp.zeros((members, chunks), dtype=np.int32)
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


def _joined(parts: list[NDArray[Any]], dtype: type) -> NDArray[Any]:
    """Return arrays one after the other; one element at least, so that there is an address."""
    return np.concatenate([*parts, np.zeros(1)]).astype(dtype)


def _reach(products: NDArray[np.complex128]) -> NDArray[np.int64]:
    """Return how many chunks before each are felt: up to a product of magnitude `NEGLIGIBLE`, (chunks,)."""
    chunks = products.shape[0]
    size = np.maximum(np.log(np.maximum(np.abs(products), 1e-300)), FLOOR)
    sums = np.concatenate([np.zeros((1, products.shape[1])), np.cumsum(size, axis=0)])
    reach = np.arange(chunks)
    for d in range(1, chunks):
        small = (sums[d:chunks] - sums[: chunks - d]).max(axis=1) <= np.log(NEGLIGIBLE)
        here = reach[d:]
        here[small] = np.minimum(here[small], d)
        if np.all(reach <= d):
            break
    return reach


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
    out[:, 1:, 0] = 0.5 * dt * fields
    out[:, :-1, 1] = 0.5 * dt * fields
    if directions is not None:
        frame = np.zeros((members, steps + 2))
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
        Before the operation begins: `CLEAR`, `MASK` or both; the place of the sums.
    moves : (members, operations + 1, 3) float64
        g of the operation, turns of the frame before and after a sample.
    """
    ends, middle = g
    steps = middle.shape[1]
    found: list[tuple[int, int, int, NDArray[np.float64]]] = []
    if steps:
        found.append((0, 0, int(samples[0]), 0.5 * ends[:, 0]))
    for k in range(steps):
        half, last = 0.5 * middle[:, k], k + 1 == steps
        action = CLEAR | MASK * masked if k > 0 else 0
        if k > 0 and not masked and samples[k] < 0:
            found.append((1, action, -1, half))
        elif k > 0:  # the step before is complete
            found.append((0, action, int(samples[k]), 0.5 * ends[:, k]))
            found.append((1, 0, -1, half))
        else:
            found.append((1, 0, -1, half))
        found.append((RADIAL_STEP, 0, -1, half))
        found.append((1, 0, -1, half))
        split = last or masked or samples[k + 1] >= 0
        found.append((0, 0, -1, (0.5 if split else 1.0) * ends[:, k + 1]))
    final = CLEAR | MASK * masked if steps else 0
    found.append((NOTHING, final, int(samples[steps]), np.zeros(middle.shape[0])))
    moves_ = np.zeros((middle.shape[0], len(found), 3))
    moves_[:, :, 0] = np.array([one[3] for one in found]).T
    kinds, actions, places = (np.array([one[i] for one in found], dtype=np.int32) for i in range(3))
    return kinds, actions, places, moves_


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
    length = len(PLANAR)
    kinds = np.array([*PLANAR * steps, NOTHING], dtype=np.int32)
    actions = np.zeros(kinds.size, dtype=np.int32)
    places = np.full(kinds.size, -1, dtype=np.int32)
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
    s: Any,
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
    return _launch(kernel, s, tables, table, samples, [], tables.window, tables.shape.threads)


def launch_velocity(
    kernel: tuple[str, str],
    s: Any,
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
    felt, window = mix.felt(float(np.abs(table[:, :, 0]).max()))
    mix.lost.fill(0.0)
    middle = [
        tables.growth, mix.inverse_r, mix.inverse_slope, mix.root, felt, np.int32(tables.shape.points), put(kinds),
        put(actions), mix.ports, mix.lost, mix.inner, np.int32(mix.inner_rows),
    ]  # fmt: skip
    sums = _launch(kernel, s, tables, table, samples, middle, max(tables.window, window), MIX_THREADS)
    return sums, mix.lost.sum(axis=1)


def _launch(
    kernel: tuple[str, str],
    s: Any,
    tables: CudaTables,
    table: NDArray[np.float64],
    samples: NDArray[np.int32],
    middle: list[Any],
    window: int,
    threads: int,
) -> Any:
    """Launch all sweeps, wave after wave of members; return the sums."""
    found, device = tables.shape, tables.device
    steps = samples.size - 1
    places = int(samples.max(initial=-1)) + 1
    null = np.intp(0)
    with device.use():
        sums = device.xp.zeros((tables.members, max(places, 1), found.chunks, SUMS))
        moved, taken = device.asarray(np.ascontiguousarray(table)), device.asarray(samples)
        waits = found.waits and found.chunks > 1
        run = kernels.function(
            "tridiag/kernels", *kernel, {"ROWS": ROWS}, shared_bytes=found.shared_bytes, cooperative=waits
        )
        frame = [] if tables.momenta is None else [tables.momenta]
        spans = [(0, steps)] if waits or found.chunks == 1 else [(k, k) for k in range(steps + 1)]
        for low in range(0, tables.members, found.together):
            high = min(low + found.together, tables.members)
            inner = [
                one[low:high] if tables.mix is not None and one is tables.mix.lost else one for one in middle
            ]
            for first, last in spans:
                numbers = (
                    found.lanes, found.rows, found.chunks, found.blocks, window, first, last, steps, tables.base,
                    max(places, 1), tables.members,
                )  # fmt: skip
                run(
                    ((high - low) * found.blocks,),
                    (threads,),
                    (
                        s[low:high], tables.tips, tables.flags[low:high], tables.alpha, tables.beta, tables.gain,
                        tables.keep, tables.alpha_part, tables.beta_part, tables.alpha_chunk, tables.beta_chunk,
                        tables.reach, tables.pairs, tables.counts, tables.coupling, tables.r,
                        null if tables.mask is None else tables.mask, *frame, moved[low:high], taken,
                        tables.weight, tables.force, tables.edge, sums[low:high], *inner,
                        *(np.int32(number) for number in numbers),
                    ),
                    shared_mem=found.shared_bytes,
                )  # fmt: skip
        tables.base += steps
        return sums.sum(axis=2)[:, :places]
