"""Lattices, forces and initial states of the systems of two coordinates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.core.physics.functions import formula
from qsim.tridiag.deck.electron import SuperpositionInitial
from qsim.tridiag.deck.plane import PlaneGaussian, PlaneLevel
from qsim.tridiag.plane.lattice import Axis, PlaneLattice
from qsim.tridiag.tdse import absorbers, potentials

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.deck.electron import Absorber
    from qsim.tridiag.deck.plane import Electrons, PlaneGrid, PlaneInitial
    from qsim.tridiag.plane.levels import Levels

__all__ = [
    "absorption",
    "axes_of",
    "forces",
    "initial_state",
    "ionisation_potential",
    "lattice_of",
    "levels_of",
]

# difference of W at x - y and y - x, relative to its size, from which a repulsion is none of two like electrons
LOPSIDED = 1e-10
# about the lowest potential, for the ground state of the ion
ION_POINTS = 800


def axes_of(grid: PlaneGrid) -> tuple[Axis, Axis]:
    """Return the points of both coordinates."""
    first, second = (Axis(one.xmin, one.dx, one.inner, 1.0, one.stencil) for one in grid.axes)
    return first, second


def absorption(block: Absorber, axis: Axis, dt: float) -> NDArray[np.float64]:
    """Return Gamma of ``-i Gamma`` (n,), hartree; of a mask after every step dt, ``-ln(mask) / dt``."""
    cap, mask = absorbers.evaluate(block, axis.x, (axis.low, axis.high, 0.0))
    if mask is not None:
        return np.asarray(-np.log(mask) / dt)
    return np.zeros(axis.points) if cap is None else cap


def lattice_of(
    system: Electrons, axes: tuple[Axis, Axis], absorber: Absorber, dt: float, key: str = "system"
) -> PlaneLattice:
    """Return the lattice of a system.

    Raises
    ------
    InvalidInput
        If a potential is not finite, or the repulsion of like electrons depends on which is which.
    FileError
        If a table cannot be read.
    """
    first, second = (potentials.evaluate(system.potential, one.x, f"{key}.potential") for one in axes)
    between = None
    if not isinstance(system.repulsion, str):
        n, m = axes[0].points, axes[1].points
        apart = axes[0].low - axes[1].low + axes[0].spacing * np.arange(1 - m, n)
        between = potentials.evaluate(system.repulsion, np.asarray(apart, dtype=float), f"{key}.repulsion")
        if system.symmetry and np.abs(between - between[::-1]).max() > LOPSIDED * np.abs(between).max():
            text = (
                "W(x - y) differs from W(y - x): like electrons need an even function; or set exchange: none"
            )
            raise InvalidInput(f"{key}.repulsion", text)
    gamma = tuple(absorption(absorber, one, dt) for one in axes)
    return PlaneLattice(axes, first, second, between, None, (gamma[0], gamma[1]), system.symmetry)


def forces(system: Electrons, axes: tuple[Axis, Axis]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return dV/dx (n1,) and dV/dy (n2,), hartree/bohr: the repulsion drops out of their sum."""
    first, second = (potentials.slope(system.potential, one.x, "system.potential") for one in axes)
    return first, second


def levels_of(initial: PlaneInitial) -> tuple[int, ...]:
    """Return the levels that an initial state is made of; none for a packet or formula."""
    if isinstance(initial, PlaneLevel):
        return (initial.level,)
    return tuple(initial.weights()) if isinstance(initial, SuperpositionInitial) else ()


def initial_state(
    initial: PlaneInitial, lattice: PlaneLattice, levels: Levels | None
) -> NDArray[np.complex128]:
    """Return the normalised state at t = 0, (n1, n2), of the symmetry of the lattice.

    Raises
    ------
    InvalidInput
        If it vanishes on the grid, or has nothing of that symmetry.
    """
    x, y = lattice.axes[0].x[:, None], lattice.axes[1].x
    if isinstance(initial, PlaneLevel | SuperpositionInitial):
        assert levels is not None
        weights = {initial.level: 1.0} if isinstance(initial, PlaneLevel) else initial.weights()
        psi = sum(
            (weight * levels.whole(level, lattice.shape) for level, weight in weights.items()),
            start=np.zeros(lattice.shape, complex),
        )
    elif isinstance(initial, PlaneGaussian):
        psi = _packet(x, initial.x0, initial.kx, initial.wx) * _packet(y, initial.y0, initial.ky, initial.wy)
    else:
        grid = np.broadcast_arrays(x, y)
        parts = [
            formula(getattr(initial, name), f"initial.{name}", x=grid[0], y=grid[1])
            for name in ("real", "imag")
        ]
        psi = parts[0] + 1j * parts[1]
    if lattice.exchange:
        psi = 0.5 * (psi + lattice.exchange * psi.T)
    largest = float(np.abs(psi).max())
    if not math.isfinite(largest):
        raise InvalidInput("initial", "the wave function is not finite on the grid")
    if largest < 1e-150:
        kind = {0: "", 1: " or is odd under exchange", -1: " or is even under exchange"}[lattice.exchange]
        raise InvalidInput("initial", f"the wave function vanishes on the grid: it lies outside of it{kind}")
    psi = psi / largest
    return np.asarray(psi / math.sqrt(float(np.vdot(psi, psi).real) * lattice.cell))


def _packet(x: NDArray[np.float64], x0: float, k: float, width: float) -> NDArray[np.complex128]:
    """Return a packet of one coordinate, not normalised."""
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(-(((x - x0) / (2.0 * width)) ** 2) + 1j * k * x))


def ionisation_potential(system: Electrons, lattice: PlaneLattice, levels: Levels | None) -> float | None:
    """Return the energy that takes one electron from the lowest level that is known, hartree; None if it is not bound.

    What is left is the other electron in its own ground state.
    """
    axis = lattice.axes[0]
    free = potentials.threshold(system.potential, lattice.first[[0, -1]])
    if levels is None or free is None:
        return None
    from scipy.linalg import eigh

    low = int(np.argmin(lattice.first))
    half = min(ION_POINTS // 2, axis.points)
    part = slice(max(0, low - half), low + half)
    own = Axis(0.0, axis.spacing, lattice.first[part].size, axis.mass, axis.stencil)
    ion = float(
        eigh(own.kinetic() + np.diag(lattice.first[part]), eigvals_only=True, subset_by_index=[0, 0])[0]
    )
    found = ion + free - float(levels.energies[0])
    return found if found > 0.0 else None
