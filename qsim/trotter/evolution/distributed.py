"""A state on 2^g processes: the top g bits of its index number the rank.

Phases are local: the spins of the rank have one value there, which acts as fields on the others and as a constant.  Rotations of
those g spins need amplitudes of other processes.  Layers therefore alternate between two arrangements:

* A: rank bit k is spin n + k, bit p of the local index is spin p (n = N - g);
* B: rank bit k is spin n - g + k, the local bit n - g + k is spin n + k, the others are as in A.

A and B differ by an exchange of g bits of the index, in which every process sends ``1 - 2^-g`` of its amplitudes, once per
layer: a layer arranged as A turns at the lowest tile, one arranged as B at the highest, which holds the spins that have arrived.
The spins that take their places on the ranks are rotated just before they leave or just after they have come back, in the pass
that copies amplitudes into the buffers of the exchange or out of them, and that also multiplies by the constant phases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device.links import total
from qsim.trotter.evolution.exchange import Exchange
from qsim.trotter.evolution.integrators import ORDER, Layer, closed, course, turn
from qsim.trotter.evolution.layers import CPU_BITS, Tile, device_tiles, grouped, tiles
from qsim.trotter.kernels.layers.layers import Axis, mid_pass, turn_pass
from qsim.trotter.kernels.layers.top import Act
from qsim.trotter.kernels.states.measure import Moments, first_moments, moments_of_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.links import Links
    from qsim.trotter.evolution.exchange import Work
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.states.vectors import Amplitudes


def bits_of(ranks: int) -> int:
    """Return g of 2^g ranks.

    Raises
    ------
    ValueError
        If the number is no power of two.
    """
    if ranks < 1 or ranks & (ranks - 1):
        raise ValueError(f"a state is shared by 2, 4, 8, ... ranks, not by {ranks}")
    return ranks.bit_length() - 1


def _tiles(device: Device, n: int, g: int, item: int) -> list[Tile]:
    """Return tiles of n local spins of which the highest rotates g spins at least.

    Raises
    ------
    ValueError
        If there are none.
    """
    kind, item, most = device_tiles(device, item)
    # the usual tiles first
    ways = [tiles(n, kind, item, most)]
    # shorter lowest tiles, so that more spins are left for the highest
    if kind == "cpu":
        ways += [
            way
            for lowest in range(CPU_BITS - 1, g, -1)
            for way in [grouped(n, kind, 1, lowest, CPU_BITS)]
            if way
        ]
    for way in ways:
        last = way[-1]
        # the highest tile must hold the g bits that are exchanged with the bits of the rank
        if g <= (last.bits if last.low == last.bits else last.bits - last.low):
            return way
    raise ValueError(f"{n} spins per process are too few for 2^{g} processes")


@dataclass(frozen=True)
class _Turn:
    """The turning pass of a layer.

    Attributes
    ----------
    axis : Axis
        Couplings among the local spins, with fields of the others.
    tile : Tile
    rotate_in, rotate_out : bool
        Whether it rotates before and after the phases.
    phase : (tau, shift, scale)
        As in :func:`turn_pass`.
    phases : (2^g,) complex
        Of the spins that number ranks, by rank.
    """

    axis: Axis
    tile: Tile
    rotate_in: bool
    rotate_out: bool
    phase: tuple[float, float, float]
    phases: NDArray[np.complex128] = field(default_factory=lambda: np.ones(1, complex))


class SharedEvolver:
    """The part of a state that one of 2^g processes holds; every call is made by all of them.

    Parameters
    ----------
    device : Device
    model : Model
        Couplings of all N spins.
    psi : (2^(N - g),) complex
        Amplitudes of this process: those whose top g bits are its number.
    links : Links
        To the other processes.
    precision : {"double", "single"}
    own : bool
        Take psi over where its type and place fit, instead of copying it: half the memory, and the caller's array changes.
    tiling : sequence of Tile, optional
        Tiles of the local bits.

    Attributes
    ----------
    psi : (2^(N - g),) complex
        Part of the state in the z basis, on the device; evolved in place.
    passes : int
        Passes over it so far.
    """

    def __init__(
        self,
        device: Device,
        model: Model,
        psi: Amplitudes,
        links: Links,
        *,
        precision: str = "double",
        own: bool = False,
        tiling: Sequence[Tile] | None = None,
    ) -> None:
        self.device, self.links, self.spins = device, links, model.spins
        self.g = bits_of(links.size)
        self.n = model.spins - self.g
        self.dtype = np.dtype(np.complex64 if precision == "single" else np.complex128)
        with device.use():
            # an array of either library, of a CPU or of a GPU
            self.psi = device.asarray(psi, self.dtype)
            if self.psi is psi and not own:
                self.psi = self.psi.copy()
        if self.psi.shape != (1 << self.n,):
            raise ValueError(f"{self.psi.shape[0]} amplitudes are not 2^{self.n}")
        self.tiles = list(tiling) if tiling else _tiles(device, self.n, self.g, self.dtype.itemsize)
        self.exchange = Exchange(device, links, self.n, self.dtype)
        self.passes = 0
        self._zero = Axis(device.asarray(np.zeros((self.n, self.n))), device.asarray(np.zeros(self.n)))
        self._ones = Axis(self._zero.pairs, device.asarray(np.ones(self.n)))
        self.set_model(model)

    def set_model(self, model: Model) -> None:
        """Exchange the Hamiltonian, for example by H of the next time step."""
        self.model, n, g = model, self.n, self.g
        self.present = tuple(a for a in range(3) if np.any(model.J[a]) or np.any(model.h[a]))
        # two arrangements: spins n ... N - 1 number ranks, or
        # they have changed places with the top g local ones
        local = np.arange(n)
        swapped = np.concatenate([local[: n - g], np.arange(n, n + g)])
        self._others = [np.arange(n, n + g), local[n - g :]]
        self._axes = [
            [self._arranged(model, axis, spins, others) for axis in range(3)]
            for spins, others in zip((local, swapped), self._others, strict=True)
        ]
        # whether fields alone turn the spins that may number ranks, and layers of z can be made in pieces
        coupled = model.J[:2, np.concatenate(self._others)].any()
        self._alone = not coupled and len(self.tiles) > 1 and self._streams

    def _arranged(
        self, model: Model, axis: int, spins: NDArray[np.int64], others: NDArray[np.int64]
    ) -> tuple[Axis, NDArray[np.float64]]:
        """Return the couplings among local spins with the fields of the others on this rank, and the others' energy by rank."""
        J, h = model.J[axis], model.h[axis]
        ranks = np.arange(self.links.size)
        # spins of the rank bits, +-1/2, for every rank
        values = 0.5 - (ranks[:, None] >> np.arange(self.g) & 1)
        # spins outside of this process are fixed: their couplings to local spins are fields
        fields = h[spins] + J[np.ix_(spins, others)] @ values[self.links.rank]
        # and their own energy a phase of all local amplitudes
        inside = J[np.ix_(others, others)]
        energies = values @ h[others] + 0.5 * np.einsum("rj,jk,rk->r", values, inside, values)
        pairs = np.ascontiguousarray(J[np.ix_(spins, spins)])
        return Axis(self.device.asarray(pairs), self.device.asarray(fields)), energies

    # ------------------------------------------------------------------------------------- evolution

    def advance(self, method: str, dt: float, steps: int) -> None:
        """Make steps of an integrator of :data:`schedule.METHODS`; dt may be negative."""
        if steps <= 0 or not self.present:
            return
        plan = course(self.present, method, dt, steps)
        # no recorded launches here: exchanges come between the passes
        body = plan.layers[plan.first : plan.last] * plan.repeats
        self._run([*plan.layers[: plan.first], *body, *plan.layers[plan.last :]])

    def apply(self, sequence: list[Layer]) -> None:
        """Apply layers (axis, time) in their order."""
        if sequence:
            self._run(closed(sequence))

    def _run(self, sequence: list[Layer]) -> None:
        """Apply layers that begin and end in the z frame, with an exchange of g spins for every rotation of all of them."""
        if self._alone:
            return self._run_alone(sequence)
        turns = [turn(a[0], b[0]) for a, b in pairwise(sequence)]
        arranged = before = 0
        # phases of the parts that are to arrive before the next layer, by the rank that each comes from
        coming: NDArray[np.complex128] | None = None
        with self.device.use():
            for i in range(len(sequence)):
                after = turns[i] if i < len(turns) else 0
                made = self._layer(sequence[i], (before, after), (arranged, arranged), i)
                own = np.full(self.links.size, made.phases[self.links.rank])
                if coming is not None and after and self._streams:
                    self._through(coming, made, own)
                    coming = None
                else:
                    if coming is not None:
                        self._cross(coming, Act.ROTATE, self._between(), arriving=True)
                        coming = None
                    self._turn(made)
                    if not after:
                        self._multiply(complex(own[0]))
                    elif arranged and len(self.tiles) > 1:
                        coming = made.phases
                    else:
                        self._cross(own, Act.ROTATE, self._between())
                # a rotation of all spins includes the spins of the rank: they come in by an exchange, and
                # the next layer uses the other arrangement
                arranged = 1 - arranged if after else arranged
                before = after
            # an odd number of rotations leaves the spins exchanged
            if arranged:
                self._cross(np.ones(self.links.size, complex), Act.MOVE)
        return None

    def _run_alone(self, sequence: list[Layer]) -> None:
        """Apply layers that begin and end in the z frame, where fields alone turn the spins that number ranks.

        These stay in the z frame.  What they turn by between two layers of z is a matrix of each, which acts as they arrive for
        the second one: it commutes with all other terms.  There is one exchange for the rotations between such layers.
        """
        turns = [0, *(turn(a[0], b[0]) for a, b in pairwise(sequence)), 0]
        arranged, coming, gates = 0, np.ones(self.links.size, complex), _unturned(self.g)
        with self.device.use():
            for i, (axis, tau) in enumerate(sequence):
                around = turns[i], turns[i + 1]
                if axis == ORDER[0] and i:
                    arranged = 1 - arranged
                    if turns[i] == -1:
                        # this layer shifts the phases of spins that are local now, which C^dagger did not turn; it turned those
                        # that number ranks now
                        gates = np.diag([1.0, -1j]) @ gates
                        coming = coming * 1j ** self.links.rank.bit_count()
                    self._arrive(self._layer(sequence[i], around, (arranged, 0), i), coming, gates)
                else:
                    # turning at the first and the last tile in turn; layers of z, of even number, at the first
                    self._turn(self._layer(sequence[i], around, (arranged, i % 2), i))
                    if i + 1 < len(sequence) and sequence[i + 1][0] != ORDER[0]:
                        self._between()(0, self.exchange.columns)
                if axis == ORDER[0]:
                    # energy of these spins among themselves, by the rank that their parts come from
                    coming, gates = np.exp(-1j * tau * self._axes[arranged][axis][1]), _unturned(self.g)
                else:
                    gates = _turned(axis, tau * self.model.h[axis, self._others[arranged]]) @ gates
            self._multiply(complex(coming[self.links.rank]))
            if arranged:
                self._cross(np.ones(self.links.size, complex), Act.MOVE)

    def _arrive(self, made: _Turn, coming: NDArray[np.complex128], gates: NDArray[np.complex128]) -> None:
        """Let the spins of the rank come in, turned by their matrices, and make the layer of z at the lowest tile."""
        rotate = self._between()
        again = self._between() if made.rotate_out else None
        bits, part, passes = made.tile.bits, self.exchange.columns, self.passes

        def work(low: int, width: int) -> None:
            rotate(low, width)
            for b in range(self.links.size):
                self._turn(made, ((b * part + low) >> bits, width >> bits))
            if again is not None:
                again(low, width)

        self.exchange.arrive(self.psi, coming, Act.GATES, work, gates)
        # the layer, and the matrices
        self.passes = passes + 2

    def _layer(self, layer: Layer, rotations: tuple[int, int], place: tuple[int, int], number: int) -> _Turn:
        """Return the pass of a layer between two rotations.

        Parameters
        ----------
        layer, rotations
            And the rotations before and after it.
        place : (int, int)
            Arrangement, which says what g spins number the ranks, and whether it turns at the last tile.
        number : int
            Of the layer.
        """
        arranged, end = place
        # as in `Evolver._program`
        (axis, tau), (before, after) = layer, rotations
        shift = (0.5 if before == -1 else 0.0) - (0.5 if after == 1 else 0.0)
        # powers of two, which alternate for odd N, so that two rotations together are exact
        rotated = self.n if self._alone else self.spins
        scale = 2.0 ** -((rotated + number % 2) // 2) if before else 1.0
        couplings, energies = self._axes[arranged][axis]
        # of the spins that number ranks: shift of those down,
        # and the energy among themselves, for each rank
        phases = np.exp(1j * (np.pi * shift * _downs(self.links.size) - tau * energies))
        leaves = bool(after) and len(self.tiles) > 1
        return _Turn(couplings, self.tiles[-end], before != 0, leaves, (tau, shift, scale), phases)

    @property
    def _inside(self) -> list[Tile]:
        """Tiles between the first and the last that lie within a piece of an exchange."""
        reach = self.exchange.width.bit_length() - 1
        return [tile for tile in self.tiles[1:-1] if tile.high + tile.bits - tile.low <= reach]

    @property
    def _streams(self) -> bool:
        """True if a layer that turns at the lowest tile can be made piece by piece between two exchanges."""
        fits = 1 << self.tiles[0].bits <= self.exchange.width
        return self.g > 0 and fits and len(self._inside) == len(self.tiles) - 2

    def _between(self) -> Work:
        """Rotate the tiles between the first and the last that exceed a piece; return what rotates the others in one."""
        inside = self._inside
        self._rotate([tile for tile in self.tiles[1:-1] if tile not in inside])
        self.passes += len(inside)

        def rotate(low: int, width: int) -> None:
            for part in self.psi.reshape(self.links.size, -1):
                for tile in inside:
                    mid_pass(self.device, part[low : low + width], tile.low, tile.high, tile.bits)

        return rotate

    def _through(
        self, entering: NDArray[np.complex128], made: _Turn, leaving: NDArray[np.complex128]
    ) -> None:
        """Let the spins of the rank come in, make a layer at the lowest tile, let others take their places: piece by piece."""
        rotate, again = self._between(), self._between()
        bits, part = made.tile.bits, self.exchange.columns

        def work(low: int, width: int) -> None:
            rotate(low, width)
            for b in range(self.links.size):
                self._turn(made, ((b * part + low) >> bits, width >> bits))
            again(low, width)

        passes = self.passes
        self.exchange.through(self.psi, entering, work, leaving)
        # the layer, and both rotations of the top bits
        self.passes = passes + 3

    def _cross(
        self,
        factors: NDArray[np.complex128],
        act: Act,
        work: Work | None = None,
        *,
        arriving: bool = False,
    ) -> None:
        """Exchange the bits of the rank with the top g local bits, which are acted on before, or if `arriving` after it."""
        if self.g:
            (self.exchange.arrive if arriving else self.exchange.leave)(self.psi, factors, act, work)
            self.passes += 1
            return
        # one process has no such bits
        self._multiply(complex(factors[0]))
        if work is not None:
            for low in range(0, self.exchange.columns, self.exchange.width):
                work(low, self.exchange.width)

    def _rotate(self, between: Sequence[Tile]) -> None:
        for tile in between:
            mid_pass(self.device, self.psi, tile.low, tile.high, tile.bits)
        self.passes += len(between)

    def _turn(self, made: _Turn, tiles: tuple[int, ...] = ()) -> None:
        """Make the pass of a layer, over all tiles or over (first, count) of them."""
        tau, shift, scale = made.phase
        turn_pass(
            self.device,
            self.psi,
            made.axis,
            (made.tile.low, made.tile.high, made.tile.bits, *tiles),
            rotate_in=made.rotate_in,
            rotate_out=made.rotate_out,
            tau=tau,
            shift=shift,
            scale=scale,
        )
        self.passes += 1

    def _multiply(self, factor: complex) -> None:
        if factor != 1.0:
            self.psi *= self.dtype.type(factor)
            self.passes += 1

    # ----------------------------------------------------------------------------------- measurement

    def rotate_frame(self, back: bool = False) -> None:
        """Go to the frame of the next axis (z, x, y, z); ``back`` marks the third time, which restores the global phase."""
        with self.device.use():
            self._rotate(self.tiles[1:])
            scale, downs = 2.0 ** (-self.spins / 2), _downs(self.links.size)
            if back:
                self._turn(_Turn(self._ones, self.tiles[0], True, False, (0.5 * np.pi, 0.0, scale)))
                # C^3 = exp(-i pi/4) a spin is taken back: up exp(-i
                # pi/4), down exp(i pi/4), for the spins of the rank
                factors = np.exp(-0.5j * np.pi * (0.5 * self.g - downs))
            else:
                self._turn(_Turn(self._zero, self.tiles[0], True, False, (0.0, 0.5, scale)))
                # diag(1, i) of C^dagger for the spins of the rank
                factors = 1j**downs
            # the spins of the rank come in, are rotated, and go back
            self._cross(np.ones(self.links.size, complex), Act.ROTATE, arriving=True)
            self._cross(factors, Act.MOVE)

    def measure(self, axes: str = "z", pairs: bool = True) -> Moments:
        """Return <S^a_j> and, if ``pairs``, <S^a_j S^a_k>, not divided by the norm; as `Evolver.measure`."""
        firsts, seconds, norm = {}, {}, 0.0
        for name in ("z", "x", "y") if axes == "xyz" else ("z",):
            with self.device.use():
                weight, s, ss = self._measured(pairs)
            norm = weight if name == "z" else norm
            firsts[name] = s
            if pairs:
                seconds[name] = ss
            if axes == "xyz":
                self.rotate_frame(back=name == "y")
        return Moments(norm, firsts, seconds)

    def _measured(self, pairs: bool) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """Return norm, <S_j> and <S_j S_k> of all spins in the present frame: sums over the processes."""
        n, N = self.n, self.spins
        inside: NDArray[np.float64] = np.zeros((n, n))
        if pairs:
            norm, s, inside = moments_of_axis(self.device, self.psi)
        else:
            norm, s = first_moments(self.device, self.psi)
        # spins of the rank are +-1/2 in all amplitudes of this process
        others = 0.5 - (self.links.rank >> np.arange(self.g) & 1)
        first = np.concatenate([s[:n], norm * others])
        second = np.zeros((N, N))
        if pairs:
            second[:n, :n] = inside[:n, :n]
            second[:n, n:] = np.outer(s[:n], others)
            second[n:, :n] = second[:n, n:].T
            second[n:, n:] = norm * np.outer(others, others)
        # one reduction for all numbers
        sums = total(self.links, np.concatenate([[norm], first, second.ravel()]))
        return float(sums[0]), sums[1 : N + 1], sums[N + 1 :].reshape(N, N)

    def norm(self) -> float:
        """Return <psi|psi>."""
        return self._measured(False)[0]


def _unturned(g: int) -> NDArray[np.complex128]:
    """Return the matrices (g, 2, 2) that turn nothing."""
    return np.broadcast_to(np.eye(2, dtype=complex), (g, 2, 2))


def _turned(axis: int, angles: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Return ``exp(-i angle S^a)`` of each angle (g,), (g, 2, 2), for a = x (axis 0) or y (axis 1)."""
    c, s = np.cos(0.5 * angles), np.sin(0.5 * angles)
    # sigma_x = [[0, 1], [1, 0]], sigma_y = [[0, -i], [i, 0]]
    upper, lower = (-1j * s, -1j * s) if axis == 0 else (-s, s)
    return np.moveaxis(np.array([[c, upper], [lower, c]], complex), 2, 0)


def _downs(ranks: int) -> NDArray[np.float64]:
    """Return the number of rank bits that are 1, by rank."""
    return np.array([rank.bit_count() for rank in range(ranks)], float)
