"""Densities of both spins on a mesh.

Electrons per volume; the sum over the mesh times the volume of a cell is N less what is outside.  In crystals the mesh is that of
the primitive cell, and the mean of all those of the supercell is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from qsim.core.deck.blocks import Finding, PositiveCount
from qsim.core.deck.units import Length
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
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from qsim.core.device.arrays import FloatArray, IndexArray

__all__ = ["CrystalDensity", "Density", "MeshDensity", "default_extent"]

MARGIN = 6.0  # bohr around the atoms on the default mesh
INSIDE = 0.99  # share of the electrons that a mesh should hold
DENSITY = "mean number of electrons per volume in each cell; the sum times the volume of a cell is the number inside"
MIDDLE = "middle of the cells of the mesh, in a crystal along the lattice vectors of the primitive cell"
SPINS = {"up": "spin-up", "down": "spin-down"}

Edges = Annotated[list[Annotated[Length, Field(gt=-1e4, lt=1e4)]], Field(min_length=2, max_length=2)]


class Density(EstimatorBlock):
    """Density on a mesh."""

    key = "density"
    summary = "density of both spins on a mesh"

    mesh: Annotated[list[Annotated[PositiveCount, Field(le=2000)]], Field(min_length=3, max_length=3)] = (
        Field(
            default=[40, 40, 40],
            description="cells along x, y, z; in a crystal along the lattice vectors of the primitive cell",
        )
    )
    extent: Annotated[list[Edges], Field(min_length=3, max_length=3)] | None = Field(
        default=None,
        description="first and last edge along x, y, z; by default 6 bohr around the atoms; not in a crystal",
    )

    @classmethod
    def tables(cls) -> tuple[Table, ...]:
        """Return the declarations of the arrays."""
        axes = tuple(f"density_{axis}" for axis in "xyz")
        declared = [Table(axis, (axis,), "bohr", MIDDLE) for axis in axes]
        for spin, words in SPINS.items():
            declared.append(Table(f"density_{spin}", axes, "bohr^-3", f"{words} density", note=DENSITY))
            text = f"error of density_{spin}"
            declared.append(Table(f"density_{spin}_error", axes, "bohr^-3", text, note=ERROR))
        return tuple(declared)

    def findings(self, where: str, system: Boundaries) -> Iterator[Finding]:
        """Yield an extent that a crystal has no use for, and edges that do not ascend."""
        # The default is made for the atoms later, and needs no check.
        if self.extent is None:
            return
        if system.periodic:
            text = "in a crystal the mesh fills the primitive cell; leave extent out"
            yield Finding(f"{where}.extent", text)
        for axis, (first, last) in enumerate(self.extent):
            if not last > first or not math.isfinite(last - first):
                text = f"edges must ascend, found {first:g} and {last:g}"
                yield Finding(f"{where}.extent.{axis}", text)

    def cells(self, atoms: int) -> int:
        """Return how many numbers the histogram has."""
        x, y, z = self.mesh
        # One mesh for each spin.
        return 2 * x * y * z

    def make(self, setting: Setting) -> Histogram:
        """Return the histogram."""
        if setting.crystal is not None:
            return CrystalDensity(setting, setting.crystal, self.mesh)
        # Without cell the mesh needs ends; those of the deck come first.
        extent = default_extent(setting.atoms) if self.extent is None else self.extent
        return MeshDensity(setting, self.mesh, extent)


class MeshDensity(Histogram):
    """Density on a mesh: tables ``density_x``, ``_y``, ``_z``, ``density_up``, ``density_down`` and their errors.

    Parameters
    ----------
    mesh
        Cells along x, y, z.
    extent : (3, 2) float64
        First and last edge along x, y, z (bohr).
    """

    def __init__(self, setting: Setting, mesh: Sequence[int], extent: ArrayLike) -> None:
        cells = tuple(int(number) for number in mesh)
        # The first axis is the spin, as the kernel counts.
        super().__init__(setting, (2, *cells))
        edges = np.asarray(extent, np.float64)
        self.origin = edges[:, 0].copy()
        # Cells have equal sizes along each axis.
        self.spacing = (edges[:, 1] - edges[:, 0]) / np.array(cells)

    def add(self, R: FloatArray, count: IndexArray) -> None:
        """Add walkers."""
        from qsim.qmc.kernels.estimators.estimators import mesh_histogram

        mesh_histogram(self.device, R, count, self.n_up, self.origin, self.spacing, self.counts)

    @property
    def integral(self) -> float:
        """Electrons inside of the mesh, on average."""
        return float(np.sum(self.sums.mean()))

    def arrays(self, *, errors: bool = True) -> dict[str, FloatArray]:
        """Return the tables."""
        axes = {
            # Middles of the cells, bohr.
            f"density_{axis}": self.origin[d] + (np.arange(self.counts.shape[1 + d]) + 0.5) * self.spacing[d]
            for d, axis in enumerate("xyz")
        }
        return {**axes, **self._named("density", tuple(SPINS), float(np.prod(self.spacing)), errors)}

    def notes(self) -> list[str]:
        """Return a remark if many electrons are outside."""
        electrons = self.n_up + self.n_dn
        # Without blocks nothing was measured, and nothing can be missing.
        if not self.sums.blocks or self.integral >= INSIDE * electrons:
            return []
        return [
            f"the mesh of the density holds {self.integral:.4g} of {electrons} electrons; give a larger extent"
        ]


class CrystalDensity(Histogram):
    """Density on a mesh of the primitive cell, averaged over those of the supercell; tables as of open boundaries.

    ``density_x``, ``_y``, ``_z`` are lengths along the three lattice vectors.

    Parameters
    ----------
    mesh
        Cells along the lattice vectors.
    """

    def __init__(self, setting: Setting, crystal: Periodic, mesh: Sequence[int]) -> None:
        shape = tuple(int(number) for number in mesh)
        super().__init__(setting, (2, *shape))
        # Rows of R times this matrix are coordinates along the lattice vectors.
        self.inverse = self.device.asarray(np.ascontiguousarray(crystal.inverse))
        self.edges = np.linalg.norm(crystal.lattice, axis=1)
        # In these coordinates the primitive cell is the unit cube.
        self.spacing = 1.0 / np.array(shape)
        # The supercell, since its electrons all fall into one primitive cell.
        self.volume = crystal.volume / float(np.prod(shape))

    def add(self, R: FloatArray, count: IndexArray) -> None:
        """Add walkers."""
        from qsim.qmc.kernels.estimators.estimators import mesh_histogram

        # Places are brought into the primitive cell before they are counted.
        u = R @ self.inverse
        u -= self.device.xp.floor(u)
        u[u >= 1.0] = 0.0  # what rounding has made of a place just below a whole number
        mesh_histogram(self.device, u, count, self.n_up, np.zeros(3), self.spacing, self.counts)

    def arrays(self, *, errors: bool = True) -> dict[str, FloatArray]:
        """Return the tables."""
        axes = {
            # Along each lattice vector, in bohr.
            f"density_{axis}": (np.arange(self.counts.shape[1 + d]) + 0.5) * self.spacing[d] * self.edges[d]
            for d, axis in enumerate("xyz")
        }
        return {**axes, **self._named("density", tuple(SPINS), self.volume, errors)}


def default_extent(atoms: FloatArray) -> FloatArray:
    """Return the box (3, 2) around the atoms (A, 3), or around the origin, with a margin of 6 bohr."""
    # Electrons without atoms, as those of a trap, are around the origin.
    places = atoms if atoms.size else np.zeros((1, 3))
    return np.stack([places.min(axis=0) - MARGIN, places.max(axis=0) + MARGIN], axis=1)
