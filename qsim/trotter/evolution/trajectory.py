"""One trajectory: a state is carried from output time to output time and observed there.

The calls that advance the state are fixed by the deck alone (`Problem.pieces`), not by when the run was interrupted: a resumed
trajectory repeats exactly those that the uninterrupted one would have made, and ends with the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.checkpoint import fitting
from qsim.core.run.loop import Progress
from qsim.trotter.evolution import driven
from qsim.trotter.evolution.carried import SectorCarrier
from qsim.trotter.evolution.chebyshev import Chebyshev
from qsim.trotter.evolution.distributed import SharedEvolver
from qsim.trotter.evolution.formulas import FormulaCarrier
from qsim.trotter.evolution.invariant import InvariantCarrier, orbits_in
from qsim.trotter.evolution.krylov import KrylovCarrier
from qsim.trotter.evolution.layers import Evolver, Tile
from qsim.trotter.evolution.turned import Turned
from qsim.trotter.observables import observables
from qsim.trotter.observables.observer import Observer, target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.trotter.evolution.accuracy import Choice
    from qsim.trotter.kernels.measure import Moments
    from qsim.trotter.model.hamiltonian import Hamiltonian
    from qsim.trotter.problem import Problem
    from qsim.trotter.states.vectors import Amplitudes


class Carrier:
    """A state and what carries it through time: an evolver, or a Chebyshev expansion.

    Attributes
    ----------
    evolver : Evolver
        Holds the state, also where another expansion carries it.
    products : int
        Products ``H psi`` of a Chebyshev expansion so far.
    """

    def __init__(
        self, problem: Problem, hamiltonian: Hamiltonian, psi: Amplitudes, how: Choice, own: bool = False
    ) -> None:
        self.hamiltonian, self.how, self.products = hamiltonian, how, 0
        precision = problem.precision
        # a checkpoint may be continued on a device of another kind
        tiling = how.tiling[1] if how.tiling is not None and how.tiling[0] == problem.device.kind else ()
        self.evolver: Evolver | SharedEvolver
        if problem.links is not None:
            initial = hamiltonian.at(0.0)
            self.evolver = SharedEvolver(problem.device, initial, psi, problem.links, precision=precision)
            self.expansion = None
            return
        self.evolver = Evolver(
            problem.device,
            hamiltonian.at(0.0),
            psi,
            precision=precision,
            own=own,
            tiling=[Tile(*tile) for tile in tiling],
        )
        self.expansion = Chebyshev(problem.device, hamiltonian) if how.method == "chebyshev" else None

    @property
    def psi(self) -> Any:
        """State (2^N,) on the device."""
        return self.evolver.psi

    @property
    def passes(self) -> int:
        """Passes over the state so far."""
        return self.evolver.passes

    def measure(self, axes: str, pairs: bool = True) -> Moments:
        """Return the moments of the state along some axes."""
        moments = self.evolver.measure(axes, pairs=pairs)
        if pairs and self.expansion is not None and self.expansion.model.cross is not None:
            # couplings of different components have no moments
            moments.energy, moments.variance = observables.energy_and_variance(
                self.expansion.device, self.expansion.model, self.psi, linear=self.expansion.linear
            )
        return moments

    def advance(self, start: float, dt: float, steps: int) -> None:
        """Carry the state over some steps from a time on; dt may be negative."""
        if self.expansion is not None:
            self.products += self.expansion.advance(self.psi, steps * dt, self.how.tolerance).products
        elif self.hamiltonian.is_static:
            self.evolver.advance(self.how.method, dt, steps)
        else:
            how = self.how
            driven.advance(self.evolver, self.hamiltonian, how.method, dt, steps, start, how.kinks)


AnyCarrier = Carrier | SectorCarrier | FormulaCarrier | KrylovCarrier | InvariantCarrier


def carrier(
    problem: Problem, hamiltonian: Hamiltonian, psi: Any, how: Choice, own: bool = False
) -> AnyCarrier:
    """Return what carries a state: in the sector of the problem, or in the whole space.

    Parameters
    ----------
    own : bool
        Whether psi may be overwritten.
    """
    if how.method == "krylov":
        return KrylovCarrier(problem, hamiltonian, psi if own else psi.copy(), how)
    if problem.sector is None:
        return Carrier(problem, hamiltonian, psi, how, own)
    if problem.by_bonds:
        return FormulaCarrier(problem, hamiltonian, psi if own else psi.copy(), how)
    return SectorCarrier(problem, hamiltonian, psi if own else psi.copy(), how)


class Trajectory:
    """The state of one trajectory and what was observed of it.

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
        self.observer = Observer(problem, member, target(problem))
        self.hamiltonian = self.observer.hamiltonian
        self.reached = self.calls = 0
        self.pending: dict[str, Any] = {}
        self._expansions: dict[int, Chebyshev] = {}
        device, size = problem.device, (problem.dimension,)
        psi = (
            problem.initial(member)
            if restored is None
            else device.asarray(fitting(restored, "psi", size)[problem.part])
        )
        self.carrier = self._first(self.hamiltonian, psi)
        self.other: Any = None
        if problem.asked.echo is not None and problem.asked.echo.overlap:
            other = (
                problem.initial(member)
                if restored is None
                else device.asarray(fitting(restored, "other", size))
            )
            self.other = self._first(self.observer.perturbed, other)
        self.turned: Turned | None = None
        if problem.asked.turned_sites:
            self.turned = Turned(
                problem,
                lambda state: self._carrier(self.hamiltonian, state, own=True),
                self.carrier.psi if restored is None else None,
                None if restored is None else restored["turned"],
            )
        if restored is not None:
            self.reached, self.calls = int(restored["reached"]), int(restored["calls"])
            self.pending = dict(restored["pending"])
            self.carrier.products = int(restored["products"])
            if isinstance(self.carrier, KrylovCarrier):
                self.carrier.time = problem.times[self.reached]
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
        return self.carrier.psi

    @property
    def last(self) -> Observer:
        """The observer of this trajectory."""
        return self.observer

    @property
    def passes(self) -> int:
        """Passes over the states that are carried forward, since the trajectory began or was resumed."""
        return self.carrier.passes + (self.other.passes if self.other is not None else 0)

    def _first(self, hamiltonian: Hamiltonian, psi: Amplitudes) -> AnyCarrier:
        """Return what carries the start, or what has become of it, and may use the symmetries of both."""
        orbits = orbits_in(self.problem, hamiltonian)
        if orbits is not None:
            return InvariantCarrier(self.problem, orbits, psi, self.how)
        return self._carrier(hamiltonian, psi, own=True)

    def _carrier(self, hamiltonian: Hamiltonian, psi: Amplitudes, own: bool = False) -> AnyCarrier:
        made = carrier(self.problem, hamiltonian, psi, self.how, own)
        if (
            not isinstance(made, KrylovCarrier) and made.expansion is not None
        ):  # its bounds of the spectrum are worth keeping
            made.expansion = self._expansions.setdefault(id(hamiltonian), made.expansion)
        return made

    def state(self) -> dict[str, Any]:
        """Return the state of the trajectory for a checkpoint."""
        return {
            "reached": self.reached,
            "calls": self.calls,
            "psi": self.carrier.psi,
            "other": None if self.other is None else self.other.psi,
            "turned": None if self.turned is None else self.turned.state(),
            "pending": dict(self.pending),
            "products": self.carrier.products,
            "rows": {name: np.array(values) for name, values in self.rows.items()},
        }

    # -------------------------------------------------------------------------------------- evolution

    def advance(self, report: Report, done: int = 0) -> None:
        """Evolve and observe to the end; `done` steps of the whole run were made before this trajectory."""
        problem = self.problem
        done += sum(problem.steps(k, self.how.dt)[0] for k in range(self.reached))
        self._observe(report)
        for k in range(self.reached, len(problem.times) - 1):
            count, dt = problem.steps(k, self.how.dt)
            begun = 0
            for number, steps in enumerate(problem.pieces(count, self.how.layers)):
                if number >= self.calls:
                    start = problem.times[k] + begun * dt
                    self.carrier.advance(start, dt, steps)
                    if self.other is not None:
                        self.other.advance(start, dt, steps)
                    if self.turned is not None:
                        self.turned.advance(start, dt, steps)
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
            moments = self.carrier.measure(self.observer.axes)
            self.pending = self.observer.row(self.reached, moments, self.carrier.psi)
            if self.turned is not None:
                self.pending |= self.turned.correlations(self.carrier.psi)
        found = dict(self.pending)
        if self.reached in self.problem.echo_at:
            found |= self._echo(report)
        if self.turned is not None and self.reached in self.problem.otoc_at:
            found |= self.turned.otoc(
                self.carrier.psi,
                lambda: way_back(self.problem, self.reached, self.how.dt, self.how.layers),
                lambda: report(Progress()),
            )
        self.pending = {}
        self.observer.record(self.reached, found)

    def _echo(self, report: Report) -> dict[str, Any]:
        """Return the echo at the time reached."""
        if self.other is not None:
            return {"echo": observables.echo(self.other.psi, self.carrier.psi).echo}
        back = self._carrier(self.observer.perturbed, self.carrier.psi.copy(), own=True)
        for start, dt, steps in way_back(self.problem, self.reached, self.how.dt, self.how.layers):
            back.advance(start, dt, steps)
            report(Progress())
        local = bool(self.problem.asked.echo_local)
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
    for k in reversed(range(reached)):
        count, length = problem.steps(k, dt)
        left = count
        for steps in reversed(list(problem.pieces(count, layers))):
            yield problem.times[k] + left * length, -length, steps
            left -= steps
