"""Small systems, any number of them at once: all layers of many steps in one launch, one block of a GPU or one core per member.

States and couplings differ from member to member, the layers are the same.  On the CPU a member goes through the same operations
whatever the others are, so that its bits do not depend on the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.evolution.integrators import Layer, course, turn
from qsim.trotter.kernels.layers.layers import STAGE, Members, member_layers
from qsim.trotter.kernels.states.measure import Moments, moments_of_members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.states.vectors import Amplitudes

# spins of a member, whose state stays on the chip
LARGEST = 12
# bits of the smallest state; there are idle spins beside smaller systems
SMALLEST = {"cpu": 1, "cuda": 9}


class Batch:
    """States and Hamiltonians of several systems of one size.

    Parameters
    ----------
    device : Device
    models : sequence of M Model
    psi : (M, 2^N) complex64 or complex128
        On the device; copied, unless it is given with ``2^max(N, 9)`` amplitudes on a GPU (``2^N`` on the CPU) and ``own``.
    own : bool
        Take psi over: the caller's array changes.

    Attributes
    ----------
    layers : int
        Layers that each member has gone through.
    """

    def __init__(
        self, device: Device, models: Sequence[Model], psi: Amplitudes, *, own: bool = False
    ) -> None:
        self.device, self.models = device, models
        self.spins = models[0].spins
        self.layers = 0
        self._bits = max(self.spins, SMALLEST[device.kind])
        size = 1 << self._bits
        # spins beside a small system have no couplings and stay up
        if own and psi.shape[1] == size:
            self._psi = psi
        else:
            with device.use():
                self._psi = device.xp.zeros((len(models), size), psi.dtype)
                self._psi[:, : psi.shape[1]] = psi
        # one course of layers for all members: an axis that any of them needs
        self.present = tuple(a for a in range(3) if any(np.any(m.J[a]) or np.any(m.h[a]) for m in models))
        self._members: Members | None = None
        self._still: Members | None = None

    @property
    def psi(self) -> Any:
        """States (M, 2^N), on the device."""
        return self._psi[:, : 1 << self.spins]

    def advance(self, method: str, dt: float, steps: int) -> None:
        """Make steps of an integrator of :data:`schedule.METHODS`, in place; dt may be negative."""
        if steps <= 0 or not self.present:
            return
        plan = course(self.present, method, dt, steps)
        with self.device.use():
            if self._members is None:
                # tabulated at the first step; measurements alone need no tables
                self._members = self._tabulated()
            stages = _stages(plan.layers, self._bits)
            part = (plan.first, plan.last)
            member_layers(self.device, self._psi, self._members, stages, plan.repeats, part)
        self.layers += plan.total

    def _tabulated(self) -> Members:
        n = self._bits
        pairs, fields = np.zeros((len(self.models), 3, n, n)), np.zeros((len(self.models), 3, n))
        for m, model in enumerate(self.models):
            pairs[m, :, : self.spins, : self.spins] = model.J
            fields[m, :, : self.spins] = model.h
        return Members.of(self.device, pairs, fields)

    def measure(self, axes: str = "z", pairs: bool = True) -> list[Moments]:
        """Return <S^a_j> and, if ``pairs``, <S^a_j S^a_k> of every member, not divided by the norm.

        Parameters
        ----------
        axes : {"z", "xyz"}
            With ``"xyz"`` copies of the states go through the frames; the states keep their bits.
        """
        with self.device.use():
            by_axis = [self._moments(self._psi)]
            # z as the state is; x and y in the frames of a copy, by C^dagger each time
            if axes == "xyz":
                if self._still is None:
                    self._still = Members.still(self.device, len(self.models), self._bits)
                states = self._psi.copy()
                turned = np.zeros(1, STAGE)
                # C^dagger
                turned[0] = (0.0, 0.5, 2.0 ** (-self._bits / 2), 0, 1)
                for _ in range(2):
                    member_layers(self.device, states, self._still, turned)
                    by_axis.append(self._moments(states))
        names = ("z", "x", "y")[: len(by_axis)]
        return [
            Moments(
                float(by_axis[0][0][m]),
                {name: s[m] for name, (_, s, _) in zip(names, by_axis, strict=True)},
                {name: ss[m] for name, (_, _, ss) in zip(names, by_axis, strict=True)} if pairs else {},
            )
            for m in range(len(self.models))
        ]

    def _moments(
        self, states: Amplitudes
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        n = self.spins
        norm, s, ss = moments_of_members(self.device, states)
        return norm, s[:, :n], ss[:, :n, :n]


def _stages(layers: Sequence[Layer], bits: int) -> NDArray[Any]:
    """Return layers as :data:`STAGE`; the rotation after the last one belongs to the next call."""
    stages = np.zeros(len(layers), STAGE)
    for k, (axis, tau) in enumerate(layers):
        before = turn(layers[k - 1][0], axis) if k > 0 else 0
        after = turn(axis, layers[k + 1][0]) if k + 1 < len(layers) else 0
        # C is a rotation after diag(1, -i): that part is done here, before the rotation, with the layer it follows
        shift = (0.5 if before == -1 else 0.0) - (0.5 if after == 1 else 0.0)
        # powers of two, which alternate for odd N, so that two rotations together are exact; every way has an even number
        scale = 2.0 ** -((bits + k % 2) // 2) if before else 1.0
        stages[k] = (tau / np.pi, shift, scale, axis, before != 0)
    return stages
