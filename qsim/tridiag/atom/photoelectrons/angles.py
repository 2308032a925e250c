r"""Sums ``sum_lm c_lm Y_lm(theta, phi)`` of planar lanes on products of polar angles and azimuths.

The polar part is summed over l for every m, the azimuths by a sum over m: ``(2 l_max + 1)`` times fewer operations than with
``Y_lm`` of every direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import roots_legendre, sph_harm_y

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.atom.states.lanes import PlanarLanes

__all__ = ["Sky", "even_azimuths", "nodes", "sphere_of"]

# nodes and azimuths beyond those that a band needs
SPARE = 12


def even_azimuths(count: int) -> NDArray[np.float64]:
    """Return azimuths from -pi on, without pi, (count,) radian."""
    return -math.pi + 2.0 * math.pi * np.arange(count) / count


def nodes(lanes: PlanarLanes, band: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return polar angles and weights that integrate ``|sum c Y|^2`` over cos(theta) for degrees up to `band`.

    With one parity of l + m, above and below the plane are equal: the nodes above have the weight of both.
    """
    # Gauss-Legendre with n nodes is exact up to degree 2 n - 1, and |sum c Y|^2 has twice the band
    count = int(band) + SPARE
    cosine, weights = roots_legendre(count + count % 2)
    if len(lanes.parities) == 1:
        above = cosine > 0.0
        cosine, weights = cosine[above], 2.0 * weights[above]
    return np.arccos(cosine), weights


@dataclass(frozen=True)
class Sky:
    """Directions: all pairs of some polar angles and azimuths.

    Attributes
    ----------
    lanes : PlanarLanes
    theta, azimuth : (a,), (b,) float64
        Radian.
    """

    lanes: PlanarLanes
    theta: NDArray[np.float64]
    azimuth: NDArray[np.float64]

    @cached_property
    def _columns(self) -> list[tuple[int, NDArray[np.int64]]]:
        """Each m with its channels."""
        ms = self.lanes.ms
        return [(int(m), np.flatnonzero(ms == m)) for m in np.unique(ms)]

    @cached_property
    def polar(self) -> NDArray[np.float64]:
        """``Y_lm(theta, 0)`` of all channels, (used, a)."""
        lanes = self.lanes
        return np.asarray(sph_harm_y(lanes.ls[:, None], lanes.ms[:, None], self.theta[None, :], 0.0).real)

    @cached_property
    def turns(self) -> NDArray[np.complex128]:
        """``exp(i m phi)``, (m, b)."""
        m = np.array([one for one, _ in self._columns], dtype=float)
        return np.asarray(np.exp(1j * m[:, None] * self.azimuth))

    def by_m(self, values: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return the sums over l (a, k, m) of channels (k, used)."""
        # the azimuth enters as exp(i m phi) alone: sums over l first, per m, then one product over m
        sums = np.empty((self.theta.size, values.shape[0], len(self._columns)), dtype=complex)
        for index, (_, here) in enumerate(self._columns):
            sums[:, :, index] = (values[:, here] @ self.polar[here]).T
        return sums

    def total(self, values: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return ``sum c Y`` (a, k, b) of channels (k, used)."""
        return np.asarray(self.by_m(values) @ self.turns)

    def density(self, values: NDArray[np.complex128]) -> NDArray[np.float64]:
        """Return ``sum_k |sum c Y|^2`` (a, b) of channels (k, used)."""
        sums = self.by_m(values)
        # (a, m, m')
        products = np.swapaxes(sums, 1, 2) @ sums.conj()
        return np.asarray(np.sum(self.turns * (products @ self.turns.conj()), axis=1).real)

    def projected(
        self, values: NDArray[np.complex128], weights: NDArray[np.float64]
    ) -> NDArray[np.complex128]:
        """Return ``int dOmega Y*_lm b`` (k, used) of b (a, k, b), with weights of cos(theta) and even azimuths."""
        # (a, k, m)
        around = values @ self.turns.conj().T * (2.0 * math.pi / self.azimuth.size)
        parts = np.empty((values.shape[1], self.lanes.used), dtype=complex)
        for index, (_, here) in enumerate(self._columns):
            parts[:, here] = around[:, :, index].T @ (weights[:, None] * self.polar[here].T)
        return parts


def sphere_of(lanes: PlanarLanes, polar: int, azimuths: int) -> Sky:
    """Return the directions of a spectrum: polar angles 0 to pi, azimuths -pi to pi without the last."""
    return Sky(lanes, np.linspace(0.0, math.pi, polar), even_azimuths(azimuths))
