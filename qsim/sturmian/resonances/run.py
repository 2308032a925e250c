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
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.loop import Progress, drive
from qsim.sturmian.deck.collision import NearRange
from qsim.sturmian.deck.symmetry import exchange_sign
from qsim.sturmian.driven import operator as driven
from qsim.sturmian.judging import Judged, unguarded
from qsim.sturmian.resonances.result import Resonance, ResonanceResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.sturmian.deck.collision_symmetry import Sector
    from qsim.sturmian.driven.problem import Problem
    from qsim.sturmian.driven.setup import Setup

# Hartree: last change of an eigenvalue.
CONVERGED = 1e-9
STEPS = 12
# First steps at the energy of the deck, so that the nearest eigenvalue is found.
FIXED = 2
# Relative residual of a solution within the iteration.
SOLVE = 1e-6
# Change of a complex energy with the grid, relative to its width, from which it is no resonance for sure.
MOVED = 0.2
# Hartree: change with the grid below which an energy belongs to a state for sure.
STILL = 1e-5
# Hartree: the same of a range, in which what is nearly bound is shown with a warning.
DRIFT = 1e-3
# Share of the slope of the rotated continuum above which an energy belongs to it.
ROTATED = 0.35
# Relative error of a width that is worth a warning.
POOR = 0.2
# Of the change of the position with the partial waves, that half the width may be off where it does not change.
BY_CHANCE = 1e-3
# Errors over changes with the grid.
SAFETY = 1.5
# Of the modulus of a change with the grid, that either part may be off: waves from the end of the contour move both.
SHARE = 0.2
# Hartree: distance of two energies that are the same state, and imaginary part of a level of the ion.
APART, LEVEL = 1e-7, 1e-6
# Hartree, and widths: distance from where a state was sought that is told.
FAR, WIDTHS = 0.05, 3.0
# Overlap of a state with itself in other partial waves.
SAME = 0.4

