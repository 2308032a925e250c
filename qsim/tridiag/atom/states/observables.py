r"""Observables of a state ``phi_l(r_j)``: norms, moments, level and l populations, in either gauge.

Dipole and acceleration do not depend on the gauge.  Level populations are those of the length-gauge state
``exp(i A.r) psi_velocity``, exact within the l of the run: along z, cos(theta) is the Jacobi matrix of the couplings c_l; in a
plane, the exponential is a sum of Chebyshev polynomials.

The acceleration is ``-<cos(theta) V'> - E`` (Ehrenfest).  Its integrand is linear at the nucleus for l = 0, 1: the
trapezoid rule takes the first
point with weight 13/12 (Euler and Maclaurin).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh_tridiagonal, solve_banded
from scipy.sparse import coo_array
from scipy.special import jv

from qsim.tridiag.atom.states.grid import CORNER
from qsim.tridiag.atom.states.lanes import PlanarLanes
from qsim.tridiag.atom.states.levels import Radial

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.atom.evolution.propagator import AtomLattice
    from qsim.tridiag.atom.states.lanes import AnyLanes

__all__ = [
    "LevelState",
    "along",
    "by_momentum",
    "energy",
    "length_gauge",
    "level_states",
    "momentum",
    "populations",
]


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
        ``sum phi^2 = 1``; of a channel of a state from a file (n = 0), complex128 of any norm.
    """

    n: int
    l: int
    energy: float
    phi: NDArray[np.float64] | NDArray[np.complex128]


def length_gauge(
    phi: NDArray[np.complex128], r: NDArray[np.float64], lanes: AnyLanes, a: NDArray[np.float64]
) -> NDArray[np.complex128]:
    """Return ``exp(i A.r) phi`` on the points r, (used, n); phi as it is without A.

    Parameters
    ----------
    phi, r, lanes
        State, its points, its channels.
    a : (1 or 2,) float64
        A along z, or along x and y.
    """
    if not np.any(a) or lanes.used == 1:
        return phi
    if isinstance(lanes, PlanarLanes):
        return _planar_length_gauge(phi, r, lanes, a)
    # cos(theta) within the l of the run: a Jacobi matrix, whose eigenvectors do not depend on r
    x, q = eigh_tridiagonal(np.zeros(lanes.used), lanes.coupling(lanes.ls)[:-1])
    return np.asarray(q @ (np.exp(1j * a[0] * x[:, None] * r) * (q.T @ phi)))


def _planar_length_gauge(
    phi: NDArray[np.complex128], r: NDArray[np.float64], lanes: PlanarLanes, a: NDArray[np.float64]
) -> NDArray[np.complex128]:
    """Return ``exp(i |A| r X) phi`` by Chebyshev polynomials of X, the direction of A in the channels, whose norm is below 1."""
    x = along(lanes, a / np.linalg.norm(a))
    # exp(i a x) = J_0(a) + 2 sum i^k J_k(a) T_k(x): J_k falls off exponentially once k exceeds a
    reach = np.linalg.norm(a) * r
    terms = int(1.2 * reach.max() + 30)
    weights = jv(np.arange(terms)[:, None], reach)
    # T_(k+1) = 2 x T_k - T_(k-1)
    before, here = phi, x @ phi
    total = weights[0] * phi + 2j * weights[1] * here
    for k in range(2, terms):
        before, here = here, 2.0 * (x @ here) - before
        total = total + 2.0 * 1j**k * weights[k] * here
    return np.asarray(total)


def along(lanes: PlanarLanes, direction: NDArray[np.float64]) -> Any:
    """Return ``sin(theta) cos(phi - alpha)`` in the channels, sparse (used, used), alpha the angle of a unit vector."""
    links, (low, high) = lanes.links, _channels(lanes)
    # x and y components of the direction enter as real and imaginary part, with the sign of m' - m
    up = links.coupling * (direction[0] - 1j * links.sign * direction[1])
    half = coo_array((up, (high, low)), shape=(lanes.used, lanes.used))
    return (half + half.conj().T).tocsr()


def _channels(lanes: PlanarLanes) -> NDArray[np.int64]:
    """Return the channels (l, m) and (l + 1, m +- 1) of the pairs that the field couples, (2, pairs)."""
    channel = np.full(2 * lanes.pairs, -1)
    channel[lanes.order] = np.arange(lanes.used)
    return np.asarray(channel[lanes.links.pairs].T)


def momentum(phi: NDArray[np.complex128], lattice: AtomLattice, lanes: AnyLanes) -> NDArray[np.float64]:
    """Return ``<p>`` along z, or along x and y, a.u.: of pairs ``2 c Im <phi_{l+1}| d/dr - (l + 1)/r |phi_l>``."""
    grid = lattice.grid
    n = grid.points
    # d/dr of u = phi / sqrt(r') is r'^-1/2 M1^-1 D1 r'^-1/2 phi, the derivative of the module `grid`
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
    # less (l + 1) / r: the radial part of the gradient from l to l + 1
    slope -= (lanes.ls[:, None] + 1.0) / grid.r * phi
    if isinstance(lanes, PlanarLanes):
        # half the operator, from l to l + 1: its conjugate is the other half
        links, (low, high) = lanes.links, _channels(lanes)
        each = np.array([np.vdot(phi[h], slope[l]) for l, h in zip(low.tolist(), high.tolist(), strict=True)])
        parts = links.coupling * each, -1j * links.coupling * links.sign * each
        return np.array([2.0 * float(np.sum(part).imag) for part in parts])
    c = lanes.coupling(lanes.ls[:-1])
    return np.array([2.0 * float(np.sum(c * np.sum(phi[1:].conj() * slope[:-1], axis=1).imag))])


def energy(phi: NDArray[np.complex128], lattice: AtomLattice, lanes: AnyLanes) -> float:
    """Return ``<H>`` of the field-free atom, hartree, not divided by the norm."""
    total = 0.0
    for l in np.unique(lanes.ls):
        radial = Radial(lattice, int(l))
        for one in phi[lanes.ls == l]:
            if np.any(one):
                total += float(np.vdot(one, radial.apply(one)).real)
    return total


def populations(
    phi: NDArray[np.complex128], levels: list[LevelState], lanes: AnyLanes
) -> NDArray[np.float64]:
    """Return ``|<n l m|phi>|^2`` of the levels, summed over the m of the run, (levels,)."""
    shares = [
        float(np.sum(np.abs(phi[lanes.ls == level.l] @ level.phi[: phi.shape[1]]) ** 2)) for level in levels
    ]
    return np.array(shares)


def by_momentum(values: NDArray[np.float64], lanes: AnyLanes) -> NDArray[np.float64]:
    """Return what channels hold (..., used) summed over m, one column per l from the smallest on, (..., l)."""
    belongs = lanes.ls[:, None] == np.arange(lanes.lowest, lanes.lmax + 1)
    return np.asarray(values @ belongs.astype(float))


def level_states(lattice: AtomLattice, wanted: list[tuple[int, int]]) -> list[LevelState]:
    """Return levels (n, l) of a lattice.

    Raises
    ------
    NumericsError
        If the box does not hold one of them.
    """
    found, radials = [], {l: Radial(lattice, l) for l in {l for _, l in wanted}}
    for n, l in wanted:
        energy = radials[l].energy(n - l - 1)
        found.append(LevelState(n, l, energy, radials[l].state(energy)))
    return found
