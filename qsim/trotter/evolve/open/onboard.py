"""Drift in layers of states that live on a GPU, one trajectory at a time: systems too large for a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.evolution.integrators import ORDER, layers
from qsim.trotter.evolution.layers import Evolver
from qsim.trotter.evolve.open.drifts import Stretch, axes_of, profiles_of, step_by_step
from qsim.trotter.evolve.open.unitary import jumped
from qsim.trotter.kernels.open.jumps import axis_energies
from qsim.trotter.model.open.channels import decays_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.model.hamiltonian import Hamiltonian
    from qsim.trotter.model.open.channels import Channel

__all__ = ["OnboardDrift", "suits"]


def suits(hamiltonian: Hamiltonian, channels: Sequence[Channel], twos: tuple[int, ...]) -> bool:
    """Return True if H and all rates are constant, and all of the decay is along z: loss, pump, dephasing and sums of them."""
    decays = decays_of(channels, twos)
    if profiles_of(hamiltonian, decays) or not all(channel.local for channel in channels):
        return False
    return not any(d.model.J.any() or d.model.h[:2].any() for d in decays)


class OnboardDrift:
    """A state of all strings of spins 1/2 on its device, by layers of H and the decay beside those along z.

    Parameters
    ----------
    problem : Problem
    hamiltonian : Hamiltonian
        Constant.
    channels : sequence of Channel
        As `suits` asks for.
    method : str
        Product formula.
    """

    # the norm tells when a jump is due
    clock = None
    driven = False

    def __init__(
        self, problem: Problem, hamiltonian: Hamiltonian, channels: Sequence[Channel], method: str
    ) -> None:
        self.problem, self.hamiltonian, self.channels = problem, hamiltonian, channels
        self.device, model = problem.device, hamiltonian.at(0.0)
        decays = decays_of(channels, (1,) * problem.spins)
        falling = np.zeros(1 << problem.spins)
        for decay in decays:
            own = np.zeros_like(falling)
            axis_energies(0.5 * decay.model.J[2], 0.5 * decay.model.h[2], own)
            falling += own + 0.5 * decay.constant
        self._falling = self.device.asarray(falling)
        self._strings = self.device.asarray(np.arange(1 << problem.spins))
        self._layers = layers(axes_of([model], decays), method, 1.0)
        v = np.array([channel.w[channel.site] for channel in channels])
        self._sizes = 0.25 * (np.abs(v) ** 2).sum(axis=1)
        self._fields = (0.5j * np.cross(v.conj(), v)).real
        self._sites = np.array([channel.site for channel in channels])
        self._model = model
        self._evolver: Evolver | None = None

    @property
    def evolver(self) -> Evolver:
        """The state with its layers."""
        # every trajectory begins with a state
        assert self._evolver is not None
        return self._evolver

    @property
    def psi(self) -> Any:
        """The state (2^N,), not normalised, on the device."""
        return self.evolver.psi

    def begin(self, psi: Array, space: object = None) -> None:
        """Take a state."""
        if self._evolver is None:
            self._evolver = Evolver(self.device, self._model, psi)
        else:
            self._evolver.psi = psi

    def step(self, t: float, tau: float) -> None:
        """Make one step of any length."""
        if tau == 0.0:
            return
        xp, evolver = self.device.xp, self.evolver
        for axis, share in self._layers:
            evolver.apply([(axis, share * tau)])
            if axis == ORDER[0]:
                with self.device.use():
                    psi = evolver.psi
                    psi *= xp.exp(-share * tau * self._falling)

    def stretch(self, t: float, dt: float, steps: int, least: float) -> Stretch:
        """Make full steps from a time on, until the norm squared is below `least`."""
        return step_by_step(self, t, dt, steps, least)

    def weight(self, t: float) -> tuple[float, float]:
        """Return the norm squared, and the rate of all jumps times it."""
        with self.device.use():
            psi = self.psi
            p = psi.real**2 + psi.imag**2
            return float(p.sum()), 2.0 * float(p @ self._falling)

    def rates(self, t: float) -> NDArray[np.float64]:
        """Return the rate of every channel, times the norm squared, (K,)."""
        moments = self.evolver.measure("z", pairs=False)
        found = self._sizes * moments.norm + self._fields[:, 2] * moments.s["z"][self._sites]
        # of a vector such as x + i z beside others, whose sum is along z alone
        if self._fields[:, :2].any():
            whole = self.evolver.measure("xyz", pairs=False)
            means = np.array([whole.s[a] for a in "xy"])[:, self._sites].T
            found = found + (self._fields[:, :2] * means).sum(axis=1)
        return np.maximum(found, 0.0)

    def jump(self, channel: int) -> None:
        """Apply a jump operator and normalise."""
        one = self.channels[channel]
        self.evolver.psi = jumped(self.device, self.psi, one.w[one.site], one.site, self._strings)

    def measure(self, axes: str, t: float) -> Moments:
        """Return the moments of the state."""
        return Evolver(self.device, self._model, self.psi).measure(axes)
