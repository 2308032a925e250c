r"""Two coordinates on a rectangular lattice between hard walls: kinetic energies, their steps, and the potential at the points.

The kinetic energy of an axis is ``T = -M^-1 delta^2 / (2 m h^2)`` with ``M = 1 + delta^2/12`` (Numerov) or 1 (three points).
Both are functions of the second difference, whose eigenstates between hard walls are sine waves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from qsim.tridiag.kernels.plane.records import Filter

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Axis", "PlaneLattice", "RadialAxis", "share_inside", "vortices"]

# weight of a point in the image beyond a wall, below which nothing is left of it
LEAST_WEIGHT = 1e-18
# of the points of a radius from multiples of their spacing: a zero of the Bernoulli polynomial B_2
OFFSET = (3.0 + math.sqrt(3.0)) / 6.0
# of the largest density, and of the grid to either side, where a vortex counts
DENSE, NEAR = 1e-2, 0.02
# points up to which kinetic energies are taken by the matrix
FEW = 64


@dataclass(frozen=True)
class Axis:
    """Points of one coordinate between hard walls, and the kinetic energy along it.

    Attributes
    ----------
    low, spacing : float
        Left wall and distance of the points, bohr.
    points : int
        Between the walls.
    mass : float
        In electron masses.
    stencil : {"numerov", "three_point"}
    """

    low: float
    spacing: float
    points: int
    mass: float = 1.0
    stencil: Literal["numerov", "three_point"] = "numerov"

    @property
    def x(self) -> NDArray[np.float64]:
        """Points (points,), bohr."""
        return np.asarray(self.low + self.spacing * np.arange(1, self.points + 1), dtype=float)

    @property
    def high(self) -> float:
        """Right wall, bohr."""
        return self.low + self.spacing * (self.points + 1)

    @property
    def outer(self) -> float:
        """Left end of the strip of an absorber beside the left wall, bohr."""
        return self.low

    @property
    def measure(self) -> NDArray[np.float64]:
        """Squares of the points of the lattice over those of the wave function (points,)."""
        return np.ones(self.points)

    @cached_property
    def energies(self) -> NDArray[np.float64]:
        """Kinetic energies of the sine waves ``k = 1 .. points``, hartree."""
        c = 1.0 - np.cos(np.pi * np.arange(1, self.points + 1) / (self.points + 1))
        mass = 1.0 - c / 6.0 if self.stencil == "numerov" else 1.0
        return np.asarray(c / (self.mass * self.spacing**2) / mass)

    def kinetic(self) -> NDArray[np.float64]:
        """Return the kinetic energy as a matrix (points, points), hartree."""
        k = np.arange(1, self.points + 1)
        waves = np.sqrt(2.0 / (self.points + 1)) * np.sin(np.outer(k, k) * np.pi / (self.points + 1))
        return np.asarray((waves * self.energies) @ waves)

    def mean_kinetic(self, psi: NDArray[np.complex128], along: int) -> float:
        """Return ``sum psi* T psi`` of a state (n1, n2) for this axis as its first or second one, hartree.

        The matrix of T between points at a distance d is ``beta turn^(d - 1)``, from which images beyond both walls are taken.
        """
        from scipy.signal import lfilter

        f = np.moveaxis(psi, along, 0)
        # images of images count between a few points
        if self.points <= FEW:
            return float(np.vdot(f, self.kinetic() @ f).real)
        scale = 1.0 / (self.mass * self.spacing**2)
        own, beta, turn = scale, -0.5 * scale, 0.0
        if self.stencil == "numerov":
            turn = 2.0 * np.sqrt(6.0) - 5.0
            weight = -2.0 * turn / (1.0 - turn**2)
            own, beta = 6.0 * scale * (6.0 * weight - 1.0), 36.0 * scale * weight * turn
        chain = lfilter([1.0], [1.0, -turn], f, axis=0)
        pairs = float(np.vdot(f[1:], chain[:-1]).real)
        ends = np.abs(chain[-1]) ** 2 + np.abs(turn ** np.arange(self.points) @ f) ** 2
        return float(own * np.vdot(f, f).real + 2.0 * beta * pairs - beta * turn * ends.sum())

    def step(self, dt: float) -> Filter:
        """Return the Cayley step ``(1 - i dt T/2)/(1 + i dt T/2)`` of some duration, a.u., which may be negative."""
        if self.stencil == "numerov":
            # (M + q) w = -q psi, psi' = c (w + psi) - psi
            kappa = 3.0 * dt / (self.mass * self.spacing**2)
            z = 1.0 - 1j * kappa
            q, c = 1j * kappa / z, 2.0 / z
            turn = _inner(-12.0 * (10.0 / 12.0 + q))
            beta = -12.0 * c * q / (turn - 1.0 / turn)
            alpha = c - 1.0 - beta
        else:
            sigma = dt / (4.0 * self.mass * self.spacing**2)
            turn = _inner(2.0 - 1j / sigma)
            beta = 2.0 / (1j * sigma * (1.0 / turn - turn))
            alpha = -1.0 - beta
        return Filter(np.array([[turn, turn, alpha, beta]]).view(float), self._head(turn))

    def three_points(self) -> Any:
        """Return the kinetic energy of three points as a sparse matrix (points, points), hartree."""
        from scipy.sparse import diags

        shape = (self.points, self.points)
        return diags([-0.5, 1.0, -0.5], [-1, 0, 1], shape=shape) / (self.mass * self.spacing**2)

    def current(self, psi: NDArray[np.complex128]) -> NDArray[np.float64]:
        """Return the current density ``Im(psi* d psi)/m`` along the first coordinate of a state.

        Beyond the walls psi continues with the other sign.
        """
        wide = np.concatenate([-psi[:1], np.zeros_like(psi[:1]), psi, np.zeros_like(psi[:1]), -psi[-1:]])
        n = psi.shape[0]
        near, far = wide[3 : n + 3] - wide[1 : n + 1], wide[4 : n + 4] - wide[:n]
        slope = (8.0 * near - far) / 12.0 if self.stencil == "numerov" else 0.5 * near
        return np.asarray((psi.conj() * slope).imag / (self.spacing * self.mass))

    def _head(self, turn: complex) -> NDArray[np.float64]:
        """Return the weights ``w_j`` of ``l_0 = sum_j w_j psi_j``, with the images of both walls, as far as they count."""
        n = self.points
        j = np.arange(n)
        weights = (turn**j - turn ** (2 * n - j)) / (1.0 - turn ** (2 * n + 2))
        count = int(np.count_nonzero(np.abs(weights) > LEAST_WEIGHT))
        return np.ascontiguousarray(np.column_stack([weights.real, weights.imag])[:count])

    def with_points(self, points: int) -> Axis:
        """Return the axis between the same walls with another number of points."""
        return Axis(self.low, (self.high - self.low) / (points + 1), points, self.mass, self.stencil)


@dataclass(frozen=True)
class RadialAxis(Axis):
    r"""Distance rho from an axis of states without angular momentum, ``u = sqrt(2 pi rho) psi`` at ``rho_j = (j - 1 + s) h``.

    ``L = d^2/d rho^2 + (1/rho) d/d rho`` becomes the difference D of weights ``rho_j`` between the links
    ``k_(j+1/2) = rho_(j+1/2) - h^2/(12 rho_(j+1/2))``.  With ``s = (3 + sqrt 3)/6`` it is ``(1 + h^2 D/12) L`` on 1, rho^2 and
    rho^4, in the first row, too, so that ``T = -M^-1 D / 2 m`` with ``M = 1 + h^2 D/12`` is Hermitian and of fourth order.
    """

    @property
    def x(self) -> NDArray[np.float64]:
        """Points (points,), bohr."""
        return np.asarray(self.spacing * (np.arange(self.points) + OFFSET), dtype=float)

    @property
    def high(self) -> float:
        """Wall, bohr."""
        return self.spacing * (self.points + OFFSET)

    @property
    def outer(self) -> float:
        """The other end of a line through the axis, bohr: there is no strip of an absorber at the axis itself."""
        return -self.high

    @property
    def measure(self) -> NDArray[np.float64]:
        """``2 pi rho`` (points,), bohr."""
        return 2.0 * np.pi * self.x

    @cached_property
    def bands(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Diagonal (points,) and off-diagonal (points - 1,) of D between states u, 1/bohr^2."""
        rho, h = self.x, self.spacing
        half = rho + 0.5 * h
        links = half - h**2 / (12.0 * half)
        diagonal = -(links + np.concatenate([[0.0], links[:-1]])) / (rho * h**2)
        return diagonal, links[:-1] / (np.sqrt(rho[:-1] * rho[1:]) * h**2)

    @cached_property
    def modes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Kinetic energies, hartree, ascending, and their states in the columns (points, points)."""
        from scipy.linalg import eigh_tridiagonal

        values, states = eigh_tridiagonal(*self.bands)
        mass = 1.0 + self.spacing**2 / 12.0 * values if self.stencil == "numerov" else 1.0
        return (-0.5 / self.mass * values / mass)[::-1], states[:, ::-1]

    @property
    def energies(self) -> NDArray[np.float64]:
        """Kinetic energies, hartree."""
        return self.modes[0]

    def kinetic(self) -> NDArray[np.float64]:
        """Return the kinetic energy as a matrix (points, points), hartree."""
        energies, states = self.modes
        return np.asarray((states * energies) @ states.T)

    def mean_kinetic(self, psi: NDArray[np.complex128], along: int) -> float:
        """Return ``sum u* T u`` of a state (n1, n2) for this axis as its first or second one, hartree."""
        energies, states = self.modes
        waves = states.T @ np.moveaxis(psi, along, 0)
        return float(energies @ (np.abs(waves) ** 2).sum(axis=1))

    def step(self, dt: float) -> Filter:
        """Return the Cayley step ``(1 - i dt T/2)/(1 + i dt T/2)`` of some duration, a.u., which may be negative.

        It is ``a + b A^-1`` with a tridiagonal A, whose pivots P from the axis and Q from the wall give the constants:
        ``(A^-1 u)_j = (r_j + l_j - u_j) / (P_j + Q_j - A_jj)``, r and l the recurrences of both eliminations.
        """
        diagonal, links = self.bands
        if self.stencil == "numerov":
            kappa = 3.0 * dt / (self.mass * self.spacing**2)
            z = 1.0 - 1j * kappa
            q, c = 1j * kappa / z, 2.0 / z
            shift, scale, a, b = 1.0 + q, self.spacing**2 / 12.0 + 0j, c - 1.0, -c * q
        else:
            shift, scale, a, b = 1.0 + 0j, -0.25j * dt / self.mass, -1.0 + 0j, 2.0 + 0j
        own, off = shift + scale * diagonal, scale * links
        n = self.points
        up, down = own.copy(), own.copy()
        for j in range(1, n):
            up[j] -= off[j - 1] ** 2 / up[j - 1]
            down[n - 1 - j] -= off[n - 1 - j] ** 2 / down[n - j]
        rows = np.zeros((n, 4), complex)
        rows[1:, 0] = -off / up[:-1]
        rows[:-1, 1] = -off / down[1:]
        rows[:, 3] = b / (up + down - own)
        rows[:, 2] = a - rows[:, 3]
        # a head of one point tells that there is a step
        return Filter(rows.view(float), np.zeros((1, 2)))

    def three_points(self) -> Any:
        """Return ``-D / 2 m`` as a sparse matrix (points, points), hartree."""
        from scipy.sparse import diags

        diagonal, links = self.bands
        return diags([links, diagonal, links], [-1, 0, 1]) * (-0.5 / self.mass)

    def current(self, psi: NDArray[np.complex128]) -> NDArray[np.float64]:
        """Return ``Im(u* sqrt(rho) d(u / sqrt rho))/m`` along the first coordinate of a state, by differences of second order."""
        root = np.sqrt(self.x)[:, None]
        slope = np.gradient(psi / root, self.spacing, axis=0)
        return np.asarray((psi.conj() * root * slope).imag / self.mass)

    @classmethod
    def up_to(
        cls, high: float, points: int, mass: float, stencil: Literal["numerov", "three_point"]
    ) -> RadialAxis:
        """Return the axis up to a wall, with a number of points before it."""
        return cls(0.0, high / (points + OFFSET), points, mass, stencil)

    def with_points(self, points: int) -> RadialAxis:
        """Return the axis up to the same wall with another number of points."""
        return self.up_to(self.high, points, self.mass, self.stencil)


def _inner(total: complex) -> complex:
    """Return the root of ``x + 1/x = total`` inside the unit circle."""
    root = complex(np.sqrt(0.25 * total * total - 1.0))
    # of the two the one without cancellation is the larger
    large = max(0.5 * total + root, 0.5 * total - root, key=abs)
    return 1.0 / large


@dataclass(frozen=True)
class PlaneLattice:
    """A rectangular lattice with a potential.

    The potential is ``first(x) + second(y) + between(x - y)``, or ``first(x) + second(y) + table(x, y)``.

    Attributes
    ----------
    axes : (Axis, Axis)
    first, second : (n,) float64
        Potentials of one coordinate, hartree.
    between : (n1 + n2 - 1,) float64 or None
        Potential of the difference at ``(i - j) h``, i - j from ``1 - n2`` on, hartree; both axes then have one spacing.
    table : (n1, n2) float64 or None
        Potential of both, hartree.
    absorber : pair of (n,) float64
        Gamma of ``-i Gamma``, hartree.
    exchange : int
        1: even, -1: odd, 0: no symmetry.
    nonlinear : float
        Factor g of ``|psi|^2`` in the potential, hartree bohr^2.
    gauge : (float, float)
        a and b of the kinetic energies ``(p_x + a y)^2 / 2 m_x`` and ``(p_y - b x)^2 / 2 m_y``.
    """

    axes: tuple[Axis, Axis]
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    between: NDArray[np.float64] | None
    table: NDArray[np.float64] | None
    absorber: tuple[NDArray[np.float64], NDArray[np.float64]]
    exchange: int = 0
    nonlinear: float = 0.0
    gauge: tuple[float, float] = (0.0, 0.0)

    @property
    def turns(self) -> bool:
        """Whether the kinetic energies are those of a magnetic field or of a frame that rotates."""
        return self.gauge != (0.0, 0.0)

    def phases(self, first: float, second: float = 0.0) -> NDArray[np.complex128]:
        """Return ``exp(i (first + second) x y)`` (n1, n2)."""
        x, y = self.axes[0].x[:, None], self.axes[1].x
        return np.asarray(np.exp(1j * (first + second) * x * y))

    def diamagnetic(self, part: tuple[slice, slice]) -> NDArray[np.float64] | float:
        """Return ``a^2 y^2 / 2 m_x + b^2 x^2 / 2 m_y`` at the points of a part of the lattice, hartree."""
        if not self.turns:
            return 0.0
        (a, b), (one, other) = self.gauge, self.axes
        x, y = one.x[part[0], None], other.x[part[1]]
        return np.asarray(0.5 * (a * y) ** 2 / one.mass + 0.5 * (b * x) ** 2 / other.mass)

    def along(self, psi: NDArray[np.complex128], number: int) -> NDArray[np.complex128]:
        """Return ``exp(i a x y) psi`` or ``exp(-i b x y) psi`` of a state (n1, n2): its momentum is p alone there."""
        one = self.gauge[number] * (-1.0 if number else 1.0)
        return psi * self.phases(one) if one else psi

    @property
    def shape(self) -> tuple[int, int]:
        """Points along both axes."""
        return self.axes[0].points, self.axes[1].points

    @property
    def cell(self) -> float:
        """Area of a cell, bohr^2."""
        return self.axes[0].spacing * self.axes[1].spacing

    @property
    def measure(self) -> NDArray[np.float64]:
        """Squares of the points of the lattice over those of the wave function, (n1, 1)."""
        return self.axes[0].measure[:, None]

    @property
    def radial(self) -> bool:
        """Whether the first coordinate is a distance from an axis."""
        return isinstance(self.axes[0], RadialAxis)

    @property
    def absorbs(self) -> bool:
        """Whether anything is absorbed."""
        return bool(self.absorber[0].any() or self.absorber[1].any())

    def potential(self, rows: slice = slice(None), columns: slice = slice(None)) -> NDArray[np.float64]:
        """Return V at the points of a part of the lattice, (rows, columns), hartree."""
        v = self.first[rows, None] + self.second[columns]
        if self.between is not None:
            i, j = np.arange(self.shape[0])[rows, None], np.arange(self.shape[1])[columns]
            v = v + self.between[i - j + self.shape[1] - 1]
        if self.table is not None:
            v = v + self.table[rows, columns]
        return np.asarray(v)

    @property
    def top(self) -> float:
        """Largest energy, hartree."""
        kinetic = sum(float(one.energies[-1]) for one in self.axes)
        return kinetic + float(np.abs(self.potential()).max())

    def energy(self, psi: NDArray[np.complex128]) -> float:
        """Return ``<psi|H|psi>`` of a state (n1, n2), hartree, not divided by the norm."""
        kinetic = sum(
            axis.mean_kinetic(self.along(psi, number), number) for number, axis in enumerate(self.axes)
        )
        density = np.abs(psi) ** 2
        return (
            float(kinetic + (density * (self.potential() + 0.5 * self.nonlinear * density)).sum()) * self.cell
        )

    def chemical_potential(self, psi: NDArray[np.complex128]) -> float:
        """Return the energy that one particle more would take, hartree: ``<H>`` with the whole ``g |psi|^2``."""
        return self.energy(psi) + 0.5 * self.nonlinear * float((np.abs(psi) ** 4).sum()) * self.cell

    def velocities(self, psi: NDArray[np.complex128]) -> NDArray[np.float64]:
        """Return mean velocities along both coordinates, (2,), by central differences of the order of the stencil."""
        return np.array([current.sum() for current in self.currents(psi)]) * self.cell

    def currents(self, psi: NDArray[np.complex128]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the current density ``Im(psi* d psi)/m`` along both coordinates, (n1, n2) each, by the same differences.

        In a magnetic field, or a frame that rotates, d is the derivative that goes with the velocity.
        """
        first, second = (
            np.moveaxis(axis.current(np.moveaxis(self.along(psi, number), number, 0)), 0, number)
            for number, axis in enumerate(self.axes)
        )
        return first, second

    def angular_momentum(self, psi: NDArray[np.complex128]) -> float:
        """Return ``<x p_y - y p_x>``, not divided by the norm."""
        (a, b), (one, other) = self.gauge, self.axes
        along, across = self.currents(psi)
        x, y, density = one.x[:, None], other.x, np.abs(psi) ** 2
        mean = x * (other.mass * across + b * x * density) - y * (one.mass * along - a * y * density)
        return float(mean.sum()) * self.cell


