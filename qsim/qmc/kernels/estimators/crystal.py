"""Histograms of walkers in crystals: public wrappers of ``crystal.cu`` and their CPU twins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import Shared, each_part
from qsim.qmc.kernels.crystal.launch import CRYSTAL
from qsim.qmc.kernels.estimators import crystal_cpu as crystal_pairs_cpu

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray, IndexArray
    from qsim.core.device.device import Device
    from qsim.qmc.kernels.crystal.types import CrystalOrbitals

__all__ = ["crystal_pair_histogram", "sums_of_waves"]

THREADS = 128  # as in crystal.cu


def crystal_pair_histogram(
    device: Device,
    orbitals: CrystalOrbitals,
    R: FloatArray,
    count: IndexArray,
    n_up: int,
    rmax: float,
    out: IndexArray,
) -> None:
    """Add the pairs of electrons of all walkers to histograms of the distance of nearest images.

    Parameters
    ----------
    orbitals
        With the geometry of the supercell; on the host.
    R : (walkers, N, 3) float64
        Positions, spin-up electrons first, bohr.
    count : (walkers,) int64
        Weights, from :func:`~qsim.qmc.kernels.estimators.estimators.quanta`.
    n_up
        Number of spin-up electrons.
    rmax
        End of the last bin, bohr; at most the Wigner-Seitz radius.
    out : (3, bins) int64, in and out
        Up-up, up-down, down-down.
    """
    inverse_width = out.shape[1] / rmax
    if not device.is_cuda:
        _crystal_pair_histogram_cpu(orbitals, R, count, n_up, inverse_width, out)
        return
    walkers, N = R.shape[:2]
    if walkers * N == 0:
        return
    near = device.asarray(orbitals.near)
    model = np.zeros(1, CRYSTAL)
    model["reduced"], model["unreduce"] = orbitals.reduced.ravel(), orbitals.unreduce.ravel()
    model["near"], model["nears"], model["radius2"] = near.data.ptr, len(orbitals.near), orbitals.radius2
    model["electrons"], model["n_up"] = N, n_up
    kernel = kernels.function(
        "qmc/kernels/estimators", "crystal", "crystal_pair_histogram", {"REAL": "double"}
    )
    sizes = (np.int64(walkers), np.int32(out.shape[1]), np.float64(inverse_width))
    kernel(kernels.blocks(walkers * N, THREADS), (THREADS,), (model, R, count, *sizes, out))


def _crystal_pair_histogram_cpu(
    orbitals: CrystalOrbitals,
    R: FloatArray,
    count: IndexArray,
    n_up: int,
    inverse_width: float,
    out: IndexArray,
) -> None:
    """Do the same on the CPU."""
    crystal_pairs_cpu.pairs(R, count, orbitals, n_up, inverse_width, out)


def sums_of_waves(device: Device, R: FloatArray, waves: FloatArray) -> FloatArray:
    """Return Re and Im of ``sum_i exp(i k r_i)`` of every walker, (2, walkers, waves) float64.

    Parameters
    ----------
    R : (walkers, N, 3) float64
        Positions, bohr.
    waves : (waves, 3) float64
        k, 1/bohr; on the device.
    """
    xp, shape = device.xp, (R.shape[0], waves.shape[0])
    out = xp.empty((2, *shape))
    if device.is_cuda:
        phase = R @ waves.T
        out[0], out[1] = xp.cos(phase).sum(1), xp.sin(phase).sum(1)
    else:
        _sums_of_waves_cpu(device, R, waves, out)
    return out


def _sums_of_waves_cpu(device, R, waves, out):
    work = Shared(
        crystal_pairs_cpu.waves_shared, (np.ascontiguousarray(R), np.ascontiguousarray(waves.T), out)
    )
    each_part(work, R.shape[0], R.shape[1] * out[0].size, device.threads)
