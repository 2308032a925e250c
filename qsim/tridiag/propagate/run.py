"""A line as one motion sees it: its propagation, the analysis of its end, what walls disturb."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.links import links_of
from qsim.core.device.parallel import SerialComm
from qsim.core.run.checkpoint import fitting
from qsim.core.run.loop import Progress
from qsim.tridiag.deck.electron import GaussianInitial
from qsim.tridiag.propagate import accuracy
from qsim.tridiag.propagate.lattice import PSI_LIMIT
from qsim.tridiag.propagate.problem import LEAST
from qsim.tridiag.propagate.result import QUANTITIES, Propagated
from qsim.tridiag.tdse.flux import SIDE, SLOPE
from qsim.tridiag.tdse.harmonics import spectrum
from qsim.tridiag.tdse.motion import Evolution, Geometry, Row
from qsim.tridiag.tdse.photoelectrons import of_companion, warnings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.parallel import Comm
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.propagate.problem import Propagation
    from qsim.tridiag.tdse.photoelectrons import Photoelectrons

__all__ = ["LINE", "LineEvolution"]

# norm reflected by the walls above which a warning is given
TURNED_BACK = 1e-3
# |psi|^2 dx one spacing from a wall, relative to the norm, above which a warning is given
WALL_DENSITY = 1e-6


class LineEvolution(Evolution):
    """The propagation of a line.

    Parameters
    ----------
    problem : Propagation
        With other eigenstates in the state to continue from, if there is one: they are good to rounding, not to the last bit.
    restored : mapping, optional
        State to continue from.
    comm : Comm, optional
        Processes that share the grid.
    """

    problem: Propagation

    def __init__(
        self, problem: Propagation, restored: Mapping[str, Any] | None = None, comm: Comm | None = None
    ) -> None:
        # with the kernels, which the names of results do not need
        from qsim.tridiag.propagate.observer import Observer

        self.problem = problem if restored is None else replace(problem, **restored["start"])
        self.comm = SerialComm() if comm is None else comm
        step, psi = 0, self.problem.psi0
        if restored is not None:
            step, psi = int(restored["step"]), fitting(restored, "psi", (problem.lattice.points,))
        links = links_of(self.comm, problem.device)
        self.propagator = self.problem.propagator(psi, step, links)
        self.observer = Observer(self.problem, self.propagator.span, links)
        self.begin(restored)

    @property
    def remaining(self) -> list[range]:
        """Step numbers of the samples that are still to come, in the calls of the propagator."""
        groups, at = [], self.start
        for _, calls in self.problem.schedule(at):
            for count, every in calls:
                groups.append(range(at + every, at + count + 1, every))
                at += count
        return groups

    def sums(self) -> NDArray[np.float64]:
        """Return norm, <x> and <V'> of the state."""
        return self.observer.sums(self.propagator.own)

    def row(self, step: int, sums: NDArray[np.float64]) -> Row:
        """Observe the state at an output time."""
        return self.observer.row(step, self.propagator.own, sums)

    def crossing(self, step: int) -> NDArray[np.complex128]:
        """Return psi and its slope at both ends, (surfaces, 2, 2), in velocity gauge; of each surface or none."""
        problem, dx = self.problem, self.problem.lattice.dx
        if not problem.spheres:
            return np.zeros((0, 2, 2), complex)
        windows = [window for one in problem.spheres for window in one.windows]
        near = self.observer.near(self.propagator.own, windows)
        if not problem.velocity:
            x = problem.lattice.xmin + dx * np.array(windows)
            near = near * np.exp(-1j * float(problem.vector(step * problem.dt)[0]) * x)
        found = np.array([near[:, SIDE], near @ SLOPE / dx]).reshape(2, -1, 2)
        return np.asarray(found.transpose(1, 0, 2))

    def to(self, marks: Sequence[int]) -> NDArray[np.float64]:
        """Make the steps of a call, record, and return the last sums; errors as in `Evolution`."""
        propagator = self.propagator
        count, every = marks[-1] - propagator.step, marks[0] - propagator.step
        return self.record(marks, np.asarray(propagator.advance(count, every), float))

    def state(self) -> State:
        """Return what continues the propagation bit for bit; a collective call, after which rank 0 has the whole state."""
        problem = self.problem
        parts = self.comm.gather(problem.device.to_host(self.propagator.own))
        stored = problem.lattice.points <= PSI_LIMIT
        start = ("energies", "states", "window", "ip", *(("psi0",) if stored else ()))
        return {
            **super().state(),
            "psi": None if parts is None else joined(parts),
            "start": {name: getattr(problem, name) for name in start},
        }

    def result(self) -> Propagated:
        """Return what the complete propagation leaves; of a state that is not stored, each process its part."""
        own, lattice = self.problem.device.to_host(self.propagator.own), self.problem.lattice
        # the density beside the walls without the whole state, which no process may have
        ends = joined(self.comm.allgather(own[:: len(own) - 1]))
        return Propagated(
            problem=self.problem,
            frames=self.columns(),
            trace=np.concatenate(self.trace),
            psi=joined(self.comm.allgather(own)) if lattice.points <= PSI_LIMIT else own,
            info=self.propagator.info(),
            flux=self.crossed(),
            numbers={"wall_density": float(max(abs(ends[0]), abs(ends[-1])) ** 2 * lattice.dx)},
        )


