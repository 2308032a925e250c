"""Histograms of walkers in crystals on the CPU."""

from __future__ import annotations

import numba as nb

from qsim.core.device.jit import held
from qsim.qmc.kernels.common.jit import JIT
from qsim.qmc.kernels.crystal.geometry_cpu import nearest

__all__ = ["pairs"]


@nb.njit(**JIT)
def pairs(R, count, orbitals, n_up, inverse_width, out):
    """Count pairs of walkers by the distance of nearest images in ``out`` (3, bins)."""
    orbitals = held(orbitals)
    bins = out.shape[1]
    for w in range(R.shape[0]):
        for i in range(R.shape[1]):
            for j in range(i + 1, R.shape[1]):
                _, _, _, r = nearest(
                    orbitals, R[w, i, 0] - R[w, j, 0], R[w, i, 1] - R[w, j, 1], R[w, i, 2] - R[w, j, 2]
                )
                place = r * inverse_width
                if place < bins:
                    out[int(i >= n_up) + int(j >= n_up), int(place)] += count[w]
