"""A particle on a line by its lowest levels: on the points of the deck, or in a larger basis that tells what these leave out.

The levels of the deck are those of the five-point stencil between its walls. A larger basis has more of them, in sines between
walls that no level in use feels, so that its change of a result is the error of the points, of the walls and of the levels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from qsim.core.deck.expression import Expression, ExpressionError, operator_program
from qsim.core.errors import InvalidInput
from qsim.qoc.deck.functions.given import FormulaOfX
from qsim.qoc.deck.systems.states import Formula, Gate, Level, Observable, Overlap, Thermal
from qsim.qoc.models.basis import boltzmann, kept
from qsim.qoc.models.line.landscape import REACH, Landscape, enough_points, landscape, sine_levels
from qsim.qoc.models.molecule import Molecule, function_of_x, lowest_states, on_grid
from qsim.qoc.models.operators import evaluate, sparse_matrix
from qsim.qoc.models.plane.levels import sine_axis

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scipy.sparse import csr_array

    from qsim.core.device.arrays import FloatArray, IndexArray
    from qsim.qoc.deck.functions import FunctionBlock
    from qsim.qoc.deck.systems.grid import GridSystem
    from qsim.qoc.deck.systems.quantities import Units
    from qsim.qoc.deck.systems.states import StatePair

# Levels of `states: auto`: the least, and those above the highest one in use.
LEAST, SPARE = 16, 12
# Most levels that a thermal start is looked for in.
MOST = 400
# Levels that a larger basis adds, relative to those of the deck.
MORE = 8
# How far walls may go in the first larger basis, and how much farther in each further one, of the farthest.
CLOSER, FARTHER = 0.4, 0.15
# Points of a sine basis, relative to the next smaller one, and the most.
FINER, MOST_POINTS = 1.3, 960
# Points up to which a formula may have projectors on levels, which are dense there.
PROJECTED = 2000
# Rounding of an eigenvalue, relative to the largest one.
ROUNDING = 30 * float(np.finfo(float).eps)
_PROJECTOR = re.compile(r"p\d+")


@dataclass(frozen=True)
class Line:
    """Levels of a particle on a line, and its functions at the points.

    Attributes
    ----------
    system : GridSystem
    molecule : Molecule
        Points and levels.
    ground : Landscape
        Functions beyond the walls of the grid.
    box : (float, float) or None
        Walls of a sine basis, bohr; None: the points and the stencil of the deck.
    errors : (K,) float64
        Errors of the levels, hartree: their distance from those of a sine basis between farther walls.
    top : int
        Highest level of start and goal.
    kept : int
        Number of levels that the deck keeps.
    """

    system: GridSystem
    molecule: Molecule
    ground: Landscape
    box: tuple[float, float] | None
    errors: FloatArray
    top: int
    kept: int

    @property
    def energies(self) -> FloatArray:
        """Levels (K,), hartree."""
        return self.molecule.energies

    @property
    def x(self) -> FloatArray:
        """Points (L,), bohr."""
        return self.molecule.x

    @property
    def potential(self) -> FloatArray:
        """Potential (L,) at the points, hartree."""
        return self.molecule.potential

    def densities(self, levels: IndexArray) -> FloatArray:
        """Return |psi|^2 of some levels at the points, (levels, L), 1/bohr."""
        return np.asarray(self.molecule.states[levels] ** 2)

    def values(self, block: FunctionBlock, key: str) -> FloatArray:
        """Return a function of x at the points (L,), a.u."""
        if self.box is not None:
            return self.ground.function(block, self.molecule.x)
        return function_of_x(block, self.molecule.x, self.system.mass, key)

    def matrix(self, values: FloatArray) -> FloatArray:
        """Return ``<k|f(x)|l>``, (K, K), of values (L,) at the points."""
        states = self.molecule.states
        matrix = (states * values) @ states.T * self.molecule.dx
        return np.asarray(0.5 * (matrix + matrix.T))

    def operator(self, text: str, key: str) -> csr_array:
        """Return the operator (K, K) of a formula between the levels.

        The formula is evaluated at the points, where functions of x are exact and products know no levels; only its result is
        taken between the levels.

        Raises
        ------
        InvalidInput
            If the formula is mistaken.
        """
        names = ["H0", "x", "p", "V", *(["mu"] if self.system.dipole is not None else [])]
        names += [f"p{k}" for k in range(self.energies.size)]
        if (function := _function_of_x(text)) is not None:
            return sparse_matrix(self.matrix(self.values(function, key)))
        try:
            asked = {step.value for step in operator_program(text, names) if step.kind == "name"}
        except ExpressionError:
            asked = set()
        points = self.molecule.x.size
        if points > PROJECTED and any(_PROJECTOR.fullmatch(name) for name in asked):
            raise InvalidInput(key, f"projectors need at most {PROJECTED} grid points, the grid has {points}")
        on_points = evaluate(text, names, self._at_points, key, points)
        states = self.molecule.states
        return sparse_matrix(states @ (on_points @ states.T) * self.molecule.dx)

    def _at_points(self, name: str) -> csr_array:
        """Return an operator (L, L) at the points by its name."""
        molecule = self.molecule
        if _PROJECTOR.fullmatch(name):
            state = molecule.states[int(name[1:])]
            return sparse_matrix(np.outer(state, state) * molecule.dx)
        diagonals = {"x": molecule.x, "V": molecule.potential, "mu": molecule.dipole}
        if name in diagonals:
            return sparse_matrix(sparse.diags_array(diagonals[name]))
        if self.box is not None:
            axis = sine_axis(*self.box, molecule.x.size)
            if name == "p":
                return sparse_matrix(-1j * axis.slope)
            return sparse_matrix(axis.kinetic / molecule.mass + np.diag(molecule.potential))
        size = molecule.x.size
        if name == "H0":
            first, second = (np.full(size - k - 1, molecule.off[k]) for k in (0, 1))
            rows = [second, first, molecule.diagonal, first, second]
            return sparse_matrix(sparse.diags_array(rows, offsets=[-2, -1, 0, 1, 2]))
        # The slope of fourth order, (1, -8, 0, 8, -1)/12.
        steps = [(-2, 1.0), (-1, -8.0), (1, 8.0), (2, -1.0)]
        rows = [np.full(size - abs(k), c / (12.0 * molecule.dx)) for k, c in steps]
        return sparse_matrix(-1j * sparse.diags_array(rows, offsets=[k for k, _ in steps]))


def _function_of_x(text: str) -> FormulaOfX | None:
    """Return a formula that is a function of x alone; None for one with operators."""
    try:
        Expression(text, ("x",))
        return FormulaOfX(type="expression", value=text)
    except (ExpressionError, ValueError):
        return None


def line(system: GridSystem, units: Units, extra: int = 0) -> Line:
    """Return the levels of a particle on a line.

    Parameters
    ----------
    system
        Block of the deck.
    units
        Of the block.
    extra : int
        How often an eighth of the levels is added; any of them comes with a sine basis between farther walls.

    Raises
    ------
    InvalidInput
        If walls are exchanged, a function is not finite at the points, or the grid cannot hold the levels.
    """
    grid = system.grid
    if not grid.xmin < grid.xmax:
        raise InvalidInput(
            "system.grid.xmin", f"xmin = {grid.xmin:g} must lie below xmax = {grid.xmax:g} bohr"
        )
    x = np.linspace(grid.xmin, grid.xmax, grid.points)
    # The mass of an isotope scales the kinetic energy alone; formulas see that of the deck.
    v = system.potential_scale * function_of_x(system.potential, x, system.mass, "system.potential")
    mu = np.zeros(x.size)
    if system.dipole is not None:
        mu = function_of_x(system.dipole, x, system.mass, "system.dipole")
    mass = system.mass * system.mass_scale
    whole = on_grid(x, mass, v, mu, 2)
    count, top = _count(system, units, whole)
    molecule = on_grid(x, mass, v, mu, count)
    ground = landscape(system)
    own = Line(system, molecule, ground, None, np.zeros(count), top, count)
    larger = _in_sines(own, max(extra, 1), count + max(extra, 1) * max(2, count // MORE), first=not extra)
    if extra:
        return larger
    return replace(own, errors=_errors(molecule, larger.molecule))


def _errors(run: Molecule, reference: Molecule) -> FloatArray:
    """Return the distance (K,) of each level from those of a reference, hartree, and rounding."""
    rounding = ROUNDING * float(np.abs(run.diagonal).max())
    size = min(run.energies.size, reference.energies.size)
    found = np.full(run.energies.size, np.inf)
    found[:size] = np.abs(run.energies[:size] - reference.energies[:size]) + rounding
    return found


def _in_sines(own: Line, extra: int, count: int, *, first: bool) -> Line:
    """Return more levels, in sines between walls that no level in use feels; the first ones tell the errors of the levels."""
    system, run = own.system, own.molecule
    # Levels that a pulse may reach feel the walls, too: each basis leaves room for higher ones.
    reached = min(own.top + 2 * extra, run.x.size // 2 - 1)
    energies = run.energies
    if reached >= energies.size:
        energies = lowest_states(run.diagonal, float(run.off[0]), float(run.off[1]), reached + 1)[0]
    energy, scale = float(energies[reached]), system.potential_scale
    box = own.ground.box(energy, run.mass, scale)
    # Levels that feel the farthest walls are free. Theirs go outwards from one basis to the next, so that a result of what they
    # reflect does not settle.
    if not first and own.ground.ends(box):
        box = own.ground.box(energy, run.mass, scale, REACH * min(1.0, CLOSER + FARTHER * np.log2(extra)))
    points = enough_points(own.ground, box, float(run.energies[-1]), count, run.mass, scale)
    points = max(min(int(points * FINER ** np.log2(2 * extra)), MOST_POINTS), 2 * count)
    found = sine_levels(own.ground, box, points, count, system.mass_scale, scale)
    # The outermost lobe at small x is positive, as on the grid.
    large = np.abs(found.states) > 1e-2 * np.abs(found.states).max(axis=1, keepdims=True)
    lobes = found.states[np.arange(count), np.argmax(large, axis=1)]
    molecule = replace(found, states=found.states * np.sign(lobes)[:, None])
    return replace(own, molecule=molecule, box=box, errors=np.zeros(count))


# ------------------------------------------------------------------------------------------- levels in use


def used_levels(system: GridSystem) -> list[tuple[str, int]]:
    """Return keys and numbers of the levels that starts, goals and gates name."""
    blocks: list[tuple[str, Any]] = [("system.", system)]
    if system.pairs is not None:
        blocks = [(f"system.pairs.{k}.", pair) for k, pair in enumerate(system.pairs)]
    return [
        (f"{where}{name}", level)
        for where, block in blocks
        for name in ("initial", "target")
        for level in _levels_of(getattr(block, name))
    ]


def _levels_of(state: Any) -> Iterator[int]:
    """Yield the numbers of the levels of a start or goal."""
    if isinstance(state, Level):
        yield state.level
    elif isinstance(state, Gate):
        yield from _levels_of(state.on or [])
    elif isinstance(state, Observable):
        yield from (int(name[1:]) for name in re.findall(r"\bp\d+\b", state.observable))
    elif isinstance(state, Formula):
        yield from (level for one in state.values.values() for level in _levels_of(one))
    elif isinstance(state, Overlap):
        yield from _levels_of(state.overlap)
    elif isinstance(state, list | dict):
        for one in state:
            yield from _levels_of(one)
    elif isinstance(state, int) or (isinstance(state, str) and state.isdecimal()):
        yield int(state)


def _count(system: GridSystem, units: Units, whole: Molecule) -> tuple[int, int]:
    """Return the number of levels kept, and the highest one of start and goal.

    Raises
    ------
    InvalidInput
        If the grid cannot hold the levels.
    """
    room = whole.x.size // 2
    top = max((level for _, level in used_levels(system)), default=0)
    top = max([top, *(_thermal_top(system, units, whole, state) for state in _thermal(system))])
    count = min(max(LEAST, top + 1 + SPARE), room) if system.states == "auto" else system.states
    if count > room:
        text = f"{count} levels on {whole.x.size} grid points; at most {room} of them are accurate"
        raise InvalidInput("system.states", text)
    for key, level in used_levels(system):
        if level >= count:
            raise InvalidInput(
                key, f"level {level} is not among the {count} levels kept; raise system.states"
            )
    return count, min(top, count - 1)


def _thermal(system: GridSystem) -> Iterator[Thermal]:
    """Yield the thermal starts."""
    blocks: Sequence[StatePair | GridSystem] = system.pairs or [system]
    for block in blocks:
        if isinstance(block.initial, Thermal):
            yield block.initial


def _thermal_top(system: GridSystem, units: Units, whole: Molecule, state: Thermal) -> int:
    """Return the highest level of a thermal start."""
    temperature = units.temperature(state.thermal, "system.initial.thermal")
    count = 2 * LEAST
    while True:
        count = min(count, MOST, whole.x.size // 2)
        energies = lowest_states(whole.diagonal, float(whole.off[0]), float(whole.off[1]), count)[0]
        weights = boltzmann(energies, temperature)
        chosen = kept(weights, state.below)[0]
        if chosen.max() + SPARE < count or count in (MOST, whole.x.size // 2):
            return int(chosen.max())
        count *= 2
