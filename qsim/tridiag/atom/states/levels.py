r"""Bound levels of an atom on its grid, and the field-free Hamiltonian applied to a state.

With ``X = phi / r'`` the eigenvalue problem is ``(M2 - 6 / g) Z = 0``, ``Z = g X``, ``g = 6 + r'^2 (E - V_l)``: a
symmetric tridiagonal matrix
whose positive pivots count the levels below E.  Energies come from bisection, states from inverse iteration; u is positive near
the nucleus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_banded

from qsim.core.errors import NumericsError
from qsim.tridiag.atom.states.grid import first_entry
from qsim.tridiag.kernels import sturm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.atom.evolution.propagator import AtomLattice

__all__ = ["Radial", "bound_count", "bound_population", "level"]


# norm of an l below which its levels hold nothing
NOTHING = 1e-14


class Radial:
    """The Hamiltonian of one l on the grid."""

    def __init__(self, lattice: AtomLattice, l: int) -> None:
        grid = lattice.grid
        self.l, self.slope = l, grid.slope
        self.square = grid.slope**2
        self.potential = lattice.potential + l * (l + 1.0) / (2.0 * grid.r**2) + grid.curvature
        self.first = first_entry(l, lattice.charge, grid.step)
        # below the ground state of a bare nucleus of one more charge; `energy` goes lower where a table is
        # deeper
        self.deepest = -0.5 * (lattice.charge + 1.0) ** 2 - 1.0

    def below(self, energy: float) -> int:
        """Return the number of levels below an energy."""
        return int(sturm.below_radial(self.square, self.potential, self.first, energy))

    def energy(self, k: int, highest: float = 0.0) -> float:
        """Return the energy of the k-th level, 0 first, hartree.

        Raises
        ------
        NumericsError
            If there are fewer levels below `highest`.
        """
        if self.below(highest) <= k:
            raise NumericsError(
                f"the box holds {self.below(highest)} levels of l = {self.l} below {highest:g} hartree"
            )
        return float(sturm.level_radial(self.square, self.potential, self.first, k, self.lowest(), highest))

    def lowest(self) -> float:
        """Return an energy below all levels, hartree."""
        low = self.deepest
        # potentials from formulas may be deeper than any Coulomb potential
        while self.below(low) > 0:
            low *= 2.0
        return low

    def state(self, energy: float) -> NDArray[np.float64]:
        """Return phi (n,) at an eigenvalue, ``sum phi^2 = 1``, positive near the nucleus."""
        # a little off the eigenvalue, at which the matrix would be singular to rounding
        shift = energy + 1e-13 * max(abs(energy), 1e-3)
        x = np.ones(self.square.size)
        for _ in range(sturm.ITERATIONS):
            x = self.resolvent(shift, x).real
            x /= np.linalg.norm(x)
        # in the first point that is not deep in the centrifugal barrier, where rounding decides the sign
        near = np.flatnonzero(np.abs(x) > 1e-6 * np.abs(x).max())[0]
        return x if x[near] > 0 else -x

    def resolvent(
        self, z: complex, phi: NDArray[np.complex128] | NDArray[np.float64], rho: complex = 0.0
    ) -> NDArray[np.complex128]:
        """Return ``(H - z)^-1 phi``, (n,) or (n, columns): one tridiagonal system.

        It vanishes at the wall, unless `rho` says how it goes on (:mod:`qsim.tridiag.atom.photoelectrons.outgoing`).
        """
        # with X = phi / r' and Z = g X the equation (H - z) phi = phi0 becomes (M2 - 6 / g) Z = -M2 (r' phi0)
        g = 6.0 + self.square * (z - self.potential)
        bands, (slope, divisor) = self._bands(6.0 / g), (self.slope, g)
        if rho:
            bands = bands.astype(complex)
            # Z beyond the last point is rho times that in it
            bands[1, -1] += rho / 12.0
        if phi.ndim == 2:
            slope, divisor = slope[:, None], g[:, None]
        return np.asarray(slope * solve_banded((1, 1), bands, -self.mass(slope * phi)) / divisor)

    def edge(self, z: complex, phi: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return Z of the last point of a state (n,) or (n, columns)."""
        return np.asarray(phi[-1] * (6.0 + self.square[-1] * (z - self.potential[-1])) / self.slope[-1])

    def resolvent_absorbed(
        self, energy: float, phi: NDArray[np.complex128], cap: NDArray[np.float64] | None
    ) -> NDArray[np.complex128]:
        """Return ``(H - i W - E)^-1 phi``, (n,) or (n, columns): one complex tridiagonal system."""
        shifted = energy + (0.0 if cap is None else 1j * cap)
        g = 6.0 + self.square * (shifted - self.potential)
        bands, (slope, divisor) = self._bands(6.0 / g), (self.slope, g)
        if phi.ndim == 2:
            slope, divisor = slope[:, None], g[:, None]
        return np.asarray(slope * solve_banded((1, 1), bands, -self.mass(slope * phi)) / divisor)

    def mass(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return ``M2 x``, (n,)."""
        out = (10.0 / 12.0) * x
        out[0] = self.first * x[0]
        out[1:] += x[:-1] / 12.0
        out[:-1] += x[1:] / 12.0
        return out

    def apply(self, phi: NDArray[Any]) -> NDArray[Any]:
        """Return ``H phi``, (n,)."""
        # H = -6 (1/r') (1 - M2^-1) (1/r') + V, since D2 = 12 (M2 - 1)
        x = phi / self.slope
        inner = solve_banded((1, 1), self._bands(0.0), x)
        return -6.0 * (x - inner) / self.slope + self.potential * phi

    def _bands(self, minus: NDArray[Any] | float) -> NDArray[Any]:
        """Return ``M2 - minus`` in banded form."""
        n = self.square.size
        bands = np.full((3, n), 1.0 / 12.0, dtype=np.result_type(minus, float))
        bands[1] = 10.0 / 12.0 - minus
        bands[1, 0] += self.first - 10.0 / 12.0
        return bands


def bound_count(lattice: AtomLattice, l: int) -> int:
    """Return the number of levels of one l below 0 in the box."""
    return Radial(lattice, l).below(0.0)


def bound_population(
    lattice: AtomLattice, ls: NDArray[np.int64], phi: NDArray[np.complex128], threads: int = 1
) -> float:
    """Return what a state holds of all levels of the box below 0.

    Parameters
    ----------
    lattice : AtomLattice
    ls : (channels,) int64
        l of each channel, ascending.
    phi : (channels, n) complex128
        State.
    threads : int
        At most.
    """
    radials: list[Radial] = []
    levels: list[tuple[int, int]] = []
    rows: list[NDArray[np.int64]] = []
    for l in np.unique(ls):
        here = np.flatnonzero(ls == l)
        if float(np.sum(np.abs(phi[here]) ** 2)) < NOTHING:
            continue
        radial = Radial(lattice, int(l))
        count = radial.below(0.0)
        # with no level of one l there are none of higher l
        if count == 0:
            break
        levels += [(len(radials), index) for index in range(count)]
        radials.append(radial)
        rows.append(here)
    if not radials:
        return 0.0
    held = sturm.populations(
        lattice.grid.slope,
        np.array([one.potential for one in radials]),
        np.array([one.first for one in radials]),
        np.array(levels, np.int64),
        np.array([one.lowest() for one in radials]),
        np.cumsum([0, *(here.size for here in rows)]),
        np.ascontiguousarray(phi[np.concatenate(rows)]),
        threads,
    )
    return float(held.sum())


def level(lattice: AtomLattice, n: int, l: int) -> tuple[float, NDArray[np.float64]]:
    """Return energy and state (points,) of the level n, l: the (n - l - 1)-th of its l.

    Raises
    ------
    NumericsError
        If the box does not hold the level.
    """
    radial = Radial(lattice, l)
    energy = radial.energy(n - l - 1)
    return energy, radial.state(energy)
