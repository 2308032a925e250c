"""`task: propagate`: carry the state from output time to output time, observe it, and analyse what was recorded.

The run is a fixed sequence of pieces that depends on the deck alone, not on when it was interrupted: a resumed run repeats
exactly the calls that the uninterrupted one would have made.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.links import links_of
from qsim.core.device.parallel import SerialComm
from qsim.core.errors import NumericsError
from qsim.core.run.checkpoint import fitting
from qsim.core.run.loop import Progress, drive
from qsim.tridiag.deck.electron import GaussianInitial
from qsim.tridiag.propagate import accuracy
from qsim.tridiag.propagate.claims import SPACING, STEP
from qsim.tridiag.propagate.lattice import PSI_LIMIT
from qsim.tridiag.propagate.problem import sample_interval
from qsim.tridiag.propagate.result import QUANTITIES, Propagated
from qsim.tridiag.tdse import harmonics, step_search
from qsim.tridiag.tdse.scan.problem import Evolution, Motion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.parallel import Comm
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.deck.model import Photoelectron
    from qsim.tridiag.propagate.problem import Propagation
    from qsim.tridiag.tdse.scan.problem import Remarks, Scan

# norm reflected by the walls above which a warning is given
TURNED_BACK = 1e-3
# error of a population or norm above which a warning is given
UNSURE = 0.02
# |psi|^2 dx one spacing from a wall, relative to the norm, above which a warning is given
WALL_DENSITY = 1e-6


Row = dict[str, "float | NDArray[np.float64]"]
"""Observables at an output time."""


class LineEvolution(Evolution):
    """The propagation from output time to output time, and what is recorded on the way.

    Parameters
    ----------
    problem : Propagation
    restored : mapping, optional
        State to continue from.
    comm : Comm, optional
        Processes that share the grid.

    Attributes
    ----------
    problem : Propagation
        With the eigenstates of the state to continue from, if there is one.
    start : int
        Steps done before.
    rows : list of dict
        Observed at the output times so far.
    trace : list of (samples, 4) arrays
        Step number, and the sums of |psi|^2, x |psi|^2 and V' |psi|^2.
    """

    def __init__(
        self, problem: Propagation, restored: Mapping[str, Any] | None = None, comm: Comm | None = None
    ) -> None:
        # with the kernels, which the names of results do not need
        from qsim.tridiag.propagate.observer import Observer

        self.problem = problem if restored is None else _as_before(problem, restored)
        self.comm = SerialComm() if comm is None else comm
        if restored is None:
            self.start, psi = 0, self.problem.psi0
        else:
            self.start = int(restored["step"])
            psi = fitting(restored, "psi", (problem.lattice.points,))
        self._frames = set(problem.frames.tolist())
        links = links_of(self.comm, problem.device)
        self.propagator = self.problem.propagator(psi, self.start, links)
        self.observer = Observer(self.problem, self.propagator.span, links)
        if restored is None:
            first = self.observer.sums(self.propagator.own)
            self.rows: list[Row] = [self.observer.row(0, self.propagator.own, first)]
            self.trace = [np.array([[0.0, *first]])]
        else:
            self.rows = _unstacked(restored["rows"])
            self.trace = [restored["trace"]]

    @property
    def remaining(self) -> list[range]:
        """Step numbers of the samples that are still to come, in the calls of the propagator."""
        groups, at = [], self.start
        for _, calls in self.problem.schedule(at):
            for count, every in calls:
                groups.append(range(at + every, at + count + 1, every))
                at += count
        return groups

    def to(self, marks: Sequence[int]) -> NDArray[np.float64]:
        """Make the steps of a call, record, and return the last sums; errors as in `Evolution`."""
        propagator = self.propagator
        samples = np.asarray(
            propagator.advance(marks[-1] - propagator.step, marks[0] - propagator.step), float
        )
        number = np.array(marks)
        # calls that end between two samples of the trace return one that does not belong to it
        self.trace.append(np.column_stack([number, samples])[number % self.problem.every == 0])
        if not math.isfinite(samples[-1, 0]):
            raise NumericsError(
                f"norm is {samples[-1, 0]} after {propagator.step} steps", hint="lower time.dt"
            )
        if propagator.step in self._frames:
            self.rows.append(self.observer.row(propagator.step, propagator.own, samples[-1]))
        return np.asarray(samples[-1])

    def state(self) -> State:
        """Return what continues the propagation bit for bit; a collective call, after which rank 0 has the whole state."""
        problem = self.problem
        parts = self.comm.gather(problem.device.to_host(self.propagator.own))
        return {
            "step": self.propagator.step,
            "steps": problem.steps,
            "psi": None if parts is None else joined(parts),
            "rows": _stacked(self.rows),
            "trace": np.concatenate(self.trace),
            "start": {name: getattr(problem, name) for name in _start(problem)},
        }

    def result(self) -> Propagated:
        """Return what the complete propagation leaves; of a state that is not stored, each process its part."""
        own = self.problem.device.to_host(self.propagator.own)
        stored = self.problem.lattice.points <= PSI_LIMIT
        # the density beside the walls without the whole state, which no process may have
        ends = joined(self.comm.allgather(own[:: len(own) - 1]))
        propagated = Propagated(
            self.problem,
            _stacked(self.rows),
            np.concatenate(self.trace),
            joined(self.comm.allgather(own)) if stored else own,
            self.propagator.info(),
        )
        propagated.numbers["wall_density"] = float(
            max(abs(ends[0]), abs(ends[-1])) ** 2 * self.problem.lattice.dx
        )
        return propagated


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the parts of a state one after another; the part itself if there is one only."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def run_propagation(problem: Propagation, monitor: Monitor) -> Propagated:
    """Propagate, record, analyse."""
    if (allowed := problem.accuracy) is not None:
        steps = step_search.settled_steps(_search(problem, allowed, monitor.comm), monitor)
        problem = _with_steps(problem, steps)
    evolution = LineEvolution(problem, step_search.propagated(monitor), monitor.comm)
    with monitor.stage("propagate"):
        drive(evolution, monitor, total=problem.steps, unit="steps", what="propagate", done=evolution.start)
    with monitor.stage("analyse"):
        result = evolution.result()
        analyse(result, evolution.state, monitor)
        none: Remarks = []
        remarks = monitor.judged("what walls disturb", lambda: warnings(result), none)
        if accuracy.claimed(problem, accuracy.work_of(result), monitor):
            remarks = remarks + monitor.judged(
                "the errors of the numbers", lambda: errors(result, evolution.state, monitor), none
            )
        for *_, text in remarks:
            monitor.warn(text)
    return result


def _search(problem: Propagation, allowed: float, comm: Comm) -> step_search.Search:
    """Return what the search for the step of a run needs."""

    def trial(steps: int, report: Report) -> dict[str, float]:
        made = _with_steps(problem, steps)
        # norms and populations at the end, no spectra
        return accuracy.run_of(replace(made, observed=replace(made.observed, hhg=None)), comm, report)

    longest = step_search.longest_step(problem.pulse.fastest)
    return step_search.Search(allowed, problem.order, problem.dt, problem.t_final, longest, trial)


def _with_steps(problem: Propagation, steps: int) -> Propagation:
    """Return the problem with another number of steps."""
    made = replace(problem, steps=steps, dt=problem.t_final / steps)
    return replace(made, every=sample_interval(made))


def _start(problem: Propagation) -> tuple[str, ...]:
    """Return what a resumed run takes from the checkpoint: eigenstates are good to rounding, not to the last bit."""
    stored = problem.lattice.points <= PSI_LIMIT
    return ("energies", "states", "window", "ip", *(("psi0",) if stored else ()))


def _as_before(problem: Propagation, restored: Mapping[str, Any]) -> Propagation:
    return replace(problem, **restored["start"])


def _stacked(rows: list[Row]) -> dict[str, NDArray[Any]]:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _unstacked(columns: Mapping[str, NDArray[Any]]) -> list[Row]:
    count = len(next(iter(columns.values())))
    return [
        {name: float(values[k]) if values.ndim == 1 else values[k] for name, values in columns.items()}
        for k in range(count)
    ]


# ------------------------------------------------------------------------------------------- analysis


def analyse(result: Propagated, state: Callable[[], State], monitor: Monitor) -> None:
    """Add spectra, errors and warnings to what was recorded; what fails of that is told, and costs nothing of the rest.

    Parameters
    ----------
    result
        The propagation.
    state
        What a stop request saves: the propagation at its end.
    monitor
        Told of progress and warnings.
    """
    observed = result.problem.observed
    judged = monitor.judged
    if observed.hhg is not None:
        judged("the harmonic spectrum", lambda: harmonics.spectrum(result), None)
    if observed.gabor is not None:
        judged("the time-frequency map", lambda: harmonics.time_frequency_map(result), None)
    if (electrons := observed.photoelectron) is not None:
        judged("the photoelectron spectrum", lambda: _photoelectrons(result, electrons, state, monitor), None)
    result.numbers["turned_back"] = judged("what walls turned back", lambda: turned_back(result), None)


def warnings(result: Propagated) -> Remarks:
    """Return what a user must know of density that has reached the walls."""
    problem = result.problem
    wall, turned = (float(result.numbers[name] or 0.0) for name in ("wall_density", "turned_back"))
    if wall <= WALL_DENSITY * max(float(result.frames["norm"][-1]), 1e-300) and turned <= TURNED_BACK:
        return []
    text = (
        f"|psi|^2 dx at a wall is {wall:.2g} one spacing from it at the end, and the walls have turned back about "
        f"{turned:.2g}: reflected density disturbs what is seen; widen grid, "
        + ("or add an absorber" if problem.absorber.type == "none" else "or strengthen the absorber")
    )
    return [("walls", max(wall, turned), text)]


def turned_back(result: Propagated) -> float:
    """Return the norm that the walls have turned back, as a rough number.

    A hard wall pushes with the force ``|psi'|^2 / 2``, psi' its slope there; density of momentum k that it turns back takes
    ``2 k`` of its integral over time.  k is taken as 1, or as the momentum of the packet.
    """
    problem, frames = result.problem, result.frames
    if "wall_density" not in frames or len(frames["wall_density"]) < 2:
        return 0.0
    initial = problem.initial
    momentum = max(abs(initial.k0), 0.1) if isinstance(initial, GaussianInitial) else 1.0
    # psi is zero at the wall: its slope is psi / dx one spacing from it
    force = frames["wall_density"] / (2.0 * problem.lattice.dx**3)
    return min(float(np.trapezoid(force, problem.frames * problem.dt)) / (2.0 * momentum), 1.0)


def errors(
    result: Propagated, state: Callable[[], State], monitor: Monitor, comm: Comm | None = None
) -> Remarks:
    """Find the errors of the headline numbers; return what a user must know of large ones.

    Parameters
    ----------
    result, state, monitor
        As for `analyse`.
    comm
        Processes that share the companions; those of the monitor by default.
    """
    problem = result.problem
    values = accuracy.numbers(problem, result.frames)
    if (cutoff := result.numbers.get(accuracy.CUTOFF)) is not None:
        values[accuracy.CUTOFF] = float(cutoff)
    turned = float(result.numbers["turned_back"] or 0.0)
    near = result.frames["near"][-1] if "near" in result.frames else ()
    ending = accuracy.Ending(result.psi, turned, state, near)
    result.accuracy = accuracy.estimate(problem, values, ending, monitor, comm or monitor.comm)
    if result.accuracy.why_not:
        monitor.note(f"no errors are claimed: {result.accuracy.why_not}")
        return []
    remarks = list(_promised(result))
    # only norms and populations have a scale of their own, by which an error is large or not
    shares = {
        name: error
        for name, error in result.accuracy.errors.items()
        if name.startswith(("norm", "pop", "bound"))
    }
    worst = max(shares, key=lambda name: shares[name])
    if shares[worst] <= UNSURE:
        return remarks
    # the largest part tells what to change in the deck
    parts = result.accuracy.parts(worst)
    listed = [
        f"{cause} {parts[cause]:.2g}"
        for cause in sorted(parts, key=lambda cause: -parts[cause])
        if parts[cause]
    ]
    remedy = _remedies(problem)[max(parts, key=lambda cause: parts[cause])]
    text = f"{worst} is uncertain by {shares[worst]:.2g} (parts: {', '.join(listed)}): {remedy}"
    return [*remarks, ("uncertain", shares[worst], text)]


def _promised(result: Propagated) -> Iterator[tuple[str, float, str]]:
    """Yield the error of steps that the run chose, if it is larger than the deck allows."""
    allowed, found = result.problem.accuracy, result.accuracy
    if allowed is None or found is None:
        return
    by_steps = {name: e for name, e in found.time_step.items() if name.startswith(("norm", "pop", "bound"))}
    worst = max(by_steps, key=lambda name: by_steps[name])
    if by_steps[worst] > allowed:
        text = f"the steps leave an error of {by_steps[worst]:.2g} in {worst}, more than time.accuracy: {allowed:g}"
        yield "accuracy", by_steps[worst], text


def _remedies(problem: Propagation) -> dict[str, str]:
    """Return what the author of a deck can do about each part of an error."""
    single = problem.precision == "single"
    return {
        STEP: f"{'raise' if problem.step_key == 'time.steps' else 'lower'} {problem.step_key}",
        SPACING: "raise grid.points",
        accuracy.BETWEEN: "raise grid.points, so that dx resolves the potential",
        accuracy.ROUNDED: "set run.precision: double"
        if single
        else "take fewer steps or a larger grid spacing",
        accuracy.WALLS: "widen grid, or add an absorber",
        accuracy.THRESHOLD: "lower time.dt and raise grid.points, or take populations of lower levels",
        accuracy.LEVELS: "take the sum of the populations of the close levels, which does not depend on how they mix",
    }


class _Spectrum:
    """The photoelectron spectrum of the final state, energy by energy.

    Parameters
    ----------
    result, block
        The propagation, and the block of the deck.
    state
        What a stop request saves.
    """

    def __init__(self, result: Propagated, block: Photoelectron, state: Callable[[], State]) -> None:
        self.result, self.block, self.state = result, block, state
        self.energies = result.problem.photoelectron_energies(block)

    def advance(self, report: Report) -> None:
        """Apply the window operator at every energy."""
        from qsim.tridiag.propagate import photoelectrons

        problem, lattice, block = self.result.problem, self.result.problem.lattice, self.block
        # the window operator is defined in length gauge
        a = float(problem.vector_at(problem.steps * problem.dt)) if problem.velocity_gauge else 0.0
        # lines as wide as the spacing of the energies make a smooth curve
        gamma = block.gamma if block.gamma is not None else float(self.energies[1] - self.energies[0])
        self.found = photoelectrons.photoelectrons(
            lattice,
            self.result.psi.astype(complex),
            self.energies,
            gamma,
            block.order,
            a,
            each=lambda done: report(Progress(done)),
        )


def _photoelectrons(
    result: Propagated, block: Photoelectron, state: Callable[[], State], monitor: Monitor
) -> None:
    spectrum = _Spectrum(result, block, state)
    drive(spectrum, monitor, total=spectrum.energies.size, unit="energies", what="photoelectrons")
    electrons = spectrum.found
    result.spectra |= {
        "photoelectron_energy": electrons.energy,
        "photoelectron_spectrum": electrons.spectrum,
        "photoelectron_left": electrons.left,
        "photoelectron_right": electrons.right,
    }


# ---------------------------------------------------------------------------------------------- scans


def _begin(
    problem: Scan, own: Sequence[int], saved: Sequence[Mapping[str, Any] | None]
) -> list[LineEvolution]:
    """Return the propagations of some runs of a scan."""
    return [LineEvolution(problem.runs[k], state) for k, state in zip(own, saved, strict=True)]


LINE = Motion(
    task="propagate_scan",
    quantities=QUANTITIES,
    patterns=(
        "population_",
        "norm_within_",
        "norm_right_",
        "transmission",
        "reflection",
        "hhg_cutoff",
        "norm_final",
        "energy_",
        "dipole_final",
        "bound_",
        "continuum_",
        "ionisation_potential",
    ),
    energy="photoelectron_energy",
    spectrum="photoelectron_spectrum",
    state="psi",
    begin=_begin,
    # one after another on the device
    together=lambda runs, marks: [one.to(marks) for one in runs],
    analyse=lambda result, state, monitor, shared: analyse(result, state, monitor),
    errors=lambda result, state, monitor, work: errors(result, state, monitor, SerialComm()),
    warnings=warnings,
    work=accuracy.work_of,
    claimed=accuracy.claimed,
)
"""A line as a scan sees it."""
