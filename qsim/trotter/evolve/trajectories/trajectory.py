"""One trajectory: a state is carried from output time to output time and observed there.

The calls that advance the state are fixed by the deck alone (`Problem.pieces`), not by when the run was interrupted: a resumed
trajectory repeats exactly those that the uninterrupted one would have made, and ends with the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.checkpoint import fitting
from qsim.core.run.loop import Progress
from qsim.trotter.evolution.chebyshev import Chebyshev
from qsim.trotter.evolve.propagators.krylov import KrylovPropagator
from qsim.trotter.evolve.propagators.orbits import OrbitPropagator, orbits_in
from qsim.trotter.evolve.propagators.propagator import Propagator, propagator
from qsim.trotter.evolve.trajectories.correlations import SigmaStates
from qsim.trotter.evolve.trajectories.observer import Observer, reference
from qsim.trotter.measurement.overlaps import echo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.trotter.evolution.accuracy import Choice
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.model.hamiltonian import Hamiltonian
    from qsim.trotter.states.vectors import Amplitudes


class Trajectory:
    """The state of one trajectory and its observations.

    Attributes
    ----------
    reached : int
        Number of the time up to which the evolution is complete.
    calls : int
        Calls made since then, towards the next time.
    pending : dict
        Row of the time reached, while its echo is still on the way.
    """

    def __init__(
        self, problem: Problem, member: int, how: Choice, restored: Mapping[str, Any] | None = None
    ) -> None:
        self.problem, self.member, self.how = problem, member, how
        self.observer = Observer(problem, member, reference(problem))
        self.hamiltonian = self.observer.hamiltonian
        self.reached = self.calls = 0
        self.pending: dict[str, Any] = {}
        self._expansions: dict[int, Chebyshev] = {}
        device, size = problem.device, (problem.dimension,)
        # a resumed trajectory begins with its own state; of several ranks each takes its part
        psi = (
            problem.initial(member)
            if restored is None
            else device.asarray(fitting(restored, "psi", size)[problem.part])
        )
        # one state forward; for an echo by overlap a second one under H + Sigma; for correlations the states sigma^z psi
        self.propagator = self._first(self.hamiltonian, psi)
        self.other: Any = None
        if problem.echo is not None and problem.echo.overlap:
            other = (
                problem.initial(member)
                if restored is None
                else device.asarray(fitting(restored, "other", size)[problem.part])
            )
            self.other = self._first(self.observer.perturbed, other)
        self.sigma_states: SigmaStates | None = None
        if problem.observables.needs.sigma_sites:
            self.sigma_states = SigmaStates(
                problem,
                lambda state: self._propagator(self.hamiltonian, state, own=True),
                self.propagator.psi if restored is None else None,
                None if restored is None else restored["sigma_states"],
            )
        if restored is not None:
            self.reached, self.calls = int(restored["reached"]), int(restored["calls"])
            self.pending = dict(restored["pending"])
            self.propagator.products = int(restored["products"])
            if isinstance(self.propagator, KrylovPropagator):
                # output times are where a run can be interrupted: a driven H is at that time
                self.propagator.time = problem.times[self.reached]
            self.observer.rows = {name: list(values) for name, values in restored["rows"].items()}

    @property
    def rows(self) -> dict[str, list[Any]]:
        """Observables: one entry per output time (`echo`: one per time of `Problem.echo_at`)."""
        return self.observer.rows

    @property
    def members(self) -> range:
        """Numbers of the trajectories: this one."""
        return range(self.member, self.member + 1)

    def results(self) -> list[dict[str, NDArray[np.float64]]]:
        """Return the rows of each trajectory as arrays."""
        return [{name: np.array(values, float) for name, values in self.rows.items()}]

    @property
    def psi(self) -> Any:
        """State (2^N,) at the time reached, on the device."""
        return self.propagator.psi

    @property
    def last(self) -> Observer:
        """The observer of this trajectory."""
        return self.observer

    @property
    def passes(self) -> int:
        """Passes over the states that are carried forward, since the trajectory began or was resumed."""
        return self.propagator.passes + (self.other.passes if self.other is not None else 0)

    def _first(self, hamiltonian: Hamiltonian, psi: Amplitudes) -> Propagator:
        """Return the propagator of the initial state, or of a resumed one, which may use common symmetries of H and start."""
        # few amplitudes where H and start share symmetries; states of echoes and correlations lack them
        orbits = orbits_in(self.problem, hamiltonian)
        if orbits is not None:
            return OrbitPropagator(self.problem, orbits, psi, self.how)
        return self._propagator(hamiltonian, psi, own=True)

    def _propagator(self, hamiltonian: Hamiltonian, psi: Amplitudes, own: bool = False) -> Propagator:
        made = propagator(self.problem, hamiltonian, psi, self.how, own)
        # its bounds of the spectrum are worth keeping
        if not isinstance(made, KrylovPropagator) and made.expansion is not None:
            made.expansion = self._expansions.setdefault(id(hamiltonian), made.expansion)
        return made

    def state(self) -> dict[str, Any]:
        """Return the state of the trajectory for a checkpoint."""
        return {
            "reached": self.reached,
            "calls": self.calls,
            "psi": self.propagator.psi,
            "other": None if self.other is None else self.other.psi,
            "sigma_states": None if self.sigma_states is None else self.sigma_states.state(),
            "pending": dict(self.pending),
            "products": self.propagator.products,
            "rows": {name: np.array(values) for name, values in self.rows.items()},
        }

    # -------------------------------------------------------------------------------------- evolution

    def advance(self, report: Report, done: int = 0) -> None:
        """Evolve and observe to the end; `done` steps of the whole run were made before this trajectory."""
        problem = self.problem
        done += sum(problem.steps(k, self.how.dt)[0] for k in range(self.reached))
        self._observe(report)
        # from output time to output time, in calls that are short enough for reports and interruptions
        for k in range(self.reached, len(problem.times) - 1):
            count, dt = problem.steps(k, self.how.dt)
            begun = 0
            for number, steps in enumerate(problem.pieces(count, self.how.layers)):
                # calls that were made before an interruption are counted, not repeated
                if number >= self.calls:
                    start = problem.times[k] + begun * dt
                    self.propagator.advance(start, dt, steps)
                    if self.other is not None:
                        self.other.advance(start, dt, steps)
                    if self.sigma_states is not None:
                        self.sigma_states.advance(start, dt, steps)
                    self.calls = number + 1
                    if begun + steps < count:
                        report(Progress(done + begun + steps))
                begun += steps
            done += count
            self.reached, self.calls = k + 1, 0
            self._observe(report)
            report(Progress(done, {"energy": self.rows["energy"][-1]}))

    def _observe(self, report: Report) -> None:
        """Observe at the time reached, unless that was done before the run was interrupted."""
        if len(self.rows.get("energy", ())) > self.reached:
            return
        # measuring turns the state through its frames, which rounds: a row is measured once, also if its echo is interrupted
        if not self.pending:
            moments = self.propagator.measure(self.observer.axes)
            self.pending = self.observer.row(self.reached, moments, self.propagator.psi)
            if self.sigma_states is not None:
                self.pending |= self.sigma_states.correlations(self.propagator.psi)
        row = dict(self.pending)
        # the echo and the correlators of this time go on from the state, whose row is measured already
        if self.reached in self.problem.echo_at:
            row |= self._echo(report)
        if self.sigma_states is not None and self.reached in self.problem.otoc_at:
            row |= self.sigma_states.otoc(
                self.propagator.psi,
                lambda: way_back(self.problem, self.reached, self.how.dt, self.how.layers),
                lambda: report(Progress()),
            )
        self.pending = {}
        self.observer.record(self.reached, row)

    def _echo(self, report: Report) -> dict[str, Any]:
        """Return the echo at the time reached."""
        # both states were carried: their overlap is the echo
        if self.other is not None:
            return {"echo": echo(self.other.psi, self.propagator.psi, self.problem.links).echo}
        # the way back: a copy under -(H + Sigma), in the steps of the way forward
        back = self._propagator(self.observer.perturbed, self.propagator.psi.copy(), own=True)
        for start, dt, steps in way_back(self.problem, self.reached, self.how.dt, self.how.layers):
            back.advance(start, dt, steps)
            report(Progress())
        observable = self.problem.echo
        local = observable is not None and bool(observable.local)
        moments = back.measure("z", pairs=False) if local else None
        return self.observer.echo(back.psi, moments)


def way_back(
    problem: Problem, reached: int, dt: float | None, layers: int
) -> Iterator[tuple[float, float, int]]:
    """Yield (start, dt, steps) from a time to 0: the calls of the way forward in reverse.

    Parameters
    ----------
    reached : int
        Number of the time.
    dt : float or None
        Longest step.
    layers : int
        Layers of a step, as `Problem.pieces` is given them.
    """
    # intervals and calls in reverse, each with its own
    # steps, so that a symmetric integrator undoes itself
    for k in reversed(range(reached)):
        count, length = problem.steps(k, dt)
        left = count
        for steps in reversed(list(problem.pieces(count, layers))):
            yield problem.times[k] + left * length, -length, steps
            left -= steps
