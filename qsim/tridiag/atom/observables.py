r"""What is observed of a state ``phi_l(r_j)``: norms, moments, level and l populations, in either gauge.

Dipole and acceleration do not depend on the gauge.  Level populations are those of the length-gauge state
``exp(i A z) psi_velocity``; ``exp(i A r cos(theta))`` is exact within the l of the run: cos(theta) is the Jacobi matrix of the
couplings c_l.

The acceleration is ``-<cos(theta) V'> - E`` (Ehrenfest).  Its integrand is linear at the nucleus for l = 0, 1: the
trapezoid rule takes the first
point with weight 13/12 (Euler and Maclaurin).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh_tridiagonal, solve_banded

from qsim.tridiag.atom.grid import CORNER
from qsim.tridiag.atom.levels import Radial

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.atom.propagator import AtomLattice

__all__ = ["LevelState", "energy", "length_gauge", "momentum", "weighted_force"]

FIRST = 13.0 / 12.0  # Euler-Maclaurin weight of the first point


@dataclass(frozen=True)
class LevelState:
    """A bound level on the grid.

    Attributes
    ----------
    n, l : int
        Quantum numbers.
    energy : float
        Hartree.
    phi : (points,) float64
        ``sum phi^2 = 1``.
    """

    n: int
    l: int
    energy: float
    phi: NDArray[np.float64]


def weighted_force(lattice: AtomLattice) -> NDArray[np.float64]:
    """Return dV/dr (n,) with the weight of the first point."""
    force = np.array(lattice.force)
    force[0] *= FIRST
    return force


def length_gauge(
    phi: NDArray[np.complex128], r: NDArray[np.float64], lanes: Lanes, a: float
) -> NDArray[np.complex128]:
    """Return ``exp(i A z) phi`` on the points r, (used, n); phi as it is without A."""
    if a == 0.0 or lanes.used == 1:
        return phi
    l = abs(lanes.m) + np.arange(lanes.used)
    x, q = eigh_tridiagonal(np.zeros(lanes.used), lanes.coupling(l)[:-1])
    return np.asarray(q @ (np.exp(1j * a * x[:, None] * r) * (q.T @ phi)))


def momentum(phi: NDArray[np.complex128], lattice: AtomLattice, lanes: Lanes) -> float:
    """Return ``<p_z>``, a.u.: ``sum_l 2 c_l Im <phi_{l+1}| d/dr - (l + 1)/r |phi_l>``."""
    grid = lattice.grid
    n = grid.points
    root = np.sqrt(grid.slope)
    u = (phi / root).T
    bands = np.full((3, n), 1.0 / 6.0)
    bands[1] = 4.0 / 6.0
    bands[1, [0, -1]] = (4.0 + CORNER) / 6.0
    right = np.zeros_like(u)
    right[:-1] += 0.5 * u[1:]
    right[1:] -= 0.5 * u[:-1]
    right[0] += 0.5 * CORNER * u[0]
    right[-1] -= 0.5 * CORNER * u[-1]
    slope = (solve_banded((1, 1), bands, right) / root[:, None]).T
    total = 0.0
    for k in range(lanes.used - 1):
        l = abs(lanes.m) + k
        c = float(lanes.coupling(l))
        total += 2.0 * c * float(np.vdot(phi[k + 1], slope[k] - (l + 1.0) / grid.r * phi[k]).imag)
    return total


def energy(phi: NDArray[np.complex128], lattice: AtomLattice, lanes: Lanes) -> float:
    """Return ``<H>`` of the field-free atom, hartree, not divided by the norm."""
    total = 0.0
    for k in range(lanes.used):
        if np.any(phi[k]):
            total += float(np.vdot(phi[k], Radial(lattice, abs(lanes.m) + k).apply(phi[k])).real)
    return total


def populations(phi: NDArray[np.complex128], levels: list[LevelState], m: int) -> NDArray[np.float64]:
    """Return ``|<n l m|phi>|^2`` of the levels, (levels,)."""
    found: list[Any] = [
        abs(complex(level.phi[: phi.shape[1]] @ phi[level.l - abs(m)])) ** 2
        if level.l - abs(m) < len(phi)
        else 0.0
        for level in levels
    ]
    return np.array(found)
