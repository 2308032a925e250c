"""`task: atom`: carry the state from output time to output time, observe it, and analyse what was recorded.

The run is a fixed sequence of calls that depends on the deck alone, so that a resumed run repeats exactly the calls of an
uninterrupted one.  With ``grid.l_max: auto`` the number of angular momenta grows, with ``grid.rmax: auto`` and without an
absorber the number of points: by what the last of them hold at certain steps.
"""

from __future__ import annotations

import math
import time as clock
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.checkpoint import fitting
from qsim.core.run.loop import drive
from qsim.tridiag.atom import accuracy
from qsim.tridiag.atom.evolution.cuda import CudaMember
from qsim.tridiag.atom.evolution.propagator import truncated
from qsim.tridiag.atom.photoelectrons import analysis as photoelectrons
from qsim.tridiag.atom.photoelectrons import surface
from qsim.tridiag.atom.photoelectrons.flux import sample_steps
from qsim.tridiag.atom.problem import enough
from qsim.tridiag.atom.resonance import search as resonance
from qsim.tridiag.atom.result import AtomResult, unpacked
from qsim.tridiag.atom.states import observables
from qsim.tridiag.atom.states.levels import bound_population
from qsim.tridiag.deck.atom import AtomObserved, AtomPopulations
from qsim.tridiag.tdse import harmonics, step_search
from qsim.tridiag.tdse.scan.problem import Evolution

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.atom.evolution.cuda import AnyPropagator
    from qsim.tridiag.atom.problem import AtomProblem

__all__ = ["SPECTRA", "WARNINGS", "AtomEvolution", "analyse", "begun", "run_atom", "warnings"]

# what may fail
SPECTRA, WARNINGS = "the photoelectron spectra", "warnings about the run"
ERRORS = "the errors of the numbers"
# samples of the trace that one call on a GPU takes, at most
GROUP = 256
# complex numbers times steps of a call on a CPU, at most: some hundredths of a second
NUMBERS = 10_000_000
# last points, whose norm is `wall_density`
EDGE = 25
# norm of the last two l at which grid.l_max: auto grows: in velocity gauge a dense core leaves more than 1e-11 in high l
GROW = {"length": 1e-11, "velocity": 1e-9}
# norm of the last points at which grid.rmax: auto grows
WIDEN = 1e-14
# l added at a time, at least
ROOM = 4
# norm of the last l from which a warning is given
LAST_L = 1e-8
# of a logarithm of the norm
ROUNDING = 1e-12
# norm set to zero at a dense core from which a warning is given
CLEARED = 1e-6


