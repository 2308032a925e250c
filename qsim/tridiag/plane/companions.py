r"""Errors of the numbers of `task: plane`, found by repeating the run with other steps and spacings.

As in one dimension (Eqs. T24 and T25), a number depends on step and spacing as ``Q + e_t h^p + e_x k^2``, h and k in units
of the run's own, p the order of the steps; order 2 in the spacing is assumed, because potentials may have edges.  Two companions
with the steps h_A and h_B and one spacing k give

    e_t = (Q_B - Q_A) / (h_B^p - h_A^p),    e_x = (Q_A - Q - (h_A^p - 1) e_t) / (k^2 - 1).

Long runs have coarser companions, which take a third of their time.  Short runs have finer ones, a third companion that tells how
e_t grows, and one whose free motion is exact: all lattices slow fast electrons down, so that losses of them are missing in every
other companion.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.quantities import scalars
from qsim.core.run.loop import Progress
from qsim.tridiag.plane.propagator import shares
from qsim.tridiag.plane.result import QUANTITIES
from qsim.tridiag.tdse.judge import MARGIN, TABLE, Companions
from qsim.tridiag.tdse.quantities import turned

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.tridiag.plane.lattice import Axis
    from qsim.tridiag.plane.problem import PlaneProblem
    from qsim.tridiag.plane.result import PlaneResult

    Evolve = Callable[[PlaneProblem, Report], PlaneResult]
    Ends = tuple[tuple[float, float], tuple[float, float]]

__all__ = ["AUTO", "FINE", "PlaneCompanions", "numbers", "work_of"]

# points times steps up to which `verify: auto` means true
AUTO = 2e10
# up to which companions are finer
FINE = 4e6
# ratio of two spacings that share hardly any points
APART = math.sqrt(3.0)
# points of a coarse companion
SMALLEST = 8
# of the slope in h^p where h is halved, at most
GROWTH = 4.0
ROUNDING = 1e-13
STEP, SPACING, SPECTRAL, EDGES, LEVELS, ROUNDED = (
    "the time step",
    "the grid spacing",
    "free motion on a lattice",
    "cells that the radius of the regions cuts",
    "the mixing of levels",
    "rounding",
)
# numbers that are probabilities
SHARES = ("norm", "population", "inner", "single", "double", "absorbed", "dissociation")


def numbers(result: PlaneResult) -> dict[str, float]:
    """Return the numbers that errors are claimed for, by the name of the scalar."""
    values = scalars((one for one in QUANTITIES if one.error is not None), result)
    return {name: float(scalar.value) for name, scalar in values.items() if isinstance(scalar.value, float)}


def work_of(problem: PlaneProblem) -> float:
    """Return the points times steps of a run."""
    n, m = problem.lattice.shape
    return float(n) * m * problem.steps * len(shares(problem.order, turns=problem.lattice.turns))


class PlaneCompanions(Companions):
    """The repeated runs.

    Parameters
    ----------
    result, state
        As of :class:`~qsim.tridiag.tdse.judge.Companions`.
    evolve
        Runs a companion.
    fine : bool
        Whether companions are finer than the run.
    """

    unit = "companions"

    def __init__(
        self, result: PlaneResult, state: Callable[[], State], evolve: Evolve, *, fine: bool
    ) -> None:
        super().__init__(result, state)
        self.evolve, self.fine = evolve, fine
        self.done = 0

    @property
    def total(self) -> int:
        """Runs, at most."""
        return (4 if self.fine else 2) + (self.result.problem.doubted() is not None)

    def remedy(self, cause: str) -> str:
        """Return what the author of a deck can do about a part of an error."""
        return {
            STEP: "lower time.dt",
            SPACING: "raise the points of grid",
            SPECTRAL: "raise the points of grid and lower time.dt",
            EDGES: "raise the points of grid",
            TABLE: "give more rows",
        }.get(cause, "the numbers stay as they are")

    def _run(self, problem: PlaneProblem, report: Report) -> dict[str, float]:
        found = numbers(self.evolve(problem, lambda progress: report(Progress())))
        self.done += 1
        report(Progress(self.done))
        return found

    def advance(self, report: Report) -> None:
        """Run the companions and compare."""
        base = self.result.problem
        fine = self.fine
        ratio = 1.0 / APART if fine else APART
        axes = base.lattice.axes
        if base.lattice.between is not None and axes[0].points != axes[1].points:
            # the repulsion is a function of the difference: both coordinates keep one spacing
            other = _alike(axes, ratio)
        else:
            first_axis, second_axis = (
                one.with_points(max(SMALLEST, round((one.points + 1) / ratio) - 1)) for one in axes
            )
            other = (first_axis, second_axis)
        factors = (0.5, 1.0, 0.25) if fine else (2.0, 3.0)
        first = base.on(other, _steps(base, factors[0]))
        problems = [first] + [_with(first, _steps(base, factor)) for factor in factors[1:]]
        runs = [self._run(one, report) for one in problems]
        own = numbers(self.result)
        # a potential that is sharp on the lattice leaves errors that may fall as slowly as with the spacing
        space = 1 if base.system.sharp(max(one.spacing for one in axes)) else 2
        # of order 4 an absorber is split off in second order
        powers = {2, base.order} if base.lattice.absorbs else {base.order}
        steps = [one.dt / base.dt for one in problems]
        spacing = other[0].spacing / axes[0].spacing
        spectral: dict[str, float] = {}
        if fine and not base.lattice.radial:
            spectral = self._run(
                replace(base if spacing > 1.0 else _with(first, base.steps), sine=True), report
            )
        doubted = base.doubted()
        table = {} if doubted is None else self._run(doubted.on(other, problems[1].steps), report)
        least = turned(runs[1], table) if table else {}
        cut = edges(self.result)
        mixed = _mixing(base)
        for name, value in own.items():
            if not all(name in one for one in runs):
                continue
            parts = _differences(value, [one[name] for one in runs], steps, spacing**space, powers)
            if name in spectral and name.startswith(SHARES):
                parts[SPECTRAL] = max(0.0, abs(spectral[name] - value) - parts[STEP] - parts[SPACING])
            if name in cut:
                parts[EDGES] = cut[name]
            if name.startswith("population"):
                parts[LEVELS] = mixed
            if name in table:
                parts[TABLE] = MARGIN * max(abs(table[name] - runs[1][name]), least.get(name, 0.0))
            parts[ROUNDED] = self._rounding(name, value)
            self.parts[name] = parts
            self.errors[name] = sum(parts.values())

    def _rounding(self, name: str, value: float) -> float:
        """Return what rounding leaves in a number."""
        problem = self.result.problem
        relative = ROUNDING * (10.0 + 0.1 * math.sqrt(problem.steps))
        if not problem.lattice.absorbs:
            # a norm that must be 1 shows how far rounding has gone
            relative += abs(float(self.result.frames["norm"][-1]) - 1.0)
        if name.startswith("energy"):
            return relative * abs(value) + 1e-14 * problem.lattice.top
        if name.startswith("dipole"):
            return relative * max(abs(w) for one in problem.lattice.axes for w in (one.low, one.high))
        return relative * max(1.0, abs(value))


def _steps(problem: PlaneProblem, factor: float) -> int:
    """Return the number of steps that are so many times as long; two companions of few steps differ."""
    least = {2.0: 2, 3.0: 1}.get(factor, 1)
    return max(least, math.ceil(problem.steps / factor))


def _with(problem: PlaneProblem, steps: int) -> PlaneProblem:
    """Return a companion with other steps on the same lattice."""
    every = max(1, round(problem.every * steps / problem.steps))
    return replace(problem, steps=steps, dt=problem.t_final / steps, every=every)


def _alike(axes: tuple[Axis, Axis], ratio: float) -> tuple[Axis, Axis]:
    """Return axes of one spacing again, close to a ratio: both numbers of cells keep their smallest common parts."""
    cells = [one.points + 1 for one in axes]
    common = math.gcd(*cells)
    wanted = max(1, round(common / ratio))
    if wanted == common:
        wanted = 2 * common
    first, second = (one.with_points(n // common * wanted - 1) for one, n in zip(axes, cells, strict=True))
    return first, second


def _differences(
    value: float, found: list[float], steps: list[float], spacing: float, powers: set[int]
) -> dict[str, float]:
    """Return what the time step and the spacing leave in a number, from its values in the companions."""
    a, b = found[:2]
    tried = [(b - a) / (steps[1] ** p - steps[0] ** p) for p in powers]
    left = [a - value - (steps[0] ** p - 1.0) * e for p, e in zip(powers, tried, strict=True)]
    step = max(map(abs, tried))
    if len(found) > 2:
        # slopes in h^p from 1 to 1/2 and from 1/2 to 1/4, the last of which may grow once more below
        p = min(powers)
        ends = [1.0, 0.5**p, 0.25**p]
        longer = abs(b - a) / (ends[0] - ends[1])
        shorter = abs(a - found[2]) / (ends[1] - ends[2])
        growth = min(max(shorter / longer, 1.0), GROWTH) if longer > 0.0 else GROWTH
        step = max(step, (ends[0] - ends[1]) * longer + shorter * (ends[1] - ends[2] + ends[2] * growth))
    return {STEP: step, SPACING: max(map(abs, left)) / abs(spacing - 1.0)}


def edges(result: PlaneResult) -> dict[str, float]:
    """Return what cells that radii and boxes cut leave in the norms there, ``|dN/da| h^2 / 24`` for each end a."""
    problem = result.problem
    axes = problem.lattice.axes
    density = np.abs(result.psi) ** 2 * problem.lattice.cell

    def norm_in(ends: Ends) -> float:
        e, f = problem.shares(ends)
        return float(e @ density @ f)

    def left(ends: Ends) -> float:
        """Each end inside the grid is moved by half a cell to either side."""
        total = 0.0
        for number, axis in enumerate(axes):
            for side, end in enumerate(ends[number]):
                if axis.low < end < axis.high:
                    half = 0.5 * axis.spacing
                    high, low = (norm_in(_moved(ends, number, side, shift)) for shift in (half, -half))
                    total += abs(high - low) * axis.spacing / 24.0
        return total

    out = {name: left(ends) for name, ends in problem.parts.items()}
    if problem.system.pair:
        out |= _of_regions(problem, density)
    return out


def _moved(ends: Ends, number: int, side: int, shift: float) -> Ends:
    """Return ends of which one has moved."""
    found = [list(pair) for pair in ends]
    found[number][side] += shift
    return (found[0][0], found[0][1]), (found[1][0], found[1][1])


def _of_regions(problem: PlaneProblem, density: NDArray[np.float64]) -> dict[str, float]:
    """Return what cells that the radius of the regions cuts leave in their norms."""
    h = max(one.spacing for one in problem.lattice.axes)

    def parts(radius: float) -> NDArray[np.float64]:
        e, f = problem.shares(((-radius, radius),) * 2)
        inner, double = float(e @ density @ f), float((1.0 - e) @ density @ (1.0 - f))
        return np.array([inner, float(density.sum()) - inner - double, double])

    apart = parts(problem.radius + 0.5 * h) - parts(problem.radius - 0.5 * h)
    return dict(zip(("inner", "single", "double"), map(float, np.abs(apart) * h / 24.0), strict=True))


def _mixing(problem: PlaneProblem) -> float:
    """Return the amplitude of other levels in those that are found: residual over distance."""
    levels = problem.levels
    if levels is None:
        return 0.0
    energies = levels.energies
    gap = float(np.min(np.diff(energies), initial=0.05)) if energies.size > 1 else 0.05
    return min(1.0, float(levels.residuals.max()) / max(gap, 1e-300))
