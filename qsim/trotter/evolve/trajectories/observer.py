"""Observables of one trajectory, one row per output time."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from qsim.core.errors import NumericsError
from qsim.trotter.deck.axes import AXES
from qsim.trotter.measurement.expectations import energy, energy_and_variance, local
from qsim.trotter.measurement.overlaps import echo, fidelity
from qsim.trotter.measurement.shared import shared_schmidt
from qsim.trotter.measurement.spaces import operator_in
from qsim.trotter.measurement.views import StateView
from qsim.trotter.sectors.parity import WholeSpace
from qsim.trotter.sectors.schmidt import Spectrum
from qsim.trotter.sectors.shared.space import SharedSpace
from qsim.trotter.states.files import load_state
from qsim.trotter.states.vectors import norm2, overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from qsim.core.device.arrays import StateVector
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.measurement.spaces import Space

__all__ = ["Observer", "reference"]


class Snapshot(StateView):
    """The state of a trajectory at one time.

    Parameters
    ----------
    observer : Observer
    time : float
    moments : Moments
    psi : StateVector
    entropies : mapping of part to float, optional
        Von Neumann entropies, if they are known already.
    """

    def __init__(
        self,
        observer: Observer,
        time: float,
        moments: Moments,
        psi: StateVector,
        entropies: Mapping[tuple[int, ...], float] | None = None,
    ) -> None:
        problem = observer.problem
        super().__init__(problem.space, problem.device, psi, moments)
        self.observer, self.time, self.known = observer, time, entropies
        self.single = problem.precision == "single"
        # means over an ensemble have no single Sz for each coefficient
        self.labelled = problem.charged and problem.members == 1

    def schmidt(self, cut: Sequence[int]) -> Spectrum:
        """Return the squared Schmidt coefficients of a part."""
        problem = self.observer.problem
        if problem.links is not None:
            return Spectrum.unlabelled(shared_schmidt(problem.device, problem.links, self.psi, cut))
        return super().schmidt(cut)

    def entropies(self, cuts: Sequence[Sequence[int]]) -> list[float]:
        """Return the von Neumann entropies of all parts."""
        if self.known is None:
            return super().entropies(cuts)
        return [self.known[tuple(cut)] for cut in cuts]

    def fidelity(self, state: Literal["start", "reference"]) -> float:
        """Return the overlap with the state at t = 0, or with the state of a file."""
        problem = self.observer.problem
        if state == "start":
            # a jump may have led to another Sz
            if problem.space != self.observer.home:
                return 0.0
            other = self.observer.psi0
            # the observable needs it
            assert other is not None
            return fidelity(other, self.psi, problem.links)
        other = self.observer.compared
        return abs(overlap(other, self.psi, problem.links)) ** 2 / norm2(self.psi, problem.links)

    def variance(self) -> float:
        """Return ``<H^2> - <H>^2``."""
        if self.moments.variance is not None:
            return self.moments.variance
        observer = self.observer
        device, hamiltonian = observer.problem.device, observer.hamiltonian
        linear = None
        if (links := observer.problem.links) is not None:
            shared = SharedSpace(WholeSpace(observer.problem.spins), links)
            linear = operator_in(shared, device, hamiltonian.at(self.time))
        return energy_and_variance(device, hamiltonian, self.psi, self.time, linear=linear)[1]

    def first(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the result of `make` at t = 0; it is kept beside the rows, for a resumed trajectory."""
        rows = self.observer.rows
        if f"_{name}" not in rows:
            rows[f"_{name}"] = [make()]
        return rows[f"_{name}"][0]


class Observer:
    """A trajectory's Hamiltonians, reference states and observables.

    Parameters
    ----------
    problem : Problem
    member : int
        Number of the trajectory.
    reference : complex, optional
        State of all spins that the trajectory is compared with, see :func:`reference`.

    Attributes
    ----------
    hamiltonian, perturbed : Hamiltonian
        The latter leads back in echoes.
    psi0 : (2^N,) complex or None
        State at t = 0, if it is needed later.
    rows : dict of lists
        Observables: one entry per output time (`echo`: one per time of `Problem.echo_at`).
    """

    def __init__(self, problem: Problem, member: int, reference: StateVector | None = None) -> None:
        self.problem, self.reference = problem, reference
        # H, and H + Sigma where an echo has one; else both are the same
        hamiltonians = problem.different_hamiltonians(member)
        self.hamiltonian, self.perturbed = hamiltonians[0], hamiltonians[-1]
        self.psi0 = problem.initial(member) if problem.observables.needs.start else None
        self.home = problem.space
        self._compared: tuple[Space, StateVector] | None = None
        self.rows: dict[str, list[Any]] = {}

    @property
    def compared(self) -> StateVector:
        """Part in the present space of the state that the trajectory is compared with."""
        problem, state = self.problem, self.reference
        # the observable needs it
        assert state is not None
        if problem.sector is None:
            return state
        if self._compared is None or self._compared[0] != problem.space:
            self._compared = problem.space, problem.part_of(state)
        return self._compared[1]

    @cached_property
    def axes(self) -> str:
        """Axes along which the moments are needed: all that the energy or an observable takes."""
        coupled = {AXES[a] for a in self.hamiltonian.envelope.axes}
        return "z" if self.problem.observables.needs.moment_axes | coupled <= {"z"} else "xyz"

    def row(
        self,
        reached: int,
        moments: Moments,
        psi: StateVector,
        entropies: Mapping[tuple[int, ...], float] | None = None,
    ) -> dict[str, Any]:
        """Return the observables at a time; expectation values are divided by the norm.

        Parameters
        ----------
        reached : int
            Number of the time.
        moments, psi
            Of the state (2^N,) then.
        entropies : mapping of part to float, optional
            Von Neumann entropies, if they are known already.
        """
        time = self.problem.times[reached]
        snapshot = Snapshot(self, time, moments, psi, entropies)
        values: dict[str, Any] = {
            "norm": moments.norm,
            "energy": energy(moments, self.hamiltonian, time),
            "total_sz": math.fsum(snapshot.spins("z")),
        }
        for observable in self.problem.observables:
            values |= observable.values(snapshot)
        return values

    def echo(self, back: StateVector, moments: Moments | None) -> dict[str, Any]:
        """Return the echo of a state that came back; its moments for the local echo."""
        observable = self.problem.echo
        assert observable is not None
        assert self.psi0 is not None
        result = echo(self.psi0, back, self.problem.links)
        values: dict[str, Any] = {"echo": result.echo if observable.perturbed else result.unnormalised}
        # without Sigma the loss of norm belongs to the echo, as in the paper; both are given
        if not observable.perturbed:
            values["echo_normalised"] = result.echo
        if observable.local and moments is not None:
            values["echo_local"] = 2.0 * local(moments, "z")[observable.local]
        return values

    def record(self, reached: int, values: Mapping[str, Any]) -> None:
        """Append a row.

        Raises
        ------
        NumericsError
            If anything in it is not finite.
        """
        # a row that is not finite ends the run: later ones would be as well
        for name, value in values.items():
            if not np.all(np.isfinite(value)):
                raise NumericsError(
                    f"{name} is not finite at t = {self.problem.times[reached]:g}",
                    hint="lower evolve.dt",
                )
            self.rows.setdefault(name, []).append(value)


def reference(problem: Problem) -> StateVector | None:
    """Return the state of a file that trajectories are compared with, of all spins; None if no observable needs one."""
    file, states = problem.observables.needs.reference, problem.models.system.states
    if file is None:
        return None
    return load_state(file, problem.spins, problem.device, problem.dtype, links=problem.links, states=states)