class AtomEvolution(Evolution):
    """The propagation from output time to output time, and what is recorded on the way.

    Parameters
    ----------
    problem : AtomProblem
    restored : mapping, optional
        State to continue from.
    propagator : AnyPropagator, optional
        At t = 0, or at the restored time: a member of a batch; else one of its own.
    """

    def __init__(
        self,
        problem: AtomProblem,
        restored: Mapping[str, Any] | None = None,
        propagator: AnyPropagator | None = None,
    ) -> None:
        self.problem = problem
        lattice, setting = problem.lattice, problem.setting
        self.seconds, self.worked = 0.0, 0.0
        # a run that is continued has the l and the points that it had grown to
        lmax, points = begun(problem, restored)
        self.propagator = (
            problem.propagator(truncated(lattice, points), lmax, None, setting.dt)
            if propagator is None
            else propagator
        )
        self._frames = set(problem.frames.tolist())
        self._looks = set(problem.looks.tolist()) | self._frames
        if restored is None:
            self.trace = [np.array([[0.0, *self.sums()]])]
            self.rows = [self._row(0)]
            self.flux = [self._crossing(0)]
        else:
            p = self.propagator
            shape = (points, 4 * p.lanes.plain.pairs)
            # grid and channels of the state are those to which it had grown
            p.restore(fitting(restored, "state", shape), int(restored["step"]), float(restored["lost"]))
            self.trace = [restored["trace"]]
            self.rows = _unstacked(restored["rows"])
            self.flux = list(restored["flux"])
        self.start = self.at = self.propagator.step

    @property
    def phi(self) -> NDArray[np.complex128]:
        """The state on all points of the grid (used, n), zero beyond those that the box has grown to."""
        # the file has all points of the grid, whatever the box has grown to
        phi, n = self.propagator.phi, self.problem.lattice.grid.points
        return phi if phi.shape[1] == n else np.pad(phi, ((0, 0), (0, n - phi.shape[1])))

    def sums(self) -> NDArray[np.float64]:
        """Return norm, dipole and mean force (along z, or along x and y), and the norm of the last l."""
        return self.propagator.sums()

    @property
    def remaining(self) -> list[list[int]]:
        """Step numbers that are still to come, of output times and of the fine trace, in the groups that make one call.

        On a GPU, and where several threads share the steps, a group goes on to the next output time, unless states are needed on
        the way.
        """
        problem = self.problem
        # marks: output times, samples of the fine trace, and steps at which the grid may grow
        samples = np.arange(0, problem.setting.steps + 1, problem.every)
        marks = np.unique(np.concatenate([problem.frames, samples, problem.looks])).tolist()
        # one call takes the sums of many marks, unless the state itself is needed at them
        p = self.propagator
        alone = not p.in_one or bool(problem.spheres)
        most = GROUP if isinstance(p, CudaMember) else max(1, NUMBERS // (p.numbers * problem.every))
        groups: list[list[int]] = [[]]
        for mark in marks:
            groups[-1].append(int(mark))
            if alone or mark in self._looks or len(groups[-1]) == min(most, GROUP):
                groups.append([])
        return [group for group in groups if group and group[-1] > self.start]

    def to(self, marks: Sequence[int]) -> NDArray[np.float64]:
        """Propagate to the next marks, record, and return the last `sums`; errors as in `Evolution`."""
        begun = clock.perf_counter()
        sums = self.propagator.sampled(marks)
        return self.record(marks, sums, clock.perf_counter() - begun)

    def record(self, marks: Sequence[int], sums: NDArray[np.float64], seconds: float) -> NDArray[np.float64]:
        """Record what marks had, the state being that at the last; return the last `sums`.

        Parameters
        ----------
        marks : list of int
        sums : (marks, ...) float64
        seconds : float
            Of the steps.

        Raises
        ------
        NumericsError
            If the norm is not finite.
        """
        problem = self.problem
        self.seconds += seconds
        # for the time per point and step: channels and box may have grown since
        self.worked += (marks[-1] - self.at) * self.propagator.numbers
        self.at = marks[-1]
        # flux and trace at multiples of `every`; output times and looks are marks of their own
        for mark, one in zip(marks, sums, strict=True):
            if mark % problem.every == 0:
                self.trace.append(np.array([[float(mark), *one]]))
                self.flux.append(self._crossing(mark))
            if not math.isfinite(one[0]):
                raise NumericsError(f"norm is {one[0]} after {mark} steps", hint="lower time.dt")
        if self.at in self._frames:
            self.rows.append(self._row(self.at))
        if self.at in self._looks:
            self._grow()
        return np.asarray(sums[-1])

    def _crossing(self, step: int) -> NDArray[np.complex128]:
        """Return u_l and its slope on the spheres, (spheres, 2, used), in velocity gauge."""
        problem, lanes = self.problem, self.propagator.lanes
        if not problem.spheres:
            return np.zeros((0, 2, lanes.used), complex)
        a = problem.vector(step * problem.setting.dt)
        # u is in velocity gauge already: no further turn by A
        if problem.velocity:
            a = np.zeros_like(a)
        near = [self.propagator.near(one.window) for one in problem.spheres]
        return np.array(
            [
                surface.values(phi, problem.lattice, lanes, one, a)
                for phi, one in zip(near, problem.spheres, strict=True)
            ]
        )

    def _grow(self) -> None:
        """Add angular momenta and points where ``auto`` needs them."""
        p, problem = self.propagator, self.problem
        setting, whole = problem.setting, problem.lattice.grid.points
        points, lmax = p.lattice.grid.points, p.lanes.lmax
        # nothing is propagated after the end
        if p.step == setting.steps or not (setting.grows or points < whole):
            return
        # norm of the last two l, and of the last points: what reaches them would be cut off soon
        high, outer = p.edges(min(problem.watched, points))
        if setting.grows and high >= GROW[setting.gauge]:
            lmax += max(0, min(max(ROOM, (lmax - p.lanes.lowest + 1) // 3), problem.most - lmax))
        if outer >= WIDEN:
            points = min(points + max(2 * problem.watched, points // 4), whole)
        if lmax == p.lanes.lmax and points == p.lattice.grid.points:
            return
        # the wider state holds the old one and zeros; tables of the propagator are made anew
        phi, new_lanes = p.phi, p.lanes.wider(lmax)
        wider = np.zeros((new_lanes.used, points), dtype=complex)
        wider[new_lanes.ls <= p.lanes.lmax, : phi.shape[1]] = phi
        new = problem.propagator(truncated(problem.lattice, points), lmax, wider, p.dt)
        new.count_from(p.step, p.lost)
        self.propagator = new

    def _row(self, step: int) -> dict[str, Any]:
        """Observe the state at an output time."""
        problem, p = self.problem, self.propagator
        lattice, grid = problem.lattice, problem.lattice.grid
        t = step * problem.setting.dt
        a = problem.kick(t)
        phi = self.phi
        density = np.abs(phi) ** 2
        norm, dipole, force, last = unpacked(self.sums())
        # levels live near the nucleus: the state is turned to length gauge there alone
        reach = max((_reach(level.phi) for level in problem.levels), default=1)
        # populations refer to the length-gauge state
        bare = observables.length_gauge(phi[:, :reach], grid.r[:reach], p.lanes, a)
        # norm up to each cell edge, for norms within radii by interpolation
        radial = density.sum(axis=0)
        inside = np.concatenate([[0.0], np.cumsum(radial)])
        row: dict[str, Any] = {
            "norm": norm,
            "dipole": dipole,
            # Ehrenfest, with what is left of the norm: the field acts on the part that is still there
            "acceleration": -force - problem.electric(t) * norm,
            "velocity": observables.momentum(phi, lattice, p.lanes) + a * norm,
            "populations": observables.populations(bare, problem.levels, p.lanes),
            "last": last,
            "wall": float(radial[: p.lattice.grid.points][-EDGE:].sum()),
            "radial_density": radial[self.columns] / grid.slope[self.columns],
            "population_l": observables.by_momentum(density.sum(axis=1), p.lanes),
        }
        radii = np.array(problem.observed.norm_within)
        edges = np.concatenate([[0.0], grid.r + 0.5 * grid.slope])
        if radii.size:
            row["norm_within"] = np.interp(radii, edges, inside)
        return row

    @property
    def columns(self) -> slice:
        """Points of the radial density that are stored."""
        n = self.problem.lattice.grid.points
        return slice(0, n, max(1, -(-n // self.problem.observed.density.points)))

    def state(self) -> State:
        """Return what continues the propagation bit for bit."""
        p = self.propagator
        return {
            "step": p.step,
            "steps": self.problem.setting.steps,
            "lmax": p.lanes.lmax,
            "points": p.lattice.grid.points,
            "lost": p.lost,
            "state": p.snapshot(),
            "trace": np.concatenate(self.trace),
            "rows": _stacked(self.rows),
            "flux": _widened(self.flux),
        }

    def result(self) -> AtomResult:
        """Return what the complete propagation leaves."""
        p = self.propagator
        return AtomResult(
            problem=self.problem,
            frames=_stacked(self.rows),
            trace=np.concatenate(self.trace),
            phi=self.phi,
            lanes=p.lanes,
            wall=p.lattice.grid.wall,
            lost=p.lost,
            columns=self.columns,
            flux=_widened(self.flux),
            speed=1e9 * self.seconds / self.worked if self.worked else None,
        )


def begun(problem: AtomProblem, restored: Mapping[str, Any] | None) -> tuple[int, int]:
    """Return the largest l and the number of points with which a run begins, or goes on."""
    if restored is None:
        return problem.setting.lmax, problem.first_points
    return int(restored["lmax"]), int(restored.get("points", problem.lattice.grid.points))


def _reach(phi: NDArray[np.float64] | NDArray[np.complex128]) -> int:
    """Return the number of points that a level lives on."""
    return int(np.flatnonzero(np.abs(phi) > 1e-14)[-1]) + 1


def _stacked(rows: list[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return arrays with one row per output time; rows of l populations are filled up with zeros."""
    # channels may have grown in between
    wide = max(len(row["population_l"]) for row in rows)
    out = {}
    for name in rows[0]:
        values = [np.asarray(row[name], dtype=float) for row in rows]
        if name == "population_l":
            values = [np.pad(value, (0, wide - value.size)) for value in values]
        out[name] = np.array(values)
    return out


def _widened(flux: list[NDArray[np.complex128]]) -> NDArray[np.complex128]:
    """Return the flux of all samples with the channels of the last, (samples, spheres, 2, used)."""
    # earlier samples had fewer l: zeros stand for the missing ones
    wide = flux[-1].shape[-1]
    return np.array([np.pad(one, ((0, 0), (0, 0), (0, wide - one.shape[-1]))) for one in flux])


def _unstacked(columns: Mapping[str, NDArray[Any]]) -> list[dict[str, Any]]:
    count = len(columns["norm"])
    return [{name: values[k] for name, values in columns.items()} for k in range(count)]


def run_atom(problem: AtomProblem, monitor: Monitor) -> AtomResult:
    """Find the steps if they are left open, propagate, record, analyse."""
    if problem.accuracy is not None:
        problem = _with_steps(problem, step_search.settled_steps(_search(problem, problem.accuracy), monitor))
    evolution = AtomEvolution(problem, step_search.propagated(monitor))
    with monitor.stage("propagate"):
        drive(
            evolution,
            monitor,
            total=problem.setting.steps,
            unit="steps",
            what="propagate",
            done=evolution.start,
        )
    with monitor.stage("analyse"):
        result = evolution.result()
        analyse(result, monitor)
        state, judged = evolution.state, monitor.judged
        # what fails in the analysis is told, and costs nothing of the rest
        judged("the resonance", lambda: resonance.find(result, monitor), None)
        judged(SPECTRA, lambda: photoelectrons.photoelectrons(result, state, monitor), None)
        none: list[tuple[str, float, str]] = []
        work = accuracy.work_of(result)
        if accuracy.claimed(problem, work, monitor):
            for *_, text in judged(ERRORS, lambda: errors(result, state, monitor, work), none):
                monitor.warn(text)
        for *_, text in judged(WARNINGS, lambda: list(warnings(result)), none):
            monitor.warn(text)
    return result


def _search(problem: AtomProblem, allowed: float) -> step_search.Search:
    """Return what the search for the step of a run needs."""

    def trial(steps: int, report: Report) -> dict[str, float]:
        # a trial needs norms and populations at the output times, no spectra
        made = replace(
            _with_steps(problem, steps),
            observed=AtomObserved(AtomPopulations(), problem.observed.norm_within),
            spectra=[],
            spheres=[],
            outputs=min(problem.outputs, step_search.SAMPLES),
            every=max(1, steps // step_search.SAMPLES),
        )
        return accuracy.numbers(_companion(made, report))

    order = problem.order if problem.setting.gauge == "length" else 2
    longest = step_search.longest_step(problem.pulse.fastest)
    return step_search.Search(allowed, order, problem.dt, problem.t_final, longest, trial)


def _with_steps(problem: AtomProblem, steps: int) -> AtomProblem:
    """Return the problem with another number of steps, and as many samples of the trace as it had."""
    # proportional to dt, like the number of parts of a step that follows from it
    core = problem.setting.core * problem.setting.steps / steps
    setting = replace(problem.setting, steps=steps, dt=problem.t_final / steps, core=core)
    made = replace(problem, setting=setting)
    return replace(made, every=sample_steps(made))


def errors(
    result: AtomResult, state: Callable[[], State], monitor: Monitor, work: float, *, spectra: bool = True
) -> list[tuple[str, float, str]]:
    """Find the errors of the numbers of a run; return what a user must know of large ones, as `warnings` does."""
    return list(accuracy.claim(result, state, monitor, _companion, work, spectra=spectra))


def _companion(problem: AtomProblem, report: Report) -> AtomResult:
    """Return the result of a companion of a run."""
    evolution = AtomEvolution(problem)
    evolution.advance(report)
    result = evolution.result()
    analyse(result)
    photoelectrons.of_companion(result, report)
    return result


def analyse(result: AtomResult, monitor: Monitor | None = None) -> None:
    """Add what the end of the run tells: bound and free population, energy, spectra.

    Parameters
    ----------
    result
        The propagation.
    monitor
        Told of what fails, which costs nothing of the rest; without it an exception is raised.
    """
    parts: dict[str, Callable[[AtomResult], None]] = {
        "energies and bound population": _ending,
        "the decay rate": _rate,
    }
    if result.problem.observed.hhg is not None:
        parts["the harmonic spectrum"] = harmonics.spectrum
    if result.problem.observed.gabor is not None:
        parts["the time-frequency map"] = harmonics.time_frequency_map
    for what, part in parts.items():
        if monitor is None:
            part(result)
        else:
            monitor.judged(what, partial(part, result), None)


def _ending(result: AtomResult) -> None:
    """Find the energies at both ends and the bound population."""
    problem, lanes = result.problem, result.lanes
    phi = observables.length_gauge(result.phi, problem.lattice.grid.r, lanes, problem.kick(problem.t_final))
    result.numbers["energy_initial"] = observables.energy(
        problem.state(problem.lattice, lanes), problem.lattice, lanes
    )
    result.numbers["energy_final"] = observables.energy(phi, problem.lattice, lanes)
    result.numbers["bound_population"] = bound_population(problem.lattice, lanes.ls, phi, problem.threads)


def _rate(result: AtomResult) -> None:
    """Find the decay rate of the norm in a static field, ``-d ln(norm) / dt`` over the last half of the time after the ramps.

    Its error is the difference of the rates of the two halves of that time.
    """
    problem = result.problem
    blocks = [pulse.block for pulse in problem.pulse.pulses]
    if not blocks or any(
        not pulse.block.constant or math.isfinite(pulse.length) for pulse in problem.pulse.pulses
    ):
        return
    # the norm decays at a steady rate only after the ramp is over, and after the transient that it leaves: half
    # of the time
    begin = max(block.delay + kink for block in blocks for kink in block.kinks())
    time, norm = result.traced("time"), result.traced("norm")
    late = time >= begin + 0.5 * (problem.t_final - begin)
    if np.count_nonzero(late) < 8 or float(norm[late].min()) <= 0.0 or problem.absorber.type == "none":
        return
    t, log = time[late], np.log(norm[late])
    # a line through the logarithm of the norm; two halves of that time tell how straight it is
    middle = t.size // 2
    parts = [
        -float(np.polyfit(t[part], log[part], 1)[0])
        for part in (slice(None), slice(middle), slice(middle, None))
    ]
    result.numbers["rate"] = parts[0]
    result.errors["rate"] = abs(parts[2] - parts[1]) + ROUNDING / float(t[-1] - t[0])


def warnings(result: AtomResult) -> Iterator[tuple[str, float, str]]:
    """Yield what a user must know: a short name, how bad it is compared with other runs, and the text."""
    problem, frames = result.problem, result.frames
    last = float(frames["last"].max())
    if last > LAST_L and problem.pulse.pulses:
        yield (
            "last l",
            last,
            f"the last l has held {last:.2g} of the norm: raise grid.l_max above {result.lanes.lmax}",
        )
    wall = float(frames["wall"].max())
    if wall > accuracy.AT_WALL and problem.absorber.type == "none":
        yield (
            "wall",
            wall,
            f"the last {EDGE} points have held {wall:.2g} of the norm, which the wall turns back: raise "
            f"grid.rmax, or add an absorber; {enough(problem):.4g} bohr hold the fastest electrons until the end",
        )
    if result.lost > CLEARED:
        yield (
            "core",
            result.lost,
            f"{result.lost:.2g} of the norm was set to zero at the core of high l (velocity gauge): "
            f"lower time.dt, or take length gauge",
        )
    yield from photoelectrons.warnings(result)
