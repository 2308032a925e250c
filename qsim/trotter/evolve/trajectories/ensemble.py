"""Ensembles of small systems, carried and observed together; see ``batch.py``.

The calls depend on the deck and the kind of device alone, as for single trajectories.  On the CPU every member makes the
operations that it would make alone, so that its bits are the same wherever calls are split in the same places; on a GPU the
moments of states below 12 spins are summed in another order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.checkpoint import fitting
from qsim.core.run.loop import Progress
from qsim.trotter.evolution.batch import LARGEST, Batch
from qsim.trotter.evolution.integrators import METHODS
from qsim.trotter.evolve.trajectories.observer import Observer, reference
from qsim.trotter.evolve.trajectories.trajectory import way_back
from qsim.trotter.measurement.entanglement import entropies
from qsim.trotter.measurement.overlaps import echo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.trotter.evolution.accuracy import Choice
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.states.vectors import Amplitudes

# members of a batch: enough for all cores, or several rounds of all multiprocessors
MOST = {
    "cpu": 64,
    "cuda": 1024,
}
# how much cheaper a layer is here than in `Problem.pieces`, which does not know it
LIGHTER = {
    "cpu": 4,
    "cuda": 1,
}


def together(problem: Problem, how: Choice) -> int:
    """Return the number of members that are carried at once; 1 where they go one after the other."""
    # a batch is made of small states in layers, with one constant H for each member
    fits = (
        problem.spins <= LARGEST
        and how.method in METHODS
        and problem.sector is None
        and all(hamiltonian.is_static for hamiltonian in problem.different_hamiltonians())
        and not problem.observables.needs.sigma_sites
    )
    return min(problem.members, MOST[problem.device.kind]) if fits else 1


class Ensemble:
    """The states of some trajectories and their observations.

    Attributes
    ----------
    members : range
        Numbers of the trajectories.
    reached : int
        Number of the time up to which the evolution is complete.
    calls : int
        Calls made since then, towards the next time.
    """

    def __init__(
        self, problem: Problem, members: range, how: Choice, restored: Mapping[str, Any] | None = None
    ) -> None:
        self.problem, self.members, self.how = problem, members, how
        # the state of a file is read once for all members
        compared = reference(problem)
        self.observers = [Observer(problem, member, compared) for member in members]
        self.reached = self.calls = 0
        size = (len(members), 1 << problem.spins)
        self.batch = self._carried(None if restored is None else fitting(restored, "psi", size))
        self.other: Batch | None = None
        if problem.echo is not None and problem.echo.overlap:
            self.other = self._carried(
                None if restored is None else fitting(restored, "other", size), perturbed=True
            )
        if restored is not None:
            self.reached, self.calls = int(restored["reached"]), int(restored["calls"])
            for m, observer in enumerate(self.observers):
                observer.rows = {name: list(values[m]) for name, values in restored["rows"].items()}

    def _carried(self, states: Amplitudes | None, perturbed: bool = False) -> Batch:
        """Return a batch of all members; of their initial states, if none are given."""
        problem, device = self.problem, self.problem.device
        with device.use():
            if states is None:
                states = device.xp.stack([problem.initial(member) for member in self.members])
            # one H for each member: realisations of the disorder
            hamiltonians = [o.perturbed if perturbed else o.hamiltonian for o in self.observers]
            models = [hamiltonian.at(0.0) for hamiltonian in hamiltonians]
            return Batch(device, models, device.asarray(states, problem.dtype), own=True)

    @property
    def psi(self) -> Any:
        """State (2^N,) of the last member, on the device."""
        return self.batch.psi[-1]

    @property
    def last(self) -> Observer:
        """Observer of the last member."""
        return self.observers[-1]

    @property
    def passes(self) -> int:
        """Layers that all states carried forward have gone through, since the ensemble began or was resumed."""
        layers = self.batch.layers + (self.other.layers if self.other is not None else 0)
        return len(self.members) * layers

    def results(self) -> list[dict[str, NDArray[np.float64]]]:
        """Return the rows of each trajectory as arrays."""
        return [
            {name: np.array(values, float) for name, values in observer.rows.items()}
            for observer in self.observers
        ]

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint: the state vectors, and the rows of all members in one array each."""
        names = self.observers[0].rows
        return {
            "reached": self.reached,
            "calls": self.calls,
            "psi": self.batch.psi,
            "other": None if self.other is None else self.other.psi,
            "rows": {name: np.array([observer.rows[name] for observer in self.observers]) for name in names},
        }

    # -------------------------------------------------------------------------------------- evolution

    @property
    def _layers(self) -> int:
        """Layers of a step as `Problem.pieces` counts them, for one state."""
        # a batch does the work of its members; on a CPU small states stay in cache
        return max(1, self.how.layers * len(self.members) // LIGHTER[self.problem.device.kind])

    def advance(self, report: Report, done: int = 0) -> None:
        """Evolve and observe to the end; `done` steps of the whole run were made before these trajectories."""
        problem, size = self.problem, len(self.members)
        done += size * sum(problem.steps(k, self.how.dt)[0] for k in range(self.reached))
        self._observe(report)
        for k in range(self.reached, len(problem.times) - 1):
            count, dt = problem.steps(k, self.how.dt)
            begun = 0
            for number, steps in enumerate(problem.pieces(count, self._layers)):
                # calls that were made before an interruption are counted, not repeated
                if number >= self.calls:
                    self.batch.advance(self.how.method, dt, steps)
                    if self.other is not None:
                        self.other.advance(self.how.method, dt, steps)
                    self.calls = number + 1
                    if begun + steps < count:
                        report(Progress(done + size * (begun + steps)))
                begun += steps
            done += size * count
            self.reached, self.calls = k + 1, 0
            self._observe(report)
            report(Progress(done, {"energy": self.observers[0].rows["energy"][-1]}))

    def _observe(self, report: Report) -> None:
        """Observe at the time reached, unless that was done before the run was interrupted; the states keep their bits."""
        if len(self.observers[0].rows.get("energy", ())) > self.reached:
            return
        echoes = self._echoes(report) if self.reached in self.problem.echo_at else None
        # one measurement of the whole batch; entropies as well, so that small matrices go through LAPACK together
        axes = "xyz" if any(observer.axes == "xyz" for observer in self.observers) else "z"
        moments, states = self.batch.measure(axes), self.batch.psi
        device = self.problem.device
        cuts = {cut: entropies(device, states, cut) for cut in self.problem.observables.needs.cuts}
        for m, observer in enumerate(self.observers):
            row = observer.row(
                self.reached, moments[m], states[m], {cut: values[m] for cut, values in cuts.items()}
            )
            if echoes is not None:
                row |= echoes[m]
            observer.record(self.reached, row)

    def _echoes(self, report: Report) -> list[dict[str, Any]]:
        # carried beside, or a copy that goes back
        """Return the echoes at the time reached."""
        if self.other is not None:
            pairs = zip(self.other.psi, self.batch.psi, strict=True)
            return [{"echo": echo(other, psi).echo} for other, psi in pairs]
        back = self._carried(self.batch.psi.copy(), perturbed=True)
        for _, dt, steps in way_back(self.problem, self.reached, self.how.dt, self._layers):
            back.advance(self.how.method, dt, steps)
            report(Progress())
        moments = back.measure("z", pairs=False)
        return [observer.echo(back.psi[m], moments[m]) for m, observer in enumerate(self.observers)]