def share_inside(axis: Axis, low: float, high: float) -> NDArray[np.float64]:
    """Return the share of the cell of each point that lies in ``low < x < high``, (points,)."""
    x, h = axis.x, axis.spacing
    return np.clip((np.minimum(x + 0.5 * h, high) - np.maximum(x - 0.5 * h, low)) / h, 0.0, 1.0)


def vortices(psi: NDArray[np.complex128]) -> int:
    """Return the number of points of a state (n1, n2) about which its phase turns, where there is some density.

    A cell of the lattice counts if its phase turns by 2 pi along its edges, and the density in its neighbourhood, a `NEAR` of the
    grid to either side, exceeds `DENSE` of the largest.
    """
    from scipy.ndimage import maximum_filter

    wide = np.angle(psi)
    # steps of the phase to the next point, the shorter way
    along, across = (np.angle(np.exp(1j * np.diff(wide, axis=k))) for k in (0, 1))
    turns = np.rint((along[:, :-1] + across[1:] - along[:, 1:] - across[:-1]) / (2.0 * np.pi))
    density = np.abs(psi) ** 2
    around = maximum_filter(density, [2 * int(np.ceil(NEAR * n)) + 1 for n in psi.shape])[:-1, :-1]
    return int(np.abs(turns[around > DENSE * density.max()]).sum())
