"""`task: plane`: carry the state from output time to output time, observe it, and analyse what was recorded.

The run is a fixed sequence of calls that depends on the deck alone, so that a resumed run repeats exactly the calls of an
uninterrupted one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.checkpoint import fitting
from qsim.core.run.loop import drive
from qsim.tridiag.deck.plane import PlaneDensity
from qsim.tridiag.plane import companions
from qsim.tridiag.plane.observables import map_row, row, sums
from qsim.tridiag.plane.result import PlaneResult
from qsim.tridiag.tdse import harmonics, step_search
from qsim.tridiag.tdse.scan.problem import Evolution

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.plane.problem import PlaneProblem
    from qsim.tridiag.tdse.scan.problem import Remarks

__all__ = ["PlaneEvolution", "run_plane"]

# points times steps of one call, at most: about half a second
PIECE = 5e7
# norm beside the walls above which a warning is given, relative to the norm
WALL = 1e-6
# exchange defect that is more than rounding
BROKEN = 1e-9


class PlaneEvolution(Evolution):
    """The propagation from output time to output time, and what is recorded on the way.

    Parameters
    ----------
    problem : PlaneProblem
    restored : mapping, optional
        State to continue from.
    """

    def __init__(self, problem: PlaneProblem, restored: Mapping[str, Any] | None = None) -> None:
        self.problem = problem
        self._frames, self._maps = set(problem.frames.tolist()), set(problem.map_frames.tolist())
        if restored is None:
            self.start = 0
            self.propagator = problem.propagator(problem.psi0, 0)
            first = self.sums()
            self.trace = [np.array([[0.0, *first]])]
            self.rows = [row(problem, self.propagator, 0, first)]
            self.maps = [map_row(problem, self.propagator)]
            return
        self.start = int(restored["step"])
        psi = fitting(restored, "psi", problem.lattice.shape)
        self.propagator = problem.propagator(psi, self.start)
        self.propagator.lost = np.array(restored["lost"], float)
        self.trace = [restored["trace"]]
        self.rows, self.maps = _unstacked(restored["rows"]), _unstacked(restored["maps"])

    def sums(self) -> NDArray[np.float64]:
        """Return norm, dipole, mean force and norms of the regions, (6,)."""
        return sums(self.problem, self.propagator)

    @property
    def remaining(self) -> list[list[int]]:
        """Step numbers of the samples that are still to come, one to a call."""
        problem = self.problem
        # long intervals are cut, so that signals are seen; the same pieces whenever the run was interrupted
        n, m = problem.lattice.shape
        piece = max(1, int(PIECE / (n * m * len(self.propagator.stages))))
        marks = np.unique(
            np.concatenate(
                [
                    problem.frames,
                    np.arange(0, problem.steps + 1, problem.every),
                    np.arange(0, problem.steps + 1, piece),
                ]
            )
        )
        return [[int(mark)] for mark in marks if mark > self.start]

    def to(self, marks: Sequence[int]) -> NDArray[np.float64]:
        """Propagate to the next mark, record, and return the last sums; errors as in `Evolution`."""
        problem, propagator = self.problem, self.propagator
        mark = marks[-1]
        propagator.advance(mark - propagator.step)
        found = self.sums()
        if not math.isfinite(found[0]):
            raise NumericsError(f"norm is {found[0]} after {mark} steps", hint="lower time.dt")
        if mark % problem.every == 0:
            self.trace.append(np.array([[float(mark), *found]]))
        if mark in self._frames:
            self.rows.append(row(problem, propagator, mark, found))
        if mark in self._maps or mark == problem.steps:
            self.maps.append(map_row(problem, propagator))
        return found

    def state(self) -> State:
        """Return what continues the propagation bit for bit."""
        return {
            "step": self.propagator.step,
            "steps": self.problem.steps,
            "psi": self.propagator.psi,
            "lost": self.propagator.lost,
            "trace": np.concatenate(self.trace),
            "rows": _stacked(self.rows),
            "maps": _stacked(self.maps),
        }

    def result(self) -> PlaneResult:
        """Return what the complete propagation leaves."""
        return PlaneResult(
            problem=self.problem,
            frames=_stacked(self.rows),
            maps=_stacked(self.maps),
            trace=np.concatenate(self.trace),
            psi=self.propagator.psi,
        )


def _stacked(rows: list[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    return {name: np.array([one[name] for one in rows]) for name in rows[0]}


def _unstacked(columns: Mapping[str, NDArray[Any]]) -> list[dict[str, Any]]:
    count = len(next(iter(columns.values())))
    return [{name: values[k] for name, values in columns.items()} for k in range(count)]


def run_plane(problem: PlaneProblem, monitor: Monitor) -> PlaneResult:
    """Find the steps if they are left open, propagate, record, analyse."""
    if problem.accuracy is not None:
        problem = problem.with_steps(step_search.settled_steps(_search(problem, problem.accuracy), monitor))
    evolution = PlaneEvolution(problem, step_search.propagated(monitor))
    with monitor.stage("propagate"):
        drive(evolution, monitor, total=problem.steps, unit="steps", what="propagate", done=evolution.start)
    with monitor.stage("analyse"):
        result = evolution.result()
        analyse(result, monitor)
        none: Remarks = []
        if companions.claimed(problem, monitor):
            find = partial(companions.claim, result, evolution.state, monitor, companion)
            for *_, text in monitor.judged("the errors of the numbers", find, none):
                monitor.warn(text)
        for *_, text in monitor.judged("warnings about the run", lambda: list(warnings(result)), none):
            monitor.warn(text)
    return result


def _search(problem: PlaneProblem, allowed: float) -> step_search.Search:
    """Return what the search for the step of a run needs."""

    def trial(steps: int, report: Report) -> dict[str, float]:
        return companions.numbers(companion(problem.with_steps(steps), report))

    longest = step_search.longest_step(problem.pulse.fastest)
    return step_search.Search(allowed, problem.order, problem.dt, problem.t_final, longest, trial)


def companion(problem: PlaneProblem, report: Report) -> PlaneResult:
    """Return the result of a companion of a run, without maps in between and with the spectra of the run."""
    observed = replace(problem.observed, density=PlaneDensity(maps=1, points=2), gabor=None)
    evolution = PlaneEvolution(replace(problem, observed=observed, outputs=1))
    evolution.advance(report)
    result = evolution.result()
    analyse(result)
    return result


def analyse(result: PlaneResult, monitor: Monitor | None = None) -> None:
    """Add the spectra of a run.

    Parameters
    ----------
    result
        The propagation.
    monitor
        Told of what fails, which costs nothing of the rest; without it an exception is raised.
    """
    observed = result.problem.observed
    parts: dict[str, Callable[[PlaneResult], None]] = {}
    if observed.hhg is not None:
        parts["the harmonic spectrum"] = harmonics.spectrum
    if observed.gabor is not None:
        parts["the time-frequency map"] = harmonics.time_frequency_map
    for what, part in parts.items():
        if monitor is None:
            part(result)
        else:
            monitor.judged(what, partial(part, result), None)


def warnings(result: PlaneResult) -> Iterator[tuple[str, float, str]]:
    """Yield what a user must know of the end of a run: a short name, how bad it is, and the text."""
    problem, frames = result.problem, result.frames
    wall = float(frames["wall_density"].max())
    if wall > WALL * max(float(frames["norm"][-1]), 1e-300):
        remedy = "add an absorber" if problem.absorber.type == "none" else "strengthen the absorber"
        text = f"the points beside the walls have held {wall:.2g} of the norm, which the walls turn back: widen grid, or {remedy}"
        yield "walls", wall, text
    if problem.lattice.exchange and (defect := float(result.maps["exchange_defect"].max())) > BROKEN:
        text = f"the exchange symmetry is broken by {defect:.2g}: lower time.dt"
        yield "exchange", defect, text
