"""Evolution of a state vector: layers as passes over tiles of the state, to and fro (see ``kernels/layers.cu``)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.kernels import Graph
from qsim.trotter.evolution.batch import LARGEST, SMALLEST, Batch
from qsim.trotter.evolution.integrators import Layer, closed, course, turn
from qsim.trotter.kernels.layers.layers import RECORDED_SPINS, Axis, fits_shared, mid_pass, turn_pass
from qsim.trotter.kernels.states.measure import Moments, first_moments, moments_of_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.states.vectors import Amplitudes

# amplitudes of a CPU tile: with its copy, the second-level cache
CPU_BITS = 14
# for caches of other sizes
CPU_SIZES = (12, 13, 14, 15, 16)
# lowest bits that a high tile keeps contiguous
MIN_RUN = {"cpu": 4, "cuda": 2}
# bits of a CUDA tile
CUDA_LARGEST = 13
# lowest tile and the others, the fastest first
CUDA_SIZES = (
    (12, 12),
    (11, 11),
    (10, 10),
    (9, 9),
    (12, 13),
    (13, 12),
    (13, 13),
)
# bytes of a line of memory
LINE = 128
# up to here all layers of many steps run in one call
SMALL_SPINS = {"cpu": LARGEST, "cuda": LARGEST}
# of bits above the lowest tile
GROUPS = (1, 2, 3)
# graphs, and tables of exponentials of an axis (up to 41 kB each)
KEPT_STEPS, KEPT_LAYERS = 32, 256


@dataclass(frozen=True)
class Tile:
    """Bits that a pass visits: ``0 .. low - 1`` and ``high .. high + bits - low - 1``."""

    low: int
    high: int
    bits: int


@dataclass(frozen=True)
class Pass:
    """One launch: a layer at a turning tile, or a rotation of a tile between them (``axis`` None)."""

    tile: Tile
    axis: int | None = None
    rotate_in: bool = False
    rotate_out: bool = False
    tau: float = 0.0
    shift: float = 0.0
    scale: float = 1.0


def tiles(spins: int, device: str, item: int = 16, most: int = CUDA_LARGEST) -> list[Tile]:
    """Return the groups of bits that the passes go through, the lowest first.

    Parameters
    ----------
    spins : int
    device : {"cpu", "cuda"}
    item : int
        Bytes of an amplitude.
    most : int
        Bits of the largest tile that a CUDA device has shared memory for.

    Raises
    ------
    ValueError
        If three groups do not cover the spins.
    """
    sizes = ((CPU_BITS, CPU_BITS),) if device == "cpu" else _sizes(most)
    # fewest groups first: a layer takes a pass for each group above the lowest tile
    largest = CPU_BITS if device == "cpu" else most
    if spins <= largest:
        return [Tile(spins, spins, spins)]
    for groups in GROUPS:
        ways = [way for lowest, bits in sizes if (way := grouped(spins, device, groups, lowest, bits))]
        if ways:
            # beyond the caches: whole lines first, or the longest parts of them
            if device == "cuda" and groups > 1:
                whole = (LINE // item).bit_length() - 1
                ways.sort(key=lambda way: -min(whole, *(tile.low for tile in way)))
            return ways[0]
    raise ValueError(f"{spins} spins are more than {device} tiles of {largest} bits reach")


def _sizes(most: int) -> tuple[tuple[int, int], ...]:
    return tuple(size for size in CUDA_SIZES if max(size) <= most)


def tilings(spins: int, device: str, item: int = 16, most: int = CUDA_LARGEST) -> list[list[Tile]]:
    """Return the tilings that may be the fastest somewhere, without more passes than :func:`tiles`, whose tiling comes first."""
    choices = [tiles(spins, device, item, most)]
    if len(choices[0]) == 1:
        return choices
    # larger and smaller tiles trade the number of passes against shared memory and blocks at once
    sizes = tuple((bits, bits) for bits in CPU_SIZES) if device == "cpu" else _sizes(most)
    for lowest, bits in sizes:
        ways = (grouped(spins, device, groups, lowest, bits) for groups in GROUPS)
        fewest = next((way for way in ways if way), None)
        if fewest and len(fewest) <= len(choices[0]) and fewest not in choices:
            choices.append(fewest)
    return choices


def device_tiles(device: Device, item: int) -> tuple[str, int, int]:
    """Return the arguments of :func:`tiles` and :func:`tilings` for a device."""
    fits = not device.is_cuda or fits_shared(device, CUDA_LARGEST, item)
    return device.kind, item, CUDA_LARGEST if fits else CUDA_LARGEST - 1


def grouped(spins: int, device: str, groups: int, lowest: int, bits: int) -> list[Tile]:
    """Return the lowest tile and the tiles of `groups` groups above it; nothing if they cannot hold the spins."""
    # the registers of a thread are the top bits of its tile
    least = 1 if device == "cpu" else 4
    rest = spins - lowest
    # the upper bits in groups as equal as possible
    parts = [rest // groups + (k < rest % groups) for k in range(groups)]
    # a tile holds the rotated bits and at least MIN_RUN of the lowest ones, for contiguous access
    if min(parts) < least or max(parts) > bits - MIN_RUN[device]:
        return []
    way, high = [Tile(lowest, lowest, lowest)], lowest
    for part in parts:
        way.append(Tile(bits - part, high, bits))
        high += part
    return way


class Evolver:
    """A state and its Hamiltonian.

    Parameters
    ----------
    device : Device
    model : Model
    psi : (2^N,) complex
    precision : {"double", "single"}
    own : bool
        Take psi over where its type and place fit, instead of copying it: half the memory, and the caller's array changes.
    tiling : sequence of Tile, optional
        One of :func:`tilings`.

    Attributes
    ----------
    psi : (2^N,) complex
        State in the z basis, on the device; evolved in place.
    passes : int
        Passes over the state so far.
    """

    def __init__(
        self,
        device: Device,
        model: Model,
        psi: Amplitudes,
        *,
        precision: str = "double",
        own: bool = False,
        tiling: Sequence[Tile] | None = None,
    ) -> None:
        self.device, self.spins = device, model.spins
        self.dtype = np.dtype(np.complex64 if precision == "single" else np.complex128)
        self.passes = 0
        with device.use():
            full = device.asarray(psi, self.dtype)
            self._padded = max(self.spins, SMALLEST[device.kind])
            # spins without couplings beside a system that is smaller than the smallest tile
            if own and full.size == 1 << self._padded:
                self._psi = full
            else:
                self._psi = device.xp.zeros(1 << self._padded, self.dtype)
                self._psi[: full.size] = full
        self.tiles = (
            list(tiling) if tiling else tiles(self._padded, *device_tiles(device, self.dtype.itemsize))
        )
        # and the arrays that they read
        self._graphs: dict[tuple[Any, ...], tuple[Graph, list[Any]]] = {}
        self._zero = self._axis(np.zeros((self.spins, self.spins)), np.zeros(self.spins))
        # fields of 1 on every spin, without couplings: a global phase per spin, see `rotate_frame`
        self._ones = Axis(self._zero.pairs, device.asarray(np.ones(self._padded)))
        self.set_model(model)

    @property
    def psi(self) -> Any:
        """State (2^N,), on the device."""
        return self._psi[: 1 << self.spins]

    @psi.setter
    def psi(self, value: Amplitudes) -> None:
        with self.device.use():
            self._psi[: 1 << self.spins] = self.device.asarray(value, self.dtype)
            # rounding of the padding
            self._psi[1 << self.spins :] = 0

    def set_model(self, model: Model) -> None:
        """Exchange the Hamiltonian, for example by H of the next time step."""
        self.model = model
        # an axis without couplings and fields has no layers
        self._axes = tuple(self._axis(model.J[a], model.h[a]) for a in range(3))
        self.present = tuple(a for a in range(3) if np.any(model.J[a]) or np.any(model.h[a]))
        # recorded launches and tables belong to the old Hamiltonian
        self._graphs.clear()
        self._batch: Batch | None = None

    def _axis(self, pairs: NDArray[np.float64], fields: NDArray[np.float64]) -> Axis:
        # spins of the padding have no couplings and stay up
        n = self._padded
        wide, long = np.zeros((n, n)), np.zeros(n)
        wide[: self.spins, : self.spins] = pairs
        long[: self.spins] = fields
        return Axis(self.device.asarray(wide), self.device.asarray(long))

    # ------------------------------------------------------------------------------------- evolution

    def advance(self, method: str, dt: float, steps: int) -> None:
        """Make steps of an integrator of :data:`schedule.METHODS`; dt may be negative."""
        if steps <= 0 or not self.present:
            return
        with self.device.use():
            # small states stay in cache: a copy goes through the frames, and the state keeps its bits
            if self._padded <= SMALL_SPINS[self.device.kind]:
                batch = self._small()
                before = batch.layers
                batch.advance(method, dt, steps)
                self.passes += batch.layers - before
                return
            self._forget()
            # first and last layers of a run differ from those between
            # steps, whose neighbours merge: only the middle repeats
            plan = course(self.present, method, dt, steps)
            self._run(self._program(plan.layers, 0, plan.first))
            self._repeat((method, dt), self._program(plan.layers, plan.first, plan.last), plan.repeats)
            self._run(self._program(plan.layers, plan.last, len(plan.layers)))

    def _repeat(self, key: tuple[Any, ...], program: list[Pass], count: int) -> None:
        """Run passes again and again; where launches take the time they are recorded."""
        recorded = self.device.is_cuda and self._padded < RECORDED_SPINS and count > 1
        # the first time runs as usual: kernels are compiled and tables
        # made, which must not happen while launches are recorded
        if recorded and key not in self._graphs:
            self._run(program)
            count -= 1
            with Graph.capture(self.device) as graph:
                self._run(program, recorded=True)
            # the graph reads these tables: they are kept as long as it
            self._graphs[key] = graph, [dict(axis.factors) for axis in self._axes]
            # recording runs nothing
            self.passes -= len(program)
        for _ in range(count):
            if recorded:
                self._graphs[key][0].launch()
                self.passes += len(program)
            else:
                self._run(program)

    def _forget(self) -> None:
        """Drop graphs and tables of old time steps: output times on a logarithmic grid have a step each."""
        if len(self._graphs) > KEPT_STEPS:
            self._graphs.clear()
        for axis in self._axes:
            if len(axis.factors) > KEPT_LAYERS:
                axis.factors.clear()

    def _small(self) -> Batch:
        """Return the state as a batch of one member, which shares its memory."""
        if self._batch is None:
            self._batch = Batch(self.device, [self.model], self._psi[None], own=True)
        return self._batch

    def apply(self, sequence: list[Layer]) -> None:
        """Apply layers (axis, time) in their order."""
        if sequence:
            with self.device.use():
                self._run(self._program(closed(sequence)))

    def _program(self, sequence: list[Layer], start: int = 0, stop: int | None = None) -> list[Pass]:
        """Return the passes of layers ``start .. stop - 1`` of a sequence; all rotations up to the next layer belong to it."""
        # passes of a layer: one that turns, and the groups in between
        n, passes = self._padded, []
        # rotations of the frame between neighbours: C, C^dagger or none
        turns = [turn(a[0], b[0]) for a, b in pairwise(sequence)]
        stop = len(sequence) if stop is None else stop
        for i in range(start, stop):
            axis, tau = sequence[i]
            before = turns[i - 1] if i > 0 else 0
            after = turns[i] if i < len(turns) else 0
            # C = H diag(1, -i) but for a factor: its diagonal part, a phase of every spin down, is done with the layer beside it
            shift = (0.5 if before == -1 else 0.0) - (0.5 if after == 1 else 0.0)
            scale = 1.0
            if before:
                # powers of two, which alternate for odd N, so that two rotations together are exact; every way has an even number
                scale = 2.0 ** -((n + i % 2) // 2)
            # layers turn at the first tile and at the last one alternately: a pass ends the rotation of one layer and begins that
            # of the next, so that a layer costs as many passes as there are tiles, less one
            end = 0 if i % 2 == 0 else len(self.tiles) - 1
            passes.append(Pass(self.tiles[end], axis, before != 0, self._leaves(after), tau, shift, scale))
            if after:
                passes.extend(Pass(tile) for tile in self.tiles[1:-1])
        return passes

    def _leaves(self, after: int) -> bool:
        """Return True if a turning pass does the next rotation already: only if the next layer turns at another tile."""
        return bool(after) and len(self.tiles) > 1

    def _run(self, program: list[Pass], recorded: bool = False) -> None:
        for p in program:
            tile = p.tile
            if p.axis is None:
                mid_pass(self.device, self._psi, tile.low, tile.high, tile.bits, recorded)
            else:
                self._turn(self._axes[p.axis], p, recorded)
        self.passes += len(program)

    def _turn(self, axis: Axis, p: Pass, recorded: bool = False) -> None:
        turn_pass(
            self.device,
            self._psi,
            axis,
            (p.tile.low, p.tile.high, p.tile.bits),
            rotate_in=p.rotate_in,
            rotate_out=p.rotate_out,
            tau=p.tau,
            shift=p.shift,
            scale=p.scale,
            recorded=recorded,
        )

    # ----------------------------------------------------------------------------------- measurement

    def rotate_frame(self, back: bool = False) -> None:
        """Go to the frame of the next axis (z, x, y, z); ``back`` marks the third time, which restores the global phase.

        ``C^dagger`` on every spin; ``C^3 = exp(-i pi/4)`` a spin.
        """
        # H on every bit, with the factor 2^(-1/2) of each; the diagonal part of C^dagger is the shift
        for tile in self.tiles[1:]:
            mid_pass(self.device, self._psi, tile.low, tile.high, tile.bits)
        scale = 2.0 ** (-self._padded / 2)
        if back:
            # up exp(-i pi/4), down i exp(-i pi/4): a field of a quarter turn on every spin, the padding included
            self._turn(self._ones, Pass(self.tiles[0], None, True, False, 0.5 * np.pi, 0.0, scale))
        else:
            self._turn(self._zero, Pass(self.tiles[0], None, True, False, 0.0, 0.5, scale))
        self.passes += len(self.tiles)

    def measure(self, axes: str = "z", pairs: bool = True) -> Moments:
        """Return <S^a_j> and, if ``pairs``, <S^a_j S^a_k>, not divided by the norm.

        Parameters
        ----------
        axes : {"z", "xyz"}
            With ``"xyz"`` the state goes through all frames and back, in place; a small one is copied instead.
        """
        if self._padded <= SMALL_SPINS[self.device.kind]:
            return self._small().measure(axes, pairs)[0]
        with self.device.use():
            if axes == "z":
                norm, s, ss = self._measured(pairs)
                return Moments(norm, {"z": s}, {"z": ss} if pairs else {})
            # z, then x and y, each by a rotation of the frame; the third rotation restores the z frame and the phase
            firsts, seconds, norm = {}, {}, 0.0
            for name in ("z", "x", "y"):
                weight, s, ss = self._measured(pairs)
                # the norm is the same in all frames; rounding apart
                norm = weight if name == "z" else norm
                firsts[name] = s
                if pairs:
                    seconds[name] = ss
                self.rotate_frame(back=name == "y")
            return Moments(norm, firsts, seconds)

    def _measured(self, pairs: bool) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        n = self.spins
        # first moments come from the same pass; pairs are left out of the result
        if not pairs:
            norm, s = first_moments(self.device, self._psi)
            return norm, s[:n], np.zeros((0, 0))
        norm, s, ss = moments_of_axis(self.device, self._psi)
        return norm, s[:n], ss[:n, :n]

    def norm(self) -> float:
        """Return <psi|psi>."""
        return self._measured(False)[0]

    def energy(self, moments: Moments | None = None) -> float:
        """Return <H>, not divided by the norm."""
        # all axes at the same instant: with x and y missing everything is measured again
        m = moments if moments is not None and len(moments.ss) == 3 else self.measure("xyz")
        total = 0.0
        for a, name in enumerate(("x", "y", "z")):
            # every pair twice in the double sum
            total += float(self.model.h[a] @ m.s[name]) + 0.5 * float(np.sum(self.model.J[a] * m.ss[name]))
        return total
