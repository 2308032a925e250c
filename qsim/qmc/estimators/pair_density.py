r"""Pair densities by distance.

:math:`h_{\sigma\sigma'}(r)` is the mean number of pairs in a shell over the volume of the shell, so that
:math:`\int 4\pi r^2 h\,dr` is the number of pairs: :math:`n_\sigma(n_\sigma - 1)/2` of equal,
:math:`n_\uparrow n_\downarrow` of opposite spins.  Without a volume there is no uniform density to divide by;
in a cell of volume V, :math:`g = h V / \text{pairs}`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from qsim.core.results.tables import Table
from qsim.qmc.estimators.histograms import (
    ERROR,
    Bins,
    EstimatorBlock,
    Histogram,
    Periodic,
    Reach,
    Setting,
    shells,
)

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray, IndexArray

__all__ = ["CrystalPairDensity", "Gofr", "PairDensity"]

PAIR = (
    "spherically averaged pair density: mean number of pairs of this kind in a shell of distances over the volume of the "
    "shell; 4 pi r^2 times it integrates to the number of pairs, n(n-1)/2 of equal and n_up n_dn of opposite spins"
)
PAIRS = {"uu": "two spin-up electrons", "ud": "electrons of opposite spin", "dd": "two spin-down electrons"}


class Gofr(EstimatorBlock):
    """Pair densities by distance."""

    key = "gofr"
    summary = "pair densities of equal and opposite spins"

    bins: Bins = Field(default=200, description="number of bins")
    rmax: Reach = Field(default=8.0, description="end of the last bin")

    @classmethod
    def tables(cls) -> tuple[Table, ...]:
        """Return the declarations of the arrays."""
        axis = ("gofr_r",)
        declared = [Table("gofr_r", axis, "bohr", "distance of two electrons, middle of the bin")]
        for kind, words in PAIRS.items():
            declared.append(Table(f"gofr_{kind}", axis, "bohr^-3", f"pair density of {words}", note=PAIR))
            text = f"error of gofr_{kind}"
            declared.append(Table(f"gofr_{kind}_error", axis, "bohr^-3", text, note=ERROR))
        return tuple(declared)

    def cells(self, atoms: int) -> int:
        """Return how many numbers the histogram has."""
        # Up-up, up-down and down-down.
        return 3 * self.bins

    def make(self, setting: Setting) -> Histogram:
        """Return the histogram."""
        if setting.crystal is None:
            return PairDensity(setting, self.bins, self.rmax)
        return CrystalPairDensity(setting, setting.crystal, self.bins, self.rmax)


class PairDensity(Histogram):
    """Pair densities by distance: tables ``gofr_r``, ``gofr_uu``, ``gofr_ud``, ``gofr_dd`` and their errors.

    Parameters
    ----------
    bins
        Number of bins.
    rmax
        End of the last one (bohr).
    """

    def __init__(self, setting: Setting, bins: int, rmax: float) -> None:
        # Rows in the order of `PAIRS`.
        super().__init__(setting, (3, bins))
        self.bins, self.rmax = bins, float(rmax)

    def add(self, R: FloatArray, count: IndexArray) -> None:
        """Add walkers."""
        from qsim.qmc.kernels.estimators.estimators import pair_histogram

        pair_histogram(self.device, R, count, self.n_up, self.rmax, self.counts)

    def arrays(self, *, errors: bool = True) -> dict[str, FloatArray]:
        """Return the tables; those of a kind of pair that does not exist are zero."""
        r, volume = shells(self.bins, self.rmax)
        return {"gofr_r": r, **self._named("gofr", tuple(PAIRS), volume, errors)}


class CrystalPairDensity(PairDensity):
    """Pair densities by the distance of nearest images, which is exact up to the Wigner-Seitz radius."""

    def __init__(self, setting: Setting, crystal: Periodic, bins: int, rmax: float) -> None:
        # Beyond the Wigner-Seitz radius a shell leaves the cell of nearest images.
        super().__init__(setting, bins, min(float(rmax), crystal.radius))
        # The kernel takes lattice vectors and images from the tables of the orbitals.
        self.orbitals = crystal.orbitals()

    def add(self, R: FloatArray, count: IndexArray) -> None:
        """Add walkers."""
        from qsim.qmc.kernels.estimators.crystal import crystal_pair_histogram

        crystal_pair_histogram(self.device, self.orbitals, R, count, self.n_up, self.rmax, self.counts)
