"""Plan and build of ``task: atom``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.deck.table_units import doubted
from qsim.core.device.device import Memory
from qsim.core.device.parallel import connected
from qsim.core.errors import InvalidInput, NumericsError
from qsim.core.run.stages import Plan, Size
from qsim.tridiag.atom.checks import Setup, findings
from qsim.tridiag.atom.photoelectrons.flux import spheres
from qsim.tridiag.atom.polarization import field_of, frame_of
from qsim.tridiag.atom.problem import AtomProblem, Setting, lattice_of, sample_steps, setting
from qsim.tridiag.atom.resonance import search as resonance
from qsim.tridiag.atom.run import ATOM
from qsim.tridiag.atom.states.levels import Radial
from qsim.tridiag.atom.states.observables import level_states
from qsim.tridiag.atom.states.stored import stored_states
from qsim.tridiag.deck.observe import without_fundamental
from qsim.tridiag.deck.scan import runs_of
from qsim.tridiag.kernels.atom.cuda_tables import MOST_LANES
from qsim.tridiag.tdse.motion import Scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.tridiag.atom.evolution.propagator import AtomLattice
    from qsim.tridiag.atom.states.observables import LevelState
    from qsim.tridiag.deck.atom import AtomDeck
    from qsim.tridiag.tdse.pulses import LaserField

__all__ = ["build", "plan"]

# of a box whose levels are looked for before a run
MOST_POINTS = 5_000_000
# arrays of the size of the state, in complex numbers: state, two tables of pivots, and their likes of the companions
STATES = 11
# arrays of the size of the state on a GPU, for steps of one length: tables with their products, which all runs share; of each run
# the tips of chunks, in velocity gauge also the ports of segments
CUDA_TABLES, CUDA_TIPS, PADDING = 6.4, {"length": 0.6, "velocity": 1.0}, 1.05
# of those on the host while the tables are made
CUDA_MAKING = {"length": 16, "velocity": 40}
# of a step, per point and l
FLOPS = 40.0
# points times l times steps from which a GPU is faster than its host (docs/howto/devices.md): h_static_rate with 1.1e8 takes five
# times as long on a GPU, xuv_ir_streaking with 1.6e8 0.7 times and h_hhg_800nm with 3.8e8 0.46 times as long
GPU_CELL_STEPS = 1.3e8


@dataclass(frozen=True)
class Settled:
    """The runs of a deck; one without a scan.

    Attributes
    ----------
    decks, pulses
        Deck and field of each run.
    setting : Setting
        Of all runs.
    values : dict
        What is scanned: one number per run, atomic units.
    """

    decks: list[AtomDeck]
    pulses: list[LaserField]
    setting: Setting
    values: dict[str, list[float]]

    @property
    def hardest(self) -> int:
        """Index of the run with the strongest field."""
        peaks = [pulse.peak(self.setting.dt * self.setting.steps) for pulse in self.pulses]
        return int(np.argmax(peaks))


def settled(deck: AtomDeck) -> Settled:
    """Return the runs of a deck, with the setting that suits them all.

    Raises
    ------
    InvalidInput
        As :func:`qsim.tridiag.atom.problem.setting`.
    """
    decks, values = runs_of(deck)
    pulses = [field_of(one) for one in decks]
    settings = [setting(one, pulse) for one, pulse in zip(decks, pulses, strict=True)]
    if len(settings) == 1:
        return Settled(decks, pulses, settings[0], values)
    # one batch needs one grid and the same steps: the largest of each
    longest = max(settings, key=lambda one: one.dt * one.steps)
    # one gauge for all: velocity as soon as one run needs it, with its map of points
    velocity = [one for one in settings if one.gauge == "velocity"]
    densest = min(velocity or settings, key=lambda one: one.dr0)
    common = replace(
        longest,
        gauge="velocity" if velocity else "length",
        rmax=max(one.rmax for one in settings),
        lmax=max(one.lmax for one in settings),
        core=max(one.core for one in settings),
        begin=max(one.begin for one in settings),
        speed=max(one.speed for one in settings),
        dr0=densest.dr0,
        width=densest.width,
    )
    return Settled(decks, pulses, common, values)


def plan(loaded: LoadedDeck[AtomDeck]) -> Plan:
    """Estimate memory and steps and check the physics."""
    deck = loaded.deck
    try:
        runs = settled(deck)
        found = runs.setting
        grid = found.grid()
        problems = list(without_fundamental([] if deck.laser is None else deck.laser.pulses, deck.observe))
        if (
            not problems and grid.points <= MOST_POINTS
        ):  # more take minutes to check; memory refuses them, as a rule
            hardest, pulse = runs.decks[runs.hardest], runs.pulses[runs.hardest]
            # every atom of a scan in the strongest field
            for atom in {id(one.atom): one.atom for one in runs.decks}.values():
                one = hardest.model_copy(update={"atom": atom})
                checked = findings(Setup(one, pulse, found, lattice_of(one)(grid)))
                problems += [finding for finding in checked if finding not in problems]
            if not any(one.severity == "error" for one in problems):
                loaded.once(start_levels)
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    except NumericsError as error:
        return Plan(findings=[Finding("initial", f"{error}; a larger grid.rmax holds higher levels")])
    # memory of the state: four real numbers for each pair of lanes and point
    channels = frame_of(deck).lanes(found.lmax)
    lanes = channels.used
    size = 32 * grid.points * channels.pairs
    outputs = min(deck.time.outputs, found.steps) + 1
    columns = min(grid.points, deck.observed.density.points)
    count = len(runs.decks)
    # densities and l populations at the output times, and a trace of every step at most
    recorded = count * (3 * outputs * (columns + lanes) * 8 + 200 * found.steps)
    lengths = 2 if deck.time.order == 4 else 1
    comm = connected()
    ranks = 1 if comm is None else min(comm.size, count)
    # of all runs of the scan, shared by the ranks
    memory = _memory(size, count, found.gauge, lengths, recorded=recorded, ranks=ranks)
    trial = "" if deck.time.accuracy is None else " of the first trial"
    sizes: dict[str, int | float | str] = {
        "radial points": grid.points,
        "rmax (bohr)": float(grid.wall),
        "lmax": found.lmax,
        "gauge": found.gauge,
        f"steps{trial}": found.steps,
        f"dt{trial} (a.u.)": found.dt,
        "duration (a.u.)": found.dt * found.steps,
    }
    stages = 5 if deck.time.order == 4 else 1
    if count > 1:
        sizes["runs"] = count
    # stages of Suzuki's composition are steps of their own
    cell_steps = float(count) * grid.points * lanes * found.steps * stages
    return Plan(
        memory,
        sizes=sizes,
        steps=found.steps,
        findings=problems,
        size=Size(cell_steps, "points times l times steps", GPU_CELL_STEPS),
        operations=FLOPS * cell_steps,
        reduce="time.t_final",
        cpu_only=_cpu_only(2 * channels.pairs),
        ranks=count,
        shared="runs of the scan",
    )


def _memory(size: int, count: int, gauge: str, lengths: int, *, recorded: int, ranks: int = 1) -> Memory:
    """Estimate the memory of runs.

    Parameters
    ----------
    size, count : int
        Bytes of a state, and runs.
    gauge : {"length", "velocity"}
    lengths : int
        Different lengths of step.
    recorded : int
        Bytes that are recorded; every rank has all of them in the end.
    ranks : int
        Processes that share the runs.
    """
    whole = count * STATES * size
    # runs on the GPU of a rank
    each = -(-count // ranks)
    on_gpu = int(PADDING * size * (each * (1 + lengths * CUDA_TIPS[gauge]) + lengths * CUDA_TABLES))
    # a companion comes while the run is still there
    if count == 1:
        on_gpu *= 2
    shared = min(whole, on_gpu)
    return Memory(
        host=ranks * recorded + whole - shared,
        device=shared,
        parts={"states and pivots": whole, "trace and densities": ranks * recorded},
        reduce="grid.l_max" if whole > ranks * recorded else "time.steps (a longer dt) or time.outputs",
        on_gpu=on_gpu - shared,
        # tables are made on the host, and a state is there while it is observed
        on_gpu_host=shared - whole + ranks * CUDA_MAKING[gauge] * size,
    )


def _cpu_only(lanes: int) -> str:
    """Return what keeps a run from a GPU."""
    if lanes > MOST_LANES:
        return f"task: atom with {lanes} channels, more than {MOST_LANES}"
    return ""


def start_levels(deck: AtomDeck) -> list[LevelState]:
    """Return the levels of the initial state on the grid of the deck, or the channels of its file."""
    return _levels_on(lattice_of(deck)(settled(deck).setting.grid()), deck)


def _levels_on(lattice: AtomLattice, deck: AtomDeck) -> list[LevelState]:
    """Return the levels of the initial state on a grid, or the channels of its file."""
    if deck.stored is not None:
        return stored_states(lattice, deck.stored)
    return level_states(lattice, [(one.n, one.l) for one in deck.levels])


def build(loaded: LoadedDeck[AtomDeck], device: Device) -> AtomProblem | Scan:
    """Set up the atom, its field and its initial state; all runs of a scan."""
    deck = loaded.deck
    runs = settled(deck)
    if deck.scan is None:
        return _build(loaded, deck, device, runs)
    # runs of one atom have the same levels
    atoms = {id(one.atom): one for one in reversed(runs.decks)}
    firsts = {key: _build(loaded, one, device, runs) for key, one in atoms.items()}
    tops = [
        replace(firsts[id(one.atom)], pulse=pulse) for one, pulse in zip(runs.decks, runs.pulses, strict=True)
    ]
    first, hardest = tops[0], tops[runs.hardest]
    observed = first.observed
    # one axis for all runs
    if (hhg := observed.hhg) is not None:
        observed = replace(observed, hhg=hhg.model_copy(update={"max_order": hardest.max_order(hhg)}))
    # all runs of a scan take samples at the same steps, as the strongest field needs them
    every = sample_steps(hardest)
    problems = [replace(one, observed=observed, every=every) for one in tops]
    return Scan(problems, runs.values, deck.scan.focal_average, device, first.notices)


def _build(loaded: LoadedDeck[AtomDeck], deck: AtomDeck, device: Device, runs: Settled) -> AtomProblem:
    """Set up the first run, with the atom of a deck."""
    pulse, frame, setting = runs.pulses[0], frame_of(deck), runs.setting
    make = lattice_of(deck)
    lattice = make(setting.grid())
    start = loaded.once(start_levels) if deck.atom is loaded.deck.atom else _levels_on(lattice, deck)
    wanted = [(one.n, one.l) for one in deck.levels]
    for n in range(1, deck.observed.populations.nmax + 1):
        # a field in the plane populates all m, so that levels of every l count
        lowest = 0 if frame.planar else abs(frame.m)
        wanted += [(n, l) for l in range(lowest, n) if (n, l) not in wanted and _holds(lattice, n, l)]
    wanted = list(dict.fromkeys(wanted))
    notices = list(_notices(deck, setting, lattice.grid.points))
    other = doubted(deck.atom)
    made_problem = AtomProblem(
        geometry=ATOM,
        setting=setting,
        lattice=lattice,
        pulse=pulse,
        frame=frame,
        start=start,
        levels=level_states(lattice, wanted),
        observed=deck.observed,
        spectra=deck.spectra,
        outputs=deck.time.outputs,
        order=deck.time.order,
        verify=deck.time.verify,
        accuracy=deck.time.accuracy,
        absorber=deck.absorber,
        tail=deck.atom.tail,
        make=make,
        other=None if other is None else lattice_of(deck, other),
        notices=notices,
        device=device,
        # runs of a scan go side by side
        threads=max(1, device.threads // len(runs.decks)),
        stored=deck.stored,
    )
    if deck.observed.resonance is not None:
        made_problem.resonance = resonance.wanted(deck, deck.observed.resonance)
    made_problem.spheres = spheres(lattice, deck.spectra)
    made_problem.every = sample_steps(made_problem)
    return made_problem


def _holds(lattice: AtomLattice, n: int, l: int) -> bool:
    """Return whether the box holds a bound level."""
    return Radial(lattice, l).below(0.0) > n - l - 1


def _notices(deck: AtomDeck, setting: Setting, points: int) -> Iterator[str]:
    """Yield how open keys were settled."""
    if isinstance(deck.grid.rmax, str):
        yield f"grid.rmax: auto is {setting.rmax:.4g} bohr, {points} points"
    if isinstance(deck.grid.l_max, str) and deck.laser is not None:
        yield f"grid.l_max: auto begins with {setting.lmax}"
    frame = frame_of(deck)
    if not np.array_equal(frame.axes, np.eye(3)):
        rows = ", ".join(
            f"{name} = ({x:.4g}, {y:.4g}, {z:.4g})" for name, (x, y, z) in zip("xyz", frame.axes, strict=True)
        )
        where = "in the xy plane" if frame.planar else "along z"
        yield f"laser.polarization: the run has axes of its own, with the field {where}: {rows}"
    if deck.grid.map == "auto":
        yield f"grid.map: auto is dr0 = {setting.dr0:.4g} bohr, width = {setting.width:g}"
    if deck.laser is not None and deck.laser.gauge == "auto":
        yield f"laser.gauge: auto is {setting.gauge}"
    yield from deck.time.notices(setting.steps, setting.dt)
