"""Densities of both spins around each atom: electrons in a shell over its volume."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from qsim.core.deck.blocks import Finding
from qsim.core.results.tables import Table
from qsim.qmc.estimators.histograms import (
    ERROR,
    Bins,
    Boundaries,
    EstimatorBlock,
    Histogram,
    Reach,
    Setting,
    shells,
)

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray, IndexArray

__all__ = ["AtomDensity", "RadialDensity"]

RADIAL = "electrons per volume of a spherical shell around the atom, averaged over the shell"
SPINS = {"up": "spin-up", "down": "spin-down"}


class RadialDensity(EstimatorBlock):
    """Density around each atom, averaged over directions."""

    key = "radial_density"
    summary = "density around each atom"

    bins: Bins = Field(default=200, description="number of bins")
    rmax: Reach = Field(default=8.0, description="end of the last bin")

    @classmethod
    def tables(cls) -> tuple[Table, ...]:
        """Return the declarations of the arrays."""
        axes = ("atom", "radial_r")
        declared = [Table("radial_r", ("radial_r",), "bohr", "distance from the atom, middle of the bin")]
        for spin, words in SPINS.items():
            text = f"{words} density around each atom"
            declared.append(Table(f"radial_{spin}", axes, "bohr^-3", text, note=RADIAL))
            text = f"error of radial_{spin}"
            declared.append(Table(f"radial_{spin}_error", axes, "bohr^-3", text, note=ERROR))
        return tuple(declared)

    def findings(self, where: str, system: Boundaries) -> Iterator[Finding]:
        """Yield crystals, where it is not measured, and systems without atoms."""
        # Shells around an atom would overlap those around its images.
        if system.periodic:
            yield Finding(where, f"{self.key} is not measured in a periodic cell by this version")
        if not system.atoms:
            yield Finding(where, f"{self.key} is around atoms, and there are none")

    def cells(self, atoms: int) -> int:
        """Return how many numbers the histogram has."""
        # One row for each spin and atom.
        return 2 * self.bins * atoms

    def make(self, setting: Setting) -> Histogram:
        """Return the histogram."""
        return AtomDensity(setting, self.bins, self.rmax)


class AtomDensity(Histogram):
    """Density around atoms: tables ``radial_r``, ``radial_up``, ``radial_down`` (atoms, bins) and their errors.

    Parameters
    ----------
    bins
        Number of bins.
    rmax
        End of the last one (bohr).
    """

    def __init__(self, setting: Setting, bins: int, rmax: float) -> None:
        places = np.ascontiguousarray(setting.atoms)
        # Spin, atom, bin: the order of the kernel.
        super().__init__(setting, (2, places.shape[0], bins))
        self.bins, self.rmax, self.atoms = bins, float(rmax), self.device.asarray(places)

    def add(self, R: FloatArray, count: IndexArray) -> None:
        """Add walkers."""
        from qsim.qmc.kernels.estimators.estimators import radial_histogram

        radial_histogram(self.device, R, count, self.atoms, self.n_up, self.rmax, self.counts)

    def arrays(self, *, errors: bool = True) -> dict[str, FloatArray]:
        """Return the tables."""
        r, volume = shells(self.bins, self.rmax)
        return {"radial_r": r, **self._named("radial", tuple(SPINS), volume, errors)}
