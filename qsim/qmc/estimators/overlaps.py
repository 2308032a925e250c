r"""Overlaps of several states, each from samples of two of them: :math:`S_{jk}=\langle\psi_j|\psi_k\rangle` of normalised states.

With means over :math:`\psi_k^2`, :math:`a_{jk}=\langle\psi_j/\psi_k\rangle_k` and
:math:`u_{jk}=\langle|\psi_j/\psi_k|\rangle_k`, all of finite variance, the ratio of the norms is :math:`u_{jk}/u_{kj}` and

.. math:: S_{jk} = \tfrac12\left(a_{jk}\sqrt{u_{kj}/u_{jk}} + a_{kj}\sqrt{u_{jk}/u_{kj}}\right) .
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.results.tables import Table
from qsim.qmc.estimators.histograms import Boundaries, EstimatorBlock, Histogram, Setting
from qsim.qmc.statistics.block_sums import BlockMeans

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray, IndexArray

__all__ = ["Overlaps", "Ratios"]

KEPT = 100  # states whose sums are counted for memory


class Overlaps(EstimatorBlock):
    """Overlaps of the states of a deck in vmc sections; measured wherever there are several."""

    key = "overlaps"
    summary = "overlaps of several states, of vmc sections"
    diffusion = False

    @classmethod
    def tables(cls) -> tuple[Table, ...]:
        """Return the declarations of the arrays."""
        return (
            Table(
                "state_ratio",
                ("block", "state"),
                "",
                "mean ratios of the trial functions of all states to that of this one, by block",
            ),
            Table("state_ratio_modulus", ("block", "state"), "", "mean moduli of these ratios, by block"),
        )

    def findings(self, where: str, system: Boundaries) -> Iterator[Finding]:
        """Yield decks with one state."""
        if not system.states:
            yield Finding(where, "overlaps are of several states; give states: {roots: [0, 1]}")
        elif not system.vmc:
            yield Finding(where, "overlaps are measured in vmc sections, and there is none")

    def cells(self, atoms: int) -> int:
        """Return how many numbers are summed."""
        return 2 * KEPT

    def make(self, setting: Setting) -> Histogram:
        """Return the sums."""
        return Ratios(setting)


class Ratios(Histogram):
    """Means over blocks of the ratios of the trial functions of all states to the one that is sampled, and of their moduli."""

    def __init__(self, setting: Setting) -> None:
        assert setting.ratios is not None  # vmc sections of several states have them
        self._ratios = setting.ratios
        self.states = setting.states
        super().__init__(setting, (2 * self.states,))
        with self.device.use():
            self.counts = self.device.xp.zeros(self.counts.shape)
        self.sums: Any = BlockMeans()

    def add(self, R: FloatArray, count: IndexArray) -> None:
        """Add walkers."""
        found = self._ratios(R)
        columns = self.device.asarray(np.concatenate([found, np.abs(found)], axis=1))
        self.counts += count.astype(np.float64) @ columns

    def arrays(self, *, errors: bool = True) -> dict[str, FloatArray]:
        """Return the tables."""
        rows = self.sums.rows.reshape(len(self.sums.rows), 2, self.states)
        return {"state_ratio": rows[:, 0], "state_ratio_modulus": rows[:, 1]}
