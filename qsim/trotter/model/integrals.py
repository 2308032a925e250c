"""Integrals of time profiles, against which the steps of a driven evolution are held."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.physics.structure import CELLS, Profile, finite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Values = NDArray[np.float64]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(4)
# rounding of a difference of two sums
EPS = 4.0 * np.finfo(float).eps


class Antiderivative:
    """The integral of a profile f from 0 on, ``F(t) = int_0^t f``, by four Gauss points per cell.

    Parameters
    ----------
    f
        The profile.
    end
        End of the evolution, 1/J.
    places
        Ascending times at which f is not smooth; cells are cut there.
    """

    def __init__(self, f: Profile, end: float, places: Sequence[float]) -> None:
        self.f = f
        # cells of the sampling grid, cut at kinks: f is smooth within each
        self.edges = np.union1d(np.linspace(0.0, end, CELLS + 1), places)
        cells = self._gauss(self.edges[:-1], self.edges[1:])
        self.sums = np.concatenate([[0.0], np.cumsum(cells)])
        self.size = float(np.abs(cells).sum())

    def between(self, begin: Values, end: Values) -> Values:
        """Return ``int f dt`` from (S,) times to (S,) times."""
        return self._at(end) - self._at(begin)

    @property
    def rounding(self) -> float:
        """Bound of the rounding of :meth:`between`."""
        return EPS * self.size

    def _at(self, times: Values) -> Values:
        # whole cells from the table, and the part of one cell by its own Gauss points
        cell = np.clip(np.searchsorted(self.edges, times, "right") - 1, 0, len(self.edges) - 2)
        return np.asarray(self.sums[cell] + self._gauss(self.edges[cell], times), float)

    def _gauss(self, low: Values, high: Values) -> Values:
        """Return the integrals between pairs of times; points at which f is not finite count as 0."""
        half = 0.5 * (high - low)
        times = (0.5 * (high + low))[:, None] + half[:, None] * NODES
        values = np.nan_to_num(finite(self.f, times.ravel()))
        return np.asarray(half * (values.reshape(times.shape) @ WEIGHTS), float)
