r"""Waves that leave the box: the field-free atom goes on beyond the wall, so that spectra of a state do not see its levels.

A state at the end of a run lies in the box, but ``(H - z)^-1`` of it does not.  Beyond the wall it obeys the recurrence of
the grid, ``Z_(j+1) = (72 / g_j - 10) Z_j - Z_(j-1)`` with ``g = 6 + r'^2 (z - V_l)`` and ``Z = g X``
(`states/levels`), and goes out: ``rho = Z_(n+1) / Z_n`` follows from far away, where ``rho = exp(i q)`` with
``2 cos q = 72 / g - 10``, by ``rho_(j-1) = 1 / (72 / g_j - 10 - rho_j)``.  With it the box has no end.  What lies beyond follows
from rho alone,

    sum_(j>n) phi_j(z) phi_j(z')* = Z_n(z) Z_n(z')* (rho(z) - rho(z')*) / (72 (z - z'*)),

the Wronskian of the recurrence, and for real energies the flux: ``dP/dE = |Z_n|^2 Im rho / (72 pi)`` of ``(H - E - i 0)^-1 phi``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.tridiag.atom.states.levels import Radial
from qsim.tridiag.kernels.resolvents import inwards, resolvents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.atom.evolution.propagator import AtomLattice
    from qsim.tridiag.atom.states.lanes import AnyLanes

__all__ = ["beyond", "leaving", "spectral_density"]

# norm of an l that gives nothing
QUIET = 1e-15


def leaving(
    far: AtomLattice, points: int, l: int, z: NDArray[np.complex128], threads: int = 1
) -> NDArray[np.complex128]:
    """Return ``rho = Z_(n+1) / Z_n`` at the wall of a box, of waves that go out or fall off, (k,).

    Parameters
    ----------
    far
        The atom on a grid that goes on beyond the box, without an absorber.
    points
        Points of the box.
    l
        Angular momentum.
    z : (k,) complex128
        Energies, not below the real axis, hartree.
    threads : int
        At most.
    """
    # the same recurrence on a longer grid: the wall of the box is no longer a wall
    radial = Radial(far, l)

    def both(j: int) -> NDArray[np.complex128]:
        """Return ``2 cos q`` at a point."""
        return np.asarray(72.0 / (6.0 + radial.square[j] * (z - radial.potential[j])) - 10.0)

    last = far.grid.points - 1
    # WKB start far away: phase q per point, amplitude as 1 / sqrt(sin q)
    q, after = (np.arccos(0.5 * both(j)) for j in (last - 1, last))
    # the root that goes out, or falls off for energies with an imaginary part
    q, after = (np.where(one.imag < 0.0, -one, one) for one in (q, after))
    rho = np.sqrt(np.sin(q) / np.sin(after)) * np.exp(0.5j * (q + after))
    # inwards the recurrence is stable for the outgoing wave
    return inwards(radial, points, z, rho, threads)


def beyond(rho: NDArray[np.complex128], z: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return the roots (k, s, s) of the overlaps of waves of s energies beyond the wall, for ``Z_n = 1``.

    A row times its waves' Z_n, summed over s, makes s numbers that stand for all points beyond the wall.

    Parameters
    ----------
    rho, z : (k, s) complex128
        As of `leaving`.
    """
    # shifts are never below the real axis, so no difference vanishes
    apart = z[:, :, None] - z.conj()[:, None, :]
    # sum of a geometric kind: the overlap of two waves beyond the wall follows from their values there
    overlap = (rho[:, :, None] - rho.conj()[:, None, :]) / (72.0 * apart)
    # root of the Gram matrix; rounding may leave its smallest eigenvalues below zero
    size, turn = np.linalg.eigh(overlap)
    return np.asarray((turn * np.sqrt(np.maximum(size, 0.0))[:, None, :]) @ np.swapaxes(turn.conj(), 1, 2))


def spectral_density(
    lattice: AtomLattice,
    far: AtomLattice,
    lanes: AnyLanes,
    phi: NDArray[np.complex128],
    energy: NDArray[np.float64],
    threads: int = 1,
) -> NDArray[np.float64]:
    """Return dP/dE of a state without its angles, the flux that leaves the box, (k,): 0 at energies that are not above 0.

    Parameters
    ----------
    lattice, far, lanes, phi
        The atom in the box and beyond, channels, state in length gauge (used, n).
    energy : (k,) float64
        Hartree.
    threads : int
        At most.
    """
    out, free = np.zeros(energy.size), np.flatnonzero(energy > 0.0)
    weights = np.sum(np.abs(phi) ** 2, axis=1)
    for l in np.unique(lanes.ls[weights > QUIET]):
        # channels of one l share the matrix and its boundary condition; their fluxes add up
        here = np.flatnonzero((lanes.ls == l) & (weights > QUIET))
        radial = Radial(lattice, int(l))
        z = energy[free].astype(complex)
        rho = leaving(far, lattice.grid.points, int(l), z, threads)
        _, edges = resolvents(radial, z[:, None], rho[:, None], phi[here], threads)
        out[free] += rho.imag * np.sum(np.abs(edges[:, 0]) ** 2, axis=1) / (72.0 * math.pi)
    return out
