"""Potential and dipole of a molecule beyond the box of its grid, and levels in a sine basis of any box.

A sine basis in a box has the exact kinetic energy (Colbert and Miller 1992), so its levels converge exponentially with the
number of points, where those of the five-point stencil converge with the fourth power of the spacing.  The box is that of the
grid, or a larger one whose walls no level in use can feel.  Beyond the walls of the grid the potential and the dipole are taken
from their formulas as long as these are finite and the potential does not fall again; from there on they stay constant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput, NumericsError
from qsim.core.physics.functions import LARGEST_VALUE
from qsim.qoc.models.molecule import Molecule, bare_function_of_x, on_grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.deck.functions import FunctionBlock
    from qsim.qoc.deck.system import System

# Of the box's width by which a wall may be moved outwards.
REACH = 0.6
# Points at which the formulas are looked at on either side of the box.
SCAN = 241
# Of the decay integral between a wall and the region a level may enter: psi is below exp(-24) there.
ACTION = 24.0
# Points per half de Broglie wave.
OVERSAMPLING = 1.8
FEWEST = 64
# Points that a reference takes without need, so that features of the potential are seen.
PLENTY = 160
# Of a dense matrix, 0.2 s.
MOST = 480


@dataclass(frozen=True)
class Landscape:
    """Potential and dipole of the nominal system inside and outside of its box.

    Attributes
    ----------
    system : System
    inner : (float, float)
        Walls of the run, where psi vanishes: one spacing beyond the outermost points, bohr.
    potential_range : (float, float)
        Interval in which the formula of the potential is used; outside, it is constant, bohr.
    falls : (float, float)
        Lowest potential found beyond the left and the right wall after it had risen; infinite if it does not fall.
    ranges : dict
        Intervals of other functions, as far as they have been asked for.
    """

    system: System
    inner: tuple[float, float]
    potential_range: tuple[float, float]
    falls: tuple[float, float]
    ranges: dict[int, tuple[float, float]] = field(default_factory=dict, repr=False)

    @property
    def width(self) -> float:
        """Width of the run's box, bohr."""
        return self.inner[1] - self.inner[0]

    def potential(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Potential energy of the nominal system, hartree."""
        return bare_function_of_x(self.system.potential, np.clip(x, *self.potential_range), self.system.mass)

    def dipole(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Dipole function, a.u."""
        # a molecule in levels may have a polarisability alone
        block: FunctionBlock | None = getattr(self.system, "dipole", None)
        return np.zeros(x.size) if block is None else self.function(block, x)

    def function(self, block: FunctionBlock, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of any function at points x; beyond the walls as far as it is finite, and constant from there on."""
        return bare_function_of_x(block, np.clip(x, *self._range_of(block)), self.system.mass)

    def _range_of(self, block: FunctionBlock) -> tuple[float, float]:
        """Return the interval in which a function is used, bohr."""
        # Blocks of the deck stay as they are, so that each is looked at once.
        if id(block) not in self.ranges:
            ends = []
            for wall, sign in _walls(self.system):
                x = wall + sign * _distances(self.system)
                ends.append(float(x[_finite_length(_outside(block, self.system.mass, x)) - 1]))
            self.ranges[id(block)] = (ends[0], ends[1])
        return self.ranges[id(block)]

    def box(self, energy: float, mass: float, scale: float, reach: float = REACH) -> tuple[float, float]:
        """Return walls between which a level of this energy lives; at most ``reach`` widths beyond those of the run.

        Parameters
        ----------
        energy : float
            Energy of the highest level in use, hartree.
        mass, scale : float
            Mass and factor of the potential of the ensemble member.
        reach : float
            Fraction of the run's width by which either wall may move outwards.
        """
        a, b = self.inner
        x = np.linspace(a - reach * self.width, b + reach * self.width, 2001)
        # Behind a turning point a level falls as exp(-integral kappa dx), kappa = sqrt(2 m (V - E)).
        kappa = np.sqrt(2.0 * mass * np.maximum(scale * self.potential(x) - energy, 0.0))
        allowed = np.flatnonzero(kappa == 0.0)
        # No point is allowed at this energy: nothing tells where to cut, so the largest box stays.
        if allowed.size == 0:
            return float(x[0]), float(x[-1])
        step = float(x[1] - x[0])
        # Both integrals run outwards, from the outermost allowed point on either side.
        left = np.cumsum(kappa[: allowed[0] + 1][::-1])[::-1] * step
        right = np.cumsum(kappa[allowed[-1] :]) * step
        # Walls stand one point beyond the place at which the integral reaches ACTION.
        first = int(np.argmax(left <= ACTION))
        last = allowed[-1] + int(np.flatnonzero(right <= ACTION)[-1])
        return float(x[max(first - 1, 0)]), float(x[min(last + 1, x.size - 1)])

    def ends(self, box: tuple[float, float]) -> bool:
        """Return whether a wall stands as far out as walls go."""
        slack = 1e-9 * self.width
        farthest = self.inner[0] - REACH * self.width, self.inner[1] + REACH * self.width
        return box[0] <= farthest[0] + slack or box[1] >= farthest[1] - slack


def landscape(system: System) -> Landscape:
    """Look at the formulas of a system on both sides of its box."""
    grid = system.grid
    dx = (grid.xmax - grid.xmin) / (grid.points - 1)
    inner = (grid.xmin - dx, grid.xmax + dx)
    v_range, falls = [], []
    for wall, sign in _walls(system):
        x = wall + sign * _distances(system)
        v = _outside(system.potential, system.mass, x)
        good = _finite_length(v)
        # A potential that falls again outside would bind levels that are not those of the box.
        # The slack keeps rounding on a flat potential from being taken for a fall.
        highest = np.maximum.accumulate(v[:good])
        slack = 1e-9 * (1.0 + float(np.abs(v[:good]).max()))
        falling = np.flatnonzero(v[:good] < highest - slack)
        if falling.size:
            falls.append(float(v[falling[0] : good].min()))
            # The formula is used up to its top; from there on the potential stays at this height.
            good = max(int(np.argmax(v[: falling[0]])) + 1, 1)
        else:
            falls.append(np.inf)
        v_range.append(float(x[good - 1]))
    return Landscape(system, inner, (v_range[0], v_range[1]), (falls[0], falls[1]))


def _walls(system: System) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return either end of the grid, bohr, and the direction outwards."""
    return (system.grid.xmin, -1.0), (system.grid.xmax, 1.0)


def _distances(system: System) -> NDArray[np.float64]:
    """Return distances from a wall (SCAN,), bohr, a little further than any wall may move (REACH)."""
    width = system.grid.xmax - system.grid.xmin
    return np.linspace(0.0, width * (REACH + 0.1) + width / (system.grid.points - 1), SCAN)


def _outside(block: FunctionBlock, mass: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Evaluate a function from a wall outwards; NaN from the first point on at which it has no value."""
    # Functions of x are evaluated at ascending points, but x descends beyond the left wall.
    order = np.argsort(x)

    def first(count: int) -> NDArray[np.float64]:
        rows = order[order < count]
        values = np.full(x.size, np.nan)
        values[rows] = bare_function_of_x(block, x[rows], mass)
        return values

    good, bad, values = 1, x.size + 1, first(1)
    # a table ends, or a formula fails: halve the interval in which
    while bad - good > 1:
        # All points are tried first, as most formulas have values everywhere.
        middle = bad - 1 if bad > x.size else (good + bad) // 2
        try:
            values, good = first(middle), middle
        except (InvalidInput, NumericsError):
            bad = middle
    return values


def _finite_length(values: NDArray[np.float64]) -> int:
    """Return the number of usable values from the wall outwards, at least the one at the wall itself."""
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~(np.abs(values) <= LARGEST_VALUE))
    return max(int(bad[0]), 1) if bad.size else values.size


def sine_levels(
    ground: Landscape,
    box: tuple[float, float],
    points: int,
    states: int,
    mass_scale: float = 1.0,
    potential_scale: float = 1.0,
) -> Molecule:
    """Return the lowest levels in a sine basis on ``points`` points inside a box.

    The kinetic energy is Eq. (A6) of D. T. Colbert and W. H. Miller, J. Chem. Phys. 96, 1982 (1992).

    Parameters
    ----------
    ground : Landscape
    box : (float, float)
        Walls at which the functions vanish, bohr.
    points, states : int
        Size of the basis, and number of levels wanted.
    mass_scale, potential_scale : float
        Factors of an ensemble member.
    """
    from scipy.linalg import eigh

    a, b = box
    intervals = points + 1
    # sin(k pi i / intervals) vanish at both walls: the points are those between them
    i = np.arange(1, intervals)
    x = a + (b - a) * i / intervals
    mass = ground.system.mass * mass_scale
    v, mu = potential_scale * ground.potential(x), ground.dipole(x)
    # Eq. (A6) with hbar = 1: the unit is pi^2/(4 m (b - a)^2).
    unit = np.pi**2 / (4.0 * mass * (b - a) ** 2)
    half = np.pi / (2 * intervals)
    # the kinetic energy is exact for the sines that the points hold; the diagonal of `near` is infinite and set
    # below
    near, far = np.abs(i[:, None] - i), i[:, None] + i
    with np.errstate(divide="ignore"):
        h = unit * (-1.0) ** near * (1.0 / np.sin(half * near) ** 2 - 1.0 / np.sin(half * far) ** 2)
    h[np.diag_indices(points)] = unit * ((2 * intervals**2 + 1) / 3 - 1 / np.sin(2 * half * i) ** 2) + v
    energies, vectors = eigh(h, subset_by_index=(0, min(states, points) - 1))
    # normalised as on the grid of the run: sum |psi|^2 dx = 1
    dx = float(x[1] - x[0])
    vectors = np.ascontiguousarray(vectors.T) / np.sqrt(dx)
    matrix = (vectors * mu) @ vectors.T * dx
    return Molecule(
        x, mass, v, mu, np.diag(h).copy(), np.zeros(2), energies, vectors, 0.5 * (matrix + matrix.T)
    )


def stencil_levels(
    ground: Landscape,
    box: tuple[float, float],
    points: int,
    states: int,
    mass_scale: float = 1.0,
    potential_scale: float = 1.0,
) -> Molecule:
    """Return the five-point stencil's levels on ``points`` points of a box; see :func:`sine_levels`."""
    x = np.linspace(*box, points)
    v = potential_scale * ground.potential(x)
    return on_grid(x, ground.system.mass * mass_scale, v, ground.dipole(x), states)


def enough_points(
    ground: Landscape, box: tuple[float, float], energy: float, states: int, mass: float, scale: float
) -> int:
    """Return the size of a sine basis that holds levels up to an energy (hartree)."""
    x = np.linspace(*box, 2001)
    depth = energy - scale * float(ground.potential(x).min())
    # Half de Broglie waves in the box at the deepest point of the potential.
    waves = (box[1] - box[0]) * np.sqrt(2.0 * mass * max(depth, 0.0)) / np.pi
    # The run's own density of points, since its potential may have features that need it.
    shape = min(ground.system.grid.points * (box[1] - box[0]) / ground.width, PLENTY)
    return int(min(max(OVERSAMPLING * waves + 24, shape, 2 * states, FEWEST), MOST))
