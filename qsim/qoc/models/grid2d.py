"""``system: {type: grid2d}``: two coordinates by their levels, ``H0 = p1^2/2m1 + p2^2/2m2 + g p1 p2 + V(x, y)``.

Each coordinate has a sine basis between its walls (Colbert and Miller, J. Chem. Phys. 96, 1982 (1992)): kinetic energy and
momentum are exact there, functions of x are diagonal at the points. At every point of x the lowest eigenstates of y are kept
(Bacic and Light, Annu. Rev. Phys. Chem. 40, 469 (1989)), those of lowest energy of all points together; the levels of the matrix
of these states converge exponentially with their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from qsim.core.deck.columns import read_columns
from qsim.core.errors import InvalidInput
from qsim.core.physics.functions import LARGEST_VALUE, formula
from qsim.qoc.deck.systems.grid2d import FormulaOfXY, HenonHeiles, TableOfXY
from qsim.qoc.deck.systems.quantities import Units
from qsim.qoc.deck.systems.states import Density, Gate, StateFile
from qsim.qoc.models.basis import Basis
from qsim.qoc.models.faults import Faults
from qsim.qoc.models.goals import aim
from qsim.qoc.models.operators import evaluate, sparse_matrix
from qsim.qoc.models.quantum import ControlTerm, QuantumModel

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from qsim.core.device.arrays import ComplexArray, FloatArray, IndexArray
    from qsim.qoc.deck.systems.grid2d import Grid2dSystem, Interval

__all__ = ["Axis", "Plane", "grid2d_model", "plane", "sine_axis"]

# Largest contracted basis: a dense real matrix, two seconds.
CONTRACTED = 1200
# Least contracted states per level kept.
PER_LEVEL = 4
# Gap of levels, relative to the range of those kept, within which they are one group.
GROUP = 1e-8
# Largest probability at the points next to a wall in a level of the start or the goal.
WALL = 1e-8


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
    states : (K, n1, n2) float64
        Amplitudes at the points, of norm 1.
    """

    axes: tuple[Axis, Axis]
    mass: tuple[float, float]
    coupling: float
    potential: FloatArray
    dipoles: dict[str, FloatArray]
    energies: FloatArray
    states: FloatArray

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
        If walls are exchanged, functions are not finite, or more levels are asked for than the grid can hold.
    """
    axes = (_axis(system.grid.x, "x", extra), _axis(system.grid.y, "y", extra))
    first, second = axes
    x, y = np.meshgrid(first.x, second.x, indexing="ij")
    potential = _potential(system, x, y)
    dipoles = {
        name: _sane(formula(text, f"system.dipole.{name}", x=x, y=y), f"system.dipole.{name}")
        for name, text in (("x", system.dipole.x), ("y", system.dipole.y))
        if text is not None
    }
    mass = (system.mass[0], system.mass[1])
    if system.kinetic_coupling**2 * mass[0] * mass[1] >= 1.0:
        limit = 1.0 / np.sqrt(mass[0] * mass[1])
        text = f"kinetic_coupling = {system.kinetic_coupling:g} makes the kinetic energy negative; below {limit:.6g} in size"
        raise InvalidInput("system.kinetic_coupling", text)
    kept = _slices(axes[1], mass[1], potential, CONTRACTED + PER_LEVEL * extra)
    count = system.states + extra
    if count * PER_LEVEL > len(kept.energies):
        most = len(kept.energies) // PER_LEVEL
        text = f"{count} levels of {len(kept.energies)} contracted states; at most {most} are accurate"
        raise InvalidInput("system.states", text)
    energies, vectors = _levels(axes, mass, system.kinetic_coupling, kept, count)
    states = np.zeros((count, *potential.shape))
    # Slice by slice: the states of one point of x are neighbours.
    for point in range(first.x.size):
        inside = kept.owner == point
        states[:, point, :] = vectors[inside].T @ kept.states[inside]
    # The largest amplitude of each state is positive.
    flat = states.reshape(count, -1)
    largest = flat[np.arange(count), np.argmax(np.abs(flat), axis=1)]
    states *= np.sign(largest)[:, None, None]
    return Plane(axes, mass, system.kinetic_coupling, potential, dipoles, energies, states)


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


def _levels(
    axes: tuple[Axis, Axis], mass: tuple[float, float], coupling: float, kept: Slices, count: int
) -> tuple[FloatArray, FloatArray]:
    """Return the lowest eigenvalues (K,) of H0 and its eigenvectors (m, K) in the contracted states."""
    from scipy.linalg import eigh

    between = np.ix_(kept.owner, kept.owner)
    matrix = axes[0].kinetic[between] / mass[0] * (kept.states @ kept.states.T)
    if coupling:
        # p1 p2 = -d1 d2
        matrix -= coupling * axes[0].slope[between] * (kept.states @ axes[1].slope @ kept.states.T)
    matrix[np.diag_indices(len(matrix))] += kept.energies
    energies, vectors = eigh(0.5 * (matrix + matrix.T), subset_by_index=(0, count - 1))
    return np.asarray(energies), np.asarray(vectors)


def _potential(system: Grid2dSystem, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return V (n1, n2) at the points, hartree."""
    block, key = system.potential, "system.potential"
    if isinstance(block, FormulaOfXY):
        return _sane(formula(block.value, f"{key}.value", x=x, y=y), f"{key}.value")
    if isinstance(block, TableOfXY):
        return _sane(_table(block, x, y), f"{key}.file")
    if isinstance(block, HenonHeiles):
        return np.asarray(0.5 * (x * x + y * y) + block.strength * (x * x * y - y**3 / 3.0))
    with np.errstate(over="ignore"):
        wells = [(1.0 - np.exp(-block.beta * (q - block.r0))) ** 2 for q in (x, y)]
    return _sane(np.asarray(block.D * (wells[0] + wells[1])), key)


