r"""Resonances: complex energies ``E - i Gamma/2`` of the Hamiltonian on the contour, by inverse and Rayleigh-quotient iteration.

A doubly excited state is an eigenvector of the very operator of the driven equation, as on a contour its outgoing wave decays.
Its eigenvalue does not depend on angle or radius of the contour once both are large enough.  Eigenvalues of the rotated
continuum do, which the coarser grid of the error estimate shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.loop import Progress, drive
from qsim.sturmian.deck.symmetry import exchange_sign
from qsim.sturmian.scattering import driven

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.sturmian.deck.collision_symmetry import Sector
    from qsim.sturmian.scattering.problem import Problem
    from qsim.sturmian.scattering.setup import Setup

CONVERGED = 1e-9  # hartree: last change of an eigenvalue
STEPS = 12
FIXED = 2  # first steps at the energy of the deck, so that the nearest eigenvalue is found
SOLVE = 1e-6  # relative residual of a solution within the iteration
MOVED = 0.2  # change of a complex energy with the grid, relative to its width, from which it is no resonance for sure
POOR = 0.2  # relative error of a width that is worth a warning
BY_CHANCE = 1e-3  # of the change of the position with the partial waves, that the width may be off where it does not change

Stage = Callable[[str], AbstractContextManager[None]]
Judged = Callable[[str, Callable[[], Any], Any], Any]


@dataclass
class Found:
    """One complex energy.

    Attributes
    ----------
    L, S : int
    near : float
        Where it was sought, hartree.
    energy : complex
        ``E - i Gamma/2``, hartree.
    moved : float
        Change of the complex energy with the coarser grid, hartree; 0 without it.
    error, width_error : float
        Of position and width, hartree: that change, and those with fewer partial waves; 0 without them.
    residual : float
        ``|H v - E v| / |v|``, hartree.
    iterations : int
        Steps of the linear solver.
    inside : float
        Share of ``|v|^2`` on the real axis.
    """

    L: int
    S: int
    near: float
    energy: complex
    residual: float
    iterations: int
    inside: float
    moved: float = 0.0
    error: float = 0.0
    width_error: float = 0.0

    @property
    def width(self) -> float:
        """Gamma, hartree."""
        return -2.0 * self.energy.imag


@dataclass
class ResonanceResult:
    """What a search leaves."""

    problem: Problem
    setup: Setup
    found: list[Found]
    unknowns: int
    condition: float
    task: ClassVar[str] = "resonances"


class Resonances:
    """The search of all resonances of a deck, one after the other.

    Parameters
    ----------
    problem : Problem
    restored : mapping, optional
        State to continue from.
    stage : callable, optional
        Measures the time of a stage, as `Monitor.stage`.
    judged : callable, optional
        Lets what only judges the resonances fail, as `Monitor.judged`.
    """

    def __init__(
        self,
        problem: Problem,
        restored: Mapping[str, Any] | None = None,
        stage: Stage | None = None,
        judged: Judged | None = None,
    ) -> None:
        self.problem, self.stage = problem, stage or (lambda _: nullcontext())
        self.judged = judged or (lambda _what, judge, _missing: judge())
        self.setup = problem.setup()
        self.coarse: Setup | None = None
        near = list(problem.task.near or [])
        self.sought = [(number, energy) for number in range(len(problem.sectors)) for energy in near]
        self.found: list[Found] = []
        self.unknowns, self.condition = 0, 1.0
        if restored:
            self.found = [Found(**found) for found in restored["found"]]
            self.unknowns, self.condition = int(restored["unknowns"]), float(restored["condition"])

    def state(self) -> State:
        """Return what was found so far."""
        return {
            "found": [vars(found) for found in self.found],
            "unknowns": self.unknowns,
            "condition": self.condition,
        }

    def advance(self, report: Report) -> None:
        """Find what is left; a stop within a search repeats that one."""

        def poll() -> None:
            report(Progress())

        for number, energy in self.sought[len(self.found) :]:
            sector, pairs = self.problem.sectors[number], self.problem.pairs()[number]
            operator = self.setup.operator(sector.L, sector.S, pairs, 1.0)
            with self.stage("solve"):
                found = _search(operator, sector, energy, self.problem, poll)
            if self.problem.errors:
                with self.stage("errors"):
                    found.moved, found.error, found.width_error = self.judged(
                        "the error of a resonance",
                        partial(self._errors, number, found, poll),
                        (math.nan, math.nan, math.nan),
                    )
            self.unknowns = max(self.unknowns, operator.unknowns)
            self.condition = max(self.condition, self.setup.condition)
            self.found.append(found)
            report(Progress(len(self.found)))

    def _errors(self, number: int, found: Found, poll: Callable[[], None]) -> tuple[float, float, float]:
        """Return how a complex energy moves with the coarser grid, and the errors of position and width.

        They are these changes, and there those with other partial waves.  A wave that comes back from the contour changes
        position and width alike.  Partial waves move the position by far more than the width, which therefore has an error of
        its own.
        """
        if self.coarse is None:
            self.coarse = self.problem.setup(coarser=True)
        sector, start = self.problem.sectors[number], found.energy.real
        operator = self.coarse.operator(sector.L, sector.S, self.problem.pairs()[number], 1.0)
        there = _search(operator, sector, start, self.problem, poll).energy
        moved = abs(there - found.energy)
        error, width_error = moved, 2.0 * moved
        other = self.problem.other_pairs()
        if other is not None:
            operator = self.coarse.operator(sector.L, sector.S, other[number], 1.0)
            change = _search(operator, sector, start, self.problem, poll).energy - there
            error += self.problem.beyond * abs(change.real)
            share = max(abs(change.imag), BY_CHANCE * abs(change.real))
            width_error += 2.0 * self.problem.beyond * share
        return float(moved), float(error), float(width_error)

    def result(self) -> ResonanceResult:
        """Return what was found; complete after `advance`."""
        return ResonanceResult(self.problem, self.setup, self.found, self.unknowns, self.condition)


def run_resonances(problem: Problem, monitor: Monitor) -> ResonanceResult:
    """Find the complex energies nearest to those of the deck.

    Raises
    ------
    NumericsError
        If an iteration does not converge.
    """
    search = Resonances(problem, monitor.restored, monitor.stage, monitor.judged)
    drive(search, monitor, total=len(search.sought), unit="energies", what="resonances")
    for found in search.found:
        for text in monitor.judged(
            "what is doubtful about a resonance", lambda f=found: list(_doubts(f)), []
        ):
            monitor.warn(
                f"L = {found.L}, S = {found.S}: {found.energy.real:.6f} hartree, width {found.width:.2e}, {text}"
            )
    return search.result()


def _doubts(found: Found) -> Iterator[str]:
    """Yield what is doubtful about a complex energy."""
    if found.moved > MOVED * max(found.width, 1e-12):
        yield f"moves by {found.moved:.1e} with the contour and basis; it may be no resonance, or needs a larger grid.R"
    elif found.width_error > POOR * found.width:
        percent = 100.0 * found.width_error / found.width
        yield f"the width is known to {percent:.0f} % only; a larger channels.l_max or grid.R is needed"


def _search(
    operator: driven.Driven, sector: Sector, near: float, problem: Problem, poll: Callable[[], None]
) -> Found:
    device, xp = operator.device, operator.device.xp
    v = device.asarray(_start(operator, sector))[None]
    v /= xp.linalg.norm(v.ravel())
    zero = xp.zeros_like(v)
    shift, iterations, change = complex(near), 0, np.inf
    limit = problem.asked.solver.max_iterations
    for step in range(STEPS):
        solved = driven.solve(
            operator,
            v,
            np.array([shift]),
            tolerance=SOLVE,
            max_iterations=limit,
            observe=poll,
        )
        iterations += int(solved.iterations[0])
        v = solved.u / xp.linalg.norm(solved.u.ravel())
        Hv = operator.residual(v, zero, device.asarray(np.zeros(1, complex)))
        quotient = complex(xp.sum(v * Hv) / xp.sum(v * v))
        residual = float(xp.linalg.norm((Hv - quotient * v).ravel()))
        change = abs(quotient - shift) if step >= FIXED else np.inf
        if change < CONVERGED or residual < 0.1 * CONVERGED:
            break
        if step >= FIXED - 1:
            shift = quotient
    else:
        raise NumericsError(
            f"L = {sector.L}, S = {sector.S}: no complex energy near {near:g} hartree after {STEPS} steps, "
            f"last change {change:.1e} hartree",
            hint="an energy nearer to the resonance, or a larger solver.max_iterations",
        )
    u = np.asarray(device.to_host(v[0]))
    count = int(np.count_nonzero(operator.grid.is_real))
    inside = float((np.abs(u[:, :count, :count]) ** 2).sum() / (np.abs(u) ** 2).sum())
    return Found(sector.L, sector.S, near, quotient, residual, iterations, inside)


def _start(operator: driven.Driven, sector: Sector) -> NDArray[np.complex128]:
    """Return two electrons close to the nucleus, in every pair, with the symmetry of the spin."""
    grid = operator.grid
    r, root = np.where(grid.is_real, grid.r.real, 0.0), np.sqrt(grid.w)
    out = []
    for a, b in operator.pairs:
        f = r ** (a + 1) * np.exp(-0.7 * r) * (1.0 - 0.3 * r) * root
        g = r ** (b + 1) * np.exp(-0.5 * r) * root
        product = np.outer(f, g)
        if a == b:
            product = product + exchange_sign(a, b, sector.L, sector.S) * product.T
        out.append(product / np.linalg.norm(product))
    return np.array(out, complex)
