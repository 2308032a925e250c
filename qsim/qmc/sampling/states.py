r"""Several states of one expansion: ratios of their trial functions, and the penalty that keeps an optimised one off the others.

To the energy of a state is added :math:`\lambda_jS_j^2`, with the normalised overlap :math:`S_j` with each state before it.  That
is the energy in :math:`H+\sum_j\lambda_j|\psi_j\rangle\langle\psi_j|/\langle\psi_j|\psi_j\rangle`, whose ground state is wanted
once :math:`\lambda_j` exceeds the gap.  With the ratio :math:`r=\psi_j/\psi` in a sample of :math:`\psi^2`,
:math:`S_j^2=\langle r\rangle^2/\langle r^2\rangle`.

S. Pathak, B. Busemeyer, J. N. B. Rodrigues, L. K. Wagner, J. Chem. Phys. 154, 034101 (2021), doi:10.1063/5.0030949; there the
states are sampled together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from qsim.qmc.kernels.walkers import walk
from qsim.qmc.sampling.walkers import empty_state, tables_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray
    from qsim.qmc.sampling.walkers import Walkers

__all__ = ["Penalty", "Ratios"]

LEAST = 0.05  # share of a state at the start that is taken to be its own
GAPS = 2.0  # times the gap that a penalty is, if a deck leaves it open


class Ratios:
    """Trial functions of several states over one of them, at configurations.

    Parameters
    ----------
    walkers
        Of the state that is sampled.
    others
        Of the states whose ratios are wanted.
    """

    def __init__(self, walkers: Walkers, others: Sequence[Walkers]) -> None:
        self._device = walkers.device
        self._own = next((k for k, one in enumerate(others) if one is walkers), 0)
        # As the other states are now; in double precision, since there are few samples.
        wavefunctions = [one.wavefunction for one in others]
        self._tables = [(one, tables_of(self._device, one, np.float64)) for one in wavefunctions]

    def logarithms(self, R: FloatArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return log|psi_j| and the sign of psi_j of each state at configurations (W, N, 3), on the host: (W, states) each."""
        logs, signs = np.empty((2, len(R), len(self._tables)))
        for k, (wavefunction, tables) in enumerate(self._tables):
            state = empty_state(self._device, wavefunction, tables, len(R), np.float64)
            state.R[...] = R
            walk.recompute(self._device, state, tables)
            logs[:, k] = self._device.to_host(state.log_psi)
            signs[:, k] = self._device.to_host(state.sign)
        return logs, signs

    def __call__(self, R: FloatArray) -> NDArray[np.float64]:
        """Return psi_j / psi at configurations (W, N, 3), on the host: (W, states), where psi is one of the others."""
        logs, signs = self.logarithms(R)
        log, sign = logs[:, self._own, None], signs[:, self._own, None]
        return np.asarray(signs * sign * np.exp(logs - log))


class Penalty:
    """What overlaps with other states cost an optimised one.

    Parameters
    ----------
    walkers
        Of the state that is optimised.
    others
        Of the states before it, optimised.
    energies
        Of these, hartree.
    weight
        Hartree for each unit of a squared overlap; None: from the gaps at the start.

    Attributes
    ----------
    weights : (states,) float64
        Hartree; NaN until they are chosen.
    """

    def __init__(
        self,
        walkers: Walkers,
        others: Sequence[Walkers] = (),
        energies: Sequence[float] = (),
        weight: float | None = None,
    ) -> None:
        self._walkers, self._ratios = walkers, Ratios(walkers, others)
        self._energies, self._unit = np.array(energies), 0.0
        self.count = len(others)
        self.weights = np.full(self.count, math.nan if weight is None else weight)

    def choose(self, energy: float, variance: float, ratios: NDArray[np.float64]) -> None:
        """Choose weights that are open by the first sample of the state: twice the gap, and the spread of its local energies.

        Parameters
        ----------
        energy, variance
            Of the sample.
        ratios : (W, states) float64
            Of the other states to the one that is sampled, which may be in part those.
        """
        own = 1.0 - ratios.mean(axis=0) ** 2 / np.mean(ratios**2, axis=0)
        gap = np.maximum(energy - self._energies, 0.0) / np.maximum(own, LEAST)
        found = GAPS * gap + math.sqrt(variance)
        self.weights = np.where(np.isnan(self.weights), found, self.weights)

    def sample(self, *, first: bool) -> NDArray[np.float64]:
        """Return psi_j / psi at all walkers, whose psi is known, on the host: (W, states); a collective call.

        Parameters
        ----------
        first
            Whether a sample begins, all ratios of which are in one unit.
        """
        walkers = self._walkers
        if not self.count:
            return np.zeros((walkers.count, 0))
        mine, to_host = walkers.mine, walkers.device.to_host
        logs, signs = self._ratios.logarithms(mine.R)
        logs = walkers.join(logs - to_host(mine.log_psi)[:, None])
        signs = walkers.join(signs * to_host(mine.sign)[:, None])
        if first:
            self._unit = float(np.median(logs))
        return np.asarray(signs * np.exp(logs - self._unit))

    def of(
        self, ratios: NDArray[np.float64], weights: NDArray[np.float64], changes: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """Return the penalty of a trial function, the influence of each configuration on it, and squared overlaps.

        Parameters
        ----------
        ratios : (..., states) float64
            Of the other states to the trial function that is sampled.
        weights, changes : (...) float64
            Of the configurations: square of the ratio of the trial functions after and before a step, of mean 1, and that ratio.
        """
        value, influence = 0.0, np.zeros(weights.shape)
        squares = np.zeros(self.count)
        for j, cost in enumerate(self.weights):
            # The norm of the other state has tails; it is common to all steps, and to them exact.
            r = ratios[..., j]
            norm = float(np.mean(r * r))
            product = changes * r
            a = float(np.mean(product))
            squares[j] = a * a / norm
            value += cost * squares[j]
            influence += cost * (2.0 * a * (product - a) / norm - squares[j] * (weights - 1.0))
        return value, influence, squares
