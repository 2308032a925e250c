"""Quantum trajectories of small systems that cores or a GPU carry all at once; with the face of `Members`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.checkpoint import fitting
from qsim.core.run.loop import Progress
from qsim.trotter.deck.axes import AXES
from qsim.trotter.evolution.batch import LARGEST, SMALLEST, Batch
from qsim.trotter.evolution.integrators import METHODS, ORDER
from qsim.trotter.evolve.open.carrier import NOWHERE, SAME
from qsim.trotter.evolve.open.drifts import axes_of, profiles_of, stages_of
from qsim.trotter.evolve.open.members import finished
from qsim.trotter.evolve.trajectories.observer import Observer, reference
from qsim.trotter.kernels.open.carry import NO_RATE, Span, System, carry
from qsim.trotter.measurement.entanglement import entropies
from qsim.trotter.model.open.channels import decays_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.trotter.evolution.accuracy import Choice
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.model.hamiltonian import Model

__all__ = ["Together", "all_at_once"]

# trajectories of a round: some for each core, or several for each multiprocessor
MOST = {"cpu": 64, "cuda": 1024}


def all_at_once(problem: Problem, how: Choice) -> int:
    """Return the number of trajectories that are carried at once; 0 where they are carried one after the other."""
    hamiltonian, decays = problem.hamiltonian(), decays_of(problem.channels, problem.models.system.twos)
    fits = (
        problem.drift == "layers"
        and problem.spins <= LARGEST
        and how.method in METHODS
        and not profiles_of(hamiltonian, decays)
    )
    return min(problem.members, MOST[problem.device.kind]) if fits else 0


def _energy(moments: Moments, model: Model) -> float:
    """Return ``<H>`` in two products an axis, of which every trajectory has some at every time."""
    total = 0.0
    for a, axis in enumerate(AXES):
        if axis in moments.s:
            pairs = float(np.vdot(model.J[a], moments.ss[axis])) if model.J[a].any() else 0.0
            total += 0.5 * pairs + float(model.h[a] @ moments.s[axis])
    return total / float(moments.norm)


class Together:
    """Trajectories of a round, all of which have reached the same time.

    Attributes
    ----------
    members : range
        Their numbers.
    reached : int
        Number of the time up to which they are complete.
    jumps : list of (jumps, 2) float64
        Time and channel of the jumps of each so far.
    """

    def __init__(
        self, problem: Problem, members: range, how: Choice, restored: Mapping[str, Any] | None = None
    ) -> None:
        self.problem, self.members, self.how = problem, members, how
        compared = reference(problem)
        self.observers = [Observer(problem, member, compared) for member in members]
        self.passes = self.reached = 0
        self.jumps = [np.zeros((0, 2)) for _ in members]
        device, self.bits = problem.device, max(problem.spins, SMALLEST[problem.device.kind])
        with device.use():
            self._psi = device.xp.zeros((len(members), 1 << self.bits), np.complex128)
            if restored is None:
                for m, member in enumerate(members):
                    self.psis[m] = problem.initial(member)
            else:
                size = (len(members), 1 << problem.spins)
                self.psis[...] = device.asarray(fitting(restored, "psi", size))
        self._batch = Batch(device, [o.hamiltonian.at(0.0) for o in self.observers], self._psi, own=True)
        self._system: tuple[System, tuple[Any, Any]] | None = None
        if restored is not None:
            self.reached = int(restored["reached"])
            self.jumps = [np.array(one) for one in restored["jumps"]]
            for m, observer in enumerate(self.observers):
                observer.rows = {name: list(values[m]) for name, values in restored["rows"].items()}

    @property
    def psis(self) -> Any:
        """States (M, 2^N), not normalised, on the device."""
        return self._psi[:, : 1 << self.problem.spins]

    @property
    def psi(self) -> Any:
        """State of the last trajectory, normalised."""
        with self.problem.device.use():
            psi = self.psis[-1]
            return psi / self.problem.device.xp.linalg.norm(psi)

    @property
    def last(self) -> Observer:
        """Observer of the last trajectory."""
        return self.observers[-1]

    def results(self) -> list[dict[str, NDArray[np.float64]]]:
        """Return the rows of each trajectory as arrays."""
        pairs = zip(self.observers, self.jumps, strict=True)
        return [finished(self.problem, observer, jumps) for observer, jumps in pairs]

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        names = self.observers[0].rows
        return {
            "reached": self.reached,
            "psi": self.psis,
            "jumps": self.jumps,
            "rows": {name: np.array([observer.rows[name] for observer in self.observers]) for name in names},
        }

    def advance(self, report: Report, done: int = 0) -> None:
        """Carry all trajectories to the end; `done` steps of the whole run were made before these."""
        problem, size = self.problem, len(self.members)
        done += size * sum(problem.steps(k, self.how.dt)[0] for k in range(self.reached))
        self._observe()
        for k in range(self.reached, len(problem.times) - 1):
            count, dt = problem.steps(k, self.how.dt)
            self._carry(problem.times[k], problem.times[k + 1], dt)
            self.reached, done = k + 1, done + size * count
            self._observe()
            report(Progress(done))

    # -------------------------------------------------------------------------------------- evolution

    def _carry(self, start: float, end: float, dt: float) -> None:
        """Carry all states from a time to another one."""
        device, seed = self.problem.device, self.problem.models.seed
        with device.use():
            if self._system is None:
                self._system = self._tabulated()
            system, which = self._system
            numbers = device.asarray(np.array([len(one) for one in self.jumps], np.int32))
            clocks = (device.xp.full(len(self.members), float(start)), numbers)
            span = Span(end, dt, SAME * max(abs(start), abs(end)))
            made, ends = carry(device, self._psi, system, which, clocks, seed, span)
        if np.any(ends == NO_RATE):
            raise NumericsError(NOWHERE.format(time=end), hint="lower evolve.dt")
        self.jumps = [np.concatenate(pair) for pair in zip(self.jumps, made, strict=True)]

    def _tabulated(self) -> tuple[System, tuple[Any, Any]]:
        """Return what the trajectories share, and which of it each takes."""
        problem, device = self.problem, self.problem.device
        # one table for every realisation of the disorder
        realisations = [problem.models.realisation(member) for member in self.members]
        models = {
            one: observer.hamiltonian.static
            for one, observer in zip(realisations, self.observers, strict=True)
        }
        (falling,) = decays_of(problem.channels, problem.models.system.twos)
        J, h, constant = 0.5 * falling.model.J, 0.5 * falling.model.h, 0.5 * falling.constant
        decaying = np.array(
            [J[a].any() or h[a].any() or (a == ORDER[0] and constant > 0.0) for a in range(3)]
        )
        axes = axes_of(list(models.values()), [falling])
        sites = np.array([channel.site for channel in problem.channels], np.int32)
        system = System.of(
            device,
            self.bits,
            [(model.J, model.h) for model in models.values()],
            ((J, h), constant),
            stages_of(axes, self.how.method, self.bits, decaying),
            (sites, np.array([channel.w for channel in problem.channels])),
        )
        places = {one: place for place, one in enumerate(models)}
        which = np.array([places[one] for one in realisations], np.int32)
        return system, (device.asarray(np.array(self.members, np.uint64)), device.asarray(which))

    def _observe(self) -> None:
        """Observe at the time reached, unless that was done before the run was interrupted."""
        if len(self.observers[0].rows.get("energy", ())) > self.reached:
            return
        axes = "xyz" if any(observer.axes == "xyz" for observer in self.observers) else "z"
        moments, states, device = self._batch.measure(axes), self.psis, self.problem.device
        cuts = {cut: entropies(device, states, cut) for cut in self.problem.observables.needs.cuts}
        for m, observer in enumerate(self.observers):
            known = {cut: values[m] for cut, values in cuts.items()}
            one = replace(moments[m], energy=_energy(moments[m], observer.hamiltonian.static))
            row = observer.row(self.reached, one, states[m], known)
            # the norm between jumps is the chance of none, and no drift
            row["norm"] = 1.0
            observer.record(self.reached, row)
