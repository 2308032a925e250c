"""Some quantum trajectories of a run, one after the other; with the face of `Ensemble`, so that rounds and averages take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.loop import Progress
from qsim.trotter.evolution.batch import LARGEST
from qsim.trotter.evolve.open.carrier import Carrier
from qsim.trotter.evolve.open.drifts import LayerDrift
from qsim.trotter.evolve.open.onboard import OnboardDrift, suits
from qsim.trotter.evolve.open.sparse import SparseDrift
from qsim.trotter.evolve.open.unitary import UnitaryDrift
from qsim.trotter.evolve.propagators.propagator import propagator
from qsim.trotter.evolve.trajectories.observer import Observer, reference
from qsim.trotter.sectors.digits.space import DigitSpace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.trotter.evolution.accuracy import Choice
    from qsim.trotter.evolve.open.drifts import Drift
    from qsim.trotter.evolve.problem import Problem

__all__ = ["Members", "drift_of", "finished"]

# trajectories between two rounds of the ranks
MOST = 32


def drift_of(problem: Problem, member: int, how: Choice) -> Drift:
    """Return what carries the state of a trajectory between its jumps."""
    hamiltonian, channels = problem.hamiltonian(member), problem.channels
    if problem.drift == "layers":
        # of small states the pilots alone ask, for which the host is fast enough
        large = problem.device.is_cuda and problem.spins > LARGEST
        if large and suits(hamiltonian, channels, problem.models.system.twos):
            return OnboardDrift(problem, hamiltonian, channels, how.method)
        return LayerDrift(problem, hamiltonian, channels, how.method)
    if problem.drift == "sparse":
        return SparseDrift(problem, hamiltonian, channels, how.tolerance)
    make = lambda psi: propagator(problem, hamiltonian, psi, how, own=True)  # noqa: E731
    return UnitaryDrift(problem, hamiltonian, channels, how, make)


def finished(
    problem: Problem, observer: Observer, jumps: NDArray[np.float64] | list[tuple[float, int]]
) -> dict[str, NDArray[np.float64]]:
    """Return the rows of a complete trajectory as arrays, with its jumps (time, channel) and their numbers up to every time."""
    rows = {name: np.array(values, float) for name, values in observer.rows.items()}
    made = np.array(jumps, float).reshape(-1, 2)
    entries = np.array([channel.entry for channel in problem.channels], int)
    kinds = entries[made[:, 1].astype(int)]
    # jumps come in the order of their times
    counts = [np.searchsorted(made[kinds == e, 0], problem.times, "right") for e in range(problem.entries)]
    rows["jumps"] = np.array(counts, float).T
    rows["_jumps"] = made
    return rows


class Members:
    """Trajectories of a round.

    Attributes
    ----------
    members : range
        Their numbers.
    current : int
        Number of the one that is on its way.
    reached : int
        Number of the time up to which it is complete.
    """

    def __init__(
        self, problem: Problem, members: range, how: Choice, restored: Mapping[str, Any] | None = None
    ) -> None:
        self.problem, self.members, self.how = problem, members, how
        self.compared = reference(problem)
        self.done: list[dict[str, NDArray[np.float64]]] = []
        self.passes = 0
        self.current, self.reached = members.start, 0
        self._drift: Drift | None = None
        self._realisation = -1
        self._begin(self.current)
        if restored is not None:
            self._resume(restored)

    def _begin(self, member: int) -> None:
        problem = self.problem
        self.observer = Observer(problem, member, self.compared)
        # tables belong to a realisation of the disorder, which many trajectories share
        realisation = problem.models.realisation(member)
        if self._drift is None or realisation != self._realisation:
            self._drift, self._realisation = drift_of(problem, member, self.how), realisation
        self.drift: Drift = self._drift
        self.carrier = Carrier(self.drift, problem.models.seed, member)
        self.drift.begin(problem.initial(member))
        self.reached = 0

    def _resume(self, saved: Mapping[str, Any]) -> None:
        self.done = [dict(rows) for rows in saved["done"]]
        self._begin(int(saved["current"]))
        self.reached = int(saved["reached"])
        self.observer.rows = {name: list(values) for name, values in saved["rows"].items()}
        down, space = int(saved["carrier"]["down"]), None
        if down >= 0 and isinstance(self.problem.space, DigitSpace):
            space = DigitSpace(self.problem.models.system.twos, down)
        psi = self.problem.device.asarray(saved["carrier"]["psi"])
        self.drift.begin(psi, space)
        self.carrier.jumps = [(float(t), int(k)) for t, k in saved["carrier"]["jumps"]]
        self.carrier.wait = saved["carrier"]["wait"]

    @property
    def psi(self) -> Any:
        """State of the last trajectory, normalised."""
        psi = self.drift.psi
        return psi / np.sqrt(self.drift.weight(self.problem.times[self.reached])[0])

    @property
    def last(self) -> Observer:
        """Observer of the last trajectory."""
        return self.observer

    def results(self) -> list[dict[str, NDArray[np.float64]]]:
        """Return the rows of each trajectory as arrays."""
        return self.done

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "current": self.current,
            "reached": self.reached,
            "done": self.done,
            "rows": {name: np.array(values) for name, values in self.observer.rows.items()},
            "carrier": self.carrier.state(),
        }

    def advance(self, report: Report, done: int = 0) -> None:
        """Carry all trajectories to the end; `done` steps of the whole run were made before these."""
        problem = self.problem
        each = sum(problem.steps(k, self.how.dt)[0] for k in range(len(problem.times) - 1))
        # a trajectory that was begun before an interruption goes on
        for member in range(self.current, self.members.stop):
            if member != self.current:
                self.current = member
                self._begin(member)
            self._observe()
            for k in range(self.reached, len(problem.times) - 1):
                _, dt = problem.steps(k, self.how.dt)
                self.carrier.advance(problem.times[k], problem.times[k + 1], min(dt, problem.longest))
                self.reached = k + 1
                self._observe()
                report(Progress())
            if len(self.done) <= member - self.members.start:
                self.done.append(finished(problem, self.observer, self.carrier.jumps))
            report(Progress(done + each * len(self.done)))

    def _observe(self) -> None:
        """Observe at the time reached, unless that was done before the run was interrupted."""
        if len(self.observer.rows.get("energy", ())) > self.reached:
            return
        time = self.problem.times[self.reached]
        moments = self.drift.measure(self.observer.axes, time)
        space = getattr(self.drift, "space", None)
        if space is not None:
            self.observer.problem = self.problem.in_space(space)
        row = self.observer.row(self.reached, moments, self.drift.psi)
        # the norm between jumps is the chance of none, and no drift
        row["norm"] = 1.0
        self.observer.record(self.reached, row)
