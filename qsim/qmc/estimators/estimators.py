r"""Observables other than the energy: pair densities, densities on a mesh and around atoms.

Histograms of the walkers, weighted, are added up on the device and read once per block.  Normalisation (open
boundaries):

* ``gofr``: :math:`h_{\sigma\sigma'}(r)`, the mean number of pairs in a shell over the volume of the shell, so that
  :math:`\int 4\pi r^2 h\,dr` is the number of pairs: :math:`n_\sigma(n_\sigma - 1)/2` of equal,
  :math:`n_\uparrow n_\downarrow` of opposite spins.  Without a volume there is no uniform density to divide by;
  in a cell of volume V, :math:`g = h V / \text{pairs}`.
* ``density``: electrons per volume; the sum over the mesh times the volume of a cell is N less what is outside; in crystals the
  mesh is that of the primitive cell, and the mean of all those of the supercell is taken.
* ``radial_density``: electrons in a shell around an atom over its volume.

In diffusion Monte Carlo these are mixed estimates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qmc.deck.series import Density, Gofr, RadialDensity, Sofk
from qsim.qmc.estimators.crystal import CrystalDensity, CrystalPairDensity, StructureFactor
from qsim.qmc.estimators.histograms import Histogram, shells
from qsim.qmc.kernels.estimators.estimators import (
    UNIT,
    count_quanta,
    mesh_histogram,
    pair_histogram,
    radial_histogram,
)
from qsim.qmc.wavefunction.crystals.wavefunction import CrystalWavefunction

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.parallel import Comm
    from qsim.qmc.deck.series import Measured
    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

__all__ = ["AtomDensity", "Estimators", "MeshDensity", "PairDensity", "make"]

MARGIN = 6.0  # bohr around the atoms on the default mesh
INSIDE = 0.99  # share of the electrons that a mesh should hold


class PairDensity(Histogram):
    """Pair densities by distance: tables ``gofr_r``, ``gofr_uu``, ``gofr_ud``, ``gofr_dd`` and their errors.

    Parameters
    ----------
    bins
        Number of bins.
    rmax
        End of the last one (bohr).
    """

    def __init__(self, device: Device, n_up: int, n_dn: int, bins: int, rmax: float) -> None:
        super().__init__(device, n_up, n_dn, (3, bins))
        self.bins, self.rmax = bins, float(rmax)

    def add(self, R: NDArray[np.float64], count: NDArray[np.int64]) -> None:
        """Add walkers."""
        pair_histogram(self.device, R, count, self.n_up, self.rmax, self.counts)

    def arrays(self, *, errors: bool = True) -> dict[str, NDArray[np.float64]]:
        """Return the tables; those of a kind of pair that does not exist are zero."""
        r, volume = shells(self.bins, self.rmax)
        return {"gofr_r": r, **self._named("gofr", ("uu", "ud", "dd"), volume, errors)}


class MeshDensity(Histogram):
    """Density on a mesh: tables ``density_x``, ``_y``, ``_z``, ``density_up``, ``density_down`` and their errors.

    Parameters
    ----------
    mesh
        Cells along x, y, z.
    extent : (3, 2) float64
        First and last edge along x, y, z (bohr).
    """

    def __init__(self, device: Device, n_up: int, n_dn: int, mesh: Sequence[int], extent: ArrayLike) -> None:
        cells = tuple(int(number) for number in mesh)
        super().__init__(device, n_up, n_dn, (2, *cells))
        edges = np.asarray(extent, np.float64)
        self.origin = edges[:, 0].copy()
        self.spacing = (edges[:, 1] - edges[:, 0]) / np.array(cells)

    def add(self, R: NDArray[np.float64], count: NDArray[np.int64]) -> None:
        """Add walkers."""
        mesh_histogram(self.device, R, count, self.n_up, self.origin, self.spacing, self.counts)

    @property
    def integral(self) -> float:
        """Electrons inside of the mesh, on average."""
        return float(np.sum(self.sums.mean()))

    def arrays(self, *, errors: bool = True) -> dict[str, NDArray[np.float64]]:
        """Return the tables."""
        axes = {
            f"density_{axis}": self.origin[d] + (np.arange(self.counts.shape[1 + d]) + 0.5) * self.spacing[d]
            for d, axis in enumerate("xyz")
        }
        return {**axes, **self._named("density", ("up", "down"), float(np.prod(self.spacing)), errors)}

    def notes(self) -> list[str]:
        """Return a remark if many electrons are outside."""
        electrons = self.n_up + self.n_dn
        if not self.sums.blocks or self.integral >= INSIDE * electrons:
            return []
        return [
            f"the mesh of the density holds {self.integral:.4g} of {electrons} electrons; give a larger extent"
        ]


class AtomDensity(Histogram):
    """Density around atoms: tables ``radial_r``, ``radial_up``, ``radial_down`` (atoms, bins) and their errors.

    Parameters
    ----------
    atoms : (A, 3) float64
        Positions (bohr).
    bins, rmax
        As for :class:`PairDensity`.
    """

    def __init__(
        self, device: Device, n_up: int, n_dn: int, atoms: ArrayLike, bins: int, rmax: float
    ) -> None:
        places = np.ascontiguousarray(np.asarray(atoms, np.float64).reshape(-1, 3))
        super().__init__(device, n_up, n_dn, (2, places.shape[0], bins))
        self.bins, self.rmax, self.atoms = bins, float(rmax), device.asarray(places)

    def add(self, R: NDArray[np.float64], count: NDArray[np.int64]) -> None:
        """Add walkers."""
        radial_histogram(self.device, R, count, self.atoms, self.n_up, self.rmax, self.counts)

    def arrays(self, *, errors: bool = True) -> dict[str, NDArray[np.float64]]:
        """Return the tables."""
        r, volume = shells(self.bins, self.rmax)
        return {"radial_r": r, **self._named("radial", ("up", "down"), volume, errors)}


class Estimators:
    """All estimators of a run."""

    def __init__(self, device: Device, members: Mapping[str, Histogram]) -> None:
        self.device, self.members = device, dict(members)
        with device.use():
            self._weight = device.xp.zeros((), np.int64)

    def __bool__(self) -> bool:
        """Return True if there is anything to measure."""
        return bool(self.members)

    def accumulate(self, R: NDArray[np.float64], weight: NDArray[np.float64]) -> None:
        """Add one sample of every walker.

        Parameters
        ----------
        R : (walkers, N, 3) float64
            Positions (bohr), on the device.
        weight : (walkers,) float64
            Weights.
        """
        if not self.members:
            return
        count = count_quanta(self.device, weight, self._weight)
        for member in self.members.values():
            member.add(R, count)

    @property
    def exact(self) -> bool:
        """Whether all histograms are integers, whose sums do not depend on their order: ranks may add walkers by themselves."""
        return all(np.dtype(member.counts.dtype).kind == "i" for member in self.members.values())

    def close_block(self, comm: Comm | None = None) -> None:
        """End a block; nothing happens if it has no samples.

        Parameters
        ----------
        comm
            Processes whose walkers are to be added; with exact histograms each has accumulated its own, else all of them.
        """
        shared = comm if comm is not None and comm.size > 1 and self.exact else None
        weight = float(_summed(shared, self.device.to_host(self._weight))) / UNIT
        if not weight > 0:
            return
        for member in self.members.values():
            member.close_block(weight, _summed(shared, self.device.to_host(member.counts)))
        self._weight.fill(0)

    def arrays(self, *, errors: bool = True) -> dict[str, NDArray[np.float64]]:
        """Return the tables of all estimators by name; without `errors`, they are NaN."""
        return {
            name: table
            for member in self.members.values()
            for name, table in member.arrays(errors=errors).items()
        }

    def notes(self) -> list[str]:
        """Return the remarks of all estimators."""
        return [note for member in self.members.values() for note in member.notes()]

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return the closed blocks as arrays, for a checkpoint between blocks."""
        return {
            f"{name}.{key}": array
            for name, member in self.members.items()
            for key, array in member.sums.state().items()
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state`."""
        for name, member in self.members.items():
            start = f"{name}."
            member.sums.restore(
                {key.removeprefix(start): v for key, v in state.items() if key.startswith(start)}
            )


def _summed(comm: Comm | None, counts: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of integers over the processes; a collective call."""
    return counts if comm is None else comm.gather_numbers(counts).sum(axis=0).reshape(counts.shape)


def make(
    device: Device,
    measured: Sequence[Measured],
    n_up: int,
    n_dn: int,
    atoms: ArrayLike,
    wavefunction: Wavefunction | None = None,
) -> Estimators:
    """Return the estimators that a deck asks for.

    Parameters
    ----------
    measured
        Their blocks, of each kind at most one.
    atoms : (A, 3) float64
        Positions (bohr).
    wavefunction
        Trial function; that of a crystal knows its cell.
    """
    places = np.asarray(atoms, np.float64).reshape(-1, 3)
    members: dict[str, Histogram] = {}
    if isinstance(wavefunction, CrystalWavefunction):
        return Estimators(device, _of_crystal(device, measured, wavefunction))
    for block in measured:
        if isinstance(block, Gofr):
            members["gofr"] = PairDensity(device, n_up, n_dn, block.bins, block.rmax)
        elif isinstance(block, RadialDensity):
            members["radial_density"] = AtomDensity(device, n_up, n_dn, places, block.bins, block.rmax)
        elif isinstance(block, Density):
            extent = default_extent(places) if block.extent is None else block.extent
            members["density"] = MeshDensity(device, n_up, n_dn, block.mesh, extent)
    return Estimators(device, members)


def _of_crystal(
    device: Device, measured: Sequence[Measured], wavefunction: CrystalWavefunction
) -> dict[str, Histogram]:
    members: dict[str, Histogram] = {}
    for block in measured:
        if isinstance(block, Gofr):
            members["gofr"] = CrystalPairDensity(device, wavefunction, block.bins, block.rmax)
        elif isinstance(block, Sofk):
            members["sofk"] = StructureFactor(device, wavefunction, block.kmax)
        elif isinstance(block, Density):
            members["density"] = CrystalDensity(device, wavefunction, block.mesh)
    return members


def default_extent(atoms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the box (3, 2) around the atoms (A, 3), or around the origin, with a margin of 6 bohr."""
    places = atoms if atoms.size else np.zeros((1, 3))
    return np.stack([places.min(axis=0) - MARGIN, places.max(axis=0) + MARGIN], axis=1)
