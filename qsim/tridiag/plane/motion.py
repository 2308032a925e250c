"""Two coordinates as a motion: from output time to output time, and what repeated runs tell of errors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.checkpoint import fitting
from qsim.tridiag.deck.plane import PlaneDensity
from qsim.tridiag.plane.companions import AUTO, FINE, PlaneCompanions, numbers, work_of
from qsim.tridiag.plane.momenta import momenta, release
from qsim.tridiag.plane.observables import map_row, row, sums
from qsim.tridiag.plane.result import QUANTITIES, PlaneResult
from qsim.tridiag.tdse.motion import Evolution, Geometry
from qsim.tridiag.tdse.run import analyse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.parallel import Comm
    from qsim.core.run.loop import Report, State
    from qsim.tridiag.plane.problem import PlaneProblem
    from qsim.tridiag.tdse.motion import Row

__all__ = ["PLANE", "PlaneEvolution"]

# points times steps of one call, at most: about half a second
PIECE = 5e7
# norm beside the walls above which a warning is given, relative to the norm
WALL = 1e-6
# norm that an absorber has taken of which a map of momenta tells nothing, above which a warning is given
LEFT_OUT = 1e-6
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
        self._maps = {*problem.map_frames.tolist(), problem.steps}
        if restored is None:
            self.propagator = problem.propagator(problem.psi0, 0)
            self.maps = [map_row(problem, self.propagator)]
        else:
            psi = fitting(restored, "psi", problem.lattice.shape)
            self.propagator = problem.propagator(psi, int(restored["step"]))
            self.propagator.lost = np.array(restored["lost"], float)
            columns = restored["maps"]
            self.maps = [
                {name: values[k] for name, values in columns.items()} for k in range(len(columns["step"]))
            ]
        self.begin(restored)

    def sums(self) -> NDArray[np.float64]:
        """Return norm, dipole, mean force and norms of the regions, as `sums` does."""
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

    def row(self, step: int, sums: NDArray[np.float64]) -> Row:
        """Observe the state at an output time."""
        return row(self.problem, self.propagator, step, sums)

    def crossing(self, step: int) -> NDArray[np.complex128]:
        """Return that there are no surfaces of t-SURFF, (0, 2, 0)."""
        return np.zeros((0, 2, 0), complex)

    def to(self, marks: Sequence[int]) -> NDArray[np.float64]:
        """Propagate to the next mark, record, and return the last sums; errors as in `Evolution`."""
        self.propagator.advance(marks[-1] - self.propagator.step)
        found = self.record(marks, self.sums()[None])
        if marks[-1] in self._maps:
            self.maps.append(map_row(self.problem, self.propagator))
        return found

    def state(self) -> State:
        """Return what continues the propagation bit for bit."""
        return {
            **super().state(),
            "psi": self.propagator.psi,
            "lost": self.propagator.lost,
            "maps": self._stacked(),
        }

    def _stacked(self) -> dict[str, NDArray[Any]]:
        """Return the rows of the maps as arrays."""
        return {name: np.array([one[name] for one in self.maps]) for name in self.maps[0]}

    def result(self) -> PlaneResult:
        """Return what the complete propagation leaves."""
        result = PlaneResult(
            problem=self.problem,
            frames=self.columns(),
            trace=np.concatenate(self.trace),
            maps=self._stacked(),
            psi=self.propagator.psi,
        )
        # a momentum costs more than a step: at output times it is that of the fine trace, which begins with the momentum at t = 0
        result.frames["velocity"] = self.maps[0]["velocity"][None]
        time, traced = result.traced("time"), result.components("velocity")
        result.frames["velocity"] = np.array([np.interp(result.time, time, one) for one in traced]).T
        return result


class _Plane(Geometry["PlaneProblem", PlaneResult]):
    """Two coordinates as a motion sees them."""

    task = "plane"
    quantities = QUANTITIES
    state = "psi"
    wider = "grid"

    def evolution(
        self, problem: PlaneProblem, restored: Mapping[str, Any] | None, comm: Comm
    ) -> PlaneEvolution:
        """Return the propagation of a run, at t = 0 or at a state to continue from."""
        return PlaneEvolution(problem, restored)

    def begin(
        self, device: Device, runs: Sequence[Any], saved: Sequence[Mapping[str, Any] | None]
    ) -> list[PlaneEvolution]:
        """Return the propagations of some runs of a scan."""
        return [PlaneEvolution(*one) for one in zip(runs, saved, strict=True)]

    def parts(self, result: PlaneResult) -> dict[str, Callable[[Any], None]]:
        """Return the kinetic-energy release and the momenta, if the deck wants them."""
        observed = result.problem.observed
        wanted = {
            "the kinetic-energy release": (observed.ker, release),
            "the momenta": (observed.momenta, momenta),
        }
        return {name: function for name, (block, function) in wanted.items() if block is not None}

    def companions(
        self, result: PlaneResult, state: Callable[[], State], comm: Comm, work: float
    ) -> PlaneCompanions:
        """Return the repetitions of a run that tell its errors."""
        return PlaneCompanions(result, state, companion, fine=work <= FINE)

    def trial(self, problem: PlaneProblem, comm: Comm, report: Report) -> dict[str, float]:
        """Return norms and populations of a trial run of the search for the step."""
        return numbers(companion(problem, report))

    def warnings(self, result: PlaneResult) -> Iterator[tuple[str, float, str]]:
        """Yield what a user must know of walls and exchange: a short name, how bad it is, and the text."""
        yield from warnings(result)

    def work(self, result: PlaneResult) -> float:
        """Return the points times steps of a run, stages included."""
        return work_of(result.problem)

    def most_work(self, problem: PlaneProblem) -> float:
        """Return the points times steps up to which `verify: auto` means true."""
        return AUTO


PLANE = _Plane()


def companion(problem: PlaneProblem, report: Report) -> PlaneResult:
    """Return the result of a companion of a run, without maps in between and with the spectra of the run."""
    observed = replace(problem.observed, density=PlaneDensity(maps=1, points=2), gabor=None, momenta=None)
    # norms, populations and the spectra of the run
    evolution = PlaneEvolution(replace(problem, observed=observed, outputs=1))
    evolution.advance(report)
    result = evolution.result()
    analyse(result)
    return result


def warnings(result: PlaneResult) -> Iterator[tuple[str, float, str]]:
    """Yield what a user must know of the end of a run: a short name, how bad it is, and the text."""
    problem, frames = result.problem, result.frames
    wall = float(frames["wall_density"].max())
    if wall > WALL * max(float(frames["norm"][-1]), 1e-300):
        remedy = "add an absorber" if problem.absorber.type == "none" else "strengthen the absorber"
        text = f"the points beside the walls have held {wall:.2g} of the norm, which the walls turn back: widen grid, or {remedy}"
        yield "walls", wall, text
    taken = float(frames["absorbed"][-1].sum())
    if problem.observed.momenta is not None and taken > LEFT_OUT:
        text = f"{taken:.2g} of the norm is not in the map of momenta: the absorber has taken it; widen grid, or end earlier"
        yield "momenta", taken, text
    if problem.lattice.exchange and (defect := float(result.maps["exchange_defect"].max())) > BROKEN:
        text = f"the exchange symmetry is broken by {defect:.2g}: lower time.dt"
        yield "exchange", defect, text
