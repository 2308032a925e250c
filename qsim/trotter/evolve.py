"""Evolution of a state vector: layers as passes over tiles of the state, to and fro (see ``kernels/layers.cu``)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.kernels import Graph
from qsim.trotter.kernels.layers import STAGE, Axis, Members, member_layers, mid_pass, turn_pass
from qsim.trotter.kernels.measure import Moments, first_moments, moments_of_axis
from qsim.trotter.schedule import ORDER, Layer, layers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device import Device
    from qsim.trotter.model import Model

CPU_BITS = 14  # amplitudes of a CPU tile: with its copy, the second-level cache
MIN_RUN = {"cpu": 4, "cuda": 2}  # lowest bits that a high tile keeps contiguous
CUDA_SMALLEST, CUDA_LARGEST = 9, 13  # bits of a CUDA tile
CUDA_SIZES = (
    (12, 12),
    (11, 11),
    (10, 10),
    (9, 9),
    (13, 12),
    (13, 13),
)  # lowest tile and the others, the fastest first
SMALL_SPINS = {"cpu": 11, "cuda": 12}  # up to here all layers of many steps run in one call
GRAPH_SPINS = 22  # below this a launch costs as much as a pass, so whole steps are recorded


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


def tiles(spins: int, device: str) -> list[Tile]:
    """Return the groups of bits that the passes go through, the lowest first.

    Parameters
    ----------
    spins : int
    device : {"cpu", "cuda"}

    Raises
    ------
    ValueError
        If no three groups cover so many spins.
    """
    if device == "cpu":
        sizes: tuple[tuple[int, int], ...] = ((CPU_BITS, CPU_BITS),)
        least = 1
    else:
        sizes = CUDA_SIZES
        least = 4  # the registers of a thread are the top bits of its tile
    largest = CPU_BITS if device == "cpu" else CUDA_LARGEST
    if spins <= largest:
        return [Tile(spins, spins, spins)]
    for groups in (1, 2, 3):
        for lowest, bits in sizes:
            rest = spins - lowest
            parts = [rest // groups + (k < rest % groups) for k in range(groups)]
            crowded = groups == 1 and bits == CUDA_LARGEST  # fewer passes, but each slower: no gain
            if min(parts) >= least and max(parts) <= bits - MIN_RUN[device] and not crowded:
                found, high = [Tile(lowest, lowest, lowest)], lowest
                for part in parts:
                    found.append(Tile(bits - part, high, bits))
                    high += part
                return found
    raise ValueError(f"{spins} spins are more than {device} tiles of {largest} bits reach")


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

    Attributes
    ----------
    psi : (2^N,) complex
        State in the z basis, on the device; evolved in place.
    passes : int
        Passes over the state so far.
    """

    def __init__(
        self, device: Device, model: Model, psi: Any, *, precision: str = "double", own: bool = False
    ) -> None:
        self.device, self.spins = device, model.spins
        self.dtype = np.dtype(np.complex64 if precision == "single" else np.complex128)
        self.passes = 0
        with device.use():
            full = device.asarray(psi, self.dtype)
            self._padded = max(self.spins, CUDA_SMALLEST) if device.is_cuda else self.spins
            # spins without couplings beside a system that is smaller than the smallest tile
            if own and full.size == 1 << self._padded:
                self._psi = full
            else:
                self._psi = device.xp.zeros(1 << self._padded, self.dtype)
                self._psi[: full.size] = full
        self.tiles = tiles(self._padded, device.kind)
        self._graphs: dict[tuple[Any, ...], Graph] = {}
        self._zero = self._axis(np.zeros((self.spins, self.spins)), np.zeros(self.spins))
        self._uniform = self._axis(np.zeros((self.spins, self.spins)), np.ones(self.spins))
        self.set_model(model)

    @property
    def psi(self) -> Any:
        """State (2^N,), on the device."""
        return self._psi[: 1 << self.spins]

    @psi.setter
    def psi(self, value: Any) -> None:
        with self.device.use():
            self._psi[: 1 << self.spins] = self.device.asarray(value, self.dtype)
            self._psi[1 << self.spins :] = 0  # rounding of the padding

    def set_model(self, model: Model) -> None:
        """Exchange the Hamiltonian, for example by that of the next time step."""
        self.model = model
        self._axes = tuple(self._axis(model.J[a], model.h[a]) for a in range(3))
        self.present = tuple(a for a in range(3) if np.any(model.J[a]) or np.any(model.h[a]))
        self._graphs.clear()
        self._members: Members | None = None

    def _axis(self, pairs: NDArray[np.float64], fields: NDArray[np.float64]) -> Axis:
        n = self._padded
        wide, long = np.zeros((n, n)), np.zeros(n)
        wide[: self.spins, : self.spins] = pairs
        long[: self.spins] = fields
        return Axis(self.device.asarray(wide), self.device.asarray(long), {})

    # ------------------------------------------------------------------------------------- evolution

    def advance(self, method: str, dt: float, steps: int) -> None:
        """Make steps of an integrator of :data:`schedule.METHODS`; dt may be negative."""
        if steps <= 0 or not self.present:
            return
        once = self._closed(layers(self.present, method, dt))
        with self.device.use():
            if self._padded <= SMALL_SPINS[self.device.kind]:
                self._advance_small(once, steps)
                return
            if steps == 1 or len(once) == 1:
                if len(once) == 1:
                    once = [(once[0][0], once[0][1] * steps)]
                self._run(self._program(once))
                return
            # steps share their first and last layer: head, then the same body again and again, then the tail
            (axis, first), (_, last) = once[0], once[-1]
            body = [*once[1:-1], (axis, first + last)]
            repeat = 1 if len(body) % 2 == 0 else 2  # the passes turn at the end where they started
            count, rest = divmod(steps - 1, repeat)
            self._run(self._program([once[0], *once[1:]], 0, 1))
            key = (method, dt)
            recorded = self.device.is_cuda and self._padded < GRAPH_SPINS and count > 1
            program = self._program([once[0], *(body * repeat), *body], 1, 1 + len(body) * repeat)
            if recorded and key not in self._graphs:
                self._run(program)
                count -= 1
                with Graph.capture(self.device) as graph:
                    self._run(program)
                self._graphs[key] = graph
                self.passes -= len(program)
            for _ in range(count):
                if recorded:
                    self._graphs[key].launch()
                    self.passes += len(program)
                else:
                    self._run(program)
            end = [*(body * rest), *once[1:]]
            self._run(self._program([once[0], *end], 1, 1 + len(end)))

    def _advance_small(self, once: list[Layer], steps: int) -> None:
        """Make steps without leaving the chip, or a core's cache: head, bodies, tail in two calls."""
        if len(once) == 1:
            self._small([(once[0][0], once[0][1] * steps)], 0, 1, 1)
            return
        self._small(once, 0, 1, 1)
        if steps > 1:
            (axis, first), (_, last) = once[0], once[-1]
            self._small([*once[:-1], (axis, first + last), once[1]], 1, len(once), steps - 1)
        self._small(once, 1, len(once), 1)

    def _small(self, sequence: list[Layer], start: int, stop: int, repeats: int) -> None:
        """Run layers ``start .. stop - 1`` again and again; the rotation after the last one belongs to what follows."""
        if self._members is None:
            pairs = np.stack([self.device.to_host(a.pairs) for a in self._axes])[None]
            fields = np.stack([self.device.to_host(a.fields) for a in self._axes])[None]
            self._members = Members.of(self.device, pairs, fields)
        stages = np.zeros(stop - start, STAGE)
        for k, i in enumerate(range(start, stop)):
            axis, tau = sequence[i]
            before = _turn(sequence[i - 1][0], axis) if i > 0 else 0
            # C is a rotation after diag(1, -i): that part is done here, before the rotation, with the layer it follows
            after = _turn(axis, sequence[i + 1][0]) if i + 1 < len(sequence) else 0
            stages[k] = (
                tau / np.pi,
                (0.5 if before == -1 else 0.0) - (0.5 if after == 1 else 0.0),
                2.0 ** (-self._padded / 2) if before else 1.0,
                axis,
                before != 0,
            )
        if self._padded % 2 and (len(stages) - (start == 0)) % 2 == 0:
            for k in range(len(stages)):
                if stages[k]["rotate"]:  # powers of two that alternate
                    stages[k]["scale"] = 2.0 ** -((self._padded + k % 2) // 2)
        member_layers(self.device, self._psi[None], self._members, stages, repeats)
        self.passes += repeats * len(stages)

    def apply(self, sequence: list[Layer]) -> None:
        """Apply layers (axis, time) in their order."""
        if sequence:
            with self.device.use():
                self._run(self._program(self._closed(sequence)))

    def _closed(self, sequence: list[Layer]) -> list[Layer]:
        """Begin and end in the z frame; merge neighbours of one axis, so that every layer but the first follows a rotation."""
        z, x, y = ORDER
        sequence, given = [], sequence
        for axis, tau in given:
            if sequence and sequence[-1][0] == axis:
                sequence[-1] = (axis, sequence[-1][1] + tau)
            else:
                sequence.append((axis, tau))
        if sequence[0][0] != z:
            sequence = [(z, 0.0), *sequence]
        if sequence[-1][0] != z:
            sequence = [*sequence, (z, 0.0)]
        # C^3 is a phase: a way round through z, x, y must not gain it, so it goes back through x
        steps = [(a, b) for (a, _), (b, _) in pairwise(sequence)]
        if steps.count((y, z)) != steps.count((z, y)):
            direct, sequence = sequence, sequence[:1]
            for layer in direct[1:]:
                if {sequence[-1][0], layer[0]} == {y, z}:
                    sequence.append((x, 0.0))
                sequence.append(layer)
        return sequence

    def _program(self, sequence: list[Layer], start: int = 0, stop: int | None = None) -> list[Pass]:
        """Return the passes of layers ``start .. stop - 1`` of a sequence; all rotations up to the next layer belong to it."""
        n, found = self._padded, []
        turns = [_turn(a[0], b[0]) for a, b in pairwise(sequence)]
        stop = len(sequence) if stop is None else stop
        for i in range(start, stop):
            axis, tau = sequence[i]
            before = turns[i - 1] if i > 0 else 0
            after = turns[i] if i < len(turns) else 0
            shift = (0.5 if before == -1 else 0.0) - (0.5 if after == 1 else 0.0)
            scale = 1.0
            if before:
                # powers of two: those of odd N alternate, so that two rotations together are exact; every way has an even number
                scale = 2.0 ** -((n + i % 2) // 2)
            end = 0 if i % 2 == 0 else len(self.tiles) - 1
            found.append(Pass(self.tiles[end], axis, before != 0, self._leaves(after), tau, shift, scale))
            if after:
                found.extend(Pass(tile) for tile in self.tiles[1:-1])
        return found

    def _leaves(self, after: int) -> bool:
        """Whether a turning pass does the next rotation already: only if the next layer turns at another tile."""
        return bool(after) and len(self.tiles) > 1

    def _run(self, program: list[Pass]) -> None:
        for p in program:
            tile = p.tile
            if p.axis is None:
                mid_pass(self.device, self._psi, tile.low, tile.high, tile.bits)
            else:
                self._turn(self._axes[p.axis], p)
        self.passes += len(program)

    def _turn(self, axis: Axis, p: Pass) -> None:
        turn_pass(
            self.device,
            self._psi,
            axis,
            p.tile.low,
            p.tile.high,
            p.tile.bits,
            rotate_in=p.rotate_in,
            rotate_out=p.rotate_out,
            tau=p.tau,
            shift=p.shift,
            scale=p.scale,
        )

    # ----------------------------------------------------------------------------------- measurement

    def rotate_frame(self, back: bool = False) -> None:
        """Go to the frame of the next axis (z, x, y, z); ``back`` marks the third time, which restores the global phase.

        ``C^dagger`` on every spin; ``C^3 = exp(-i pi/4)`` a spin.
        """
        for tile in self.tiles[1:]:
            mid_pass(self.device, self._psi, tile.low, tile.high, tile.bits)
        scale = 2.0 ** (-self._padded / 2)
        if back:
            # up exp(-i pi/4), down i exp(-i pi/4): a field of a quarter turn on every spin, those of the padding too
            ones = Axis(self._uniform.pairs, self.device.xp.ones(self._padded), self._uniform.tables)
            p = Pass(self.tiles[0], None, True, False, 0.5 * np.pi, 0.0, scale)
            self._turn(ones, p)
        else:
            self._turn(self._zero, Pass(self.tiles[0], None, True, False, 0.0, 0.5, scale))
        self.passes += len(self.tiles)

    def measure(self, axes: str = "z", pairs: bool = True) -> Moments:
        """Return <S^a_j> and, if ``pairs``, <S^a_j S^a_k>, not divided by the norm.

        Parameters
        ----------
        axes : {"z", "xyz"}
            With ``"xyz"`` the state goes through all frames and back, in place.
        """
        with self.device.use():
            if axes == "z":
                norm, s, ss = self._measured(pairs)
                return Moments(norm, {"z": s}, {"z": ss} if pairs else {})
            firsts, seconds, norm = {}, {}, 0.0
            for name in ("z", "x", "y"):
                weight, s, ss = self._measured(pairs)
                norm = weight if name == "z" else norm
                firsts[name] = s
                if pairs:
                    seconds[name] = ss
                self.rotate_frame(back=name == "y")
            return Moments(norm, firsts, seconds)

    def _measured(self, pairs: bool) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        n = self.spins
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
        m = moments if moments is not None and len(moments.ss) == 3 else self.measure("xyz")
        total = 0.0
        for a, name in enumerate(("x", "y", "z")):
            total += float(self.model.h[a] @ m.s[name]) + 0.5 * float(np.sum(self.model.J[a] * m.ss[name]))
        return total


def _turn(axis: int, following: int) -> int:
    """Return the rotation between two frames: 0 none, -1 C^dagger, 1 C."""
    step = (ORDER.index(following) - ORDER.index(axis)) % 3
    return (0, -1, 1)[step]
