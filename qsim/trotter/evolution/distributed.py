"""A state on 2^g processes: the top g bits of its index number the rank.

Phases are local: the spins of the rank have one value there, which acts as fields on the others and as a constant.  Rotations of
those g spins need amplitudes of other processes.  Layers therefore alternate between two arrangements:

* A: rank bit k is spin n + k, bit p of the local index is spin p (n = N - g);
* B: rank bit k is spin n - g + k, the local bit n - g + k is spin n + k, the others are as in A.

A and B differ by an exchange of g bits of the index, in which every process sends ``1 - 2^-g`` of its amplitudes, once per
layer: a layer arranged as A turns at the lowest tile, one arranged as B at the highest, which holds the spins that have arrived.
The spins that take their places on the ranks are rotated just before they leave or just after they have come back, in one go over
the amplitudes that also multiplies by the constant phases.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device.links import total
from qsim.trotter.evolution.integrators import Layer, closed, course, turn
from qsim.trotter.evolution.layers import CPU_BITS, Tile, device_tiles, grouped, tiles
from qsim.trotter.kernels.layers.layers import Axis, mid_pass, turn_pass
from qsim.trotter.kernels.states.measure import Moments, first_moments, moments_of_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.links import Links
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.states.vectors import Amplitudes

__all__ = ["SharedEvolver", "bits_of"]

# amplitudes that are exchanged or rotated at a time
CHUNK = 1 << 22


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
        tiling: Sequence[Tile] | None = None,
    ) -> None:
        self.device, self.links, self.spins = device, links, model.spins
        self.g = bits_of(links.size)
        self.n = model.spins - self.g
        self.dtype = np.dtype(np.complex64 if precision == "single" else np.complex128)
        with device.use():
            # an array of either library, of a CPU or of a GPU; copied, since it is evolved in place
            whole: object = psi
            self.psi = device.asarray(np.array(whole) if isinstance(whole, np.ndarray) else whole, self.dtype)
        if self.psi.shape != (1 << self.n,):
            raise ValueError(f"{self.psi.shape[0]} amplitudes are not 2^{self.n}")
        self.tiles = list(tiling) if tiling else _tiles(device, self.n, self.g, self.dtype.itemsize)
        self.passes = 0
        # spins of this rank that are down
        self._down = links.rank.bit_count()
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
        self._axes = [
            [self._arranged(model, axis, spins, others) for axis in range(3)]
            for spins, others in ((local, np.arange(n, n + g)), (swapped, local[n - g :]))
        ]

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
        # layers and rotations as in `Evolver._program`; `arranged`
        # says which g spins number the ranks at present
        turns = [turn(a[0], b[0]) for a, b in pairwise(sequence)]
        arranged = before = 0
        with self.device.use():
            for i, (axis, tau) in enumerate(sequence):
                after = turns[i] if i < len(turns) else 0
                shift = (0.5 if before == -1 else 0.0) - (0.5 if after == 1 else 0.0)
                # powers of two, which alternate for odd N, so that two rotations together are exact
                scale = 2.0 ** -((self.spins + i % 2) // 2) if before else 1.0
                couplings, energies = self._axes[arranged][axis]
                many = len(self.tiles) > 1
                self._turn(
                    couplings, self.tiles[-arranged], before != 0, bool(after) and many, (tau, shift, scale)
                )
                # of the spins that number ranks: shift of those down,
                # and the energy among themselves, for each rank
                phases = np.exp(1j * (np.pi * shift * _downs(self.links.size) - tau * energies))
                if after:
                    # a rotation of all spins includes the spins of the rank: they come in by an exchange, and
                    # the next layer uses the other arrangement
                    self._rearrange(arranged, phases)
                    arranged = 1 - arranged
                else:
                    self._multiply(complex(phases[self.links.rank]))
                before = after
            # an odd number of rotations leaves the spins exchanged
            if arranged:
                self._exchange()

    def _rearrange(self, arranged: int, phases: NDArray[np.complex128]) -> None:
        """Go to the other arrangement, and rotate all bits that the next turning pass leaves."""
        # phases of this rank before its amplitudes leave, of the senders after they have arrived
        own = np.full(self.links.size, phases[self.links.rank])
        between = self.tiles[1:-1]
        if arranged and len(self.tiles) > 1:
            self._exchange()
            # by the rank that each part comes from
            self._rotate_top(phases)
            self._rotate(between)
        else:
            self._rotate(between)
            self._rotate_top(own)
            self._exchange()

    def _rotate(self, between: Sequence[Tile]) -> None:
        for tile in between:
            mid_pass(self.device, self.psi, tile.low, tile.high, tile.bits)
        self.passes += len(between)

    def _turn(
        self, axis: Axis, tile: Tile, rotate_in: bool, rotate_out: bool, phase: tuple[float, float, float]
    ) -> None:
        tau, shift, scale = phase
        turn_pass(
            self.device,
            self.psi,
            axis,
            (tile.low, tile.high, tile.bits),
            rotate_in=rotate_in,
            rotate_out=rotate_out,
            tau=tau,
            shift=shift,
            scale=scale,
        )
        self.passes += 1

    def _multiply(self, factor: complex) -> None:
        if factor != 1.0:
            self.psi *= self.dtype.type(factor)
            self.passes += 1

    def _rotate_top(self, factors: NDArray[np.complex128]) -> None:
        """Multiply the parts of the top g bits by factors and rotate these bits, without the factor 2^(-1/2) a bit."""
        if not self.g:
            return self._multiply(complex(factors[0]))
        parts = self.psi.reshape(1 << self.g, -1)
        column = self.device.asarray(factors[:, None], self.dtype)
        # pieces of the columns, so that the copies stay small
        width = max(1, CHUNK >> self.g)
        for low in range(0, parts.shape[1], width):
            some = parts[:, low : low + width] * column
            # bit k of the top g bits: sum and difference of its two values
            for k in range(self.g):
                pairs = some.reshape(1 << (self.g - k - 1), 2, 1 << k, -1)
                some = self.device.xp.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
            parts[:, low : low + width] = some.reshape(1 << self.g, -1)
        self.passes += 1
        return None

    def _exchange(self) -> None:
        """Exchange the bits of the rank with the top g local bits: part b goes to rank b, whose part of this rank comes here."""
        parts, rank = self.psi.reshape(1 << self.g, -1), self.links.rank
        width = min(parts.shape[1], CHUNK)
        # one buffer; the part is sent and overwritten piece by piece
        received = self.device.xp.empty(width, self.dtype)
        # step 1 ... 2^g - 1: rank ^ step pairs all processes without waiting for a third one
        for step in range(1, self.links.size):
            partner = rank ^ step
            for low in range(0, parts.shape[1], width):
                part = parts[partner, low : low + width]
                self.links.swap(partner, part, received[: part.shape[0]])
                part[...] = received[: part.shape[0]]

    # ----------------------------------------------------------------------------------- measurement

    def rotate_frame(self, back: bool = False) -> None:
        """Go to the frame of the next axis (z, x, y, z); ``back`` marks the third time, which restores the global phase."""
        with self.device.use():
            self._rotate(self.tiles[1:])
            scale = 2.0 ** (-self.spins / 2)
            if back:
                self._turn(self._ones, self.tiles[0], True, False, (0.5 * np.pi, 0.0, scale))
                # C^3 = exp(-i pi/4) a spin is taken back: up exp(-i
                # pi/4), down exp(i pi/4), for the spins of the rank
                factor = np.exp(-0.5j * np.pi * (0.5 * self.g - self._down))
            else:
                self._turn(self._zero, self.tiles[0], True, False, (0.0, 0.5, scale))
                # diag(1, i) of C^dagger for the spins of the rank
                factor = 1j**self._down
            # the spins of the rank come in, are rotated, and go back
            self._exchange()
            self._rotate_top(np.ones(self.links.size, complex))
            self._exchange()
            self._multiply(complex(factor))

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


def _downs(ranks: int) -> NDArray[np.float64]:
    """Return the number of rank bits that are 1, by rank."""
    return np.array([rank.bit_count() for rank in range(ranks)], float)