Stage = Callable[[str], AbstractContextManager[None]]


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
        judged: Judged = unguarded,
    ) -> None:
        self.problem, self.stage = problem, stage or (lambda _: nullcontext())
        self.judged = judged
        self.setup = problem.setup()
        self.coarse: Setup | None = None
        near = problem.task.sought
        self.sought = [(number, energy) for number in range(len(problem.sectors)) for energy in near]
        # Of a range, what is found twice, beyond it or in the continuum is no answer.
        self.span = (near[0], near[-1]) if isinstance(problem.task.near, NearRange) else None
        self.resonances: list[Resonance] = []
        self.levels: list[str] = []
        self.done, self.unknowns, self.condition = 0, 0, 1.0
        if restored:
            self.resonances = [Resonance(**resonance) for resonance in restored["found"]]
            self.levels = [str(level) for level in restored["levels"]]
            self.done = int(restored["done"])
            self.unknowns, self.condition = int(restored["unknowns"]), float(restored["condition"])

    def state(self) -> State:
        """Return the resonances so far."""
        return {
            "found": [vars(resonance) for resonance in self.resonances],
            "levels": self.levels,
            "done": self.done,
            "unknowns": self.unknowns,
            "condition": self.condition,
        }

    def advance(self, report: Report) -> None:
        """Find the remaining resonances; a stop within a search repeats it."""

        def poll() -> None:
            report(Progress())

        for number, energy in self.sought[self.done :]:
            sector, pairs = self.problem.sectors[number], self.problem.pairs()[number]
            # The energy 1.0 is a placeholder: in the whole grid no function depends on it.
            operator = self.setup.operator(sector.L, sector.S, pairs, 1.0)
            with self.stage("solve"):
                resonance = self._next(operator, sector, energy, poll)
            if resonance is not None and resonance.bound and sector.parity == "natural":
                # Below the ground state of the ion nothing can leave: a level, and no answer to a search of resonances.
                self.levels.append(f"{resonance.name}: {resonance.energy.real:.6f} hartree near {energy:g}")
                resonance = None
            if resonance is not None and self.problem.errors:
                with self.stage("errors"):
                    resonance.moved, resonance.error, resonance.width_error = self.judged(
                        "the error of a resonance",
                        partial(self._errors, number, resonance, poll),
                        (math.nan, math.nan, math.nan),
                    )
            if resonance is not None and (self.span is None or not _drifts(resonance)):
                self.resonances.append(resonance)
            self.unknowns = max(self.unknowns, operator.unknowns)
            self.condition = max(self.condition, self.setup.condition)
            self.done += 1
            report(Progress(self.done))
        if not self.resonances:
            first, last = self.span or (self.sought[0][1], self.sought[-1][1])
            text = f"no resonance was found between {first:g} and {last:g} hartree"
            if self.levels:
                text += f"; {self.levels[0]} is a bound state, which belongs to task: bound"
            raise NumericsError(text, hint="a task.near between the thresholds of the ion")

    def _next(
        self, operator: driven.Driven, sector: Sector, energy: float, poll: Callable[[], None]
    ) -> Resonance | None:
        """Return the state nearest to an energy; None where a range of energies has it already, or it is none of the range."""
        if self.span is None:
            return _search(operator, sector, energy, self.problem, poll)
        try:
            found = _search(operator, sector, energy, self.problem, poll)
        except NumericsError:
            # between two states the iteration may not settle for either
            return None
        known = any(
            one.name == found.name and abs(one.energy - found.energy) < APART for one in self.resonances
        )
        inside = self.span[0] <= found.energy.real <= self.span[1]
        if known or not inside or _rotated(operator, found, self.setup.numbers.angle):
            return None
        return found

    def _errors(
        self, number: int, resonance: Resonance, poll: Callable[[], None]
    ) -> tuple[float, float, float]:
        """Return the change of a complex energy with the coarser grid, and the errors of position and width.

        They are these changes, and there those with other partial waves: of the real part for the position, twice those of the
        imaginary part for the width.
        """
        if self.coarse is None:
            self.coarse = self.problem.setup(coarser=True)
        sector, pairs = self.problem.sectors[number], self.problem.pairs()[number]
        operator = self.coarse.operator(sector.L, sector.S, pairs, 1.0)
        there = _found(operator, sector, complex(resonance.energy.real), self.problem, poll)
        change = there.energy - resonance.energy
        moved = abs(change)
        error, width_error = (SAFETY * part for part in _parts(change, SHARE * moved))
        other = self.problem.other_pairs()
        if other is not None:
            fewer = self.coarse.operator(sector.L, sector.S, other[number], 1.0)
            followed = _followed(operator, fewer, sector, there, self.problem, poll)
            change = followed.energy - there.energy
            # Partial waves move the position by far more than the width.
            parts = _parts(change, BY_CHANCE * abs(change.real))
            error += self.problem.beyond * parts[0]
            width_error += self.problem.beyond * parts[1]
        return float(moved), float(error), float(width_error)

    def result(self) -> ResonanceResult:
        """Return the resonances, those of a range by their energy; complete after `advance`."""
        found = self.resonances
        if self.span is not None:
            number = {sector.name: k for k, sector in enumerate(self.problem.sectors)}
            found = sorted(found, key=lambda one: (number[one.name], one.energy.real))
        return ResonanceResult(self.problem, self.setup, found, self.unknowns, self.condition)


def run(problem: Problem, monitor: Monitor) -> ResonanceResult:
    """Find the complex energies nearest to the energies of the deck.

    Raises
    ------
    NumericsError
        If an iteration does not converge.
    """
    search = Resonances(problem, monitor.restored, monitor.stage, monitor.judged)
    drive(search, monitor, total=len(search.sought), unit="energies", what="resonances")
    for level in search.levels:
        monitor.warn(f"{level} is a bound state, no resonance, and left out; task: bound finds it")
    for resonance in search.resonances:
        warnings: list[str] = monitor.judged(
            "warnings about a resonance", partial(_warnings, resonance, search.span is None), []
        )
        for text in warnings:
            monitor.warn(
                f"{resonance.name}: {resonance.energy.real:.6f} hartree, width {resonance.width:.2e}, {text}"
            )
    return search.result()


