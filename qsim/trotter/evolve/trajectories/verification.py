"""A second run with half the step: the error of the state and of the echoes as they are, not as they are estimated."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.evolution.integrators import METHODS
from qsim.trotter.evolve.propagators.propagator import Propagator, propagator
from qsim.trotter.evolve.trajectories.trajectory import way_back
from qsim.trotter.measurement.overlaps import echo
from qsim.trotter.states.vectors import axpy, norm2

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor
    from qsim.trotter.evolution.accuracy import Choice
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.evolve.trajectories.ensemble import Ensemble
    from qsim.trotter.evolve.trajectories.trajectory import Trajectory
    from qsim.trotter.model.hamiltonian import Hamiltonian
    from qsim.trotter.states.vectors import Amplitudes

# times the promised error: an estimate is no better
TOLERATED = 2.0
# times the promised error, beyond which the run with half the step is no reference either
UNSETTLED = 30.0

Info = dict[str, tuple[Any, str, str]]


def verify(
    problem: Problem, how: Choice, trajectory: Trajectory | Ensemble, monitor: Monitor
) -> tuple[Info, Choice]:
    """Repeat the last trajectory from t = 0 with half the step; return scalars, and the choice with its verified error.

    The distance of the states at t_final is ``1 - 2^-p`` of the error of a method of order p.  Chebyshev expansions have no
    step: each interval is made of two.  A deviation beyond the promised error is a warning.
    """
    replay = _Replay(problem, how, trajectory)
    replay.run()
    psi = replay.forward.psi
    # the state of the run less the one with half the step
    axpy(-1.0, trajectory.psi, psi)
    links = problem.links
    distance = math.sqrt(norm2(psi, links) / norm2(trajectory.psi, links))
    info: Info = {
        "verification_error": (distance, "", "||psi(dt) - psi(dt/2)|| at t_final, of the last trajectory")
    }
    # the claim of the run, or the accuracy of the deck where that is larger
    promised = max(how.error, problem.evolution.accuracy or 0.0)
    # expansions converge faster than any order: the distance is the error
    order = METHODS[how.method].order if how.method in METHODS else math.inf
    error = distance / (1.0 - 0.5**order)
    if error > TOLERATED * promised:
        monitor.warn(
            f"the error of the state is at least about {error:.2g}, by which the same evolution with half the step differs, and "
            f"not {promised:.2g}; {_unsettled(error, promised)}{_remedy(problem)}"
        )
    echo = replay.deviation
    if echo is not None:
        info["verification_echo_error"] = (
            echo,
            "",
            "largest |echo(dt) - echo(dt/2)|, of the last trajectory",
        )
        # an echo is the square of an overlap of two states, each
        # off by the error: it changes by 4 times as much at most
        if echo > 4.0 * TOLERATED * promised:
            monitor.warn(
                f"an echo changes by {echo:.2g} with half the step, while errors of {promised:.2g} of the states explain at most "
                f"{4.0 * promised:.2g}; {_remedy(problem)}"
            )
    return info, replace(how, error=min(2.0, max(how.error, error)))


def _unsettled(error: float, promised: float) -> str:
    """Return a clause for differences so large that the steps may be too long for the order of the method to show."""
    if error <= UNSETTLED * promised:
        return ""
    return f"that is {error / promised:.2g} times as much, so that the answer with half the step may be wrong as well; "


def _remedy(problem: Problem) -> str:
    return (
        "give a shorter evolve.dt"
        if problem.evolution.dt is not None
        else "ask for a smaller evolve.accuracy"
    )


class _Replay:
    """The evolution of one trajectory with half the step."""

    def __init__(self, problem: Problem, how: Choice, trajectory: Trajectory | Ensemble) -> None:
        self.problem, self.how = problem, how
        self.observer = trajectory.last
        member = trajectory.members.stop - 1
        self.member = member
        self.forward = self._propagator(self.observer.hamiltonian, problem.initial(member))
        self.other: Propagator | None = None
        if problem.echo is not None and problem.echo.overlap:
            self.other = self._propagator(self.observer.perturbed, problem.initial(member))
        self.echoes: list[float] = []

    def _propagator(self, hamiltonian: Hamiltonian, psi: Amplitudes) -> Propagator:
        return propagator(self.problem, hamiltonian, psi, self.how, own=True)

    @property
    def deviation(self) -> float | None:
        """Largest difference of an echo; None without echoes."""
        if not self.echoes:
            return None
        return float(np.abs(np.array(self.echoes) - np.array(self.observer.rows["echo"])).max())

    def run(self) -> None:
        """Evolve from 0 to t_final, echoes included."""
        problem, steps = self.problem, self.problem.steps
        # echoes at the same times as in the run, from the states with half the step
        self._echo(0)
        for k in range(len(problem.times) - 1):
            count, dt = steps(k, self.how.dt)
            for carried in (self.forward, self.other):
                if carried is not None:
                    _halved(carried, problem.times[k], dt, count)
            self._echo(k + 1)

    def _echo(self, reached: int) -> None:
        """Take the echo at an output time, by the scheme of the run."""
        problem = self.problem
        if reached not in problem.echo_at:
            return
        if self.other is not None:
            self.echoes.append(echo(self.other.psi, self.forward.psi, problem.links).echo)
            return
        back = self._propagator(self.observer.perturbed, self.forward.psi.copy())
        for start, dt, steps in way_back(problem, reached, self.how.dt, self.how.layers):
            _halved(back, start, dt, steps)
        # an echo that comes back needs it
        assert self.observer.psi0 is not None
        result = echo(self.observer.psi0, back.psi, problem.links)
        self.echoes.append(
            result.echo if problem.echo is not None and problem.echo.perturbed else result.unnormalised
        )


def _halved(propagator: Propagator, start: float, dt: float, steps: int) -> None:
    """Carry a state over some steps in halves of them; an expansion over the two halves of the interval."""
    # the order of the steps is the same, each in two halves
    if propagator.expansion is None:
        propagator.advance(start, 0.5 * dt, 2 * steps)
        return
    # an expansion has no steps: two intervals instead of one
    half = 0.5 * dt * steps
    propagator.advance(start, half, 1)
    propagator.advance(start + half, half, 1)