def _companion(problem: Propagation, comm: Comm, report: Report, done: int) -> Propagated:
    """Return the result of a companion of a run; `done` is the work of those before."""
    share = 1 < comm.size <= problem.lattice.points // LEAST
    evolution = LineEvolution(problem, comm=comm if share else None)

    def each(progress: Progress) -> None:
        report(Progress(done + (progress.done or 0) * problem.lattice.points))

    evolution.advance(each)
    result = evolution.result()
    if problem.observed.hhg is not None:
        spectrum(result)
    of_companion(result, report)
    return result


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the parts of a state one after another; the part itself if there is one only."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def turned_back(result: Propagated) -> None:
    """Find the norm that the walls have turned back, as a rough number.

    A hard wall pushes with the force ``|psi'|^2 / 2``, psi' its slope there; density of momentum k that it turns back takes
    ``2 k`` of its integral over time.  k is taken as 1, or as the momentum of the packet.
    """
    problem, frames = result.problem, result.frames
    result.numbers["turned_back"] = 0.0
    if "wall_density" not in frames or len(frames["wall_density"]) < 2:
        return
    initial = problem.initial
    momentum = max(abs(initial.k0), 0.1) if isinstance(initial, GaussianInitial) else 1.0
    # psi is zero at the wall: its slope is psi / dx one spacing from it
    force = frames["wall_density"] / (2.0 * problem.lattice.dx**3)
    taken = float(np.trapezoid(force, problem.frames * problem.dt))
    result.numbers["turned_back"] = min(taken / (2.0 * momentum), 1.0)


class Line(Geometry["Propagation", "Propagated"]):
    """A line."""

    task = "propagate"
    quantities = QUANTITIES
    state = "psi"
    wider = "widen grid"

    def evolution(
        self, problem: Propagation, restored: Mapping[str, Any] | None, comm: Comm
    ) -> LineEvolution:
        """Return the propagation of a run, whose grid processes share."""
        return LineEvolution(problem, restored, comm)

    def begin(
        self, device: Device, runs: Sequence[Propagation], saved: Sequence[Mapping[str, Any] | None]
    ) -> list[LineEvolution]:
        """Return the propagations of some runs of a scan."""
        return [LineEvolution(*one) for one in zip(runs, saved, strict=True)]

    def parts(self, result: Propagated) -> dict[str, Callable[[Any], None]]:
        """Return what the end of a run tells."""
        return {"what walls turned back": turned_back}

    def spectrum(self, result: Propagated, block: Any, shared: dict[int, Any]) -> Any:
        """Return the computation of a photoelectron spectrum."""
        # scipy.linalg is loaded by those that need it
        if block.method == "tsurff":
            from qsim.tridiag.propagate.surface import LineFlux

            return LineFlux(result, block)
        from qsim.tridiag.propagate.photoelectrons import Window

        return Window(result, block)

    def directions(self, result: Propagated, electrons: Photoelectrons, block: Any) -> None:
        """Store electrons that fly to the left and to the right."""
        result.spectra |= {"pes_left": electrons.partial[:, 0], "pes_right": electrons.partial[:, 1]}

    def companions(
        self, result: Propagated, state: Callable[[], State], comm: Comm, work: float
    ) -> accuracy.LineCompanions:
        """Return the repetitions of a run that tell its errors."""
        return accuracy.LineCompanions(result, state, comm, _companion)

    def trial(self, problem: Propagation, comm: Comm, report: Report) -> dict[str, float]:
        """Return norms and populations of a trial run of the search for the step, without harmonics."""
        observed = replace(problem.observed, hhg=None)
        made = accuracy.repeated(replace(problem, observed=observed, spectra=[], spheres=[]))
        return accuracy.numbers(problem, _companion(made, comm, report, 0).frames)

    def resonance(self, result: Propagated, monitor: Monitor) -> None:
        """Store position and rate of the resonance that the deck requests."""
        from qsim.tridiag.propagate import resonance

        resonance.find(result, monitor)

    def warnings(self, result: Propagated) -> Iterator[tuple[str, float, str]]:
        """Yield what a user must know of density that has reached the walls, and of spectra."""
        yield from warnings(result, 0.0)
        problem = result.problem
        wall, turned = (float(result.numbers.get(name) or 0.0) for name in ("wall_density", "turned_back"))
        norm = max(float(result.frames["norm"][-1]), 1e-300)
        if wall > WALL_DENSITY * norm or turned > TURNED_BACK:
            absorber = "add an absorber" if problem.absorber.type == "none" else "strengthen the absorber"
            yield (
                "walls",
                max(wall, turned),
                f"|psi|^2 dx at a wall is {wall:.2g} one spacing from it at the end, and the walls have turned back about "
                f"{turned:.2g}: reflected density disturbs what is seen; widen grid, or {absorber}",
            )

    def work(self, result: Propagated) -> float:
        """Return the points times steps of a run."""
        return float(result.problem.steps) * result.problem.lattice.points

    def most_work(self, problem: Propagation) -> float:
        """Return the work up to which `verify: auto` means true."""
        return accuracy.AUTO[problem.device.kind]


LINE = Line()
