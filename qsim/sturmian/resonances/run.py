r"""Resonances: complex energies ``E - i Gamma/2`` of the Hamiltonian on the contour, all of a symmetry in one space.

A doubly excited state is an eigenvector of the very operator of the driven equation, as on a contour its outgoing wave decays.
Its eigenvalue does not depend on angle or radius of the contour once both are large enough.  Eigenvalues of the rotated
continuum do, which the coarser grid of the error estimate shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.loop import Progress, drive
from qsim.sturmian.deck.collision import NearRange
from qsim.sturmian.driven import operator as driven
from qsim.sturmian.judging import Judged, unguarded
from qsim.sturmian.resonances.located import Found, Located, States, levels_of, rotated, states_of
from qsim.sturmian.resonances.result import Resonance, ResonanceResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.sturmian.deck.collision_symmetry import Sector
    from qsim.sturmian.driven.problem import Problem
    from qsim.sturmian.driven.setup import Setup

# Change of a complex energy with the grid, relative to its width, from which it is no resonance for sure.
MOVED = 0.2
# Hartree: change with the grid below which an energy belongs to a state for sure.
STILL = 1e-5
# Hartree: the same of a range, in which what is nearly bound is shown with a warning.
DRIFT = 1e-3
# Relative error of a width that is worth a warning.
POOR = 0.2
# Of the change of the position with the partial waves, that half the width may be off where it does not change.
BY_CHANCE = 1e-3
# Errors over changes with the grid.
SAFETY = 1.5
# Of the modulus of a change with the grid, that either part may be off: waves from the end of the contour move both.
SHARE = 0.2
# Hartree: distance of two energies that are the same state.
APART = 1e-7
# Levels of the ion whose series are looked at, and energies that a warning lists.
LEVELS, SHOWN = 6, 8
# Hartree, and widths: distance from where a state was sought that is told.
FAR, WIDTHS = 0.05, 3.0
# Overlap of a state with itself in other partial waves.
SAME = 0.4

Stage = Callable[[str], AbstractContextManager[None]]


class Resonances:
    """The search of all resonances of a deck, one symmetry after the other.

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
        # States of the symmetry at work in the coarser grid, and there with other partial waves.
        self._there: list[States] | NumericsError | None = None
        self.near = problem.task.sought
        # Of a range, what lies beyond it or in the continuum is no answer.
        self.span = (self.near[0], self.near[-1]) if isinstance(problem.task.near, NearRange) else None
        self.total = None if self.span else len(self.near) * len(problem.sectors)
        self.resonances: list[Resonance] = []
        self.levels: list[str] = []
        # States of a range that are not shown, hartree: which move with the contour, and which no iteration settles for.
        self.moving: list[float] = []
        self.unsettled: list[float] = []
        # Symmetries that are finished, states of the next one, and states of all.
        self.finished, self.within, self.done = 0, 0, 0
        self.unknowns, self.condition = 0, 1.0
        if restored:
            self.resonances = [Resonance(**resonance) for resonance in restored["found"]]
            self.levels = [str(level) for level in restored["levels"]]
            self.moving, self.unsettled = list(restored["moving"]), list(restored["unsettled"])
            self.finished, self.within = int(restored["finished"]), int(restored["within"])
            self.done = int(restored["done"])
            self.unknowns, self.condition = int(restored["unknowns"]), float(restored["condition"])

    def state(self) -> State:
        """Return the resonances so far."""
        return {
            "found": [vars(resonance) for resonance in self.resonances],
            "levels": self.levels,
            "moving": self.moving,
            "unsettled": self.unsettled,
            "finished": self.finished,
            "within": self.within,
            "done": self.done,
            "unknowns": self.unknowns,
            "condition": self.condition,
        }

    def advance(self, report: Report) -> None:
        """Find the remaining resonances; a stop within a search repeats it."""

        def poll() -> None:
            report(Progress())

        while self.finished < len(self.problem.sectors):
            self._of_symmetry(self.finished, report, poll)
            self.finished, self.within = self.finished + 1, 0
        if not self.resonances:
            first, last = self.span or (min(self.near), max(self.near))
            text = f"no resonance was found between {first:g} and {last:g} hartree"
            if self.levels:
                text += f"; {self.levels[0]} is a bound state, which belongs to task: bound"
            if self.moving:
                text += f"; what moves with the contour: {_listed(self.moving)}"
            raise NumericsError(
                text, hint="a task.near between the thresholds of the ion, or a larger grid.R"
            )

    def _of_symmetry(self, number: int, report: Report, poll: Callable[[], None]) -> None:
        """Find the remaining resonances of one symmetry."""
        sector, pairs = self.problem.sectors[number], self.problem.pairs()[number]
        # The energy 1.0 is a placeholder: in the whole grid no function depends on it.
        operator = self.setup.operator(sector.L, sector.S, pairs, 1.0)
        with self.stage("solve"):
            states = self._states(operator, poll)
        self._there = None
        for near, state in self._sought(states)[self.within :]:
            with self.stage("solve"):
                resonance = self._next(sector, near, state, states, poll)
            if resonance is not None and resonance.bound and sector.parity == "natural":
                # Below the ground state of the ion nothing can leave: a level, and no answer to a search of resonances.
                self.levels.append(f"{resonance.name}: {resonance.energy.real:.6f} hartree near {near:g}")
                resonance = None
            if resonance is not None and self.problem.errors:
                with self.stage("errors"):
                    resonance.moved, resonance.error, resonance.width_error = self.judged(
                        "the error of a resonance",
                        partial(self._errors, number, resonance, poll),
                        (math.nan, math.nan, math.nan),
                    )
            if resonance is not None and self.span is not None and _drifts(resonance):
                self.moving.append(resonance.energy.real)
            elif resonance is not None:
                self.resonances.append(resonance)
            self.unknowns = max(self.unknowns, operator.unknowns)
            self.condition = max(self.condition, self.setup.condition)
            self.within, self.done = self.within + 1, self.done + 1
            report(Progress(self.done))

    def _states(self, operator: driven.Driven, poll: Callable[[], None]) -> States:
        """Return the states of an operator near the energies of the deck."""
        numbers = self.setup.numbers.angle, self.problem.rounding(operator)
        return states_of(operator, self.near, numbers, poll, between=self.span is not None)

    def _sought(self, states: States) -> list[tuple[float, Located]]:
        """Return the states of the space that are sought, nearest to energies of the deck or in a range, and those energies."""
        if self.span is not None:
            found = states.between(*self.span)
            return [(min(self.near, key=lambda E: abs(E - one.energy)), one) for one in found]
        nearest = [(energy, states.nearest(energy)) for energy in self.near]
        if not states.found:
            raise NumericsError(f"no complex energy was found near {self.near[0]:g} hartree")
        return [(energy, state) for energy, state in nearest if state is not None]

    def _next(
        self, sector: Sector, near: float, state: Located, states: States, poll: Callable[[], None]
    ) -> Resonance | None:
        """Return the resonance of a state; None where a range has it already, or it is none of the range."""
        if self.span is None:
            return _search(states, state, sector, near, poll)
        try:
            found = _search(states, state, sector, near, poll)
        except NumericsError:
            self.unsettled.append(state.energy.real)
            return None
        inside = self.span[0] <= found.energy.real <= self.span[1]
        levels = levels_of(states.space.operator)
        if not inside or rotated(found.energy, levels, self.setup.numbers.angle):
            return None
        if any(one.name == found.name and abs(one.energy - found.energy) < APART for one in self.resonances):
            self.unsettled.append(state.energy.real)
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
        other = self.problem.other_pairs()
        if self._there is None:
            variants = [pairs] if other is None else [pairs, other[number]]
            try:
                self._there = [
                    self._states(self.coarse.operator(sector.L, sector.S, some, 1.0), poll)
                    for some in variants
                ]
            except NumericsError as failed:
                self._there = failed
        if isinstance(self._there, NumericsError):
            # for the other states it would be sought in vain as well
            raise self._there
        near = self._there[0].nearest(resonance.energy)
        if near is None:
            raise NumericsError(
                f"{sector.name}: the coarser grid has no state near {resonance.energy.real:.6f} hartree"
            )
        there = self._there[0].refined(near, poll)
        change = there.energy - resonance.energy
        moved = abs(change) + there.off
        error, width_error = (SAFETY * part for part in _parts(change, SHARE * moved))
        if other is not None:
            followed = _followed(self._there, sector, there, poll)
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

    def missing(self) -> list[str]:
        """Return why a range may hold more states than are listed."""
        if self.span is None:
            return []
        out, (first, last) = [], self.span
        for energies, why in (
            (self.moving, "move with the contour and are not listed; a larger grid.R holds more of them"),
            (self.unsettled, "no iteration settled for; a smaller range or task.near beside them finds them"),
        ):
            if energies:
                out.append(f"states near {_listed(energies)} hartree {why}")
        charge, R = self.setup.potential.charge - 1.0, self.setup.numbers.R
        levels = [float(level) for level in self.setup.continuum.levels(0, LEVELS)[0]]
        # Of a series below a threshold the box holds what is bound by more than a state that reaches R, and the others above.
        for level in levels:
            edge = level - charge / R
            if charge > 0.0 and edge < last and level > first:
                text = f"the range is complete up to {max(edge, first):.6g} hartree: above, up to {min(level, last):.6g},"
                out.append(f"{text} states of the series below {level:.6g} reach beyond grid.R = {R:g} bohr")
        return out


