"""Choose integrator and steps, run all trajectories, average."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.links import links_of
from qsim.core.device.parallel import agreed, first
from qsim.core.run.loop import drive
from qsim.trotter.evolution.accuracy import (
    CHEBYSHEV_VECTORS,
    Choice,
    Machine,
    choose,
    estimate,
    layers_per_step,
)
from qsim.trotter.evolution.integrators import METHODS
from qsim.trotter.evolve import step_error as pilots
from qsim.trotter.evolve.memory import memory
from qsim.trotter.evolve.open.choice import open_choice
from qsim.trotter.evolve.open.density import Density, density_choice
from qsim.trotter.evolve.open.statistics import ranges_of
from qsim.trotter.evolve.propagators.bonds import bond_choice
from qsim.trotter.evolve.propagators.chebyshev import chebyshev_choice
from qsim.trotter.evolve.propagators.krylov import krylov_choice
from qsim.trotter.evolve.propagators.orbits import orbits_in
from qsim.trotter.evolve.result import Result
from qsim.trotter.evolve.trajectories.ensemble import Ensemble
from qsim.trotter.evolve.trajectories.trajectories import Drifts, Trajectories
from qsim.trotter.evolve.trajectories.trajectory import Trajectory
from qsim.trotter.evolve.trajectories.verification import verify
from qsim.trotter.evolve.tuning import tuned
from qsim.trotter.model.hamiltonian import conserved
from qsim.trotter.observables.state import State

if TYPE_CHECKING:
    from qsim.core.device.arrays import StateVector
    from qsim.core.run.progress import Monitor
    from qsim.trotter.evolve.problem import Problem

# of a density matrix, for every product with its generator
ROUNDED = 2e-16
# from which the memory traffic says how fast a run was
BUSY_SPINS = 14
# of a state, beyond which a given step is warned of
LARGE_ERROR = 0.1


def run(problem: Problem, monitor: Monitor) -> Result:
    """Run all trajectories, one after the other or in batches; each may be interrupted and continued at any call."""
    comm = monitor.comm
    # several ranks share the state of a single trajectory, or the trajectories of an ensemble
    problem.ranks = comm.size if problem.members == 1 else 1

    # several ranks share the pilots of an ensemble; those of a shared state, of which a pilot has all, run on one of them
    def choose() -> Choice:
        with monitor.stage("pilot"), monitor.alone():
            if problem.ranks > 1:
                return first(comm, lambda: _chosen(problem, monitor))
            problem.team = comm
            how = agreed(comm, lambda: integration(problem, monitor))
            problem.team = None
            # all go on with the same choice
            return first(comm, lambda: _tiled(problem, how, monitor))

    made = Trajectories(problem, choose, monitor)
    how, each = made.how, made.steps
    if problem.ranks > 1:
        problem.links = links_of(comm, problem.device)
    if how.dt is not None:
        monitor.note(
            f"{how.method}, {each} steps of at most {_longest(problem, how):.6g}, estimated error {how.error:.2g}"
        )
    if made.batch > 1:
        monitor.note(f"{made.batch} trajectories at a time")
    done = None if monitor.restored is None else made.member * each
    with monitor.stage("evolve"):
        drive(made, monitor, total=each * problem.members, unit="steps", what="evolve", done=done)
    # of large states the traffic of memory is the time: each pass reads and writes all amplitudes
    if problem.spins >= BUSY_SPINS and problem.sector is None:
        moved = 2.0 * made.passes * np.dtype(problem.dtype).itemsize * 2.0**problem.spins
        monitor.note(
            f"{made.passes} passes over the state, {moved / 1e9 / monitor.timing['evolve']:.3g} GB/s with all observables"
        )
    info: dict[str, tuple[Any, str, str]] = {}
    if isinstance(made.current, Density):
        how = replace(how, error=made.current.error + ROUNDED * made.current.exponential.products)
    # the last rank has the last trajectory
    last = comm.size - 1
    if problem.evolution.verify:
        # decks of open systems are not verified, see `open.rules`
        current = made.current
        assert isinstance(current, Trajectory | Ensemble)
        with monitor.stage("verify"), monitor.alone():
            verified: tuple[dict[str, tuple[Any, str, str]], Choice] = ({}, how)
            # of a shared state every rank has a part
            if comm.rank == last or problem.ranks > 1:
                verified = monitor.judged(
                    "verification_error", lambda: verify(problem, how, current, monitor), verified
                )
        info, how = comm.bcast(verified, root=last)
    return Result(
        problem=problem,
        integration=how,
        model=problem.hamiltonian().at(0.0),
        mean=made.averages.mean,
        error=monitor.judged(
            "the errors of the means",
            lambda: made.averages.errors(
                ranges_of(problem.models) if problem.open else {}, begins=problem.output_times[0] == 0.0
            ),
            {},
        ),
        jumps=made.jumps,
        numbers=_numbers(problem, how, made.drifts, each),
        psi=comm.bcast(_stored(problem, made.current.psi), last),
        info=info,
    )


def _stored(problem: Problem, psi: StateVector) -> StateVector | None:
    """Return the state (2^N,) that the file holds, None if it is not observed."""
    if State not in problem.observables:
        return None
    # a file holds all strings, whatever the sector
    return problem.device.to_host(psi if problem.sector is None else problem.whole(psi))


def _chosen(problem: Problem, monitor: Monitor) -> Choice:
    """Return integrator and step of a state that ranks share; tilings are tried on whole states."""
    how = integration(problem, monitor)
    return replace(how, error=how.error + problem.start_error)


def _tiled(problem: Problem, how: Choice, monitor: Monitor) -> Choice:
    """Return the integrator and step with the error of the start and a tiling."""
    how = replace(how, error=how.error + problem.start_error)
    if problem.open and (not problem.jumping or problem.drift != "unitary"):
        return how
    return tuned(problem, how, _steps(problem, how) * problem.members, monitor)


def _numbers(problem: Problem, how: Choice, drifts: Drifts, steps: int) -> dict[str, Any]:
    # drifts of conserved quantities alone; the energy is one if H is constant
    kept = conserved(problem.hamiltonian())
    count = steps * how.layers + (len(problem.times) - 1 if steps else 0)
    # layers of all steps, and the last one of each interval, which is not merged with a next one
    return {
        "energy_drift": None if problem.models.driven or problem.open else drifts.energy,
        "norm_drift": drifts.norm,
        "sz_drift": drifts.sz if "z" in kept and not problem.open else None,
        "conserved": " ".join(f"S{a}" for a in kept) or "none",
        "dt": _longest(problem, how),
        "steps": steps,
        "layers": count,
    }


def _steps(problem: Problem, how: Choice) -> int:
    """Return the steps of one trajectory."""
    return sum(problem.steps(k, how.dt)[0] for k in range(len(problem.times) - 1))


def _longest(problem: Problem, how: Choice) -> float | None:
    """Return the longest step that is really made, None where there are none."""
    if how.dt is None:
        return None
    return max((problem.steps(k, how.dt)[1] for k in range(len(problem.times) - 1)), default=0.0)


# ------------------------------------------------------------------------------------------- steps


def integration(problem: Problem, monitor: Monitor) -> Choice:
    """Return integrator and step: as given, with an estimate of the error, or found by pilot runs."""
    block = problem.evolution
    sector = problem.sector
    if problem.open and not problem.jumping:
        return density_choice(problem)
    if problem.open and problem.drift != "unitary":
        return open_choice(problem, monitor)
    if sector is not None:
        monitor.note(
            f"sector {sector}: {sector.dimension} of {problem.hamiltonian().static.dimension} states"
        )
    # four paths, see `Problem.path`: each estimates its error in its own way
    if problem.path == "bonds":
        choice = bond_choice(problem, monitor)
        if block.dt is not None and choice.error > LARGE_ERROR:
            monitor.warn(_large(choice.error, block.dt))
        return choice
    if problem.path in ("chebyshev", "krylov"):
        hamiltonian = problem.hamiltonian()
        several = problem.different_hamiltonians()
        if problem.path == "krylov":
            return krylov_choice(problem, several)
        orbits = orbits_in(problem, hamiltonian)
        if orbits is not None:
            monitor.note(
                f"{len(orbits.symmetries)} symmetries of H and the start: {orbits.size} amplitudes are carried"
            )
        # an echo or correlations carry states without these symmetries, expanded in the whole sector
        alone = orbits is not None and problem.echo is None and not problem.observables.needs.sigma_sites
        return chebyshev_choice(problem, several, orbits if alone else None)
    choice = _piloted(problem, monitor)
    if block.integrator == "auto":
        costs = ", ".join(
            f"{name} {cost:.3g}" for name, cost in sorted(choice.costs.items(), key=lambda c: c[1])
        )
        monitor.note(f"{choice.method} is the cheapest for an error of {block.accuracy:g}; layers: {costs}")
    if block.dt is not None and choice.error > LARGE_ERROR:
        monitor.warn(_large(choice.error, block.dt))
    return choice


def _piloted(problem: Problem, monitor: Monitor) -> Choice:
    """Return integrator and step of layers over the whole space, with the error that pilots tell of."""
    block = problem.evolution
    machine = Machine(problem.precision, problem.device.kind, _vectors(problem))
    # pilots of all Hamiltonians of the run; the worst decides
    panel, hamiltonians = pilots.panel(problem)
    # the formula with most layers: the backward one of an echo
    hamiltonian, end = hamiltonians[-1], problem.times[-1]
    kinks = pilots.kinks_of(panel)
    pilots.tell(panel, end, monitor)

    def given(error: float) -> Choice:
        """Return the integrator and the step of the deck."""
        assert block.dt is not None
        layers = layers_per_step(hamiltonian, block.integrator)
        return Choice(block.integrator, block.dt, error, layers, layers * end / block.dt)

    def selected() -> Choice:
        """Estimate the error of the given step, or choose a step for the given accuracy."""
        if block.dt is not None:
            intervals = np.diff(problem.times)
            error = estimate(
                hamiltonian,
                block.integrator,
                block.dt,
                end,
                machine=machine,
                pilot=panel,
                intervals=intervals.tolist(),
            )
            return given(error)
        # the deck has seen to it
        assert block.accuracy is not None
        return choose(
            hamiltonian,
            problem.times,
            block.accuracy,
            block.integrator,
            machine=machine,
            pilot=panel,
        )

    def compared() -> Choice:
        """Do so, with one step of the whole system beside the pilots."""
        choice = selected()
        # the pilots are compared with the whole system at the
        # step that they chose, and the choice is made again
        if choice.method in METHODS and pilots.compare(problem, panel, hamiltonians, choice):
            choice = selected()
        return choice

    # of a step that is given the error is judged, and nothing hangs on it
    lost = None if block.dt is None else given(math.nan)
    choice = compared() if lost is None else monitor.judged("the error of the state", compared, lost)
    return replace(choice, kinks=kinks)


def _large(error: float, dt: float) -> str:
    return (
        f"the error of the state is estimated at {error:.2g} (of at most 2) with evolve.dt: {dt:g}; "
        "give a shorter dt, or evolve.accuracy"
    )


def _vectors(problem: Problem) -> int:
    """Return the number of state vectors that the evolution itself may take, without the vectors of echoes and the like.

    Of a state that ranks share, expansions cost several exchanges per product: they are made only on request.
    """
    if problem.ranks > 1:
        return 1
    state = np.dtype(problem.dtype).itemsize * problem.dimension
    free = problem.device.free_memory()
    parts = memory(problem)[0]
    others = sum(size for name, size in parts.items() if name not in ("pilot", "verification")) - state
    # observables, echoes and the like are set aside; the state itself is one of the vectors
    return int((free - others) // state) if free else CHEBYSHEV_VECTORS
