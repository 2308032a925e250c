"""Run of `task: response`: an atom at several l_max, and once more in a smaller basis and box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.run.loop import Progress, drive
from qsim.sturmian.deck.response import Response
from qsim.sturmian.radial import automatic
from qsim.sturmian.response import numbers
from qsim.sturmian.response.curves import Curve, curve, curve_nodes
from qsim.sturmian.response.limits import limits_of
from qsim.sturmian.response.problem import ResponseProblem
from qsim.sturmian.response.result import ResponseResult
from qsim.sturmian.response.sectors import Level, all_levels
from qsim.sturmian.response.solutions import Atom, Frequencies
from qsim.sturmian.response.warnings import warnings, without_lifetime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.sturmian.response.solutions import Reached

__all__ = ["Responses", "run"]

# Share of the functions and of the radius in the smaller basis, whose results tell what the basis leaves out.
FEWER, SMALLER = 0.9, 0.9
# Points of an element that the coarser grid has less, and the least that it has.
LESS, LEAST = 2, 4
# Imaginary frequencies of the solutions behind C6, relative to the ionisation energy.
IMAGINARY = np.geomspace(0.05, 100.0, 9)
# Hartree: a frequency nearer to a level has no polarisability without a width.
ON_A_LEVEL = 1e-4
# Share of a source along a level from which the level counts.
SEEN = 1e-10
# Roots among which a level is named.
HIGHEST = 12


@dataclass(frozen=True)
class Point:
    """One solution of the atom: its l_max, whether the basis is the smaller one, and whether a table is its other curve there."""

    l_max: int
    coarse: bool
    table: bool = False


def run(problem: ResponseProblem, monitor: Monitor) -> ResponseResult:
    """Find the levels, their transitions and first-order functions at every l_max, and extrapolate.

    Raises
    ------
    NumericsError
        If a search does not converge, or a level is not bound.
    DeckError
        If a frequency lies on a level, or above the ionisation energy.
    """
    responses = Responses(problem, monitor.restored)
    with monitor.stage("response"):
        drive(
            responses,
            monitor,
            total=len(responses.points),
            unit="solutions",
            what="response",
            done=len(responses.done) or None,
        )
    result = responses.result()
    for text in without_lifetime(result):
        monitor.note(text)
    texts: list[str] = monitor.judged("warnings about the response", lambda: list(warnings(result)), [])
    for text in texts:
        monitor.warn(text)
    return result


class Responses:
    """All solutions of a deck, one after the other.

    Parameters
    ----------
    problem : ResponseProblem
    restored : mapping, optional
        State to continue from.
    """

    def __init__(self, problem: ResponseProblem, restored: Mapping[str, Any] | None = None) -> None:
        assert isinstance(problem.task, Response)
        self.problem, self.task = problem, problem.task
        self.states = [Level(*state) for state in problem.order]
        wanted = set(self.task.observables)
        self.levels = all_levels(self.states, lifetimes="lifetimes" in wanted)
        self.alpha = "polarisability" in wanted
        self.fields = self.alpha or "c6" in wanted or "sum_rules" in wanted
        self.gauges = list(self.task.gauges)
        self.waves = problem.extrapolate
        self.points = [Point(l_max, False) for l_max in self.waves] + [Point(self.waves[-1], True)]
        # What the rows of a table leave open is an error of every number.
        if problem.potential.left_open():
            self.points.append(Point(self.waves[-1], True, table=True))
        self.done: list[dict[str, NDArray[np.float64]]] = []
        self.curves: list[dict[str, NDArray[np.float64]]] = []
        if restored:
            self.done = [dict(found) for found in restored["done"]]
            self.curves = [dict(found) for found in restored["curves"]]

    def state(self) -> State:
        """Return the numbers of the solutions so far."""
        return {"done": list(self.done), "curves": list(self.curves)}

    def advance(self, report: Report) -> None:
        """Find the remaining solutions; a stop within one repeats it."""
        for point in self.points[len(self.done) :]:
            self.done.append(self._solve(point, report))
            report(Progress(len(self.done)))

    def result(self) -> ResponseResult:
        """Return limits and errors; complete after `advance`."""
        count = len(self.waves)
        partial = {name: np.stack([found[name] for found in self.done[:count]]) for name in self.done[0]}
        return ResponseResult(
            problem=self.problem,
            levels=self.levels,
            partial=partial,
            limits=limits_of(self.waves, partial, self.done[count:], self.levels, self.problem),
            curves=[Curve(**found) for found in self.curves],
        )

    def _smaller(self) -> ResponseProblem:
        """Return the problem with fewer functions or a coarser grid, in a smaller box unless the deck gives its elements."""
        problem = self.problem
        changes: dict[str, Any] = {}
        if problem.is_gsf:
            sizes = [problem.size(l) for l in range(len(problem.values.sizes))]
            changes["N"] = [max(2, round(FEWER * size)) for size in sizes]
        else:
            changes["order"] = max(LEAST, problem.grid.order - LESS)
        if not isinstance(problem.radial.grid.elements, list):
            changes["R"] = SMALLER * problem.values.R
        smaller = problem.with_(**changes)
        assert isinstance(smaller, ResponseProblem)
        return smaller

    def _solve(self, point: Point, report: Report) -> dict[str, NDArray[np.float64]]:
        """Return all numbers of a point as arrays."""
        problem = self._smaller() if point.coarse else self.problem
        if point.table:
            (other,) = (one for one in problem.doubted() if one.radial.system is not problem.radial.system)
            assert isinstance(other, ResponseProblem)
            problem = other
        atom = Atom(problem, point.l_max, self.levels, lambda: report(Progress()))
        found = {
            "energy": np.array([atom.energy(level) for level in self.levels]),
            "threshold": np.array([atom.threshold(level) for level in self.levels]),
        }
        found |= numbers.transitions(atom, self.levels, self.gauges, self.task.multipoles)
        if self.fields:
            found |= self._fields(atom, last=point == Point(self.waves[-1], False))
        return found

    # -------------------------------------------------------------------------------- fields

    def _fields(self, atom: Atom, *, last: bool) -> dict[str, NDArray[np.float64]]:
        """Return polarisabilities, dispersion coefficients and sums; of the last solution keep the curves, too."""
        gauges = [gauge for gauge in self.gauges if gauge != "acceleration"] or ["length"]
        frequencies = self.task.frequencies
        orders = sorted({1, *self.task.multipoles}) if self.alpha else [1]
        shape = (len(self.states), len(self.task.multipoles), len(frequencies), len(gauges))
        alpha, tensor = np.full(shape, np.nan), np.full(shape, np.nan)
        dipoles: list[list[Reached]] = []
        closures, spectra = [], []
        for k, state in enumerate(self.states):
            if self.alpha:
                self._require_below(atom, state, last=last)
            for order in orders:
                responses = atom.reached(state, order, self._nodes(atom, k, order, last=last))
                if order == 1:
                    dipoles.append(responses)
                    closure, spectral = numbers.sums(state, responses, self._at_nucleus(atom, state))
                    closures.append(closure)
                    spectra.append(spectral)
                if not self.alpha or order not in self.task.multipoles:
                    continue
                self._require_off_levels(atom, state, order, responses)
                place = self.task.multipoles.index(order)
                for g, gauge in enumerate(gauges):
                    if order > 1 and gauge != "length":
                        continue
                    for w, omega in enumerate(frequencies):
                        parts = numbers.fields(responses, gauge == "velocity", omega)
                        alpha[k, place, w, g] = numbers.scalar_part(state, order, parts)
                        tensor[k, place, w, g] = numbers.tensor_part(state, order, parts)
        if last and self.alpha:
            self.curves = [
                vars(curve(state, responses, self._ionisation(atom, state)))
                for state, responses in zip(self.states, dipoles, strict=True)
            ]
        found = {"alpha": alpha, "alpha_tensor": tensor} if self.alpha else {}
        found |= {"closure": np.array(closures), "spectral": np.array(spectra)}
        return found | self._dispersion(atom, dipoles)

    def _nodes(self, atom: Atom, k: int, order: int, *, last: bool) -> Frequencies:
        """Return the frequencies whose equations are solved for a state: static, those of the deck, imaginary ones, a curve's."""
        ionisation = self._ionisation(atom, self.states[k])
        real = {0.0}
        if self.alpha:
            real |= {sign * omega for omega in self.task.frequencies for sign in (1, -1)}
        # in a fixed order, on which the last bits depend
        nodes = [complex(x) for x in sorted(real)]
        velocity = nodes if order == 1 and self.alpha and "velocity" in self.gauges else []
        imaginary = []
        if order == 1 and k in self.problem.attracting:
            imaginary = [1j * float(x) * ionisation for x in IMAGINARY]
        rough = curve_nodes(ionisation) if order == 1 and last and self.alpha else []
        return Frequencies(nodes + imaginary, velocity, rough)

    def _ionisation(self, atom: Atom, state: Level) -> float:
        return atom.threshold(state) - atom.energy(state)

    def _at_nucleus(self, atom: Atom, state: Level) -> float:
        """Return Z times the density at the nucleus; NaN where the potential is not that of the nucleus alone."""
        if not self.problem.is_bare:
            return float("nan")
        return self.problem.Z * numbers.density_at_nucleus(atom.problem.grid, atom.on_grid(state))

    def _dispersion(self, atom: Atom, dipoles: Sequence[Sequence[Reached]]) -> dict[str, NDArray[np.float64]]:
        """Return dispersion coefficients of the pairs, and what they are made of."""
        pairs = self.problem.partners
        if not pairs:
            return {}
        scales = [self._ionisation(atom, state) for state in self.states]
        c6 = [
            numbers.dispersion(dipoles[a], dipoles[b], float(np.sqrt(scales[a] * scales[b])))
            for a, b in pairs
        ]
        used, others = self.problem.attracting, self.problem.others
        omega = numbers.casimir_nodes(1.0, numbers.STORED)[0]
        found = {
            "c6": np.array(c6),
            "alpha_imaginary": np.stack([numbers.at_imaginary(dipoles[k], omega) for k in used]),
        }
        if others:
            # the coefficient, and what the error of the other atom makes of it
            for name, part in (("c6_with", "alpha"), ("c6_with_off", "error")):
                rows = [
                    [numbers.dispersion_with(dipoles[k], getattr(one, part)) for one in others] for k in used
                ]
                found[name] = np.array(rows)
        return found

    # ------------------------------------------------------------------------------ refusals

    def _nearest(self, ionisation: float, L: int, S: int) -> str:
        """Return the name of the level of natural parity whose ionisation energy is nearest to one, hartree."""
        estimates = [automatic.ionisation(self.problem.Z, L, S, root) for root in range(HIGHEST)]
        root = int(np.argmin(np.abs(np.array(estimates) - ionisation)))
        return Level(L, S, "odd" if L % 2 else "even", root).name

    def _key(self, number: int) -> str:
        return f"task.omega.{number}" if isinstance(self.task.omega, list) else "task.omega"

    def _require_below(self, atom: Atom, state: Level, *, last: bool) -> None:
        """Refuse frequencies that ionise a state: its polarisability is complex there."""
        ionisation = self._ionisation(atom, state)
        for number, omega in enumerate(self.task.frequencies):
            if omega < ionisation:
                continue
            text = (
                f"{omega:g} hartree ionises {state.name}, whose ionisation energy is {ionisation:.6g} hartree"
            )
            remedy = "give a lower frequency, or take {type: scatter, process: photo}"
            if not last:
                # The limit of all partial waves needs this solution, too.
                text = f"{text} with the fewest partial waves that the limit needs"
                remedy = f"raise channels.l_max, {remedy}"
            self.problem.refuse([Finding(self._key(number), f"{text}; {remedy}")])

    def _require_off_levels(self, atom: Atom, state: Level, order: int, responses: Sequence[Reached]) -> None:
        """Refuse frequencies on a level that the multipole reaches."""
        for number, omega in enumerate(self.task.frequencies):
            for one in responses:
                dE, b = one.lengths.levels, one.lengths.strengths
                near = (np.abs(np.abs(dE) - omega) < ON_A_LEVEL) & (b**2 > SEEN * np.sum(b**2))
                if near.any():
                    at = float(dE[near][0])
                    name = f"of L = {one.L}"
                    if self.problem.is_bare and state.is_natural and (one.L - state.L - order) % 2 == 0:
                        name = self._nearest(self._ionisation(atom, state) - at, one.L, state.S)
                    text = f"omega is on the level {name} ({at:+.6g} hartree from {state.name}), within {ON_A_LEVEL:g} of which"
                    text = f"{text} the width decides; give another frequency"
                    self.problem.refuse([Finding(self._key(number), text)])