def run(problem: Problem, monitor: Monitor) -> ResonanceResult:
    """Find the complex energies nearest to the energies of the deck.

    Raises
    ------
    NumericsError
        If an iteration does not converge.
    """
    search = Resonances(problem, monitor.restored, monitor.stage, monitor.judged)
    drive(search, monitor, total=search.total, unit="states", what="resonances")
    for text in search.missing():
        monitor.warn(f"task.near: {text}")
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


def _listed(energies: list[float]) -> str:
    """Return some energies as text, the first ones of many."""
    shown = ", ".join(f"{energy:.6f}" for energy in energies[:SHOWN])
    return shown if len(energies) <= SHOWN else f"{shown} and {len(energies) - SHOWN} more"


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


def _search(
    states: States, state: Located, sector: Sector, near: float, poll: Callable[[], None]
) -> Resonance:
    """Return the resonance that a state of the space becomes.

    Raises
    ------
    NumericsError
        If it does not settle.
    """
    found, operator = states.refined(state, poll), states.space.operator
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


def _followed(spaces: Sequence[States], sector: Sector, found: Found, poll: Callable[[], None]) -> Found:
    """Return the state with other partial waves that a found one becomes.

    It is the one that overlaps most with it in the pairs that both have: the nearest energy may belong to another state.

    Raises
    ------
    NumericsError
        If none is like it.
    """
    own, other = (states.space.operator for states in spaces)
    xp = other.device.xp
    v = xp.zeros((len(other.pairs), *found.vector.shape[1:]), dtype=complex)
    for k, pair in enumerate(other.pairs):
        if pair in own.pairs:
            v[k] = found.vector[own.pairs.index(pair)]
    v /= xp.linalg.norm(v.ravel())
    near = spaces[1].like(v, found.energy.real)
    made = None if near is None else spaces[1].refined(near, poll)
    if made is None or float(abs(xp.sum(v * made.vector))) < SAME * float(abs(xp.sum(made.vector**2))):
        raise NumericsError(
            f"{sector.name}: with other partial waves no state is like that at {found.energy.real:.6f} hartree"
        )
    return made
