"""The pilots of a run: for both ways of an echo, and one step of the whole system for comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.parallel import agreed, share
from qsim.core.physics.structure import CELLS, MOST_PULSES, RESOLUTION, survey
from qsim.trotter.evolution import driven_steps as driven
from qsim.trotter.evolution.error_pilot import Panel, Pilot, local_error, strength, weights
from qsim.trotter.evolution.layers import Evolver
from qsim.trotter.initial.random import RandomPhaseState

if TYPE_CHECKING:
    from qsim.core.run.progress import Monitor
    from qsim.trotter.evolution.accuracy import Choice
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.model.hamiltonian import Hamiltonian

# of the disorder, of which the hardest is taken
REALISATIONS = 64
# at which steps are cut
MOST_KINKS = 2000
# of the parts of narrow pulses
HALVINGS = 12
# of a part of a strong pulse, in units of the inverse strength there
SHORT = 0.5
# of the accuracy, for steps in narrow pulses
PULSE_SHARE = 0.05
# where dt is given, not an accuracy
PULSE_ACCURACY = 1e-7
COMPARED_SPINS = (
    # up to which a step of the whole system is made, which takes two states in double precision
    26
)


def panel(problem: Problem) -> tuple[Panel, list[Hamiltonian]]:
    """Return the pilots of a run with their Hamiltonians: forward, and back if an echo comes back another way."""
    member = hardest(problem)
    hamiltonians = problem.different_hamiltonians(member)
    # the state takes the memory that the first trajectory will take after it, and a part of it is enough
    # of a state that no process holds, random ones take the place
    absent = problem.ranks > 1 and problem.spins > COMPARED_SPINS
    psi = None if absent or problem.start.is_random else problem.initial(member)
    made = [Pilot.of(hamiltonian, psi, end=problem.times[-1]) for hamiltonian in hamiltonians]
    _cut(made, problem)
    return Panel(made), hamiltonians


def hardest(problem: Problem) -> int:
    """Return the first member of the realisation of the disorder whose steps have the largest error."""
    ensemble = problem.models
    if ensemble.disorder == 1:
        return 0
    count, team = min(ensemble.disorder, REALISATIONS), problem.team
    part = slice(0, count) if team is None else share(team, count)
    size = []
    for realisation in range(part.start, part.stop):
        hamiltonian = problem.hamiltonian(realisation * ensemble.states)
        relative = float((weights(hamiltonian) ** 2).sum()) ** 0.5
        size.append(relative * strength(hamiltonian) ** 5)
    if team is not None:
        # contiguous parts, in the order of the processes
        size = [one for some in team.allgather(size) for one in some]
    return int(np.argmax(size)) * ensemble.states


def _cut(made: list[Pilot], problem: Problem) -> None:
    """Give all pilots the kinks of all profiles, at which steps are cut; the sharpest, if there are very many.

    Narrow pulses are cut until a longer step elsewhere costs no accuracy in them.
    """
    end, block = problem.times[-1], problem.evolution
    # constant Hamiltonians have no kinks
    drives = [pilot.drive for pilot in made if pilot.drive is not None]
    if not drives:
        return
    kinks, missed = survey([f for drive in drives for f in drive.small.profiles[1:]], end)
    # the sharpest kinks of all profiles; more would make more parts than steps
    kinks = sorted(sorted(kinks, key=lambda kink: -kink[1])[:MOST_KINKS])
    for drive in drives:
        # all pilots are cut at the same times, as the evolution is
        drive.places = [t for t, _ in kinks]
        drive.missed = missed
    more = {t for drive in drives for t in drive.strong(SHORT, MOST_KINKS // 2 // len(drives))}
    for drive in drives:
        drive.places = sorted({*drive.places, *more})
    # any method of order 4 tells which parts of pulses are too long
    method = "bm4" if block.integrator == "auto" else block.integrator
    error = PULSE_SHARE * (block.accuracy or PULSE_ACCURACY)
    # halving the parts of narrow pulses until a step there costs less than a share of the accuracy
    for _ in range(HALVINGS):
        more = {t for drive in drives for t in drive.crowded(method, error)}
        if not more or len(drives[0].places) + len(more) > MOST_KINKS:
            break
        for drive in drives:
            drive.places = sorted({*drive.places, *more})


def kinks_of(panel: Panel) -> tuple[float, ...]:
    """Return the times at which steps are cut."""
    return next((tuple(pilot.drive.places) for pilot in panel.pilots if pilot.drive is not None), ())


def tell(panel: Panel, end: float, monitor: Monitor) -> None:
    """Tell the resolution of the search for pulses, and warn of pulses that no step is cut for."""
    drives = [pilot.drive for pilot in panel.pilots if pilot.drive is not None]
    if any(getattr(f, "formula", None) is not None for drive in drives for f in drive.small.profiles[1:]):
        monitor.note(
            f"formulas of t are sampled every {end / RESOLUTION:.3g} and around the zeros and extrema of their parts; narrower "
            "pulses elsewhere are not seen"
        )
    if missed := max((drive.missed for drive in drives), default=0):
        monitor.warn(
            f"a profile has {missed} more pulses narrower than {end / CELLS:.3g} than the {MOST_PULSES} that steps are cut for, "
            "and the estimated error may be too small; give dt below their width, a shorter t_final, or a table"
        )


# --------------------------------------------------------------------------------- the whole system


def compare(problem: Problem, panel: Panel, hamiltonians: list[Hamiltonian], choice: Choice) -> bool:
    """Let pilots that are smaller than the system see one step of it; tell whether there were any."""
    # one step of the whole system, in double precision: where
    # it would take long, the margin of the pilots remains
    dt = choice.dt
    if dt is None or problem.times[-1] <= 0.0 or problem.spins > COMPARED_SPINS:
        return False
    # the longest step that the output times leave
    dt = max(problem.steps(k, dt)[1] for k in range(len(problem.times) - 1))
    compared = False
    for pilot, hamiltonian in zip(panel.pilots, hamiltonians, strict=True):
        # a pilot of all spins, or without any error, has nothing to learn
        if len(pilot.sites) == problem.spins or pilot.exact:
            continue
        # where a driven system is strongest its error is largest
        time = pilot.drive.worst() if pilot.drive is not None else 0.0
        pilot.compare(choice.method, dt, _local(problem, hamiltonian, time, kinks_of(panel)), time)
        compared = True
    return compared


def _local(
    problem: Problem, hamiltonian: Hamiltonian, time: float, places: tuple[float, ...]
) -> Callable[[str, float], float]:
    """Return a function that makes one step of the whole system and returns its error."""

    def error(method: str, dt: float) -> float:
        starts, team = _starts(problem), problem.team
        ranks, rank = (1, 0) if team is None else (team.size, team.rank)
        # each process makes the step from other starts, of which there are two at most

        def own() -> list[float]:
            mine = starts[rank::ranks]
            return [_error(problem, hamiltonian, start, method, dt, time, places) for start in mine]

        if team is None:
            return max(own())
        # a step that fails in one process fails in all, rather than let them wait
        return max(one for some in team.allgather(agreed(team, own)) for one in some)

    return error


def _starts(problem: Problem) -> list[Callable[[], Any]]:
    """Return functions that make the states from which a step is made: the initial one and a random one."""

    def initial() -> Any:
        seed = problem.models.seed
        return problem.start.vector(problem.spins, problem.device, np.complex128, seed=seed)

    def random() -> Any:
        state = RandomPhaseState(type="random_phase", seed=1)
        return state.vector(problem.spins, problem.device, np.complex128, seed=1)

    # a random start stands for a random state itself
    return [random] if problem.start.is_random else [initial, random]


class _Timed:
    """An evolver that begins at a time of its own."""

    def __init__(
        self, evolver: Evolver, hamiltonian: Hamiltonian, time: float, places: tuple[float, ...]
    ) -> None:
        self.evolver, self.hamiltonian, self.time, self.places = evolver, hamiltonian, time, places

    @property
    def psi(self) -> Any:
        """State (2^N,)."""
        return self.evolver.psi

    def advance(self, method: str, dt: float, steps: int) -> None:
        """Make steps from there on."""
        driven.advance(self.evolver, self.hamiltonian, method, dt, steps, self.time, self.places)
        self.time += steps * dt


def _error(
    problem: Problem,
    hamiltonian: Hamiltonian,
    start: Callable[[], Any],
    method: str,
    dt: float,
    time: float,
    places: tuple[float, ...],
) -> float:
    # made at the start of the step: a state for the evolver, and another one to compare with
    evolver = Evolver(problem.device, hamiltonian.at(time), start(), own=True)
    with problem.device.use():
        psi = problem.device.asarray(start(), np.complex128)
        timed = evolver if hamiltonian.is_static else _Timed(evolver, hamiltonian, time, places)
        return local_error(timed, psi, method, dt)
