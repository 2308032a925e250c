"""Evolution between two jumps, ``exp(-i int (H - i/2 sum_k L_k^+ L_k) dt)``, in three forms.

layers
    Product formulas in the space of all states of spins 1/2; the drift is an imaginary part of fields and couplings.
sparse
    Krylov exponentials of sparse matrices in a space of digits: any coupling, any spin, and sectors of Sz that jumps connect.
unitary
    Where the rate of all jumps together is the same in every state, the states of closed evolutions, by any of their propagators.

Every form advances its state by any step, also backwards, and knows norm, rates and jumps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from qsim.core.device.device import cpu
from qsim.trotter.evolution.batch import LARGEST, Batch
from qsim.trotter.evolution.integrators import ORDER, layers
from qsim.trotter.evolution.layers import Evolver
from qsim.trotter.kernels.open import jumps as kernels
from qsim.trotter.model.open.channels import decays_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model
    from qsim.trotter.model.open.channels import Channel, Decay

__all__ = [
    "Drift",
    "LayerDrift",
    "Stretch",
    "axes_of",
    "pieces_of",
    "profiles_of",
    "stages_of",
    "step_by_step",
]

# points and weights of Gauss on [0, 1], of order 6
NODES = 0.5 + np.array([-0.5, 0.0, 0.5]) * math.sqrt(0.6)
WEIGHTS = np.array([5.0, 8.0, 5.0]) / 18.0
# tables of a step that are kept, one for each length
KEPT = 4


class Stretch(NamedTuple):
    """Some full steps.

    Attributes
    ----------
    made : int
        Their number.
    before, after : (float, float)
        Norm squared, and rate of all jumps times it, before the last step and after it.
    """

    made: int
    before: tuple[float, float]
    after: tuple[float, float]


class Drift(Protocol):
    """A state between two jumps."""

    channels: Sequence[Channel]
    driven: bool

    @property
    def clock(self) -> Callable[[float], float] | None:
        """Rate of all jumps as a function of time, where it is the same in every state; None where it is not."""

    @property
    def psi(self) -> Any:
        """The state, on the device."""

    def begin(self, psi: Any, space: Any = None) -> None:
        """Take a state; of a space, where jumps lead to others."""

    def stretch(self, t: float, dt: float, steps: int, least: float) -> Stretch:
        """Make full steps from a time on, until the norm squared is below `least`."""

    def step(self, t: float, tau: float) -> None:
        """Make one step of any length; tau may be negative."""

    def weight(self, t: float) -> tuple[float, float]:
        """Return the norm squared, and the rate of all jumps times it."""

    def rates(self, t: float) -> NDArray[np.float64]:
        """Return the rate of every channel, times the norm squared, (K,)."""

    def jump(self, channel: int) -> None:
        """Apply a jump operator and normalise."""

    def measure(self, axes: str, t: float) -> Moments:
        """Return the moments of the state."""


def profiles_of(hamiltonian: Hamiltonian, decays: Sequence[Decay]) -> list[Any]:
    """Return all factors that depend on time."""
    return [
        *(f for f, _ in hamiltonian.driven),
        *(decay.factor for decay in decays if decay.factor is not None),
    ]


def pieces_of(t: float, tau: float, kinks: Sequence[float]) -> list[tuple[float, float]]:
    """Return (start, length) of the parts of a step between kinks."""
    low, high = min(t, t + tau), max(t, t + tau)
    small = 1e-12 * abs(tau)
    inside = [k for k in kinks if low + small < k < high - small]
    ends = [low, *sorted(inside), high]
    parts = [(a, b - a) for a, b in pairwise(ends)]
    return parts if tau > 0 else [(a + d, -d) for a, d in reversed(parts)]


# -------------------------------------------------------------------------------------------- layers


def step_by_step(drift: Drift, t: float, dt: float, steps: int, least: float) -> Stretch:
    """Make full steps one after the other, until the norm squared is below `least`."""
    before = after = drift.weight(t)
    for number in range(steps):
        before = after
        drift.step(t + number * dt, dt)
        after = drift.weight(t + (number + 1) * dt)
        if after[0] < least:
            return Stretch(number + 1, before, after)
    return Stretch(steps, before, after)


class LayerDrift:
    """A state of all strings of spins 1/2, by layers with imaginary fields and couplings.

    Parameters
    ----------
    problem : Problem
    hamiltonian : Hamiltonian
    channels : sequence of Channel
    method : str
        Product formula.
    """

    # the norm tells when a jump is due
    clock = None

    def __init__(
        self, problem: Problem, hamiltonian: Hamiltonian, channels: Sequence[Channel], method: str
    ) -> None:
        self.problem, self.hamiltonian, self.channels, self.method = problem, hamiltonian, channels, method
        self.spins, size = problem.spins, 1 << problem.spins
        self.decays = decays_of(channels, (1,) * self.spins)
        self.driven = bool(profiles_of(hamiltonian, self.decays))
        self.kinks = problem.kinks
        # parts of H and of the decay with their profiles; the constant of the decay goes with z
        energies = [(None, hamiltonian.static), *hamiltonian.driven]
        self._factors = [f for f, _ in energies] + [decay.factor for decay in self.decays]
        self._energies = np.array([self._tables(model) for _, model in energies])
        self._decays = np.array([self._tables(d.model, 0.5, 0.5 * d.constant) for d in self.decays])
        decaying = np.asarray(self._decays.any(axis=(0, 2)))
        axes = axes_of([model for _, model in energies], self.decays)
        #: True if all of the decay is along z, so that the norm tells its own slope
        self.plain = not decaying[:2].any()
        self._stages, self._shares = stages_of(axes, method, self.spins, decaying)
        self.re, self.im = np.zeros(size), np.zeros(size)
        self._spare = np.empty(size), np.empty(size)
        self._downs = np.bitwise_count(np.arange(size)).astype(float)
        self._zero = np.zeros(size)
        self._kept: dict[float, tuple[Any, Any, Any]] = {}
        self._work = self._empty()
        self._batch: Batch | None = None
        # (v* . S)(v . S) = |v|^2 / 4 + (i/2) (v* x v) . S of the channels of one site
        v = np.array([channel.w[channel.site] for channel in channels])
        self._sizes = 0.25 * (np.abs(v) ** 2).sum(axis=1)
        self._fields = (0.5j * np.cross(v.conj(), v)).real
        self._sites = np.array([channel.site for channel in channels])
        self._wide = [k for k, channel in enumerate(channels) if not channel.local]

    def _tables(self, model: Model, scale: float = 1.0, constant: float = 0.0) -> NDArray[np.float64]:
        """Return the diagonals (3, 2^N) of a model in the frames of its axes."""
        found = np.zeros((3, 1 << self.spins))
        for a in range(3):
            if model.J[a].any() or model.h[a].any():
                kernels.axis_energies(scale * model.J[a], scale * model.h[a], found[a])
        found[ORDER[0]] += constant
        return found

    @property
    def psi(self) -> NDArray[np.complex128]:
        """The state (2^N,), not normalised."""
        return self.re + 1j * self.im

    def begin(self, psi: Any, space: Any = None) -> None:
        """Take a state."""
        host = self.problem.device.to_host(psi)
        self.re[:], self.im[:] = host.real, host.imag

    # ---------------------------------------------------------------------------------------- steps

    def _empty(self) -> tuple[Any, Any, Any]:
        shape = (len(self._stages), self.re.size)
        return np.empty(shape), np.empty(shape), self._shares[:, 1] != 0.0

    def _program(self, t: float, tau: float, into: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        """Fill cosines, sines (L, 2^N) of the layers of a step, which rotations (L,) go before; return them."""
        weights = np.repeat(tau * self._shares[:, :1], len(self._factors), axis=1)
        if self.driven:
            # time goes on with the layers of z, in which it is a coordinate that commutes with them
            along = self._stages[:, 0] == ORDER[0]
            begin = t + np.concatenate([[0.0], np.cumsum(np.where(along, weights[:, 0], 0.0))[:-1]])
            for p, f in enumerate(self._factors):
                if f is None:
                    continue
                for k, start in enumerate(begin):
                    length = weights[k, p]
                    if along[k]:
                        weights[k, p] *= sum(
                            w * f(start + x * length) for w, x in zip(WEIGHTS, NODES, strict=True)
                        )
                    else:
                        weights[k, p] *= f(start)
        kernels.fill(self._energies, self._decays, self._stages, weights, self._downs, into[0], into[1])
        return into

    def _of_length(self, dt: float) -> tuple[Any, Any, Any]:
        """Return the program of a full step of a constant H, which is kept."""
        if dt not in self._kept:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[dt] = self._program(0.0, dt, self._empty())
        return self._kept[dt]

    def stretch(self, t: float, dt: float, steps: int, least: float) -> Stretch:
        """Make full steps from a time on, until the norm squared is below `least`."""
        if not self.driven:
            decay = self._rate(t)
            made = kernels.full_steps(self.re, self.im, self.spins, *self._of_length(dt), decay, steps, least)
            return Stretch(int(made[0]), made[1:3], made[3:5])
        return step_by_step(self, t, dt, steps, least)

    def step(self, t: float, tau: float) -> None:
        """Make one step of any length."""
        if tau == 0.0:
            return
        for start, length in pieces_of(t, tau, self.kinks) if self.driven else [(t, tau)]:
            program = self._program(start, length, self._work)
            kernels.full_steps(self.re, self.im, self.spins, *program, self._zero, 1, -1.0)

    @cached_property
    def _constant_rate(self) -> NDArray[np.float64]:
        return np.asarray(self._decays[:, ORDER[0]].sum(axis=0))

    def _rate(self, t: float) -> NDArray[np.float64]:
        """Return half of the rate of all jumps along z (2^N,)."""
        factors = self._factors[len(self._energies) :]
        if all(f is None for f in factors):
            return self._constant_rate
        strengths = np.array([1.0 if f is None else f(t) for f in factors])
        return np.asarray(strengths @ self._decays[:, ORDER[0]])

    def weight(self, t: float) -> tuple[float, float]:
        """Return the norm squared, and the rate of all jumps times it."""
        w, q = kernels.norm_and_rate(self.re, self.im, self._rate(t))
        return float(w), float(q) if self.plain else float(self.rates(t).sum())

    # ---------------------------------------------------------------------------------------- jumps

    def rates(self, t: float) -> NDArray[np.float64]:
        """Return the rate of every channel, times the norm squared, (K,)."""
        means = np.empty((self.spins, 3))
        kernels.firsts(self.re, self.im, self.spins, means)
        w = float(self.re @ self.re + self.im @ self.im)
        found = self._sizes * w + (self._fields * means[self._sites]).sum(axis=1)
        for k in self._wide:
            found[k] = kernels.applied(self.re, self.im, self.spins, self.channels[k].w, *self._spare)
        if self.driven:
            found *= [channel.strength(t) for channel in self.channels]
        return np.maximum(found, 0.0)

    def jump(self, channel: int) -> None:
        """Apply a jump operator and normalise."""
        w = kernels.applied(self.re, self.im, self.spins, self.channels[channel].w, *self._spare)
        scale = 1.0 / math.sqrt(w)
        np.multiply(self._spare[0], scale, out=self.re)
        np.multiply(self._spare[1], scale, out=self.im)

    def measure(self, axes: str, t: float) -> Moments:
        """Return the moments of the state."""
        psi = self.psi
        if self.spins <= LARGEST:
            if self._batch is None:
                host = cpu(self.problem.device.threads)
                self._batch = Batch(host, [self.hamiltonian.at(t)], psi[None], own=False)
            self._batch.psi[0] = psi
            return self._batch.measure(axes)[0]
        return Evolver(self.problem.device, self.hamiltonian.at(t), psi, own=True).measure(axes)


def axes_of(models: Sequence[Model], decays: Sequence[Decay]) -> tuple[int, ...]:
    """Return the axes of the layers of a step: those of couplings and fields, and z."""
    parts = [*models, *(decay.model for decay in decays)]
    return tuple(a for a in range(3) if a == ORDER[0] or any(m.J[a].any() or m.h[a].any() for m in parts))


def stages_of(
    axes: tuple[int, ...], method: str, spins: int, decaying: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return axis, shift, scale and decay (L, 4) of the layers of a step, and share of the step and rotation before it (L, 2)."""
    entries: list[tuple[int, float, float, float]] = []
    # the layer of z that is not complete yet: rotation before it, time, half turns of spins down
    turned, time, shift = 0.0, 0.0, 0.0
    for axis, length in layers(axes, method, 1.0):
        if axis == ORDER[0]:
            time += length
            continue
        # S^y is S^z in the frame that (-i)^(spins down) and the rotation lead to
        half = 0.5 * (axis == 1)
        entries += [(ORDER[0], shift - half, turned, time), (axis, 0.0, 1.0, length)]
        turned, time, shift = 1.0, 0.0, half
    entries.append((ORDER[0], shift, turned, time))
    # powers of two, which are exact: two rotations together have 2^-N
    scales = {axis: 2.0 ** -(spins - spins // 2 if axis == ORDER[0] else spins // 2) for axis in range(3)}
    stages = [
        (axis, shift, scales[axis] if turned else 1.0, decaying[axis]) for axis, shift, turned, _ in entries
    ]
    return np.array(stages, float), np.array([(time, turned) for _, _, turned, time in entries])
