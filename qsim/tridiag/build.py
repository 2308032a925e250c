"""From the deck to a problem: grid, potential, field and state of a propagation, or a tridiagonal system."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.errors import InvalidInput, NumericsError
from qsim.core.run.stages import Plan
from qsim.core.run.work import Work
from qsim.tridiag.problem import DENSITY_POINTS, SAMPLES_PER_PERIOD, Propagation, Systems
from qsim.tridiag.tdse import absorbers, potentials
from qsim.tridiag.tdse.lattice import Lattice
from qsim.tridiag.tdse.pulses import LaserField

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.tridiag.deck.electron import Grid
    from qsim.tridiag.deck.model import TridiagDeck

PLAN_POINTS = 1_000_000  # grid points up to which the plan evaluates the potential and checks the physics
TRACE_SAMPLES = 20_000  # of a run that asks for no spectrum
POINT_BYTES = {
    "numerov": 248,
    "three_point": 128,
    "whole": 576,
}  # measured: one of the first two, and more; single precision takes as much, since the peak is that of arrays in double
LARGE = 1 << 24  # points from which energies are taken in windows, and states are not stored
LEVEL_POINTS = 1 << 16  # of the window that an eigenstate of a large grid lives in


# ---------------------------------------------------------------------------------------------- plan


def plan(loaded: LoadedDeck[TridiagDeck]) -> Plan:
    """Estimate memory and steps and check the physics; nothing large is allocated."""
    deck = loaded.deck
    if deck.task == "propagate":
        return _plan_propagation(deck)
    from qsim.tridiag.tasks import solve_plan

    return solve_plan.plan(deck)


def _plan_propagation(deck: TridiagDeck) -> Plan:
    assert deck.grid is not None  # the deck has checked that
    assert deck.time is not None
    n, steps, dt, findings = deck.grid.points, 0, 1.0, list(_references(deck))
    sizes: dict[str, Any] = {"grid points": n, "dx (bohr)": deck.grid.dx}
    try:
        pulse = LaserField(deck.laser)
        steps, dt = step_count(deck, pulse)
        sizes |= {"steps": steps, "dt (a.u.)": dt, "duration (a.u.)": steps * dt}
        if not findings and n <= PLAN_POINTS:
            findings += _physics(deck, pulse, dt, steps)
    except InvalidInput as problem:
        findings.append(Finding(problem.key, str(problem)))
    # of a step on a row: elimination, substitution and right-hand side, a complex product and sum each
    work = Work(flops=24.0 * n * steps, reduce="time.t_final")
    return Plan(_memory(deck, steps, dt), sizes=sizes, steps=steps, findings=findings, work=work)


def _memory(deck: TridiagDeck, steps: int, dt: float) -> Memory:
    """Estimate the memory of a propagation; bytes per point are measured peaks (CPU), which the results file is part of."""
    from qsim.tridiag.tdse.halo import chunks_pay

    assert deck.grid is not None
    assert deck.time is not None
    n, grid = deck.grid.points, deck.grid
    item = 8 if deck.run.precision == "single" else 16
    outputs = min(deck.time.outputs, max(steps, 1)) + 1
    columns = min(n, (deck.observed("density") or _Default).points)
    whole = deck.solver.mode == "exact" or (
        deck.solver.mode == "auto" and not chunks_pay(n, grid.stencil, grid.dx, dt)
    )
    whole = whole and deck.solver.type == "nshape" and deck.solver.blocks == deck.solver.iterations == "auto"
    compact, large = grid.stencil == "numerov", n > LARGE
    per_point = POINT_BYTES["numerov" if compact and not large else "three_point"]
    per_point += POINT_BYTES["whole"] if whole else 0
    on_device = n * (3 * item + 4 * 8) + level_count(deck) * min(n, LEVEL_POINTS) * 8 + steps * 48
    parts = {
        "wavefunction, potential, absorber": n * (per_point + (0 if deck.absorber.type == "none" else 8)),
        "eigenstates": 2 * level_count(deck) * min(n, LEVEL_POINTS) * 8,
        "density map": 3 * outputs * columns * 8,
        "field and trace": steps * 8 * 10,
    }
    return Memory(
        host=max(sum(parts.values()) - on_device, 0),
        device=on_device,
        parts=parts,
        reduce="grid.points" if n > steps else "time.steps (a longer dt)",
    )


def _physics(deck: TridiagDeck, pulse: LaserField, dt: float, steps: int) -> list[Finding]:
    from qsim.tridiag import checks

    assert deck.grid is not None
    x = grid_points(deck.grid)
    potential = potentials.evaluate(deck.potential, x)
    try:
        return list(checks.physics(deck, x, potential, pulse, dt, steps))
    except ImportError as error:  # a machine that only checks decks need not have Numba
        if error.name != "numba":
            raise
        return []


class _Default:
    points = DENSITY_POINTS


def _references(deck: TridiagDeck) -> Iterator[Finding]:
    """Yield what refers to something that is not there."""
    carrier = deck.laser is not None and any(hasattr(pulse, "frequency") for pulse in deck.laser.pulses)
    for index, item in enumerate(deck.observe):
        for name in ("hhg", "gabor"):
            block = getattr(item, name)
            if block is not None and block.omega is None and not carrier:
                yield Finding(
                    f"observe.{index}.{name}",
                    "harmonics of what? No pulse has a carrier frequency; add a laser, or give omega here",
                )
    blocks = deck.solver.blocks
    if isinstance(blocks, list) and deck.grid is not None and sum(blocks) != deck.grid.points:
        yield Finding(
            "solver.blocks",
            f"the blocks hold {sum(blocks)} rows, but the grid has {deck.grid.points} points",
        )
    if deck.grid is not None and isinstance(blocks, int) and blocks > deck.grid.points - 1:
        yield Finding(
            "solver.blocks",
            f"{deck.grid.points} points have room for at most {deck.grid.points - 1} blocks, not {blocks}",
        )
    elif isinstance(blocks, list) and blocks[0] < 2:
        yield Finding("solver.blocks", "the first block holds row 0 and its joint line: at least 2 rows")
    if deck.time is not None and deck.time.t_final == "auto" and deck.laser is None:
        yield Finding("time.t_final", "auto is the end of the pulses, but there is no laser; give a time")


def level_count(deck: TridiagDeck) -> int:
    """Return the number of eigenstates that a propagation needs."""
    from qsim.tridiag.deck.electron import levels_of

    wanted = [level + 1 for level in levels_of(deck.initial)]
    populations = deck.observed("populations")
    if populations is not None:
        wanted.append(populations.levels)
    return max(wanted, default=0)


def grid_points(grid: Grid) -> NDArray[np.float64]:
    """Return the grid points (n,), bohr."""
    return np.asarray(grid.xmin + grid.dx * np.arange(grid.points), dtype=float)


def step_count(deck: TridiagDeck, pulse: LaserField) -> tuple[int, float]:
    """Return the number of steps and their length, a.u."""
    assert deck.time is not None
    end = deck.time.t_final
    if isinstance(end, str):
        end = pulse.duration
        if not math.isfinite(end) or end <= 0:
            raise InvalidInput(
                "time.t_final", "auto is the end of the pulses, but they do not end; give a time"
            )
    return deck.time.resolve(end)


# --------------------------------------------------------------------------------------------- build


def build(loaded: LoadedDeck[TridiagDeck], device: Device) -> Propagation | Systems:
    """Set up the task of the deck."""
    deck = loaded.deck
    if deck.task != "propagate":
        return Systems(deck, device, loaded)
    try:
        problem = _propagation(deck, device)
        problem.loaded = loaded
        return problem
    except InvalidInput as error:
        loaded.raise_for([Finding(error.key, str(error))])
        raise  # raise_for has raised already


def _propagation(deck: TridiagDeck, device: Device) -> Propagation:
    from qsim.tridiag.tdse import states
    from qsim.tridiag.tdse.eigenstates import window_states

    assert deck.grid is not None
    assert deck.time is not None
    grid, notices = deck.grid, []
    x = grid_points(grid)
    potential = potentials.evaluate(deck.potential, x)
    cap, mask = absorbers.evaluate(deck.absorber, x)
    lattice = Lattice(
        grid.xmin,
        grid.dx,
        grid.points,
        grid.stencil,
        potential,
        slope=potentials.slope(deck.potential, x),
        cap=cap,
        mask=mask,
    )
    pulse = LaserField(deck.laser)
    steps, dt = step_count(deck, pulse)
    if deck.time.dt is not None and abs(dt - deck.time.dt) > 1e-5 * dt:
        notices.append(
            f"time.dt: {deck.time.dt:.6g} does not divide the duration; {steps} steps of {dt:.8g} a.u."
        )
    psi0 = states.initial_state(deck.initial, x, grid.dx, potential, grid.stencil)
    populations = deck.observed("populations")
    energies, vectors, window = None, None, 0
    if populations is not None:
        energies, vectors, window = window_states(grid.dx, potential, grid.stencil, populations.levels)
    ip = _ionisation_potential(deck, potential, energies) if pulse.pulses else None
    problem = Propagation(
        deck, device, lattice, psi0, dt, steps, pulse, energies, vectors, window, ip, notices=notices
    )
    problem.every = _every(problem)
    return problem


def _ionisation_potential(
    deck: TridiagDeck, potential: NDArray[np.float64], energies: NDArray[np.float64] | None
) -> float | None:
    from qsim.tridiag.tdse.eigenstates import window_states

    assert deck.grid is not None
    free = potentials.threshold(deck.potential, potential)
    if free is None or float(potential.min()) >= free:
        return None
    if energies is None:
        try:
            energies, _, _ = window_states(deck.grid.dx, potential, deck.grid.stencil, 1)
        except NumericsError:  # no bound state
            return None
    return free - float(energies[0]) if energies[0] < free else None


def _every(problem: Propagation) -> int:
    """Return the steps between samples of the trace: enough for the highest harmonic, else for a smooth curve."""
    deck, longest = problem.deck, max(1, -(-problem.steps // TRACE_SAMPLES))
    wanted = [b for b in (deck.observed("hhg"), deck.observed("gabor")) if b is not None]
    if not wanted:
        return longest
    highest = max(problem.fundamental(b) * problem.max_order(b) for b in wanted)
    return max(1, int(2.0 * math.pi / (SAMPLES_PER_PERIOD * highest * problem.dt)))