def _sane(values: FloatArray, key: str) -> FloatArray:
    """Return values that are finite and of a size that leaves something beside them.

    Raises
    ------
    InvalidInput
        Otherwise.
    """
    largest = float(np.abs(values).max())
    if not largest <= LARGEST_VALUE:
        text = f"{largest:.3g} a.u. on the grid is too large for double precision (at most {LARGEST_VALUE:g})"
        raise InvalidInput(key, f"{text}; change the function or system.grid")
    return values


def _table(block: TableOfXY, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return a table of x, y, V at the points of the grid.

    Raises
    ------
    InvalidInput
        If its rows fill no rectangular grid, or do not cover the points.
    FileError
        If the file cannot be read.
    """
    from scipy.interpolate import RectBivariateSpline

    key = "system.potential.file"
    rows = read_columns(block.file, 3, "x, y, V")
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    xs, ys = np.unique(rows[:, 0]), np.unique(rows[:, 1])
    full = rows.shape[0] == xs.size * ys.size
    if not full or not np.array_equal(
        rows[:, :2], np.array(np.meshgrid(xs, ys, indexing="ij")).reshape(2, -1).T
    ):
        text = (
            f"{len(rows)} rows with {xs.size} different x and {ys.size} different y fill no rectangular grid"
        )
        raise InvalidInput(key, text)
    if min(xs.size, ys.size) < 4:
        raise InvalidInput(key, f"{xs.size} x {ys.size} values; cubic splines need at least 4 x 4")
    for name, given, needed in (("x", xs, x), ("y", ys, y)):
        if needed.min() < given[0] or needed.max() > given[-1]:
            covered = f"the table covers {name} from {given[0]:g} to {given[-1]:g}"
            raise InvalidInput(key, f"{covered} bohr, the grid needs {needed.min():g} to {needed.max():g}")
    spline = RectBivariateSpline(xs, ys, rows[:, 2].reshape(xs.size, ys.size))
    return np.asarray(spline(x[:, 0], y[0, :]), dtype=float)


def grid2d_model(system: Grid2dSystem, extra: int = 0) -> QuantumModel:
    """Return the matrices of two coordinates in their lowest levels.

    Parameters
    ----------
    system
        Block of the deck.
    extra : int
        Levels more; four times as many points more in each coordinate.

    Raises
    ------
    InvalidSystem
        With every mistake that was found.
    """
    faults = Faults()
    with faults.catch():
        if system.dipole.x is None and system.dipole.y is None:
            raise InvalidInput(
                "system.dipole", "no component is given; write dipole: {x: x}, a formula of x and y"
            )
        for key, state in (("initial", system.initial), ("target", system.target)):
            if isinstance(state, StateFile | Density | Gate):
                raise InvalidInput(f"system.{key}", "two coordinates start from and end in levels")
        levels = plane(system, extra)
    faults.stop()
    count = levels.energies.size
    drift = sparse_matrix(sparse.diags_array(levels.energies))
    x, y = np.meshgrid(levels.axes[0].x, levels.axes[1].x, indexing="ij")
    named = {
        "H0": drift,
        "x": sparse_matrix(levels.matrix(x)),
        "y": sparse_matrix(levels.matrix(y)),
    }

    def observable(text: str, key: str) -> csr_array:
        return evaluate(text, tuple(named), named.__getitem__, key, count)

    labels = tuple(map(str, range(count)))
    gap = GROUP * float(levels.energies[-1] - levels.energies[0])
    basis = Basis(labels, drift, drift, Units("hartree"), observable, gap=gap, cut_at="system.states")
    controls: list[ControlTerm] = []
    for name, values in levels.dipoles.items():
        with faults.catch():
            matrix = sparse_matrix(-levels.matrix(values))
            if matrix.nnz == 0:
                raise InvalidInput(f"system.dipole.{name}", "this component is 0 everywhere")
            controls.append(ControlTerm(name, matrix))
    with faults.catch():
        goal = aim(system, basis, _no_gate)
        _require_room(levels, goal.start.states)
    faults.stop()
    return QuantumModel(
        drift=drift,
        controls=tuple(controls),
        jumps=(),
        labels=labels,
        shape=(count,),
        seconds=basis.units.seconds,
        states=goal.start.states,
        weights=goal.start.weights,
        dropped=goal.start.dropped,
        goal=goal.goal,
        logical=None,
    )


def _no_gate(gate: Gate, start: Any) -> Any:
    raise InvalidInput("system.target", "two coordinates have no gates")


def _require_room(levels: Plane, columns: ComplexArray) -> None:
    """Refuse a start that feels the walls.

    Raises
    ------
    InvalidInput
        Naming the level and its probability there.
    """
    used = np.flatnonzero(np.abs(columns).max(axis=1) > 1e-6)
    for level in used:
        there = levels.at_walls(int(level))
        if there > WALL:
            text = f"level {level} has the probability {there:.2g} next to the walls, at most {WALL:g}; move min and max"
            raise InvalidInput("system.grid", text)
