"""Drift where the rate of all jumps together is the same in every state: that of a closed system, by any of its propagators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.evolve.open.drifts import Stretch
from qsim.trotter.model.open.channels import decays_of
from qsim.trotter.sectors.symmetric import SymmetricSector
from qsim.trotter.states.vectors import norm2

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device
    from qsim.trotter.evolution.accuracy import Choice
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.evolve.propagators.propagator import Propagator
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.model.hamiltonian import Hamiltonian
    from qsim.trotter.model.open.channels import Channel

__all__ = ["UnitaryDrift", "jumped"]


def jumped(device: Device, psi: Array, w: NDArray[np.complex128], site: int, strings: Array) -> Array:
    """Return ``w . S_j psi``, normalised.

    Parameters
    ----------
    psi : (D,) complex128
    w : (3,) complex128
    site : int
    strings : (D,) int64
        Of the amplitudes: all strings, or those of a sector if w is along z.
    """
    x, y, z = w
    up, down, bit = 0.5 * (x - 1j * y), 0.5 * (x + 1j * y), 1 << site
    with device.use():
        isdown = (strings & bit) != 0
        out = device.xp.where(isdown, -0.5 * z, 0.5 * z) * psi
        if up or down:
            # in the space of all states alone
            out = out + device.xp.where(isdown, down, up) * psi[strings ^ bit]
        return out / math.sqrt(norm2(out))


class UnitaryDrift:
    """A state that a propagator of closed systems carries: the rate of all jumps is the same in every state.

    Parameters
    ----------
    problem : Problem
    hamiltonian : Hamiltonian
    channels : sequence of Channel
    how : Choice
        Integrator and step.
    make : function
        Returns the propagator of a state, which it may overwrite.
    """

    def __init__(
        self,
        problem: Problem,
        hamiltonian: Hamiltonian,
        channels: Sequence[Channel],
        how: Choice,
        make: Callable[[Any], Propagator],
    ) -> None:
        self.problem, self.hamiltonian, self.channels, self.how = problem, hamiltonian, channels, how
        self.decays = decays_of(channels, problem.models.system.twos)
        self.make = make
        #: True if the rate of all jumps depends on time
        self.driven = any(decay.factor is not None for decay in self.decays)
        self.inner: Any = None

    def clock(self, t: float) -> float:
        """Return the rate of all jumps together."""
        return sum(d.constant * (1.0 if d.factor is None else d.factor(t)) for d in self.decays)

    @property
    def psi(self) -> Any:
        """The state, on the device."""
        return self.inner.psi

    def begin(self, psi: Any, space: Any = None) -> None:
        """Take a state."""
        self.inner = self.make(psi)

    def step(self, t: float, tau: float) -> None:
        """Make steps of the propagator over a time."""
        if tau == 0.0:
            return
        if self.how.dt is None:
            self.inner.advance(t, tau, 1)
            return
        steps = max(1, math.ceil(abs(tau) / self.how.dt * (1.0 - 1e-12)))
        self.inner.advance(t, tau / steps, steps)

    def stretch(self, t: float, dt: float, steps: int, least: float) -> Stretch:
        """Make full steps; the norm stays."""
        self.step(t, steps * dt)
        return Stretch(steps, (1.0, self.clock(t)), (1.0, self.clock(t)))

    def weight(self, t: float) -> tuple[float, float]:
        """Return the norm squared, and the rate of all jumps times it."""
        w = norm2(self.psi)
        return w, self.clock(t) * w

    def rates(self, t: float) -> NDArray[np.float64]:
        """Return the rate of every channel, (K,): those of single sites, which are numbers, or of loss and pump."""
        found = np.zeros(len(self.channels))
        means: Any = None
        for k, channel in enumerate(self.channels):
            v = channel.w[channel.site]
            field = (0.5j * np.cross(v.conj(), v)).real
            found[k] = channel.strength(t) * 0.25 * float(np.vdot(v, v).real)
            if field.any():
                if means is None:
                    moments = self.inner.measure("xyz" if field[:2].any() else "z", False)
                    means = np.array([moments.s[a] for a in "xyz" if a in moments.s]) / moments.norm
                    means = means if len(means) == 3 else np.array([0 * means[0], 0 * means[0], means[0]])
                found[k] += channel.strength(t) * float(field @ means[:, channel.site])
        return np.maximum(found, 0.0)

    @cached_property
    def _strings(self) -> Any:
        space = self.problem.space
        # a jump of one site has no character of permutations: decks ask for none, see `open.rules`
        assert not isinstance(space, SymmetricSector)
        return self.problem.device.asarray(space.strings())

    def jump(self, channel: int) -> None:
        """Apply a jump operator of one site and normalise."""
        one, psi, device = self.channels[channel], self.psi, self.problem.device
        with device.use():
            psi[...] = jumped(device, psi, one.w[one.site], one.site, self._strings)
        # a propagator that holds its state elsewhere takes it from here
        if hasattr(self.inner, "evolver"):
            self.inner.evolver.psi = psi

    def measure(self, axes: str, t: float) -> Moments:
        """Return the moments of the state."""
        return self.inner.measure(axes)