def _drifts(resonance: Resonance) -> bool:
    """Tell whether an energy goes with the contour, and belongs to the continuum that turns with it."""
    return not resonance.bound and resonance.moved > max(DRIFT, MOVED * resonance.width)


def _rotated(operator: driven.Driven, found: Resonance, angle: float) -> bool:
    """Tell whether a complex energy lies near a continuum that the contour turns by twice its angle from a level of the ion."""
    levels = np.concatenate([orbital.e for orbital in operator.orbitals.values()])
    below = levels.real[(np.abs(levels.imag) < LEVEL) & (levels.real < found.energy.real)]
    if not below.size:
        return False
    return bool(0.5 * found.width > ROTATED * math.tan(2.0 * angle) * (found.energy.real - below.max()))


def _warnings(resonance: Resonance, alone: bool = True) -> list[str]:
    """Return the warnings of a complex energy, sought alone or in a range."""
    away = abs(resonance.energy.real - resonance.near)
    if alone and away > max(FAR, WIDTHS * resonance.width):
        text = (
            f"lies {away:.2g} hartree from {resonance.near:g}, where it was sought: no nearer state was found"
        )
        return [text, *_of_width(resonance)]
    return _of_width(resonance)


def _of_width(resonance: Resonance) -> list[str]:
    """Return the warnings of a width."""
    # Nothing leaves below the first threshold of an unnatural parity: the contour has no part in it, the width is zero.
    if resonance.bound:
        return []
    # What the contour turns along with itself moves by far more than a state does.
    if resonance.moved < STILL and not resonance.resolved:
        most = max(resonance.width, 0.0) + resonance.width_error
        return [f"the width is not resolved: it is below {most:.1e} hartree"]
    if resonance.moved > MOVED * max(resonance.width, 1e-12):
        return [
            f"moves by {resonance.moved:.1e} with the contour and basis; it may be no resonance, or needs a larger grid.R"
        ]
    if resonance.width_error > POOR * resonance.width:
        percent = 100.0 * resonance.width_error / resonance.width
        return [f"the width is known to {percent:.0f} % only; a larger channels.l_max or grid.R is needed"]
    return []


def _parts(change: complex, least: float) -> tuple[float, float]:
    """Return the errors of position and width by a change of the complex energy, half the width by so much at least."""
    return max(abs(change.real), least), 2.0 * max(abs(change.imag), least)


@dataclass(frozen=True, eq=False)
class Found:
    """A complex energy and its vector.

    Attributes
    ----------
    energy : complex
        Hartree.
    vector : (P, n, n) complex128
        On the grid of the operator, on the device, of norm one.
    residual : float
        ``|H v - E v|``, hartree.
    iterations : int
        Steps of the linear solver.
    """

    energy: complex
    vector: NDArray[np.complex128]
    residual: float
    iterations: int


def _search(
    operator: driven.Driven, sector: Sector, near: float, problem: Problem, poll: Callable[[], None]
) -> Resonance:
    """Return the complex energy nearest to a real one.

    Raises
    ------
    NumericsError
        If the energy still changes after `STEPS` steps.
    """
    found = _found(operator, sector, complex(near), problem, poll)
    # a resonance lives on the real axis, a state of the rotated continuum on the contour
    u = np.asarray(operator.device.to_host(found.vector))
    count = int(np.count_nonzero(operator.grid.is_real))
    inside = float((np.abs(u[:, :count, :count]) ** 2).sum() / (np.abs(u) ** 2).sum())
    # An electron leaves the other in the lowest level of any momentum of the pairs.
    threshold = min(float(orbital.e[0].real) for orbital in operator.orbitals.values())
    return Resonance(
        sector.L,
        sector.S,
        near,
        found.energy,
        found.residual,
        found.iterations,
        inside,
        parity=sector.parity,
        threshold=threshold,
    )


