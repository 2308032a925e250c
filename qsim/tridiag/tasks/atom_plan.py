"""Plan and build of ``task: atom``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.errors import InvalidInput, NumericsError
from qsim.core.run.stages import Plan
from qsim.core.run.work import Work
from qsim.tridiag.atom import problem as made
from qsim.tridiag.atom.checks import Setup, findings
from qsim.tridiag.atom.levels import Radial
from qsim.tridiag.atom.problem import AtomProblem
from qsim.tridiag.deck.observe import without_fundamental

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.tridiag.atom.observables import LevelState
    from qsim.tridiag.atom.propagator import AtomLattice
    from qsim.tridiag.deck.atom import AtomDeck

__all__ = ["build", "plan"]

TRACE = 20_000  # samples of a run that asks for no spectrum
PER_PERIOD = 8  # samples per period of the highest harmonic
LEAST_ORDERS = 30
STATES = 11  # arrays of the size of the state, in complex numbers: state, two tables of pivots, and their likes of the companions
FLOPS = 40.0  # of a step, per point and l


def plan(loaded: LoadedDeck[AtomDeck]) -> Plan:
    """Estimate memory and steps and check the physics."""
    deck = loaded.deck
    try:
        pulse = made.laser_field(deck)
        found = made.setting(deck, pulse)
        grid = found.grid()
        problems = list(without_fundamental([] if deck.laser is None else deck.laser.pulses, deck.observe))
        if not problems:
            setup = Setup(deck, pulse, found, made.lattice_of(deck)(grid))
            problems += findings(setup)
            if not any(one.severity == "error" for one in problems):
                loaded.once(start_levels)
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    except NumericsError as error:
        return Plan(findings=[Finding("initial", f"{error}; a larger grid.rmax holds higher levels")])
    lanes = found.lmax - abs(deck.m) + 1
    size = 16 * grid.points * (lanes + lanes % 2)
    outputs = min(deck.time.outputs, found.steps) + 1
    columns = min(grid.points, deck.observed.density.points)
    memory = Memory(
        host=3 * outputs * (columns + lanes) * 8 + 200 * found.steps,
        device=STATES * size,
        parts={"states and pivots": STATES * size},
        reduce="grid.lmax",
    )
    sizes: dict[str, int | float | str] = {
        "radial points": grid.points,
        "rmax (bohr)": float(grid.wall),
        "lmax": found.lmax,
        "gauge": found.gauge,
        "steps": found.steps,
        "dt (a.u.)": found.dt,
        "duration (a.u.)": found.dt * found.steps,
    }
    stages = 5 if deck.time.order == 4 else 1
    work = Work(flops=FLOPS * grid.points * lanes * found.steps * stages, reduce="time.t_final")
    return Plan(memory, sizes=sizes, steps=found.steps, findings=problems, work=work)


def start_levels(deck: AtomDeck) -> list[LevelState]:
    """Return the levels of the initial state on the grid of the deck."""
    found = made.setting(deck, made.laser_field(deck))
    lattice = made.lattice_of(deck)(found.grid())
    return made.level_states(lattice, [(one.n, one.l) for one in deck.initial])


def build(loaded: LoadedDeck[AtomDeck], device: Device) -> AtomProblem:
    """Set up the atom, its field and its initial state."""
    deck = loaded.deck
    pulse = made.laser_field(deck)
    found = made.setting(deck, pulse)
    make = made.lattice_of(deck)
    lattice = make(found.grid())
    start = loaded.once(start_levels)
    wanted = [(one.n, one.l) for one in deck.initial]
    for n in range(1, deck.observed.populations.nmax + 1):
        wanted += [(n, l) for l in range(abs(deck.m), n) if (n, l) not in wanted and _holds(lattice, n, l)]
    notices = list(_notices(deck, found, lattice.grid.points))
    if device.is_cuda:
        notices.append("task: atom runs on the CPU")
    made_problem = AtomProblem(
        setting=found,
        lattice=lattice,
        pulse=pulse,
        m=deck.m,
        initial=deck.initial,
        start=start,
        levels=made.level_states(lattice, wanted),
        observed=deck.observed,
        spectra=deck.spectra,
        outputs=deck.time.outputs,
        order=deck.time.order,
        verify=deck.time.verify,
        absorber=deck.absorber,
        tail=deck.atom.tail,
        make=make,
        notices=notices,
    )
    made_problem.every = _interval(made_problem)
    return made_problem


def _holds(lattice: AtomLattice, n: int, l: int) -> bool:
    """Return whether the box holds a bound level."""
    return Radial(lattice, l).below(0.0) > n - l - 1


def _notices(deck: AtomDeck, found: made.Setting, points: int) -> Iterator[str]:
    """Yield how open keys were settled."""
    if isinstance(deck.grid.rmax, str):
        yield f"grid.rmax: auto is {found.rmax:.4g} bohr, {points} points"
    if isinstance(deck.grid.lmax, str) and deck.laser is not None:
        yield f"grid.lmax: auto begins with {found.lmax}"
    if deck.grid.map == "auto":
        yield f"grid.map: auto is dr0 = {found.dr0:.4g} bohr, width = {found.width:g}"
    if deck.laser is not None and deck.laser.gauge == "auto":
        yield f"laser.gauge: auto is {found.gauge}"
    yield from deck.time.notices(found.steps, found.dt)


def fundamental(problem: AtomProblem, omega: float | None) -> float:
    """Return the frequency that harmonics count in."""
    found = problem.pulse.omega if omega is None else omega
    assert found is not None  # the plan has seen to it
    return float(found)


def highest_order(problem: AtomProblem, given: float | str, omega: float) -> float:
    """Return the highest harmonic order of a block."""
    if not isinstance(given, str):
        return float(given)
    cutoff = (problem.ip + 3.17 * problem.pulse.up) / omega
    return float(math.ceil(max(LEAST_ORDERS, 1.6 * cutoff)))


def _interval(problem: AtomProblem) -> int:
    """Return the steps between samples of the trace."""
    wanted = [block for block in (problem.observed.hhg, problem.observed.gabor) if block is not None]
    steps, dt = problem.setting.steps, problem.setting.dt
    if not wanted:
        return max(1, -(-steps // min(TRACE, max(400, steps // 4))))
    tops = []
    for block in wanted:
        omega = fundamental(problem, block.omega)
        tops.append(omega * highest_order(problem, block.max_order, omega))
    return max(1, int(2.0 * math.pi / (PER_PERIOD * float(np.max(tops)) * dt)))
