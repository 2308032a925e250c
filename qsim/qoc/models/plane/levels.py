"""Levels of two coordinates on a grid, ``H0 = p1^2/2m1 + p2^2/2m2 + g p1 p2 + V(x, y)``.

Each coordinate has a sine basis between its walls (Colbert and Miller, J. Chem. Phys. 96, 1982 (1992)): kinetic energy and
momentum are exact there, functions of x are diagonal at the points. At every point of x the lowest eigenstates of y are kept
(Bacic and Light, Annu. Rev. Phys. Chem. 40, 469 (1989)), those of lowest energy of all points together; the levels of the matrix
of these states converge exponentially with their number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.table_units import TableOfXY
from qsim.core.errors import InvalidInput
from qsim.core.physics.functions import formula
from qsim.core.physics.surfaces import sane, surface_of, tabulated
from qsim.qoc.deck.systems.grid2d import FormulaOfXY, HenonHeiles

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray, IndexArray
    from qsim.qoc.deck.systems.grid2d import Component, Grid2dSystem, Interval, PotentialOfXY


def potential_at(block: PotentialOfXY, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return V (n1, n2) at the points x, y (n1, n2), hartree.

    Raises
    ------
    InvalidInput
        If it is not finite or too large somewhere, or a table does not cover the points.
    FileError
        If a table cannot be read.
    """
    key = "system.potential"
    if isinstance(block, FormulaOfXY):
        return sane(formula(block.value, f"{key}.value", x=x, y=y), f"{key}.value")
    if isinstance(block, TableOfXY):
        return sane(tabulated(block, x[:, 0], y[0], f"{key}.file"), f"{key}.file")
    if isinstance(block, HenonHeiles):
        return np.asarray(0.5 * (x * x + y * y) + block.strength * (x * x * y - y**3 / 3.0))
    with np.errstate(over="ignore"):
        wells = [(1.0 - np.exp(-block.beta * (q - block.r0))) ** 2 for q in (x, y)]
    return sane(np.asarray(block.D * (wells[0] + wells[1])), key)


def dipole_at(component: Component, x: FloatArray, y: FloatArray, key: str) -> FloatArray:
    """Return a component of the dipole (n1, n2) at the points x, y (n1, n2), a.u.

    Raises
    ------
    InvalidInput
        If it is not finite or too large somewhere, or a table does not cover the points.
    FileError
        If a table cannot be read.
    """
    if isinstance(component, str):
        return sane(formula(component, key, x=x, y=y), key)
    return sane(tabulated(component, x[:, 0], y[0], f"{key}.file"), f"{key}.file")


def remarks(system: Grid2dSystem) -> dict[str, str]:
    """Return what a user must know of the splines through the tables of a system, by their keys.

    Raises
    ------
    InvalidInput, FileError
        As :func:`potential_at` does.
    """
    blocks = {f"system.dipole.{name}": getattr(system.dipole, name) for name in "xy"}
    blocks["system.potential"] = system.potential
    tables = {f"{key}.file": block for key, block in blocks.items() if isinstance(block, TableOfXY)}
    found = {key: surface_of(block, key).remark() for key, block in tables.items()}
    return {key: text for key, text in found.items() if text}


# Largest contracted basis: a dense real matrix, two seconds.
CONTRACTED = 1200
# Least contracted states per level kept.
PER_LEVEL = 4
# Points and contracted states of the smaller basis that tells the error of the levels, relative to those of the levels.
SMALLER_GRID = 0.9
SMALLER_BASIS = 0.75
# Rounding of the dense eigenproblem, relative to the range of its spectrum.
ROUNDING = 1e-15


@dataclass(frozen=True)
class Axis:
    """One coordinate in its sine basis.

    Attributes
    ----------
    x : (n,) float64
        Points, bohr.
    kinetic : (n, n) float64
        ``p^2/2`` for mass 1, between amplitudes at the points.
    slope : (n, n) float64
        d/dx, antisymmetric; the momentum is -i times it.
    """

    x: FloatArray
    kinetic: FloatArray
    slope: FloatArray


def sine_axis(low: float, high: float, points: int) -> Axis:
    """Return points and matrices of the sine basis of a box.

    With ``phi_k = sqrt(2/L) sin(k pi (x - low)/L)``: ``<k|p^2/2|k> = (k pi/L)^2/2`` and
    ``<k|d/dx|l> = 4 k l/(L (k^2 - l^2))`` where k + l is odd.

    Parameters
    ----------
    low, high : float
        Walls, bohr.
    points : int
        Number n of points between them.
    """
    k = np.arange(1, points + 1)
    width = high - low
    transform = np.sqrt(2.0 / (points + 1)) * np.sin(np.outer(k, k) * np.pi / (points + 1))
    kinetic = (transform * (0.5 * (k * np.pi / width) ** 2)) @ transform
    squares = (k**2)[:, None] - k**2
    odd = (k[:, None] + k) % 2 == 1
    between = np.where(odd, 4.0 * np.outer(k, k) / (width * np.where(odd, squares, 1)), 0.0)
    return Axis(low + width * k / (points + 1), kinetic, transform @ between @ transform)


