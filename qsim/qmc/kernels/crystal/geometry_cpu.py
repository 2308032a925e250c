"""Nearest images in a supercell, on the CPU."""

from __future__ import annotations

import math

import numba as nb

from qsim.qmc.kernels.common.jastrow_cpu import TINY
from qsim.qmc.kernels.common.jit import INLINE

__all__ = ["fold", "nearest"]


@nb.njit(**INLINE)
def fold(orbitals, x, y, z):
    """Return a vector with coordinates in the reduced basis within -1/2 ... 1/2."""
    # Rounding of coordinates in the reduced basis: the result is near the shortest image, and is it
    # below the Wigner-Seitz radius.
    U, A = orbitals.unreduce, orbitals.reduced
    a = x * U[0, 0] + y * U[1, 0] + z * U[2, 0]
    b = x * U[0, 1] + y * U[1, 1] + z * U[2, 1]
    c = x * U[0, 2] + y * U[1, 2] + z * U[2, 2]
    a, b, c = math.floor(a + 0.5), math.floor(b + 0.5), math.floor(c + 0.5)
    return (
        x - (a * A[0, 0] + b * A[1, 0] + c * A[2, 0]),
        y - (a * A[0, 1] + b * A[1, 1] + c * A[2, 1]),
        z - (a * A[0, 2] + b * A[1, 2] + c * A[2, 2]),
    )


@nb.njit(**INLINE)
def nearest(orbitals, x, y, z):
    """Return the shortest image of a vector and its length; exact below the Wigner-Seitz radius."""
    x, y, z = fold(orbitals, x, y, z)
    square = x * x + y * y + z * z
    # Beyond that radius another image can be shorter; a short list of lattice vectors has all that
    # can be.
    if square > orbitals.radius2:
        fx, fy, fz = x, y, z
        for k in range(1, orbitals.near.shape[0]):
            t = orbitals.near[k]
            a, b, c = fx + t[0], fy + t[1], fz + t[2]
            other = a * a + b * b + c * c
            if other < square:
                x, y, z, square = a, b, c, other
    return x, y, z, max(math.sqrt(square), TINY)
