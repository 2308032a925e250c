"""Weighted histograms of walkers, and their blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qmc.kernels.estimators.estimators import UNIT
from qsim.qmc.statistics.block_sums import BlockSums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device

__all__ = ["Histogram", "shells"]


class Histogram(ABC):
    """A weighted histogram on the device, and its blocks."""

    def __init__(self, device: Device, n_up: int, n_dn: int, shape: tuple[int, ...]) -> None:
        self.device, self.n_up, self.n_dn = device, n_up, n_dn
        with device.use():
            self.counts = device.xp.zeros(shape, np.int64)
        self.sums = BlockSums(shape)

    def close_block(self, weight: float, counts: NDArray[Any] | None = None) -> None:
        """Take the histogram of a block whose samples have this weight in all, and start the next.

        Parameters
        ----------
        weight
            Of all samples.
        counts
            The histogram on the host, of all processes; by default that of this one.
        """
        self.sums.add((self.device.to_host(self.counts) if counts is None else counts) / UNIT, weight)
        self.counts.fill(0)

    @abstractmethod
    def add(self, R: Any, count: Any) -> None:
        """Add walkers: R (walkers, N, 3) float64 and their weights (walkers,) int64 on the device."""

    @abstractmethod
    def arrays(self, *, errors: bool = True) -> dict[str, NDArray[np.float64]]:
        """Return the tables of the results file by name; all errors are NaN if they are not asked for."""

    def _error(self, asked: bool) -> NDArray[np.float64]:
        """Return the errors of the mean of the sums, or NaN."""
        return self.sums.error() if asked else np.full(self.sums.shape, np.nan)

    def notes(self) -> list[str]:
        """Return what the user should know about the result."""
        return []

    def _named(
        self, prefix: str, kinds: Sequence[str], volume: NDArray[np.float64] | float, errors: bool
    ) -> dict[str, NDArray[np.float64]]:
        """Return means and errors of the first axis by name, per volume."""
        mean, error = self.sums.mean() / volume, self._error(errors) / volume
        found = {}
        for k, kind in enumerate(kinds):
            found[f"{prefix}_{kind}"], found[f"{prefix}_{kind}_error"] = mean[k], error[k]
        return found


def shells(bins: int, rmax: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the middles of bins of a distance and the volumes of their shells."""
    edges = np.linspace(0.0, rmax, bins + 1)
    return 0.5 * (edges[1:] + edges[:-1]), 4.0 * np.pi / 3.0 * np.diff(edges**3)