@dataclass(frozen=True)
class Plane:
    """Two coordinates on their grid, and the lowest levels.

    Attributes
    ----------
    axes : (Axis, Axis)
    mass : (float, float)
        Electron masses.
    coupling : float
        Factor g of p1 p2, 1/mass.
    potential : (n1, n2) float64
        Hartree.
    dipoles : dict of (n1, n2) float64
        Components by name, a.u.
    energies : (K,) float64
        Hartree, ascending.
    errors : (K,) float64
        Errors of the levels, hartree: their change on a smaller grid with a smaller basis, which is larger; zeros where levels
        were asked for beyond those of the deck.
    states : (K, n1, n2) float64
        Amplitudes at the points, of norm 1.
    """

    axes: tuple[Axis, Axis]
    mass: tuple[float, float]
    coupling: float
    potential: FloatArray
    dipoles: dict[str, FloatArray]
    energies: FloatArray
    errors: FloatArray
    states: FloatArray

    @property
    def x(self) -> FloatArray:
        """Points (n1,) of the first coordinate, bohr."""
        return self.axes[0].x

    def densities(self, levels: IndexArray) -> FloatArray:
        """Return |psi|^2 of some levels at the points, (levels, n1, n2), 1/bohr^2."""
        first, second = self.axes
        # States are normalised as vectors; the area of a cell makes a density.
        cell = float((first.x[1] - first.x[0]) * (second.x[1] - second.x[0]))
        return np.asarray(self.states[levels] ** 2 / cell)

    def hamiltonian(self, psi: FloatArray) -> FloatArray:
        """Return ``H0 psi`` of amplitudes (n1, n2) at the points."""
        first, second = self.axes
        kinetic = first.kinetic @ psi / self.mass[0] + psi @ second.kinetic.T / self.mass[1]
        # p1 p2 = -d1 d2
        mixed = -self.coupling * (first.slope @ psi @ second.slope.T)
        return np.asarray(kinetic + mixed + self.potential * psi)

    def matrix(self, values: FloatArray) -> FloatArray:
        """Return ``<k|f(x, y)|l>``, (K, K), of values (n1, n2) at the points."""
        count = self.energies.size
        flat = self.states.reshape(count, -1)
        matrix = (flat * values.ravel()) @ flat.T
        return np.asarray(0.5 * (matrix + matrix.T))

    def at_walls(self, level: int) -> float:
        """Return the probability of a level at the points next to the walls."""
        density = self.states[level] ** 2
        edges = density[[0, -1]].sum() + density[:, [0, -1]].sum()
        return float(edges)


def plane(system: Grid2dSystem, extra: int = 0) -> Plane:
    """Return the grid and the lowest levels of two coordinates.

    Parameters
    ----------
    system
        Block of the deck.
    extra : int
        Levels more; four times as many points more in each coordinate.

    Raises
    ------
    InvalidInput
        If walls are exchanged, functions are not finite, or the grid cannot hold the requested levels.
    """
    count = system.states + extra
    axes = (_axis(system.grid.x, "x", extra), _axis(system.grid.y, "y", extra))
    x, y = np.meshgrid(axes[0].x, axes[1].x, indexing="ij")
    bare = Plane(
        axes,
        (system.mass[0], system.mass[1]),
        system.kinetic_coupling,
        potential_at(system.potential, x, y),
        {
            name: dipole_at(component, x, y, f"system.dipole.{name}")
            for name, component in (("x", system.dipole.x), ("y", system.dipole.y))
            if component is not None
        },
        np.zeros(0),
        np.zeros(0),
        np.zeros((0, *x.shape)),
    )
    _require_positive_kinetic(bare)
    energies, states = _levels(bare, count, CONTRACTED + PER_LEVEL * extra)
    # A basis of more levels is the error of one of fewer, and needs none of its own.
    errors = _errors(system, bare, energies) if extra == 0 else np.zeros(count)
    return replace(bare, energies=energies, states=states, errors=errors)


def _require_positive_kinetic(bare: Plane) -> None:
    """Refuse a coupling that makes the kinetic energy negative.

    Raises
    ------
    InvalidInput
        With the largest size of the coupling.
    """
    first, second = bare.mass
    if bare.coupling**2 * first * second >= 1.0:
        limit = 1.0 / np.sqrt(first * second)
        text = f"kinetic_coupling = {bare.coupling:g} makes the kinetic energy negative; below {limit:.6g} in size"
        raise InvalidInput("system.kinetic_coupling", text)


