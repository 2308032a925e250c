r"""Structure factors of crystals.

With :math:`\rho_k=\sum_ie^{ikr_i}` the structure factor is
:math:`S(k)=(\langle|\rho_k|^2\rangle-|\langle\rho_k\rangle|^2)/N`.  Its curvature at small k says what the potential energy of
the finite cell lacks (Chiesa, Ceperley, Martin and Holzmann, Phys. Rev. Lett. 97, 076404 (2006)):

.. math::  \Delta V=\frac{2\pi N}{V}\lim_{k\to0}\frac{S(k)}{k^2}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from qsim.core.deck.blocks import Finding
from qsim.core.results.tables import Table
from qsim.qmc.estimators.histograms import (
    ERROR,
    Boundaries,
    EstimatorBlock,
    Histogram,
    Periodic,
    Setting,
)

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray, IndexArray

__all__ = ["Sofk", "StructureFactor"]

MOST_WAVES = 1000  # of a structure factor, roughly: how many a crystal has is known when it is built
CHUNK = 2**20  # phases of a part of the walkers
SOFK = "(mean of |rho_k|^2 less the square of the mean of rho_k) / N; one wave of each pair of opposite ones"


class Sofk(EstimatorBlock):
    """Structure factor of a crystal: not measured in open boundaries."""

    key = "sofk"
    summary = "structure factor: needs a crystal, left out in open boundaries"
    open_boundaries = False

    kmax: Annotated[float, Field(gt=0.0, lt=1e4)] | None = Field(
        default=None, description="largest wave number, 1/bohr; by default all waves of the Coulomb potential"
    )

    @classmethod
    def tables(cls) -> tuple[Table, ...]:
        """Return the declarations of the arrays."""
        axis = ("sofk_k",)
        return (
            Table("sofk_k", axis, "1/bohr", "wave numbers of the structure factor"),
            Table("sofk", axis, "", "structure factor", note=SOFK),
            Table("sofk_error", axis, "", "error of sofk", note=ERROR),
        )

    def findings(self, where: str, system: Boundaries) -> Iterator[Finding]:
        """Yield a warning in open boundaries."""
        # A warning: the same list of estimators serves molecules and crystals.
        if not system.periodic:
            text = "the structure factor needs a crystal; in open boundaries it is left out"
            yield Finding(where, text, "warning")

    def cells(self, atoms: int) -> int:
        """Return how many numbers the histogram has."""
        # |rho_k|^2, Re rho_k and Im rho_k of each wave.
        return 3 * MOST_WAVES

    def make(self, setting: Setting) -> Histogram:
        """Return the histogram."""
        assert setting.crystal is not None  # it is left out elsewhere
        return StructureFactor(setting, setting.crystal, self.kmax)


class StructureFactor(Histogram):
    """Structure factor: tables ``sofk_k``, ``sofk`` and its error; by the waves of the Coulomb potential up to ``kmax``.

    Parameters
    ----------
    kmax
        Largest wave number, 1/bohr; None: all.
    """

    def __init__(self, setting: Setting, crystal: Periodic, kmax: float | None) -> None:
        k = crystal.waves
        size = np.sqrt((k**2).sum(1))
        # Shells of equal |k| stay together, in spite of rounding.
        order = np.argsort(np.round(size, 9), kind="stable")
        # At least one wave, so that the table is never empty.
        order = order[: max(1, int((size <= (np.inf if kmax is None else kmax)).sum()))]
        self.k, self.size = k[order], size[order]
        self.ions = crystal.ions
        super().__init__(setting, (3, len(self.size)))
        # Sums of waves are no integers: ranks must not add them by themselves, see `Estimators.exact`.
        self.counts = self.device.xp.zeros(self.counts.shape)

    def add(self, R: FloatArray, count: IndexArray) -> None:
        """Add walkers, some at a time, so that their waves fit into `CHUNK` numbers."""
        from qsim.qmc.kernels.estimators.crystal import sums_of_waves

        N = self.n_up + self.n_dn
        waves = self.device.asarray(self.k)
        # The waves of a part of the walkers at a time bound the memory.
        step = max(1, CHUNK // (N * len(self.size)))
        for begin in range(0, R.shape[0], step):
            # Re and Im of rho_k of each walker: (2, walkers of this part, waves).
            rho = sums_of_waves(self.device, R[begin : begin + step], waves)
            weight = count[begin : begin + step].astype(np.float64)
            self.counts[0] += weight @ (rho[0] ** 2 + rho[1] ** 2) / N
            self.counts[1] += weight @ rho[0]
            self.counts[2] += weight @ rho[1]

    def arrays(self, *, errors: bool = True) -> dict[str, FloatArray]:
        """Return the tables."""
        mean, error = self.sums.mean(), self._error(errors)
        # <rho_k> is that of the static density, which vanishes in a uniform system.
        lattice = (mean[1] ** 2 + mean[2] ** 2) / (self.n_up + self.n_dn) if self.ions else 0.0
        return {"sofk_k": self.size, "sofk": mean[0] - lattice, "sofk_error": error[0]}
