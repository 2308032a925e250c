"""Lattices, forces and initial states of the systems of two coordinates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from qsim.core.errors import FileError, InvalidInput
from qsim.core.physics.functions import formula
from qsim.core.physics.surfaces import sane
from qsim.core.results.arrays import require_finite
from qsim.core.results.hdf5 import open_datasets
from qsim.tridiag.deck.electron import SuperpositionInitial
from qsim.tridiag.deck.plane import PlaneFile, PlaneGaussian, PlaneLevel, PlaneProduct
from qsim.tridiag.plane.condensate import ground
from qsim.tridiag.plane.lattice import Axis, PlaneLattice, RadialAxis
from qsim.tridiag.plane.levels import lowest
from qsim.tridiag.tdse import absorbers, potentials

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.tridiag.deck.electron import Absorber, Grid
    from qsim.tridiag.deck.plane import PlaneInitial
    from qsim.tridiag.deck.planes import PlaneSystem
    from qsim.tridiag.deck.surfaces import SurfaceBlock
    from qsim.tridiag.plane.levels import Levels

__all__ = [
    "Pull",
    "absorption",
    "axes_of",
    "couplings",
    "found_levels",
    "initial_state",
    "ionisation_potential",
    "lattice_of",
    "levels_of",
    "pulls",
]

T = TypeVar("T")

# difference of W at x - y and y - x, relative to its size, from which a repulsion is none of two like electrons
LOPSIDED = 1e-10
# norm outside of the grid that a state from a file may have
LOST = 1e-6
# about the lowest potential, for the ground state of the ion
ION_POINTS = 800


def axes_of(system: PlaneSystem, grids: tuple[Grid, Grid]) -> tuple[Axis, Axis]:
    """Return the points of both coordinates."""
    first, second = (
        Axis(one.xmin, one.dx, one.inner, mass, one.stencil)
        for one, mass in zip(grids, system.weights, strict=True)
    )
    if system.radial:
        # of the points of the grid the last is the wall, and there is none on the axis
        one = grids[0]
        first = RadialAxis.up_to(one.xmax, one.points - 1, system.weights[0], one.stencil)
    return first, second


def couplings(system: PlaneSystem, angle: float) -> NDArray[np.float64]:
    """Return the factors of both coordinates in each component of the dipole, (1 or 2, 2).

    Of a particle in a plane the components are those along and across a direction at an angle with x.
    """
    first, second = system.couplings
    if not system.planar:
        return np.array([[first, second]])
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array([[first * cos, second * sin], [-first * sin, second * cos]])


def absorption(block: Absorber, axis: Axis, dt: float) -> NDArray[np.float64]:
    """Return Gamma of ``-i Gamma`` (n,), hartree; of a mask after every step dt, ``-ln(mask) / dt``."""
    cap, mask = absorbers.evaluate(block, axis.x, (axis.outer, axis.high, 0.0))
    if mask is not None:
        return np.asarray(-np.log(mask) / dt)
    return np.zeros(axis.points) if cap is None else cap


def lattice_of(system: PlaneSystem, axes: tuple[Axis, Axis], absorber: Absorber, dt: float) -> PlaneLattice:
    """Return the lattice of a system.

    Raises
    ------
    InvalidInput
        If a potential is not finite, or the repulsion of like electrons depends on which is which.
    FileError
        If a table cannot be read.
    """
    terms = system.terms
    keys = [f"system.{name}" for name in terms.keys]
    x, y = (one.x for one in axes)
    first, second = (
        np.zeros(at.size) if block is None else potentials.evaluate(block, at, key)
        for block, at, key in ((terms.first, x, keys[0]), (terms.second, y, keys[1]))
    )
    between, table = None, None
    if terms.between is not None:
        between = potentials.evaluate(terms.between, _apart(axes), keys[2])
        if system.symmetry and np.abs(between - between[::-1]).max() > LOPSIDED * np.abs(between).max():
            text = (
                "W(x - y) differs from W(y - x): like electrons need an even function; or set exchange: none"
            )
            raise InvalidInput(keys[2], text)
    if terms.surface is not None:
        table = _surface(lambda block: sane(block.V(x, y), ""), terms.surface, keys[3])
    first, second = (
        v - 0.5 * one * at**2 for v, one, at in zip((first, second), system.centrifugal, (x, y), strict=True)
    )
    gamma = tuple(absorption(absorber, one, dt) for one in axes)
    absorbed = (gamma[0], gamma[1])
    symmetry, g = system.symmetry, system.nonlinearity
    return PlaneLattice(axes, first, second, between, table, absorbed, symmetry, g, system.turning)


def found_levels(lattice: PlaneLattice, count: int) -> Levels:
    """Return the lowest levels, of a condensate its ground state; errors as of `lowest` and `ground`."""
    return ground(lattice) if lattice.nonlinear else lowest(lattice, count)


def _apart(axes: tuple[Axis, Axis]) -> NDArray[np.float64]:
    """Return the values of x - y on two axes of one spacing, ascending, (n1 + n2 - 1,)."""
    n, m = (one.points for one in axes)
    return np.asarray(axes[0].low - axes[1].low + axes[0].spacing * np.arange(1 - m, n), dtype=float)


def _surface(function: Callable[[SurfaceBlock], T], block: SurfaceBlock, key: str) -> T:
    """Return a function of a potential of both coordinates; what is wrong with it lies at `key`."""
    try:
        # overflow and division by zero are found in the values
        with np.errstate(all="ignore"):
            return function(block)
    except InvalidInput as error:
        place = ".".join(one for one in (key, error.key) if one)
        raise InvalidInput(place, str(error)) from error


class Pull(NamedTuple):
    """A function ``first(x) + second(y) + table(x, y)`` on a lattice; a table that is not there is None."""

    first: NDArray[np.float64]
    second: NDArray[np.float64]
    table: NDArray[np.float64] | None


def pulls(system: PlaneSystem, axes: tuple[Axis, Axis], factors: NDArray[np.float64]) -> list[Pull]:
    """Return ``sum_a factors_a dV/dx_a`` for each row of factors of both coordinates, hartree/bohr."""
    terms = system.terms
    keys = [f"system.{name}" for name in terms.keys]
    x, y = (one.x for one in axes)
    first, second = (
        np.zeros(at.size) if block is None else potentials.slope(block, at, key)
        for block, at, key in ((terms.first, x, keys[0]), (terms.second, y, keys[1]))
    )
    surface = None
    if terms.surface is not None:
        surface = _surface(lambda block: block.dV(x, y), terms.surface, keys[3])
    out = []
    for one, other in factors:
        table = None if surface is None else one * surface[0] + other * surface[1]
        if terms.between is not None and one != other:
            slope = potentials.slope(terms.between, _apart(axes), keys[2])
            index = np.arange(x.size)[:, None] - np.arange(y.size) + y.size - 1
            table = (0.0 if table is None else table) + (one - other) * slope[index]
        out.append(
            Pull(
                one * (first - system.centrifugal[0] * x), other * (second - system.centrifugal[1] * y), table
            )
        )
    return out


def levels_of(initial: PlaneInitial) -> tuple[int, ...]:
    """Return the levels of the system that an initial state is made of; none for a packet or formula."""
    if isinstance(initial, PlaneLevel):
        return (initial.level,) if initial.potential is None else ()
    return tuple(initial.weights()) if isinstance(initial, SuperpositionInitial) else ()


def initial_state(
    initial: PlaneInitial, system: PlaneSystem, lattice: PlaneLattice, levels: Levels | None
) -> NDArray[np.complex128]:
    """Return the normalised state at t = 0, (n1, n2), of the symmetry of the lattice.

    Raises
    ------
    InvalidInput
        If it vanishes on the grid, or has nothing of that symmetry.
    FileError
        If a file cannot be used.
    """
    x, y = lattice.axes[0].x[:, None], lattice.axes[1].x
    if isinstance(initial, PlaneLevel) and initial.potential is not None:
        v = _surface(lambda block: sane(block.V(x[:, 0], y), ""), initial.potential, "initial.potential")
        levels = found_levels(replace(lattice, table=v), initial.level + 1)
    if isinstance(initial, PlaneLevel | SuperpositionInitial):
        assert levels is not None
        weights = {initial.level: 1.0} if isinstance(initial, PlaneLevel) else initial.weights()
        psi = sum(
            (weight * levels.whole(level, lattice.shape) for level, weight in weights.items()),
            start=np.zeros(lattice.shape, complex),
        )
    elif isinstance(initial, PlaneProduct):
        psi = _products(initial, system, lattice)
    elif isinstance(initial, PlaneFile):
        psi = _stored(initial, lattice)
    elif isinstance(initial, PlaneGaussian):
        psi = _packet(x, initial.x0, initial.kx, initial.wx) * _packet(y, initial.y0, initial.ky, initial.wy)
    else:
        grid = np.broadcast_arrays(x, y)
        parts = [
            formula(
                getattr(initial, name), f"initial.{name}", **dict(zip(system.coordinates, grid, strict=True))
            )
            for name in ("real", "imag")
        ]
        psi = (parts[0] + 1j * parts[1]) * np.sqrt(lattice.axes[0].measure)[:, None]
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


def _products(initial: PlaneProduct, system: PlaneSystem, lattice: PlaneLattice) -> NDArray[np.complex128]:
    """Return the sum of the products of a block, (n1, n2), not normalised."""
    psi = np.zeros(lattice.shape, complex)
    # of other systems than pairs: the potential that either coordinate feels while the other one is at rest
    v = lattice.potential()
    i, j = np.unravel_index(int(np.argmin(v)), v.shape)
    felt = [lattice.first, lattice.second] if system.pair else [v[:, j], v[i]]
    for index, term in enumerate(initial.terms):
        factors = []
        for axis, name, own in zip(lattice.axes, system.coordinates, felt, strict=True):
            wanted, key = getattr(term, name), f"initial.terms.{index}.{name}"
            if isinstance(wanted, str):
                found = formula(wanted, key, **{name: axis.x}) * np.sqrt(axis.measure)
            elif wanted >= axis.points:
                raise InvalidInput(key, f"{name} has {axis.points} points, and no level {wanted}")
            else:
                found = _level(axis, own, wanted)[1]
            # of the norm 1, so that weights tell how much there is of each
            factors.append(found / math.sqrt(float((found**2).sum()) * axis.spacing or 1.0))
        psi += term.weight * np.multiply.outer(*factors)
    return psi


def _stored(initial: PlaneFile, lattice: PlaneLattice) -> NDArray[np.complex128]:
    """Return the wave function of a results file on the lattice, by splines, and zero beyond its points; not normalised.

    Raises
    ------
    FileError
        If the file has no such arrays.
    InvalidInput
        If the grid leaves out more than `LOST` of its norm.
    """
    from scipy.interpolate import RectBivariateSpline

    path = initial.file
    file, datasets = open_datasets(path)
    arrays = []
    with file:
        for name in ("x", "y", "psi_xy_final"):
            item = datasets.get(f"results/{name}", datasets.get(name))
            if item is None:
                text = (
                    f"{path}: no array {name!r}; expected x, y and psi_xy_final, as task: plane writes them"
                )
                raise FileError(text)
            arrays.append(np.asarray(item[()]))
            require_finite(path, name, arrays[-1])
    x, y, psi = arrays
    rising = all(one.ndim == 1 and one.size >= 4 and np.all(np.diff(one) > 0.0) for one in (x, y))
    if not rising or psi.shape != (x.size, y.size):
        text = f"psi_xy_final has shape {psi.shape}, x and y {x.shape} and {y.shape}, which must rise; four points each at least"
        raise FileError(f"{path}: {text}")
    places = [one.x for one in lattice.axes]
    within = [(own > axis.low) & (own < axis.high) for own, axis in zip((x, y), lattice.axes, strict=True)]
    weight = np.abs(psi) ** 2 * (x[:, None] if lattice.radial else 1.0)
    lost = 1.0 - float(weight[np.ix_(*within)].sum() / weight.sum())
    if lost > LOST:
        raise InvalidInput(
            "initial.file", f"the grid leaves out {lost:.2g} of the norm of the state in the file"
        )
    # the same points: the same bits
    if all(own.shape == at.shape and np.array_equal(own, at) for own, at in zip((x, y), places, strict=True)):
        found = psi.astype(complex)
    else:
        splines = [RectBivariateSpline(x, y, one)(*places) for one in (psi.real, psi.imag)]
        there = [(at >= own[0]) & (at <= own[-1]) for own, at in zip((x, y), places, strict=True)]
        if lattice.radial:
            there[0] = places[0] <= x[-1]
        found = (splines[0] + 1j * splines[1]) * np.multiply.outer(*there)
    return np.asarray(found * np.sqrt(lattice.measure))


def _level(axis: Axis, v: NDArray[np.float64], level: int) -> tuple[float, NDArray[np.float64]]:
    """Return energy and state of a level of one coordinate alone, hartree and (n,), of the sum of squares 1."""
    from scipy.linalg import eigh

    values, states = eigh(axis.kinetic() + np.diag(v), subset_by_index=[level, level])
    return float(values[0]), states[:, 0]


def _packet(x: NDArray[np.float64], x0: float, k: float, width: float) -> NDArray[np.complex128]:
    """Return a packet of one coordinate, not normalised."""
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(-(((x - x0) / (2.0 * width)) ** 2) + 1j * k * x))


def ionisation_potential(system: PlaneSystem, lattice: PlaneLattice, levels: Levels | None) -> float | None:
    """Return the energy that frees one particle from the lowest level that is known, hartree; None if it is not bound.

    What is left of two electrons is the other one in its own ground state.
    """
    if levels is None or lattice.nonlinear:
        return None
    terms = system.terms
    if system.pair and terms.first is not None:
        free = potentials.threshold(terms.first, lattice.first[[0, -1]])
        rest = 0.0 if free is None else _ion(lattice)
    else:
        free, rest = None if terms.surface is None else terms.surface.limit, 0.0
        if free is None:
            v = lattice.potential()
            # nothing is known beyond the walls: the lowest way out counts
            free = float(min(v[[0, -1]].min(), v[:, [0, -1]].min()))
    if free is None or math.isinf(free):
        return None
    found = rest + free - float(levels.energies[0])
    return found if found > 0.0 else None


def _ion(lattice: PlaneLattice) -> float:
    """Return the lowest level of one electron alone, hartree."""
    axis = lattice.axes[0]
    low = int(np.argmin(lattice.first))
    half = min(ION_POINTS // 2, axis.points)
    part = slice(max(0, low - half), low + half)
    own = Axis(0.0, axis.spacing, lattice.first[part].size, axis.mass, axis.stencil)
    return _level(own, lattice.first[part], 0)[0]