def _errors(system: Grid2dSystem, bare: Plane, energies: FloatArray) -> FloatArray:
    """Return errors (K,) of the levels, hartree, by their change on a smaller grid."""
    axes = tuple(
        sine_axis(interval.min, interval.max, max(8, int(SMALLER_GRID * axis.x.size)))
        for interval, axis in zip((system.grid.x, system.grid.y), bare.axes, strict=True)
    )
    x, y = np.meshgrid(axes[0].x, axes[1].x, indexing="ij")
    smaller = replace(bare, axes=(axes[0], axes[1]), potential=potential_at(system.potential, x, y))
    most = max(int(SMALLER_BASIS * CONTRACTED), energies.size)
    found = _levels(smaller, energies.size, most, PER_LEVEL - 2)[0]
    return np.asarray(np.abs(found - energies) + ROUNDING * float(np.ptp(bare.potential)))


def _axis(interval: Interval, name: str, extra: int) -> Axis:
    """Return one coordinate.

    Raises
    ------
    InvalidInput
        If its walls are exchanged.
    """
    if interval.min >= interval.max:
        text = f"min = {interval.min:g} must lie below max = {interval.max:g} bohr"
        raise InvalidInput(f"system.grid.{name}.min", text)
    return sine_axis(interval.min, interval.max, interval.points + 4 * extra)


@dataclass(frozen=True)
class Slices:
    """Eigenstates of y at the points of x.

    Attributes
    ----------
    owner : (m,) int64
        Number of the point of x, ascending.
    energies : (m,) float64
        Eigenvalues of ``p2^2/2m2 + V(x_owner, y)``, hartree.
    states : (m, n2) float64
        Amplitudes at the points of y.
    """

    owner: IndexArray
    energies: FloatArray
    states: FloatArray


def _slices(axis: Axis, mass: float, potential: FloatArray, most: int) -> Slices:
    """Return the eigenstates of y at all points of x, at most `most`, those of lowest energy."""
    energies, vectors = np.linalg.eigh(axis.kinetic / mass + potential[:, None, :] * np.eye(axis.x.size))
    highest = np.sort(energies.ravel())[min(most, energies.size) - 1]
    owner, number = np.nonzero(energies <= highest)
    return Slices(owner, energies[owner, number], np.ascontiguousarray(vectors[owner, :, number]))


def _levels(bare: Plane, count: int, most: int, least: int = PER_LEVEL) -> tuple[FloatArray, FloatArray]:
    """Return the lowest levels (K,), hartree, and their amplitudes (K, n1, n2) at the points.

    Parameters
    ----------
    bare
        Grid and functions.
    count : int
        Number K of levels.
    most : int
        Contracted states.
    least : int
        Contracted states per level that there must be.

    Raises
    ------
    InvalidInput
        If the grid has too few states for these levels.
    """
    first, second = bare.axes
    kept = _slices(second, bare.mass[1], bare.potential, most)
    if count * least > len(kept.energies):
        highest = len(kept.energies) // least
        text = f"{count} levels of {len(kept.energies)} contracted states; at most {highest} are accurate"
        raise InvalidInput("system.states", text)
    energies, vectors = _diagonalised(bare, kept, count)
    states = np.zeros((count, *bare.potential.shape))
    # Slice by slice: the states of one point of x are neighbours.
    for point in range(first.x.size):
        inside = kept.owner == point
        states[:, point, :] = vectors[inside].T @ kept.states[inside]
    # The largest amplitude of each state is positive.
    flat = states.reshape(count, -1)
    largest = flat[np.arange(count), np.argmax(np.abs(flat), axis=1)]
    states *= np.sign(largest)[:, None, None]
    return energies, states


def _diagonalised(bare: Plane, kept: Slices, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the lowest eigenvalues (K,) of H0 and its eigenvectors (m, K) in the contracted states."""
    from scipy.linalg import eigh

    first, second = bare.axes
    between = np.ix_(kept.owner, kept.owner)
    matrix = first.kinetic[between] / bare.mass[0] * (kept.states @ kept.states.T)
    if bare.coupling:
        # p1 p2 = -d1 d2
        matrix -= bare.coupling * first.slope[between] * (kept.states @ second.slope @ kept.states.T)
    matrix[np.diag_indices(len(matrix))] += kept.energies
    energies, vectors = eigh(0.5 * (matrix + matrix.T), subset_by_index=(0, count - 1))
    return np.asarray(energies), np.asarray(vectors)
