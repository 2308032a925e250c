"""A pure state as observables see it, in any space."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.trotter.measurement.expectations import correlators, local
from qsim.trotter.measurement.spaces import all_states, flat, schmidt_in, squares_in, unlike_in, upright
from qsim.trotter.observables.base import View
from qsim.trotter.sectors.digits.space import DigitSpace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qsim.core.device.arrays import FloatArray, StateVector
    from qsim.core.device.device import Device
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.measurement.spaces import Space
    from qsim.trotter.observables.base import Pair
    from qsim.trotter.sectors.schmidt import Spectrum

__all__ = ["StateView"]


class StateView(View):
    """A state of a space.

    Parameters
    ----------
    space : Space
    device : Device
    psi : StateVector
        Vector of the space.
    moments : Moments
        Along the axes of the deck.
    """

    def __init__(self, space: Space, device: Device, psi: StateVector, moments: Moments) -> None:
        self.space, self.device, self.psi, self.moments = space, device, psi, moments
        self.labelled = not math.isnan(space.sz)
        # where Schmidt values are taken from, once for all parts
        self._flat: tuple[Space, StateVector] | None = None

    def spins(self, axis: str) -> FloatArray:
        """Return ``<S^a_j>`` of every site."""
        return local(self.moments, axis)

    def correlator_matrix(self, axis: str) -> FloatArray:
        """Return ``<S^a_j S^a_k>`` of all sites."""
        first, second = np.triu_indices(self.space.spins, 1)
        found = np.diag(squares_in(self.space) / 3.0)
        if isinstance(all_states(self.space), DigitSpace):
            # (S^a)^2 is no constant of larger spins
            found = np.diag(self.moments.ss[axis].diagonal()) / self.moments.norm
        pairs = list(zip(first.tolist(), second.tolist(), strict=True))
        found[first, second] = found[second, first] = self.correlators(axis, pairs)
        return found

    def correlators(self, axis: str, pairs: Sequence[Pair]) -> FloatArray:
        """Return ``<S^a_j S^a_k>`` of pairs.

        Raises
        ------
        ValueError
            If one of them was not measured: it is not in the needs of the observable.
        """
        if len(axis) == 2:
            space, psi = upright(self.space, self.device, self.psi)
            return unlike_in(space, self.device, psi, [(axis, j, k) for j, k in pairs]) / self.moments.norm
        values = correlators(self.moments, axis, pairs)
        if np.isnan(values).any():
            raise ValueError(f"<S{axis} S{axis}> of a pair that is not in `needs` was not measured")
        return values

    def schmidt(self, cut: Sequence[int]) -> Spectrum:
        """Return the squared Schmidt coefficients of a part."""
        if self._flat is None:
            self._flat = flat(self.space, self.device, self.psi)
        space, psi = self._flat
        return schmidt_in(space, self.device, psi, cut)
