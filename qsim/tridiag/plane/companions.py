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

from qsim.core.errors import QsimError
from qsim.core.results.quantities import scalars
from qsim.core.run.loop import Progress, drive
from qsim.tridiag.plane.lattice import share_inside
from qsim.tridiag.plane.result import QUANTITIES
from qsim.tridiag.tdse.quantities import turned

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.plane.lattice import Axis
    from qsim.tridiag.plane.problem import PlaneProblem
    from qsim.tridiag.plane.result import PlaneResult
    from qsim.tridiag.tdse.scan.problem import Remarks

    Evolve = Callable[[PlaneProblem, Report], PlaneResult]

__all__ = ["claim", "claimed", "numbers"]

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
# of a change by other tables, which may fall short of the error
MARGIN = 1.5
ROUNDING = 1e-13
STEP, SPACING, SPECTRAL, EDGES, LEVELS, TABLE, ROUNDED = (
    "the time step",
    "the grid spacing",
    "free motion on a lattice",
    "cells that the radius of the regions cuts",
    "the mixing of levels",
    "the rows of the table",
    "rounding",
)
# numbers that are probabilities
SHARES = ("norm", "population", "inner", "single", "double", "absorbed")
# error of a probability above which a warning is given
UNSURE = 0.02


def numbers(result: PlaneResult) -> dict[str, float]:
    """Return the numbers that errors are claimed for, by the name of the scalar."""
    values = scalars((one for one in QUANTITIES if one.error is not None), result)
    return {name: float(scalar.value) for name, scalar in values.items() if isinstance(scalar.value, float)}


def work_of(problem: PlaneProblem) -> float:
    """Return the points times steps of a run."""
    n, m = problem.lattice.shape
    return float(n) * m * problem.steps * (5 if problem.order == 4 else 1)


def claimed(problem: PlaneProblem, monitor: Monitor) -> bool:
    """Return True if errors are to be found; where not, say why."""
    if problem.verify is False:
        monitor.note("no errors are claimed: it is switched off")
        return False
    if problem.verify == "auto" and work_of(problem) > AUTO:
        monitor.note("no errors are claimed: the run is too long for it; time.verify: true finds them")
        return False
    return True


def claim(result: PlaneResult, state: Callable[[], State], monitor: Monitor, evolve: Evolve) -> Remarks:
    """Find the errors of the numbers of a run; return what a user must know of large ones.

    Parameters
    ----------
    result
        The propagation, whose `errors` and `parts` are filled.
    state
        What a stop request saves: the propagation at its end.
    monitor
        Told of progress.
    evolve
        Runs a companion.
    """
    companions = _Companions(result, state, evolve)
    try:
        drive(companions, monitor, total=None, unit="companions", what="verify")
    except QsimError as error:
        # what a companion cannot do (deck or numerics) costs the errors only; other failures end the run
        if error.exit_code not in (3, 5):
            raise
        monitor.note(f"no errors are claimed: {error}")
        return []
    result.errors |= companions.errors
    result.parts = companions.parts
    remarks: Remarks = []
    shares = {name: error for name, error in companions.errors.items() if name.startswith(SHARES)}
    allowed = result.problem.accuracy
    steps = max(shares, key=lambda name: companions.parts[name][STEP])
    if allowed is not None and companions.parts[steps][STEP] > allowed:
        size = companions.parts[steps][STEP]
        text = f"the steps leave an error of {size:.2g} in {steps}, more than time.accuracy: {allowed:g}"
        remarks.append(("accuracy", size, text))
    worst = max(shares, key=lambda name: shares[name])
    if shares[worst] > UNSURE:
        cause = max(companions.parts[worst], key=lambda one: companions.parts[worst][one])
        text = f"{worst} is uncertain by {shares[worst]:.2g}, most of it by {cause}"
        remarks.append(("uncertain", shares[worst], text))
    return remarks


class _Companions:
    """The repeated runs."""

    def __init__(self, result: PlaneResult, state: Callable[[], State], evolve: Evolve) -> None:
        self.result, self.state, self.evolve = result, state, evolve
        self.errors: dict[str, float] = {}
        self.parts: dict[str, dict[str, float]] = {}
        self.done = 0

    def _run(self, problem: PlaneProblem, report: Report) -> dict[str, float]:
        found = numbers(self.evolve(problem, lambda progress: report(Progress())))
        self.done += 1
        report(Progress(self.done))
        return found

    def advance(self, report: Report) -> None:
        """Run the companions and compare."""
        base = self.result.problem
        fine = work_of(base) <= FINE
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
        # of order 4 an absorber is split off in second order
        powers = {2, base.order} if base.lattice.absorbs else {base.order}
        steps = [one.dt / base.dt for one in problems]
        spacing = other[0].spacing / axes[0].spacing
        spectral: dict[str, float] = {}
        if fine:
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
            parts = _differences(value, [one[name] for one in runs], steps, spacing, powers)
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
    return {STEP: step, SPACING: max(map(abs, left)) / abs(spacing**2 - 1.0)}


def edges(result: PlaneResult) -> dict[str, float]:
    """Return what cells that the radius cuts leave in the norms by regions, ``|dN/da| h^2 / 24``."""
    problem = result.problem
    axes = problem.lattice.axes
    h = max(one.spacing for one in axes)
    density = np.abs(result.psi) ** 2 * problem.lattice.cell
    norms = []
    for radius in (problem.radius - 0.5 * h, problem.radius + 0.5 * h):
        e, f = (share_inside(one, radius) for one in axes)
        inner, double = e @ density @ f, (1.0 - e) @ density @ (1.0 - f)
        norms.append(np.array([inner, density.sum() - inner - double, double]))
    slope = np.abs(norms[1] - norms[0]) / h
    return dict(zip(("inner", "single", "double"), slope * h**2 / 24.0, strict=True))


def _mixing(problem: PlaneProblem) -> float:
    """Return the amplitude of other levels in those that are found: residual over distance."""
    levels = problem.levels
    if levels is None:
        return 0.0
    energies = levels.energies
    gap = float(np.min(np.diff(energies), initial=0.05)) if energies.size > 1 else 0.05
    return min(1.0, float(levels.residuals.max()) / max(gap, 1e-300))