def _followed(
    operator: driven.Driven,
    other: driven.Driven,
    sector: Sector,
    found: Found,
    problem: Problem,
    poll: Callable[[], None],
) -> Found:
    """Return the state of an operator with other pairs that a found one becomes.

    The search begins with the vector itself, in the pairs that both have, at its energy there: the nearest energy may belong
    to another state.

    Raises
    ------
    NumericsError
        If it leads to another state.
    """
    xp = other.device.xp
    v = xp.zeros((len(other.pairs), *found.vector.shape[1:]), dtype=complex)
    for k, pair in enumerate(other.pairs):
        if pair in operator.pairs:
            v[k] = found.vector[operator.pairs.index(pair)]
    v = v[None] / xp.linalg.norm(v.ravel())
    made = _found(other, sector, _quotient(other, v)[0], problem, poll, v)
    if float(abs(xp.sum(v[0] * made.vector))) < SAME * float(abs(xp.sum(made.vector**2))):
        raise NumericsError(
            f"{sector.name}: with other partial waves no state is like that at {found.energy.real:.6f} hartree"
        )
    return made


def _quotient(operator: driven.Driven, v: NDArray[np.complex128]) -> tuple[complex, float]:
    """Return the quotient of Rayleigh of a vector (1, P, n, n) of norm one and its residual, hartree."""
    device, xp = operator.device, operator.device.xp
    Hv = operator.residual(v, xp.zeros_like(v), device.asarray(np.zeros(1, complex)))
    # without conjugation, as H is complex symmetric: the quotient is stationary at its eigenvectors
    quotient = complex(xp.sum(v * Hv) / xp.sum(v * v))
    return quotient, float(xp.linalg.norm((Hv - quotient * v).ravel()))


def _found(
    operator: driven.Driven,
    sector: Sector,
    near: complex,
    problem: Problem,
    poll: Callable[[], None],
    start: NDArray[np.complex128] | None = None,
) -> Found:
    """Return the complex energy nearest to one, by inverse and then Rayleigh-quotient iteration from a vector (1, P, n, n).

    Raises
    ------
    NumericsError
        If the energy still changes after `STEPS` steps.
    """
    device, xp = operator.device, operator.device.xp
    # Inverse iteration, v <- (shift - H)^-1 v: the first steps at the given energy find the nearest
    # eigenvalue, then the Rayleigh quotient takes its place and convergence is cubic.
    v = device.asarray(_start(operator, sector))[None] if start is None else start
    v = v / xp.linalg.norm(v.ravel())
    shift, iterations, change = near, 0, np.inf
    limit = problem.settings.solver.max_iterations
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
        quotient, residual = _quotient(operator, v)
        change = abs(quotient - shift) if step >= FIXED else np.inf
        if change < CONVERGED or residual < 0.1 * CONVERGED:
            return Found(quotient, v[0], residual, iterations)
        if step >= FIXED - 1:
            shift = quotient
    raise NumericsError(
        f"{sector.name}: no complex energy near {near.real:g} hartree after {STEPS} steps, "
        f"last change {change:.1e} hartree",
        hint="an energy nearer to the resonance, or a larger solver.max_iterations",
    )


def _start(operator: driven.Driven, sector: Sector) -> NDArray[np.complex128]:
    """Return two electrons close to the nucleus, in every pair, with the symmetry of the spin."""
    grid = operator.grid
    r, root = np.where(grid.is_real, grid.r.real, 0.0), np.sqrt(grid.w)
    out = []
    for a, b in operator.pairs:
        # A guess of the size of a doubly excited state, with a node as in 2s. Only its overlap
        # with the resonance matters.
        f = r ** (a + 1) * np.exp(-0.7 * r) * (1.0 - 0.3 * r) * root
        g = r ** (b + 1) * np.exp(-0.5 * r) * root
        product = np.outer(f, g)
        if a == b:
            product = product + exchange_sign(a, b, sector.L, sector.S) * product.T
        out.append(product / np.linalg.norm(product))
    return np.array(out, complex)
