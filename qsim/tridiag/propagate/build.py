"""Plan and build of ``task: propagate``: grid, potential, field and state."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.device.parallel import connected
from qsim.core.errors import InvalidInput, NumericsError
from qsim.core.run.stages import Plan, Size
from qsim.tridiag.deck.model import Photoelectron
from qsim.tridiag.deck.observe import without_fundamental
from qsim.tridiag.deck.scan import runs_of
from qsim.tridiag.propagate.lattice import PSI_LIMIT, Lattice, equidistant
from qsim.tridiag.propagate.problem import (
    DENSITY_POINTS,
    LEAST,
    Box,
    Propagation,
    sample_interval,
)
from qsim.tridiag.propagate.run import LINE
from qsim.tridiag.tdse import absorbers, potentials
from qsim.tridiag.tdse.motion import Scan
from qsim.tridiag.tdse.pulses import LaserField

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.tridiag.checks import Blame
    from qsim.tridiag.deck.electron import Grid
    from qsim.tridiag.deck.model import PropagationBlocks, Solver, TridiagDeck

T = TypeVar("T")

# of all points of the grid those between the walls
BETWEEN = slice(1, -1)
# grid points up to which the plan evaluates the potential and checks the physics
PLAN_POINTS = 1_000_000
POINT_BYTES = {
    "numerov": 248,
    "three_point": 128,
    "whole": 576,
}  # measured: one of the first two, and more; single precision takes as much, since the peak is that of arrays in double
# per point, beside the arrays of a propagation, on a GPU: measured (H100) for numerov; three_point needs one complex array less
TEMPORARY_BYTES = {"numerov": 88, "three_point": 72}
# complex ones of a step of the whole system on a GPU: its bands, right-hand side, solution, residual, sums
EXACT_ARRAYS = 8
# points times steps from which a GPU is faster than its host (docs/howto/devices.md): hhg_800nm with 1.1e8 takes as long on both
GPU_POINT_STEPS = 2e8
# rows of the first block: row 0 and its joint line
LEAST_FIRST = 2
# points from which energies are taken in windows, and states are not stored
LARGE = 1 << 24
# of the window that an eigenstate of a large grid lives in
LEVEL_POINTS = 1 << 16


def grid_potential(deck: TridiagDeck) -> NDArray[np.float64]:
    """Return V on the grid with its walls, (n,), hartree."""
    blocks = deck.propagation
    return potentials.evaluate(blocks.potential, grid_points(blocks.grid))


def initial_state(deck: TridiagDeck) -> NDArray[np.complex128]:
    """Return the initial state between the walls (n - 2,): its eigensolver is the most costly part of plan and build."""
    from qsim.tridiag.propagate import initial

    blocks, potential = deck.propagation, grid_potential(deck)[BETWEEN]
    grid = blocks.grid
    return initial.initial_state(blocks.initial, grid_points(grid)[BETWEEN], grid.dx, potential, grid.stencil)


# ---------------------------------------------------------------------------------------------- plan


def plan(loaded: LoadedDeck[TridiagDeck]) -> Plan:
    """Estimate memory and steps and check the physics; nothing large is allocated."""
    blocks, findings = loaded.deck.propagation, list(_references(loaded.deck))
    n, steps, dt = blocks.grid.points, 0, 1.0
    sizes: dict[str, int | float | str] = {"grid points": n, "dx (bohr)": blocks.grid.dx}
    # runs of a scan that contradicts itself are none
    decks, _ = runs_of(loaded.deck)
    runs = len(decks)
    try:
        pulses = [LaserField(one.laser) for one in decks]
        steps, dt = _steps_of(blocks, pulses)
        sizes |= {"steps": steps, "dt (a.u.)": dt, "duration (a.u.)": steps * dt}
        if runs > 1:
            sizes["runs"] = runs
        if not findings and n <= PLAN_POINTS:
            pulse = _strongest(pulses, steps * dt)
            # every potential of a scan in the strongest field
            for one in {id(one.potential): one for one in decks}.values():
                findings += [
                    found for found in _physics(loaded, one, pulse, dt, steps) if found not in findings
                ]
    except InvalidInput as problem:
        findings.append(Finding(problem.key, str(problem)))
    return Plan(
        _memory(blocks, steps, dt, runs),
        sizes=sizes,
        steps=steps,
        findings=findings,
        size=Size(float(n) * steps * runs, "points times steps", GPU_POINT_STEPS),
        # of a step on a row: elimination, substitution and right-hand side, a complex product and sum each
        operations=24.0 * n * steps * runs,
        reduce="time.t_final",
        ranks=_ranks(blocks) if loaded.deck.scan is None else runs,
        shared="parts of the grid" if loaded.deck.scan is None else "runs of the scan",
    )


def _steps_of(blocks: PropagationBlocks, pulses: list[LaserField]) -> tuple[int, float]:
    """Return the number of steps and their length, a.u.: of all runs, those of the longest."""
    return blocks.time.resolve(max(pulse.end_of_run(blocks.time.t_final) for pulse in pulses))


def _strongest(pulses: list[LaserField], end: float) -> LaserField:
    """Return the field with the largest peak before the end."""
    return max(pulses, key=lambda pulse: pulse.peak(end))


def _ranks(blocks: PropagationBlocks) -> int:
    """Return how many processes can share the grid: one where the analysis needs a state that no process has."""
    solver, points = between_walls(blocks), blocks.grid.inner
    # spectra and the residual of the state need all of psi on one process
    whole = blocks.observed.photoelectron is not None or blocks.time.verify is True
    if solver.type != "nshape" or (whole and points > PSI_LIMIT):
        return 1
    # given blocks stay whole: a process has some of them
    if isinstance(solver.blocks, list):
        return _owners(solver.blocks)
    # each process needs points of its own beside its halos
    most = max(1, points // LEAST)
    return most if isinstance(solver.blocks, str) else min(most, solver.blocks)


def _owners(sizes: list[int]) -> int:
    """Return the largest number of processes for which whole blocks give each at least `LEAST` points."""
    for ranks in range(len(sizes), 1, -1):
        cuts = [len(sizes) * rank // ranks for rank in range(ranks + 1)]
        if all(sum(sizes[low:high]) >= LEAST for low, high in itertools.pairwise(cuts)):
            return ranks
    return 1


def _made(loaded: LoadedDeck[TridiagDeck], deck: TridiagDeck, make: Callable[[TridiagDeck], T]) -> T:
    """Return what a deck of the scan makes, of that with the potential of the deck once for plan and build."""
    return loaded.once(make) if deck.potential is loaded.deck.potential else make(deck)


def _memory(blocks: PropagationBlocks, steps: int, dt: float, runs: int) -> Memory:
    """Estimate the memory of a propagation; bytes per point are measured peaks (CPU), which the results file is part of."""
    from qsim.tridiag.propagate.stepping.halo import chunks_pay

    grid, solver = blocks.grid, blocks.solver
    n = grid.inner
    item = 8 if blocks.precision == "single" else 16
    outputs = min(blocks.time.outputs, max(steps, 1)) + 1
    density = blocks.observed.density
    columns = min(n, DENSITY_POINTS if density is None else density.points)
    # the measured peak is higher where every step solves the whole system
    whole = solver.mode == "exact" or (
        solver.mode == "auto" and not chunks_pay(n, grid.stencil, grid.dx, dt, single=item == 8)
    )
    whole = whole and solver.type == "nshape" and solver.blocks == solver.iterations == "auto"
    compact, large = grid.stencil == "numerov", n > LARGE
    per_point = POINT_BYTES["numerov" if compact and not large else "three_point"]
    per_point += POINT_BYTES["whole"] if whole else 0
    levels = level_count(blocks)
    # of the propagator and observer; the rest lies on the host in any case
    on_device = runs * (n * (3 * item + 4 * 8) + levels * min(n, LEVEL_POINTS) * 8 + steps * 48)
    parts = {
        "wavefunction, potential, absorber": n * (per_point + (0 if blocks.absorber.type == "none" else 8)),
        "eigenstates": 2 * levels * min(n, LEVEL_POINTS) * 8,
        "density map": 3 * outputs * columns * 8,
        "field and trace": steps * 8 * 10,
    }
    parts = {name: runs * size for name, size in parts.items()}
    absorbing = blocks.absorber.type != "none"
    kept = runs * n * _bytes_on_gpu(item, absorbing=absorbing, compact=compact, exact=whole, windows=large)
    comm = connected()
    ranks = 1 if comm is None else comm.size
    host, others = max(sum(parts.values()) - on_device, 0), on_device - on_device // ranks
    return Memory(
        # each rank has the potential and the initial state of the whole grid; on a CPU the others' parts are on the host, too
        host=ranks * host + others,
        device=on_device - others,
        on_gpu=(kept - runs * n * (3 * item + 4 * 8)) // ranks,
        on_gpu_host=-others,
        # norms and overlaps
        library="cublas",
        parts=parts,
        reduce="grid.points" if n > steps else "time.steps (a longer dt)",
    )


def _bytes_on_gpu(item: int, *, absorbing: bool, compact: bool, exact: bool, windows: bool) -> int:
    """Return the bytes per point that the memory pool of a GPU holds: arrays, and temporaries of observables."""
    real = item // 2
    # psi twice, potential and slope of the propagator; x and slope of the observer, in double precision
    arrays = 2 * item + (2 + absorbing) * real + 2 * 8
    temporaries = TEMPORARY_BYTES["numerov" if compact else "three_point"] + (16 if item < 16 else 0)
    # of the energy; the density and a conjugate remain
    if windows:
        temporaries = 16 + 2 * 8
    return arrays + temporaries + (EXACT_ARRAYS * item if exact else 0)


def _physics(
    loaded: LoadedDeck[TridiagDeck], deck: TridiagDeck, pulse: LaserField, dt: float, steps: int
) -> list[Finding]:
    """Return the findings of the physics checks."""
    from qsim.tridiag.propagate import checks

    blocks = deck.propagation
    potential = _made(loaded, deck, grid_potential)
    # before a state exists: a packet outside of the box has none
    findings = list(checks.packet_in_box(blocks))
    if any(finding.severity == "error" for finding in findings):
        return findings
    try:
        psi = np.pad(_made(loaded, deck, initial_state), 1)
        setup = checks.Setup(blocks, grid_points(blocks.grid), potential, pulse, dt, steps, psi)
        return [*findings, *checks.physics(setup)]
    except NumericsError as error:
        hint = f"; {error.hint}" if error.hint else ""
        return [*findings, Finding("initial", f"{error}{hint}")]
    except ImportError as error:
        # a machine that only checks decks need not have Numba
        if error.name != "numba":
            raise
        return []


def _references(deck: TridiagDeck) -> Iterator[Finding]:
    """Yield what refers to something that is not there."""
    from qsim.tridiag.checks import partition_findings
    from qsim.tridiag.propagate.photoelectrons import LARGEST_GRID

    yield from without_fundamental([] if deck.laser is None else deck.laser.pulses, deck.observe)
    points = deck.propagation.grid.points
    if deck.observed.photoelectron is not None and deck.propagation.grid.inner > LARGEST_GRID:
        yield Finding(
            "observe",
            f"photoelectron: the grid has {points} points, at most {LARGEST_GRID:.0e} are allowed; take fewer, or leave it out",
        )
    limit = deck.propagation.potential.limit
    for index, item in enumerate(deck.observe):
        if item.ionisation and limit is not None and math.isinf(limit):
            yield Finding(
                f"observe.{index}.ionisation", "the potential confines the electron: nothing is ionised"
            )
    yield from partition_findings(deck.solver.blocks, points, f"the grid has {points} points", "points")
    if deck.time is not None and deck.time.t_final == "auto" and deck.laser is None:
        yield Finding("time.t_final", "auto is the end of the pulses, but there is no laser; give a time")


def between_walls(blocks: PropagationBlocks) -> Solver:
    """Return the solver for the points between the walls: the first and the last block of a deck hold a wall each."""
    sizes = blocks.solver.blocks
    if isinstance(sizes, int):
        sizes = min(sizes, blocks.grid.inner - 1)
    elif isinstance(sizes, list):
        sizes = sizes.copy()
        sizes[0] -= 1
        sizes[-1] -= 1
        # a first block without its wall may be too short, and is joined with the next
        if sizes[0] < LEAST_FIRST < sum(sizes):
            sizes[:2] = [sizes[0] + sizes[1]]
        sizes = [size for size in sizes if size]
    return blocks.solver.model_copy(update={"blocks": sizes})


def level_count(blocks: PropagationBlocks) -> int:
    """Return the number of eigenstates that a propagation needs."""
    from qsim.tridiag.deck.electron import levels_of

    # levels of the initial state, and of the populations
    wanted = [level + 1 for level in levels_of(blocks.initial)]
    if blocks.observed.populations is not None:
        wanted.append(blocks.observed.populations.levels)
    return max(wanted, default=0)


def grid_points(grid: Grid, threads: int = 1) -> NDArray[np.float64]:
    """Return the grid points with the walls (n,), bohr."""
    return equidistant(grid.xmin, grid.dx, grid.points, threads)


# --------------------------------------------------------------------------------------------- build


def build(loaded: LoadedDeck[TridiagDeck], device: Device, blame: Blame) -> Propagation | Scan:
    """Return the problem of a deck: lattice, field, initial state and levels; all runs of a scan."""
    deck = loaded.deck
    decks, values = runs_of(deck)
    pulses = [LaserField(one.laser) for one in decks]
    steps, dt = _steps_of(deck.propagation, pulses)
    if deck.scan is None:
        problem = _build(loaded, deck, device, (pulses[0], steps, dt), blame)
        problem.every = sample_interval(problem)
        return problem
    # runs go side by side, and no bit of them depends on how many
    alone = replace(device, threads=1)
    potentials_of = {id(one.potential): one for one in reversed(decks)}
    firsts = {
        key: _build(loaded, one, alone, (pulses[0], steps, dt), blame) for key, one in potentials_of.items()
    }
    runs = [replace(firsts[id(one.potential)], pulse=pulse) for one, pulse in zip(decks, pulses, strict=True)]
    # spectra of all runs on one axis
    observed = runs[0].observed
    if (hhg := observed.hhg) is not None:
        top = max(one.max_order(hhg) for one in runs)
        observed = replace(observed, hhg=hhg.model_copy(update={"max_order": top}))
    spectra = list(runs[0].spectra)
    for k, block in enumerate(spectra):
        if isinstance(block, Photoelectron):
            ends = [one.photoelectron_energies(block)[[0, -1]] for one in runs]
            low, high = float(np.min(ends)), float(np.max(ends))
            spectra[k] = block.model_copy(update={"energies": [low, high]})
    runs = [replace(one, observed=observed, spectra=spectra) for one in runs]
    every = min(sample_interval(one) for one in runs)
    if deck.scan.focal_average is not None and not all(one.bound for one in runs):
        blame("scan.focal_average", "nothing is ionised: the potential binds no level below a threshold")
    notices = runs[0].notices
    return Scan([replace(one, every=every) for one in runs], values, deck.scan.focal_average, device, notices)


def _build(
    loaded: LoadedDeck[TridiagDeck],
    deck: TridiagDeck,
    device: Device,
    motion: tuple[LaserField, int, float],
    blame: Blame,
) -> Propagation:
    """Return the problem of a run: lattice, initial state and levels; `motion`: field, steps, and their length."""
    from qsim.tridiag.propagate import initial
    from qsim.tridiag.propagate.eigenstates import levels_of_box
    from qsim.tridiag.propagate.surface import ends_of

    (pulse, steps, dt), blocks = motion, deck.propagation
    grid, time, observed = blocks.grid, blocks.time, loaded.deck.observed
    x, threads = grid_points(grid, device.threads), device.threads
    inside = x[BETWEEN]
    # the plan keeps V and psi0 of small grids; on large ones they are made here, by all threads
    if grid.points <= PLAN_POINTS:
        with_walls, psi0 = _made(loaded, deck, grid_potential), _made(loaded, deck, initial_state)
    else:
        with_walls = potentials.evaluate(blocks.potential, x, threads=threads)
        psi0 = initial.initial_state(
            blocks.initial, inside, grid.dx, with_walls[BETWEEN], grid.stencil, threads=threads
        )
    potential = with_walls[BETWEEN]
    cap, mask = absorbers.evaluate(blocks.absorber, x)
    lattice = Lattice(
        float(inside[0]),
        grid.dx,
        grid.inner,
        grid.stencil,
        potential,
        slope=potentials.slope(blocks.potential, inside, threads=threads),
        cap=None if cap is None else cap[BETWEEN],
        mask=None if mask is None else mask[BETWEEN],
    )
    # absorber at the walls, for the results file alone: psi is zero there
    ends = (None if array is None else array[[0, -1]] for array in (cap, mask))
    spectra = [*deck.spectra, *([] if observed.photoelectron is None else [observed.photoelectron])]
    # levels for populations and ionisation; those of the ionisation potential are looked for if there are none
    wanted = 0 if observed.populations is None else observed.populations.levels
    free = potentials.threshold(blocks.potential, with_walls) if observed.ionisation else None
    levels = levels_of_box(grid.dx, potential, grid.stencil, wanted, free)
    return Propagation(
        geometry=LINE,
        device=device,
        box=Box(grid.xmin, grid.xmax, with_walls[[0, -1]], *ends),
        lattice=lattice,
        psi0=psi0,
        dt=dt,
        steps=steps,
        pulse=pulse,
        **levels._asdict(),
        levels=wanted,
        free=free,
        ip=_ionisation_potential(blocks, with_walls, levels.energies) if pulse.pulses else None,
        potential=blocks.potential,
        initial=blocks.initial,
        absorber=blocks.absorber,
        solver=between_walls(blocks),
        precision=blocks.precision,
        observed=observed,
        outputs=time.outputs,
        verify=time.verify,
        order=time.order,
        accuracy=time.accuracy,
        step_key=next(f"time.{key}" for key in ("dt", "steps", "accuracy") if getattr(time, key) is not None),
        blame=blame,
        spectra=spectra,
        spheres=ends_of(lattice, spectra),
        notices=list(time.notices(steps, dt)),
    )


def _ionisation_potential(
    blocks: PropagationBlocks, potential: NDArray[np.float64], energies: NDArray[np.float64] | None
) -> float | None:
    """Return the energy of the ground state below the threshold, hartree; None if it is not bound.

    `potential`: V on the grid with its walls.
    """
    from qsim.tridiag.propagate.eigenstates import window_states

    free = potentials.threshold(blocks.potential, potential)
    if free is None or float(potential.min()) >= free:
        return None
    if energies is None:
        try:
            energies, _, _ = window_states(blocks.grid.dx, potential[BETWEEN], blocks.grid.stencil, 1)
        except NumericsError:
            # no bound state
            return None
    return free - float(energies[0]) if energies[0] < free else None
