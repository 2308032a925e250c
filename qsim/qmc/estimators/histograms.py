"""Weighted histograms of walkers, their blocks, and the blocks of a deck that ask for them.

An estimator is one file of this folder: an `EstimatorBlock` with its keys, arrays and checks, and the `Histogram` that it makes.
Decks import these files, so that the kernels are imported by the functions that call them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from qsim.core.deck.blocks import Block, Finding, PositiveCount
from qsim.core.deck.units import Length
from qsim.core.results.tables import Table
from qsim.qmc.statistics.block_sums import BlockSums

if TYPE_CHECKING:
    from qsim.core.device.arrays import Array, FloatArray, IndexArray
    from qsim.core.device.device import Device
    from qsim.qmc.kernels.crystal.types import CrystalOrbitals

__all__ = [
    "ERROR",
    "Bins",
    "Boundaries",
    "EstimatorBlock",
    "Histogram",
    "Periodic",
    "Reach",
    "Setting",
    "shells",
]

Bins = Annotated[PositiveCount, Field(le=100_000)]
Reach = Annotated[Length, Field(gt=0.01, lt=1e4)]
ERROR = "one standard deviation; NaN where there are too few blocks"


class Periodic(NamedTuple):
    """The supercell of a crystal, as estimators need it.

    Attributes
    ----------
    waves : (n, 3) float64
        Half of the waves of the Coulomb potential, 1/bohr.
    ions
        Whether there are any; without, the density is uniform.
    radius, volume
        Wigner-Seitz radius (bohr) and volume (bohr^3) of the supercell.
    lattice, inverse : (3, 3) float64
        Of the primitive cell, bohr, and its inverse.
    orbitals
        Makes the tables with the geometry of nearest images, on the host.
    """

    waves: FloatArray
    ions: bool
    radius: float
    volume: float
    lattice: FloatArray
    inverse: FloatArray
    orbitals: Callable[[], CrystalOrbitals]


class Setting(NamedTuple):
    """The walkers that are measured.

    Attributes
    ----------
    device
        Where they are.
    n_up, n_dn
        Electrons of each spin.
    atoms : (A, 3) float64
        Positions, bohr.
    crystal
        None in open boundaries.
    nodes
        Whether the trial function may have any.
    response
        Energies and derivatives of log psi by the places of the nuclei, for configurations; of vmc alone.
    ratios
        Trial functions of all states over the one that is sampled, for configurations: (W, states) float64 on the host.
    states
        How many there are.
    """

    device: Device
    n_up: int
    n_dn: int
    atoms: FloatArray
    crystal: Periodic | None = None
    nodes: bool = True
    response: Callable[..., Any] | None = None
    ratios: Callable[[FloatArray], FloatArray] | None = None
    states: int = 1


class Boundaries(NamedTuple):
    """Properties of a system that are known when its deck is checked."""

    periodic: bool
    atoms: bool
    vmc: bool = True
    states: bool = False


class EstimatorBlock(Block, ABC):
    """The keys of an estimator in a deck, and all that the program knows of it.

    Attributes
    ----------
    key
        Name of the estimator in decks.
    summary
        What it measures, for the list of keys.
    open_boundaries
        Whether it can be measured without a periodic cell.
    diffusion
        Whether it is measured in diffusion Monte Carlo, too.
    """

    key: ClassVar[str]
    summary: ClassVar[str]
    open_boundaries: ClassVar[bool] = True
    diffusion: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def tables(cls) -> tuple[Table, ...]:
        """Return the declarations of the arrays in a results file."""

    def findings(self, where: str, system: Boundaries) -> Iterator[Finding]:
        """Yield what is wrong with the block at a key of the deck."""
        yield from ()

    @abstractmethod
    def cells(self, atoms: int) -> int:
        """Return the number of cells of the histogram, to estimate memory."""

    @abstractmethod
    def make(self, setting: Setting) -> Histogram:
        """Return the histogram."""


class Histogram(ABC):
    """A weighted histogram on the device, and its blocks."""

    def __init__(self, setting: Setting, shape: tuple[int, ...]) -> None:
        self.device, self.n_up, self.n_dn = setting.device, setting.n_up, setting.n_dn
        with self.device.use():
            # Integers: their sums do not depend on the order of walkers, so that ranks can count apart.
            self.counts: Array = self.device.xp.zeros(shape, np.int64)
        self.sums = BlockSums(shape)

    def close_block(self, weight: float, counts: Array) -> None:
        """Take the histogram of a block whose samples have this weight in all, and start the next.

        Parameters
        ----------
        weight
            Of all samples.
        counts
            The histogram on the host, of all processes, per unit of weight.
        """
        # Blocks, not samples, give the error: samples of one block are correlated.
        self.sums.add(counts, weight)
        self.counts.fill(0)

    @abstractmethod
    def add(self, R: FloatArray, count: IndexArray) -> None:
        """Add walkers: R (walkers, N, 3) float64 and their weights (walkers,) int64 on the device."""

    @abstractmethod
    def arrays(self, *, errors: bool = True) -> dict[str, FloatArray]:
        """Return the tables of the results file by name; without `errors`, all errors are NaN."""

    def _error(self, wanted: bool) -> FloatArray:
        """Return the errors of the mean of the sums, or NaN."""
        return self.sums.error() if wanted else np.full(self.sums.shape, np.nan)

    def notes(self) -> list[str]:
        """Return what the user should know about the result."""
        return []

    def _named(
        self, prefix: str, kinds: Sequence[str], volume: FloatArray | float, errors: bool
    ) -> dict[str, FloatArray]:
        """Return means and errors of the first axis by name, per volume."""
        # The volume is exact, so that means and errors are divided alike.
        mean, error = self.sums.mean() / volume, self._error(errors) / volume
        named = {}
        for k, kind in enumerate(kinds):
            named[f"{prefix}_{kind}"] = mean[k]
            named[f"{prefix}_{kind}_error"] = error[k]
        return named


def shells(bins: int, rmax: float) -> tuple[FloatArray, FloatArray]:
    """Return the middles of bins of a distance and the volumes of their shells."""
    # 4 pi / 3 times the difference of cubes is exact for wide shells, too.
    edges = np.linspace(0.0, rmax, bins + 1)
    return 0.5 * (edges[1:] + edges[:-1]), 4.0 * np.pi / 3.0 * np.diff(edges**3)
