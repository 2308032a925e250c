"""The Hamiltonian on the grid, and the tridiagonal systems of a Crank-Nicolson step.

Two stencils, both tridiagonal.  With ``D = delta^2 / dx^2`` (second difference) and ``M = 1 + delta^2 / 12``:

* ``three_point``: ``H = -D/2 + V``, order 2 in dx;
* ``numerov``: ``H = -M^-1 D/2 + V``, order 4.  A step solves ``M (1 + i tau H) psi' = M (1 - i tau H) psi``, which has the
  same cost (Muller's splitting; Numerov's method in space).

Length gauge adds ``x E(t)`` to V.  In velocity gauge p becomes p + A: the three-point stencil takes the central first
difference, ``H = p^2/2 + A p + A^2/2 + V``; the compact one multiplies the off-diagonals of D and M by ``exp(+-i A dx)``,
which is the exact image of the length-gauge lattice under ``exp(-i A x)`` and keeps order 4.  Equations are numbered as on the
theory page of the documentation: T6 and T7 are the stencils, T12 the gauge.

With a complex absorbing potential ``-i W``, V is ``V - i W`` on both sides of the equation: the right-hand side is ``2 M - T``,
not the adjoint of T, which would cancel the absorber (misprint 15 of the paper's Eqs. 2 and 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from qsim.core.device.device import namespace
from qsim.core.device.pool import each_part
from qsim.core.physics.functions import CACHED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Array

Stencil = Literal["three_point", "numerov"]
TABLE_COLUMNS = 6
# points up to which the state at the end is stored
PSI_LIMIT = 20_000_000
# sqrt(24) - 5: the inverse of M falls off by this factor per point
_MASS_ROOT = -0.1010205144336438
# points after which that is below rounding
IMAGES = 18


@dataclass(frozen=True)
class Lattice:
    """Equidistant points between two hard walls, with a potential; psi is zero at the walls, one spacing beyond either end.

    Attributes
    ----------
    xmin, dx : float
        First point, one spacing from the wall, and spacing, bohr.
    points : int
    stencil : {"three_point", "numerov"}
    potential : (points,) float64
        V, hartree.
    slope : (points,) float64 or None
        dV/dx, for the acceleration.
    cap : (points,) float64 or None
        W >= 0 of the absorber ``-i W``, hartree.
    mask : (points,) float64 or None
        Factor that psi is multiplied with after every step.
    """

    xmin: float
    dx: float
    points: int
    stencil: Stencil
    potential: NDArray[np.float64]
    slope: NDArray[np.float64] | None = None
    cap: NDArray[np.float64] | None = None
    mask: NDArray[np.float64] | None = None

    @cached_property
    def x(self) -> NDArray[np.float64]:
        """Grid points (points,), bohr."""
        return equidistant(self.xmin, self.dx, self.points)


def equidistant(first: float, spacing: float, points: int, threads: int = 1) -> NDArray[np.float64]:
    """Return ``first + k spacing`` (points,), bohr, made in chunks by some threads."""
    out = np.empty(points)

    def work(begin: int, end: int) -> None:
        # parts that stay in the caches, each with the same arithmetic: no bit depends on the number of threads
        for low in range(begin * CACHED, min(end * CACHED, points), CACHED):
            part = out[low : low + CACHED]
            np.add(first, np.multiply(spacing, np.arange(low, low + part.size), out=part), out=part)

    each_part(work, -(-points // CACHED), points, threads)
    return out


def step_table(
    lattice: Lattice,
    dt: float,
    electric: NDArray[np.float64] | None,
    vector_potential: NDArray[np.float64] | None,
    steps: int,
) -> NDArray[np.float64]:
    """Return the numbers of every step (Eqs. T8 and T9), (steps, 6) float64: what the kernels need besides V.

    Columns: E; ``kappa = -tau/sigma'``; ``1/dx^2 + A^2/2``; ``1/sigma'``; cos and sin of the phase that the upper off-diagonal
    carries.  A step solves ``S y = rhs`` with off-diagonals ``exp(+-i theta)`` and

    * three_point: ``S_jj = kappa (V + x E + column 2) + i (1 + tau W) / sigma'``, ``psi' = (2 i / sigma') y - psi``;
      ``sigma' = sigma sqrt(1 + (A dx)^2)``, ``theta = atan(A dx)``;
    * numerov: ``S_jj = 10 + 144 i sigma / u``, ``u = 1 + tau W + i tau (V + x E) - 12 i sigma``, right-hand side ``psi / u``,
      ``psi' = 2 (12 M) y - psi``; ``theta = A dx``.

    Here ``tau = dt/2`` and ``sigma = tau / (2 dx^2)``.
    """
    # rows are divided by the size of their off-diagonals, which leaves six numbers a step for all rows
    tau = 0.5 * dt
    sigma = tau / (2.0 * lattice.dx**2)
    # a field that is not given is zero: the static table of one row is repeated by the propagator
    field = np.zeros(steps) if electric is None else np.asarray(electric, float)
    a = np.zeros(steps) if vector_potential is None else np.asarray(vector_potential, float)
    table = np.empty((steps, TABLE_COLUMNS))
    if lattice.stencil == "three_point":
        # p A adds an imaginary part to the off-diagonals: size and phase of -i sigma (1 +- i A dx)
        scaled = sigma * np.sqrt(1.0 + (a * lattice.dx) ** 2)
        theta = np.arctan(a * lattice.dx)
    else:
        scaled = np.full(steps, sigma)
        # Numerov has the phases exp(+-i A dx) exactly (Peierls), and no A^2 / 2
        theta = a * lattice.dx
    table[:, 0] = field
    table[:, 1] = -tau / scaled
    table[:, 2] = 1.0 / lattice.dx**2 + 0.5 * a**2
    table[:, 3] = 1.0 / scaled
    table[:, 4] = np.cos(theta)
    table[:, 5] = np.sin(theta)
    return table


def bands(
    lattice: Lattice, dt: float, electric: float = 0.0, a: float = 0.0
) -> tuple[NDArray[np.complex128], NDArray[np.complex128], NDArray[np.complex128]]:
    """Return lower, main and upper diagonal (points,) of T as written in the module's text; the corners are zero."""
    tau, dx = 0.5 * dt, lattice.dx
    sigma = tau / (2.0 * dx**2)
    v = lattice.potential + lattice.x * electric - 1j * (0.0 if lattice.cap is None else lattice.cap)
    if lattice.stencil == "three_point":
        main = 1.0 + 1j * tau * (v + 1.0 / dx**2 + 0.5 * a * a)
        upper = np.full(lattice.points, -1j * sigma * (1.0 + 1j * a * dx))
        lower = np.full(lattice.points, -1j * sigma * (1.0 - 1j * a * dx))
    else:
        u = (1.0 + 1j * tau * v) / 12.0 - 1j * sigma
        phase = np.exp(1j * a * dx)
        main = 10.0 * u + 12j * sigma
        upper, lower = np.zeros_like(u), np.zeros_like(u)
        # M (1 + i tau V) puts the value of the neighbour beside the diagonal: the matrix is not symmetric where
        # V changes
        upper[:-1] = phase * u[1:]
        lower[1:] = np.conj(phase) * u[:-1]
    # psi is zero at the walls, one spacing beyond either end
    lower[0] = upper[-1] = 0.0
    return np.asarray(lower, complex), np.asarray(main, complex), np.asarray(upper, complex)


def mass(lattice: Lattice, psi: Array, a: float = 0.0) -> Array:
    """Return ``M psi`` (Eq. T7) with the phases of the velocity gauge (Eq. T12); psi itself for the three-point stencil."""
    if lattice.stencil == "three_point":
        return psi
    phase = complex(np.exp(1j * a * lattice.dx)) if a else 1.0
    # real numbers stay real without a field, which halves the work of eigenstates
    out = psi * (10.0 / 12.0 + 0j if a else 10.0 / 12.0)
    out[:-1] += psi[1:] * (phase / 12.0)
    out[1:] += psi[:-1] * (np.conj(phase) / 12.0)
    return out


def apply_h(lattice: Lattice, psi: Array, electric: float = 0.0, a: float = 0.0) -> Array:
    """Return ``H psi`` without the absorber (Eqs. T6, T7, T12).

    Parameters
    ----------
    psi : (points,) complex or float, NumPy or CuPy
    electric, a : float
        E(t) of the length gauge, A(t) of the velocity gauge; give one of them.
    """
    dx = lattice.dx
    psi = psi + 0j if a else psi
    out = _kinetic(lattice, psi, a)
    v = lattice.potential + (lattice.x * electric if electric else 0.0)
    out += namespace(psi).asarray(v) * psi
    # (p + A)^2 / 2 = p^2/2 + A p + A^2/2 with the central difference for p
    if lattice.stencil == "three_point" and a:
        out[:-1] += psi[1:] * (-0.5j * a / dx)
        out[1:] += psi[:-1] * (0.5j * a / dx)
        out += (0.5 * a * a) * psi
    return out


def _kinetic(lattice: Lattice, psi: Array, a: float) -> Array:
    """Return the kinetic part: -D/2 psi, or -M^-1 D/2 psi with the velocity-gauge phases."""
    compact = lattice.stencil == "numerov"
    phase = complex(np.exp(1j * a * lattice.dx)) if a and compact else 1.0
    # second difference over -2 dx^2
    half = 0.5 / lattice.dx**2
    out: Array = psi * (2.0 * half)
    out[:-1] -= psi[1:] * (half * phase)
    out[1:] -= psi[:-1] * (half * np.conj(phase))
    return _inverse_mass(out, phase) if compact else out


def _inverse_mass(f: Array, phase: complex | float) -> Array:
    """Return ``M^-1 f``: a banded solve on the host, a sum of images on the device (:func:`_images`)."""
    n, xp = f.shape[0], namespace(f)
    # too short for the images: a banded solve on the host
    if xp is not np and n < 2 * IMAGES:
        return xp.asarray(_inverse_mass(xp.asnumpy(f), phase))
    if xp is np:
        from scipy.linalg import solve_banded

        # bands of M with the gauge phases, (1, 10, 1) / 12, as scipy lays them out
        rows = np.full((3, n), 1.0 / 12.0, complex)
        rows[0] *= phase
        rows[1] = 10.0 / 12.0
        rows[2] *= np.conj(phase)
        return solve_banded((1, 1), rows, f + 0j)
    return _images(f, phase)


def _images(f: Array, phase: complex | float) -> Array:
    """Return ``M^-1 f`` for at least 2 IMAGES points: the inverse falls tenfold per point, walls reflect it with a sign."""
    root = _MASS_ROOT
    # diagonal of the inverse on the endless lattice
    first = 12.0 * root / (root * root - 1.0)
    out: Array = first * f
    # elements of the inverse of (1, 10, 1) / 12: powers of one root, which falls tenfold per point
    for k in range(1, IMAGES):
        out[:-k] += (first * (root * phase) ** k) * f[k:]
        out[k:] += (first * (root * np.conj(phase)) ** k) * f[:-k]
    near = np.arange(IMAGES)
    # images: a wall reflects with a sign, and only the points near it notice
    walls = -first * root ** (near[:, None] + near + 2.0)
    shift = complex(phase) ** (near - near[:, None])
    convert = namespace(f).asarray
    out[:IMAGES] += convert(walls * shift) @ f[:IMAGES]
    out[-IMAGES:] += convert((walls * np.conj(shift))[::-1, ::-1]) @ f[-IMAGES:]
    return out


def energy(lattice: Lattice, psi: Array, a: float = 0.0) -> float:
    """Return the field-free energy ``<(p + A)^2/2 + V>``, hartree, for sum |psi|^2 dx = 1 or less (not divided by the norm)."""
    return float((psi.conj() * apply_h(lattice, psi, 0.0, a)).real.sum()) * lattice.dx
