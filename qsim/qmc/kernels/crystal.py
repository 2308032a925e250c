"""Histograms of walkers in crystals: public wrappers of the kernels of ``crystal_pairs_cpu``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.qmc.kernels import crystal_pairs_cpu

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qsim.qmc.kernels.crystal_types import CrystalOrbitals

__all__ = ["crystal_pair_histogram"]


def crystal_pair_histogram(
    orbitals: CrystalOrbitals,
    R: NDArray[np.float64],
    count: NDArray[np.int64],
    n_up: int,
    rmax: float,
    out: NDArray[np.int64],
) -> None:
    """Add the pairs of electrons of all walkers to histograms of the distance of nearest images.

    Parameters
    ----------
    orbitals
        With the geometry of the supercell.
    R : (walkers, N, 3) float64
        Positions, spin-up electrons first, bohr.
    count : (walkers,) int64
        Weights, from :func:`~qsim.qmc.kernels.estimators.quanta`.
    n_up
        Number of spin-up electrons.
    rmax
        End of the last bin, bohr; at most the Wigner-Seitz radius.
    out : (3, bins) int64, in and out
        Up-up, up-down, down-down.
    """
    crystal_pairs_cpu.pairs(R, count, orbitals, n_up, out.shape[1] / rmax, out)
