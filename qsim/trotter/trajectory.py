"""One trajectory: a state is carried from output time to output time and observed there.

The calls that advance the state are fixed by the deck alone (`Problem.pieces`), not by when the run was interrupted: a resumed
trajectory repeats exactly those that the uninterrupted one would have made, and ends with the same bits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.trotter import driven, observables
from qsim.trotter.build import AXES
from qsim.trotter.chebyshev import Chebyshev
from qsim.trotter.evolve import Evolver
from qsim.trotter.vectors import axpy, norm2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from qsim.core.progress import Monitor
    from qsim.trotter.accuracy import Choice
    from qsim.trotter.build import Problem
    from qsim.trotter.model import Hamiltonian


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
        self, problem: Problem, hamiltonian: Hamiltonian, psi: Any, how: Choice, own: bool = False
    ) -> None:
        self.hamiltonian, self.how, self.products = hamiltonian, how, 0
        precision = problem.deck.run.precision
        self.evolver = Evolver(problem.device, hamiltonian.at(0.0), psi, precision=precision, own=own)
        self.expansion = Chebyshev(problem.device, hamiltonian) if how.method == "chebyshev" else None

    @property
    def psi(self) -> Any:
        """State (2^N,) on the device."""
        return self.evolver.psi

    def advance(self, start: float, dt: float, steps: int) -> None:
        """Carry the state over some steps from a time on; dt may be negative."""
        if self.expansion is not None:
            self.products += self.expansion.advance(self.psi, steps * dt, self.how.tolerance).products
        elif self.hamiltonian.is_static:
            self.evolver.advance(self.how.method, dt, steps)
        else:
            driven.advance(self.evolver, self.hamiltonian, self.how.method, dt, steps, start)


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
    rows : dict of lists
        What was observed: one entry a time (`echo`: one entry a time of `Problem.echo_at`).
    """

    def __init__(
        self, problem: Problem, member: int, how: Choice, restored: Mapping[str, Any] | None = None
    ) -> None:
        self.problem, self.member, self.how = problem, member, how
        self.hamiltonian = problem.hamiltonian(member)
        self.rows: dict[str, list[Any]] = {}
        self.reached = self.calls = 0
        self.pending: dict[str, Any] = {}
        self._expansions: dict[int, Chebyshev] = {}
        device = problem.device
        psi = problem.initial(member) if restored is None else device.asarray(restored["psi"])
        self.carrier = self._carrier(self.hamiltonian, psi, own=True)
        self.other: Any = None
        echo = problem.echo
        if echo is not None:
            self.perturbed = self.hamiltonian
            if echo.sigma:
                self.perturbed = self.hamiltonian + problem.sigma(member)
            if echo.overlap:
                other = problem.initial(member) if restored is None else device.asarray(restored["other"])
                self.other = self._carrier(self.perturbed, other, own=True)
        needs_start = problem.deck.observed("return_probability") or (echo is not None and not echo.overlap)
        self.psi0 = problem.initial(member) if needs_start else None
        self.target = self._target()
        if restored is not None:
            self.reached, self.calls = int(restored["reached"]), int(restored["calls"])
            self.pending = dict(restored["pending"])
            self.carrier.products = int(restored["products"])
            self.rows = {name: list(values) for name, values in restored["rows"].items()}

    @property
    def passes(self) -> int:
        """Passes over the states that are carried forward, since the trajectory began or was resumed."""
        return self.carrier.evolver.passes + (self.other.evolver.passes if self.other is not None else 0)

    def _carrier(self, hamiltonian: Hamiltonian, psi: Any, own: bool = False) -> Carrier:
        made = Carrier(self.problem, hamiltonian, psi, self.how, own)
        if made.expansion is not None:  # its bounds of the spectrum are worth keeping
            made.expansion = self._expansions.setdefault(id(hamiltonian), made.expansion)
        return made

    def _target(self) -> Any:
        """Return the state of `fidelity`, None if it is not asked for."""
        block = self.problem.deck.observed("fidelity")
        if block is None:
            return None
        from qsim.trotter import states

        return states.load_state(block.file, self.problem.spins, self.problem.device, self.problem.dtype)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of the trajectory."""
        return {
            "reached": self.reached,
            "calls": self.calls,
            "psi": self.carrier.psi,
            "other": None if self.other is None else self.other.psi,
            "pending": dict(self.pending),
            "products": self.carrier.products,
            "rows": {name: np.array(values) for name, values in self.rows.items()},
        }

    # -------------------------------------------------------------------------------------- evolution

    def run(self, monitor: Monitor, done: int, state: Callable[[], dict[str, Any]]) -> int:
        """Evolve and observe to the end; return the steps done by then in the whole run."""
        problem = self.problem
        done += sum(problem.steps(k, self.how.dt)[0] for k in range(self.reached))
        self._observe(monitor, state)
        for k in range(self.reached, len(problem.times) - 1):
            count, dt = problem.steps(k, self.how.dt)
            begun = 0
            for number, steps in enumerate(problem.pieces(count, self.how.layers)):
                if number >= self.calls:
                    start = problem.times[k] + begun * dt
                    self.carrier.advance(start, dt, steps)
                    if self.other is not None:
                        self.other.advance(start, dt, steps)
                    self.calls = number + 1
                    if begun + steps < count:
                        monitor.step(done + begun + steps, state)
                begun += steps
            done += count
            self.reached, self.calls = k + 1, 0
            self._observe(monitor, state)
            monitor.step(done, state, energy=self.rows["energy"][-1])
        return done

    def _observe(self, monitor: Monitor, state: Callable[[], dict[str, Any]]) -> None:
        """Observe at the time reached, unless that was done before the run was interrupted."""
        if len(self.rows.get("energy", ())) > self.reached:
            return
        # measuring turns the state through its frames, which rounds: a row is measured once, also if its echo is interrupted
        self.pending = self.pending or self.row()
        found = dict(self.pending)
        if self.reached in self.problem.echo_at:
            found |= self._echo(monitor, state)
        self.pending = {}
        for name, value in found.items():
            if not np.all(np.isfinite(value)):
                raise NumericsError(
                    f"{name} is not finite at t = {self.problem.times[self.reached]:g}",
                    hint="lower evolve.dt",
                )
            self.rows.setdefault(name, []).append(value)

    # ------------------------------------------------------------------------------------- observation

    def row(self) -> dict[str, Any]:
        """Return what is observed at the time reached; expectation values are divided by the norm."""
        problem, deck = self.problem, self.problem.deck
        time = problem.times[self.reached]
        moments = self.carrier.evolver.measure(self._axes())
        found: dict[str, Any] = {
            "norm": moments.norm,
            "energy": observables.energy(moments, self.hamiltonian, time),
        }
        for a in problem.totals:
            found[f"total_s{a}"] = observables.total(moments, a)
        for a in AXES:
            if (sites := problem.sites(a)) is not None:
                found[f"s{a}"] = observables.local(moments, a)[sites]
        for axes, pairs in problem.pairs.items():
            found[f"correlator_{axes}"] = observables.correlators(moments, axes[0], pairs)
        psi = self.carrier.psi
        if problem.cuts:
            found["entropy"] = np.array(
                [observables.entropy(problem.device, psi, cut) for cut in problem.cuts]
            )
        if deck.observed("return_probability"):
            found["return_probability"] = observables.fidelity(self.psi0, psi)
        if self.target is not None:
            found["fidelity"] = observables.fidelity(self.target, psi)
        if deck.observed("energy_variance"):
            device = problem.device
            found["energy_variance"] = observables.energy_and_variance(device, self.hamiltonian, psi, time)[1]
        if deck.observed("imbalance"):
            if "_pattern" not in self.rows:  # kept beside the rows, for a resumed trajectory
                self.rows["_pattern"] = [observables.local(moments, "z")]
            found["imbalance"] = observables.imbalance(moments, self.rows["_pattern"][0])
        if (site := problem.autocorrelation_site) is not None:
            found["polarisation"] = observables.polarisation(moments)
            found["autocorrelation"] = float(found["polarisation"][site])
        return found

    def _axes(self) -> str:
        """Return the axes along which the moments are needed: all that the energy or a deck entry asks for."""
        asked = {"z", *self.problem.totals, *(axes[0] for axes in self.problem.pairs)}
        coupled = {AXES[a] for a in self.hamiltonian.envelope.axes}
        return "z" if asked | coupled == {"z"} else "xyz"

    def _echo(self, monitor: Monitor, state: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the echo at the time reached."""
        block = self.problem.echo
        if self.other is not None:
            return {"echo": observables.echo(self.other.psi, self.carrier.psi).echo}
        back = self._carrier(self.perturbed, self.carrier.psi.copy(), own=True)
        for start, dt, steps in self._way_back():
            back.advance(start, dt, steps)
            monitor.poll(state)
        result = observables.echo(self.psi0, back.psi)
        found: dict[str, Any] = {"echo": result.echo if block.sigma else result.unnormalised}
        if not block.sigma:
            found["echo_normalised"] = result.echo
        if block.local is not None:
            moments = back.evolver.measure("z", pairs=False)
            found["echo_local"] = observables.polarisation(moments)[list(block.local)]
        return found

    def verify(self) -> float:
        """Return the distance of the state at t_final from that of half the step over the last interval.

        The state goes back by the steps that it came by, which are undone up to rounding, and forward by halves of them.
        """
        problem, last = self.problem, len(self.problem.times) - 2
        other = self._carrier(self.hamiltonian, self.carrier.psi.copy(), own=True)
        if last < 0:
            return 0.0
        count, dt = problem.steps(last, self.how.dt)
        other.advance(problem.times[-1], -dt, count)
        other.advance(problem.times[last], 0.5 * dt, 2 * count)
        axpy(-1.0, self.carrier.psi, other.psi)
        return math.sqrt(norm2(other.psi) / norm2(self.carrier.psi))

    def _way_back(self) -> Iterator[tuple[float, float, int]]:
        """Yield (start, dt, steps) from the time reached to 0: the calls of the way forward in reverse."""
        problem = self.problem
        for k in reversed(range(self.reached)):
            count, dt = problem.steps(k, self.how.dt)
            left = count
            for steps in reversed(list(problem.pieces(count, self.how.layers))):
                yield problem.times[k] + left * dt, -dt, steps
                left -= steps
