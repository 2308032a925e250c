"""Parts of a walker's move in a crystal alone, on the CPU; CUDA twins in ``parts.cu``."""

from __future__ import annotations

import numba as nb

from qsim.qmc.kernels.common.inverses_cpu import update_inverse
from qsim.qmc.kernels.common.jit import JIT
from qsim.qmc.kernels.crystal.bloch_cpu import bloch_sums

__all__ = ["orbital_rows", "replace_rows"]


@nb.njit(**JIT)
def orbital_rows(first, last, basis, orbitals, spin, points, out, own):
    """Set ``out`` (k, 5, C) to values, gradients and Laplacians of all channels at points ``first ... last``."""
    for p in range(first, last):
        bloch_sums(basis, orbitals, spin, points[p, 0], points[p, 1], points[p, 2], own.sums, own.w)
        for k in range(5):
            for c in range(out.shape[2]):
                out[p, k, c] = own.sums[k, c]


@nb.njit(**JIT)
def replace_rows(first, last, inverse, fresh, n, column):
    """Bring inverses (W, M, M) up to date with new rows (W, k, M) of electrons 0 ... k - 1, for walkers ``first ... last``."""
    for w in range(first, last):
        for i in range(fresh.shape[1]):
            # The ratio of determinants as in a move, of the type of the determinant.
            ratio = fresh[w, i, 0] * inverse[w, i, 0] * 0.0
            for o in range(n):
                ratio += fresh[w, i, o] * inverse[w, i, o]
            update_inverse(inverse[w], fresh[w, i], i, n, ratio, column)
