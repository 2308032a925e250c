r"""What is measured in crystals: structure factor and pair densities of nearest images.

With :math:`\rho_k=\sum_ie^{ikr_i}` the structure factor is
:math:`S(k)=(\langle|\rho_k|^2\rangle-|\langle\rho_k\rangle|^2)/N`.  Its curvature at small k says what the potential energy of
the finite cell lacks (Chiesa, Ceperley, Martin and Holzmann, Phys. Rev. Lett. 97, 076404 (2006)):

.. math::  \Delta V=\frac{2\pi N}{V}\lim_{k\to0}\frac{S(k)}{k^2}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qmc.estimators.histograms import Histogram, shells
from qsim.qmc.kernels.estimators.crystal import crystal_pair_histogram
from qsim.qmc.kernels.estimators.estimators import mesh_histogram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qmc.wavefunction.crystals.wavefunction import CrystalWavefunction

__all__ = ["CrystalDensity", "CrystalPairDensity", "StructureFactor"]

CHUNK = 2**20  # complex numbers of a temporary array


class StructureFactor(Histogram):
    """Structure factor: tables ``sofk_k``, ``sofk`` and its error; by the waves of the Coulomb potential up to ``kmax``.

    Parameters
    ----------
    kmax
        Largest wave number, 1/bohr; None: all.
    """

    def __init__(self, device: Device, wavefunction: CrystalWavefunction, kmax: float | None) -> None:
        k = wavefunction.breakup.waves @ wavefunction.cell.reciprocal
        size = np.sqrt((k**2).sum(1))
        order = np.argsort(np.round(size, 9), kind="stable")
        order = order[: max(1, int((size <= (np.inf if kmax is None else kmax)).sum()))]
        self.k, self.size = k[order], size[order]
        self.ions = bool(wavefunction.system.charges.any())
        super().__init__(device, wavefunction.n_up, wavefunction.n_dn, (3, len(self.size)))
        self.counts = device.xp.zeros(self.counts.shape)

    def add(self, R: Any, count: Any) -> None:
        """Add walkers."""
        xp, N = self.device.xp, self.n_up + self.n_dn
        k = self.device.asarray(self.k)
        step = max(1, CHUNK // (N * len(self.size)))
        for begin in range(0, R.shape[0], step):
            rho = xp.exp(1j * (R[begin : begin + step] @ k.T)).sum(1)
            weight = count[begin : begin + step].astype(np.float64)
            self.counts[0] += weight @ (xp.abs(rho) ** 2) / N
            self.counts[1] += weight @ rho.real
            self.counts[2] += weight @ rho.imag

    def arrays(self, *, errors: bool = True) -> dict[str, NDArray[np.float64]]:
        """Return the tables."""
        mean, error = self.sums.mean(), self._error(errors)
        lattice = (mean[1] ** 2 + mean[2] ** 2) / (self.n_up + self.n_dn) if self.ions else 0.0
        return {"sofk_k": self.size, "sofk": mean[0] - lattice, "sofk_error": error[0]}


class CrystalPairDensity(Histogram):
    """Pair densities by the distance of nearest images, up to the Wigner-Seitz radius; tables as of open boundaries."""

    def __init__(self, device: Device, wavefunction: CrystalWavefunction, bins: int, rmax: float) -> None:
        super().__init__(device, wavefunction.n_up, wavefunction.n_dn, (3, bins))
        self.bins, self.asked = bins, float(rmax)
        self.rmax = min(self.asked, wavefunction.cell.radius)
        self.orbitals = wavefunction.orbital_tables()

    def add(self, R: Any, count: Any) -> None:
        """Add walkers."""
        crystal_pair_histogram(self.device, self.orbitals, R, count, self.n_up, self.rmax, self.counts)

    def arrays(self, *, errors: bool = True) -> dict[str, NDArray[np.float64]]:
        """Return the tables; those of a kind of pair that does not exist are zero."""
        r, volume = shells(self.bins, self.rmax)
        return {"gofr_r": r, **self._named("gofr", ("uu", "ud", "dd"), volume, errors)}


class CrystalDensity(Histogram):
    """Density on a mesh of the primitive cell, averaged over those of the supercell; tables as of open boundaries.

    ``density_x``, ``_y``, ``_z`` are lengths along the three lattice vectors.

    Parameters
    ----------
    mesh
        Cells along the lattice vectors.
    """

    def __init__(self, device: Device, wavefunction: CrystalWavefunction, mesh: Sequence[int]) -> None:
        shape = tuple(int(number) for number in mesh)
        super().__init__(device, wavefunction.n_up, wavefunction.n_dn, (2, *shape))
        primitive = wavefunction.orbitals.primitive
        self.inverse = device.asarray(np.ascontiguousarray(primitive.inverse))
        self.edges = np.linalg.norm(primitive.lattice, axis=1)
        self.spacing = 1.0 / np.array(shape)
        self.volume = wavefunction.cell.volume / float(np.prod(shape))

    def add(self, R: Any, count: Any) -> None:
        """Add walkers."""
        u = R @ self.inverse
        u -= self.device.xp.floor(u)
        u[u >= 1.0] = 0.0  # what rounding has made of a place just below a whole number
        mesh_histogram(self.device, u, count, self.n_up, np.zeros(3), self.spacing, self.counts)

    def arrays(self, *, errors: bool = True) -> dict[str, NDArray[np.float64]]:
        """Return the tables."""
        axes = {
            f"density_{axis}": (np.arange(self.counts.shape[1 + d]) + 0.5) * self.spacing[d] * self.edges[d]
            for d, axis in enumerate("xyz")
        }
        return {**axes, **self._named("density", ("up", "down"), self.volume, errors)}
