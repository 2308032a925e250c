"""Choose the steps, run all trajectories, average."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.parallel import first
from qsim.trotter.evolution import pilots
from qsim.trotter.evolution.accuracy import (
    CHEBYSHEV_VECTORS,
    Choice,
    Machine,
    choose,
    estimate,
    layers_per_step,
)
from qsim.trotter.evolution.carried import sector_choice
from qsim.trotter.evolution.ensemble import Ensemble, together
from qsim.trotter.evolution.integrators import METHODS
from qsim.trotter.evolution.shared import Round
from qsim.trotter.evolution.trajectory import Trajectory
from qsim.trotter.evolution.tuning import tuned
from qsim.trotter.evolution.verification import verify
from qsim.trotter.model.hamiltonian import conserved
from qsim.trotter.observables.averages import Averages
from qsim.trotter.problem import memory
from qsim.trotter.sectors.states import whole_state
from qsim.trotter.tasks import dynamics, levels, spectrum, thermal
from qsim.trotter.tasks.problem import TaskProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.trotter.problem import Problem
    from qsim.trotter.tasks.results import TaskResult

BUSY_SPINS = 14  # from which the memory traffic says how fast a run was
TASKS: Mapping[str, Callable[[TaskProblem, Monitor], TaskResult]] = {
    "spectrum": spectrum.run,
    "dynamics": dynamics.run,
    "thermal": thermal.run,
    "levels": levels.run,
}
LARGE_ERROR = 0.1  # of a state, beyond which a given step is warned of


@dataclass
class Result:
    """The result of a run; see ``output.py`` for the names in the file.

    Attributes
    ----------
    mean, error : dict of float64 arrays
        Means over the trajectories and their standard errors (empty without an ensemble), one row per time of the problem.
    numbers : dict
        Scalars: drifts, steps, layers.
    psi : (2^N,) complex or None
        State of the last trajectory at t_final, if it is asked for.
    info : dict of (value, unit, description)
        More scalars.
    """

    problem: Problem
    integration: Choice
    model: Any
    mean: dict[str, NDArray[np.float64]]
    error: dict[str, NDArray[np.float64]]
    numbers: dict[str, Any]
    psi: NDArray[Any] | None = None
    info: dict[str, tuple[Any, str, str]] = field(default_factory=dict)


def run(problem: Problem | TaskProblem, monitor: Monitor) -> Result | TaskResult:
    """Do the task of a problem."""
    if isinstance(problem, TaskProblem):
        return TASKS[problem.deck.task](problem, monitor)
    return evolve(problem, monitor)


def evolve(problem: Problem, monitor: Monitor) -> Result:
    """Run all trajectories, one after the other or in batches; each may be interrupted and continued at any call."""
    for text in problem.notices:
        monitor.note(text)
    comm, restored = monitor.comm, monitor.restored
    if restored is None:
        with monitor.stage("pilot"), monitor.alone():
            how = first(comm, lambda: _chosen(problem, monitor))
        averages, drifts, member = Averages(problem.group), Drifts(), 0
        batch = together(problem, how)
    else:
        how = Choice(**restored["integration"])
        averages, drifts = Averages(**restored["averages"]), Drifts(**restored["drifts"])
        member, batch = int(restored["member"]), int(restored.get("batch", 1))
    each = _steps(problem, how)
    if how.dt is not None:
        monitor.note(
            f"{how.method}, {each} steps of at most {_longest(problem, how):.6g}, estimated error {how.error:.2g}"
        )
    if batch > 1:
        monitor.note(f"{batch} trajectories at a time")
    trajectory: Trajectory | Ensemble | None = None
    passes = 0
    monitor.begin(each * problem.members, "steps", "evolve", done=None if restored is None else member * each)
    with monitor.stage("evolve"):
        while member < problem.members:
            part = Round(comm, member, batch, problem.members)
            inner = None if restored is None else part.restored(restored, monitor)
            restored = None
            trajectory = (
                Ensemble(problem, part.own, how, inner)
                if batch > 1
                else Trajectory(problem, part.own.start, how, inner)
            )

            def state(current: Trajectory | Ensemble = trajectory, part: Round = part) -> dict[str, Any]:
                return {
                    "integration": {**vars(how), "costs": dict(how.costs)},
                    "averages": averages.state(),
                    "drifts": vars(drifts),
                    "batch": batch,
                    **part.saved(current.state()),
                }

            trajectory.run(monitor, member * each, state)
            for rows in part.results(trajectory.results()):
                drifts.add(rows)
                averages.add({name: values for name, values in rows.items() if not name.startswith("_")})
            passes += sum(comm.allgather(trajectory.passes))
            member = part.stop
    monitor.end()
    assert trajectory is not None  # there is at least one
    if problem.spins >= BUSY_SPINS and problem.sector is None:
        moved = 2.0 * passes * np.dtype(problem.dtype).itemsize * 2.0**problem.spins
        monitor.note(
            f"{passes} passes over the state, {moved / 1e9 / monitor.timing['evolve']:.3g} GB/s with all observables"
        )
    info: dict[str, tuple[Any, str, str]] = {}
    if problem.deck.evolve.verify:
        with monitor.stage("verify"), monitor.alone():
            found = verify(problem, how, trajectory, monitor) if comm.rank == comm.size - 1 else ({}, how)
        info, how = comm.bcast(found, root=comm.size - 1)  # the last rank has the last trajectory
    return Result(
        problem=problem,
        integration=how,
        model=problem.hamiltonian().at(0.0),
        mean=averages.mean,
        error=averages.errors(),
        numbers=_numbers(problem, how, drifts, each),
        psi=comm.bcast(_stored(problem, trajectory.psi), comm.size - 1),
        info=info,
    )


def _stored(problem: Problem, psi: Any) -> NDArray[Any] | None:
    """Return the state (2^N,) that the file holds, None if it is not asked for."""
    if not problem.deck.observed("state"):
        return None
    if problem.sector is not None:
        psi = whole_state(problem.sector, problem.device, psi)
    return problem.device.to_host(psi)


def _chosen(problem: Problem, monitor: Monitor) -> Choice:
    """Return integrator, step and tiling."""
    how = integration(problem, monitor)
    how = replace(how, error=how.error + problem.start_error)
    return tuned(problem, how, _steps(problem, how) * problem.members, monitor)


@dataclass
class Drifts:
    """The largest drifts of any trajectory."""

    energy: float = 0.0
    norm: float = 0.0
    sz: float = 0.0

    def add(self, rows: Mapping[str, NDArray[np.float64]]) -> None:
        """Take the rows of one trajectory."""
        self.energy = max(self.energy, float(np.abs(rows["energy"] - rows["energy"][0]).max()))
        self.norm = max(self.norm, float(np.abs(rows["norm"] - 1.0).max()))
        self.sz = max(self.sz, float(np.abs(rows["total_sz"] - rows["total_sz"][0]).max()))


def _numbers(problem: Problem, how: Choice, drifts: Drifts, steps: int) -> dict[str, Any]:
    kept = conserved(problem.hamiltonian())
    count = steps * how.layers + (len(problem.times) - 1 if steps else 0)
    return {
        "energy_drift": None if problem.deck.driven else drifts.energy,
        "norm_drift": drifts.norm,
        "sz_drift": drifts.sz if "z" in kept else None,
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
    block = problem.deck.evolve
    machine = Machine(problem.deck.run.precision, problem.device.kind, _vectors(problem))
    if problem.sector is not None:
        sector = problem.sector
        monitor.note(f"sector {sector}: {sector.dimension} of {2**problem.spins} states")
        hamiltonian = problem.hamiltonian()
        return sector_choice(
            problem, [hamiltonian] + ([hamiltonian + problem.sigma()] if problem.echo_sigma else [])
        )
    panel, hamiltonians = pilots.panel(problem)
    # the one with the most layers: that of the way back, if there is one
    hamiltonian, end = hamiltonians[-1], problem.times[-1]
    kinks = pilots.kinks_of(panel)
    pilots.tell(panel, end, monitor)

    def found() -> Choice:
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
            layers = layers_per_step(hamiltonian, block.integrator)
            return Choice(block.integrator, block.dt, error, layers, layers * end / block.dt)
        assert block.accuracy is not None  # the deck has seen to it
        return choose(
            hamiltonian,
            problem.times,
            block.accuracy,
            block.integrator,
            machine=machine,
            pilot=panel,
        )

    choice = found()
    if choice.method in METHODS and pilots.compare(problem, panel, hamiltonians, choice):
        choice = found()
    if block.integrator == "auto":
        costs = ", ".join(
            f"{name} {cost:.3g}" for name, cost in sorted(choice.costs.items(), key=lambda c: c[1])
        )
        monitor.note(f"{choice.method} is the cheapest for an error of {block.accuracy:g}; layers: {costs}")
    if block.dt is not None and choice.error > LARGE_ERROR:
        monitor.warn(
            f"the error of the state is estimated at {choice.error:.2g} (of at most 2) with evolve.dt: {block.dt:g}; "
            "give a shorter dt, or evolve.accuracy"
        )
    return replace(choice, kinks=kinks)


def _vectors(problem: Problem) -> int:
    """Return the number of state vectors that the evolution itself may take, without those of echoes and the like."""
    state = np.dtype(problem.dtype).itemsize * problem.dimension
    free = problem.device.free_memory()
    parts = memory(problem)[0]
    others = sum(size for name, size in parts.items() if name not in ("pilot", "verification")) - state
    return int((free - others) // state) if free else CHEBYSHEV_VECTORS
