"""Plan and build of ``task: plane``."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.errors import InvalidInput, NumericsError
from qsim.core.physics.surfaces import surface_of
from qsim.core.run.stages import Plan, Size
from qsim.tridiag.deck.laser import Laser
from qsim.tridiag.deck.observe import without_fundamental
from qsim.tridiag.deck.plane import LinearInPlane
from qsim.tridiag.deck.scan import runs_of
from qsim.tridiag.deck.surfaces.given import TableSurface
from qsim.tridiag.plane import systems
from qsim.tridiag.plane.companions import FINE
from qsim.tridiag.plane.motion import PLANE
from qsim.tridiag.plane.problem import PlaneProblem, radius_of, sample_interval
from qsim.tridiag.plane.propagator import shares
from qsim.tridiag.tdse import absorbers
from qsim.tridiag.tdse.motion import Scan
from qsim.tridiag.tdse.polarization import PlaneField
from qsim.tridiag.tdse.pulses import LaserField

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.tridiag.deck.plane import PlaneDeck
    from qsim.tridiag.plane.lattice import Axis, PlaneLattice
    from qsim.tridiag.plane.levels import Levels

__all__ = ["build", "plan"]

# points of the lattice up to which the plan finds the initial state and checks the physics
PLAN_POINTS = 600_000
# bytes per point, measured: the state and its copies, densities, potential and its temporaries; the same for three times as many
# points, and sine waves, where companions are finer
POINT_BYTES, FINE_BYTES = 150, 550
# on a GPU: two states, factors of two durations, and their temporaries
GPU_BYTES = 112
# points times steps from which a GPU is faster
GPU = 2e9
# of a step, per point: two solves of 14 to 18 multiplications and additions, and three phases
FLOPS = 90.0
# steps per optical cycle below which a run is refused, and below which it is warned of
PER_CYCLE = (8.0, 20.0)
# dt times an energy above which a run is refused, and above which it is warned of
PHASE = (2.0, 0.5)
# momentum times spacing above which a run is refused, and above which it is warned of
WAVE = (math.pi, 0.5 * math.pi)
# norm of the initial state beyond the radius of the regions from which a warning is given
TAIL = 1e-3


def field_of(deck: PlaneDeck) -> LaserField:
    """Return the field of a deck: of a particle in a plane with components along and across its own direction."""
    if not deck.system.planar:
        return LaserField(None if deck.laser is None else Laser(pulses=deck.laser.pulses))
    if deck.laser is None:
        return PlaneField([], 0.0, 0)
    one = deck.laser.polarization
    return PlaneField(deck.laser.pulses, one.ratio, one.sense)


def lattice_of(deck: PlaneDeck) -> PlaneLattice:
    """Return the lattice of a deck."""
    _, dt = _steps_of(deck)
    return systems.lattice_of(deck.system, systems.axes_of(deck.system, deck.grids), deck.absorber, dt)


def levels_of(deck: PlaneDeck) -> Levels | None:
    """Return the levels that a run needs: those of its initial state, and those whose populations are recorded."""
    wanted = systems.levels_of(deck.initial)
    asked = any(item.populations is not None for item in deck.observe)
    # a packet has no populations unless the deck requests them: its levels may be none
    if not wanted and not asked:
        return None
    count = max([*(level + 1 for level in wanted), deck.observed.populations.levels])
    return systems.found_levels(lattice_of(deck), count)


def _steps_of(deck: PlaneDeck) -> tuple[int, float]:
    """Return the number of steps and their length, a.u.: of all runs of a scan, those of the longest."""
    ends = [field_of(one).end_of_run(deck.time.t_final) for one in runs_of(deck)[0]]
    return deck.time.resolve(max(ends))


# ---------------------------------------------------------------------------------------------- plan


def plan(loaded: LoadedDeck[PlaneDeck]) -> Plan:
    """Estimate memory and steps and check the physics; nothing large is allocated."""
    deck = loaded.deck
    runs = [field_of(one) for one in runs_of(deck)[0]]
    axes = systems.axes_of(deck.system, deck.grids)
    points = axes[0].points * axes[1].points
    steps, dt = 0, 1.0
    problems = list(without_fundamental([] if deck.laser is None else deck.laser.pulses, deck.observe))
    sizes: dict[str, int | float | str] = {
        "points": f"{axes[0].points} x {axes[1].points}",
        f"d{deck.system.coordinates[0]} (bohr)": axes[0].spacing,
    }
    if deck.time.t_final == "auto" and deck.laser is None:
        problems.append(
            Finding("time.t_final", "auto is the end of the pulses, but there is no laser; give a time")
        )
        return Plan(findings=problems)
    try:
        steps, dt = _steps_of(deck)
        pulse = max(runs, key=lambda one: one.quiver) if len(runs) > 1 else runs[0]
        if len(runs) > 1:
            sizes["runs"] = len(runs)
        trial = "" if deck.time.accuracy is None else " of the first trial"
        sizes |= {f"steps{trial}": steps, f"dt{trial} (a.u.)": dt, "duration (a.u.)": steps * dt}
        problems += _regions(deck, axes)
        problems += _tables(deck)
        if not any(one.severity == "error" for one in problems) and points <= PLAN_POINTS:
            problems += _physics(loaded, pulse, dt, steps)
    except InvalidInput as error:
        problems.append(Finding(error.key, str(error)))
    except NumericsError as error:
        problems.append(Finding("initial", f"{error}" + (f"; {error.hint}" if error.hint else "")))
    work = float(points) * steps * _stages(deck) * len(runs)
    return Plan(
        _memory(deck, points, steps),
        sizes=sizes,
        steps=steps,
        findings=problems,
        size=Size(work, "points times steps", GPU),
        operations=FLOPS * work,
        reduce="time.t_final",
        ranks=len(runs),
        shared="runs of the scan",
    )


def _stages(deck: PlaneDeck) -> int:
    """Return the stages of a step."""
    return len(shares(deck.time.order, turns=deck.system.turning != (0.0, 0.0)))


def _memory(deck: PlaneDeck, points: int, steps: int) -> Memory:
    """Estimate the memory of a run."""
    shown = deck.observed.density
    maps = shown.maps * min(shown.points**2, points) * 8 * 3
    fine = float(points) * steps * _stages(deck) <= FINE
    parts = {
        "wave function, potential, phases": points * (FINE_BYTES if fine else POINT_BYTES),
        "maps": maps,
        "trace": 56 * steps,
    }
    return Memory(
        host=sum(parts.values()),
        parts=parts,
        reduce=f"grid.{deck.system.coordinates[0]}.points",
        on_gpu=points * GPU_BYTES,
    )


def _regions(deck: PlaneDeck, axes: tuple[Axis, Axis]) -> Iterator[Finding]:
    """Yield a radius that the grid or the absorber does not leave room for, and strips that fill the box."""
    strip = absorbers.width(deck.absorber)
    for name, axis in zip(deck.system.coordinates, axes, strict=True):
        if 2.0 * strip >= axis.high - axis.outer:
            key = "absorber.kmin" if deck.absorber.type == "manolopoulos" else "absorber.width"
            text = f"two strips of {strip:.4g} bohr leave nothing of a box of {axis.high - axis.low:.4g} bohr along {name}"
            yield Finding(key, text)
            return
    for number, item in enumerate(deck.observe):
        for axis in axes if item.momenta is not None else ():
            if item.momenta is not None and item.momenta.kmax * axis.spacing > math.pi:
                text = f"a spacing of {axis.spacing:.4g} bohr has momenta up to {math.pi / axis.spacing:.4g}/bohr"
                yield Finding(f"observe.{number}.momenta.kmax", text)
                return
    index = next((k for k, item in enumerate(deck.observe) if item.regions is not None), None)
    if index is None or isinstance(deck.observed.regions.radius, str):
        return
    radius, key = float(deck.observed.regions.radius), f"observe.{index}.regions.radius"
    for name, axis in zip("xy", axes, strict=True):
        room = min(abs(axis.low), abs(axis.high)) - strip
        if radius > room:
            where = "the absorber begins" if strip else "the grid ends"
            yield Finding(
                key, f"{where} at |{name}| = {room:.4g} bohr, within the radius of {radius:.4g} bohr"
            )
            return


def _tables(deck: PlaneDeck) -> Iterator[Finding]:
    """Yield what a user must know of splines through tables of both coordinates."""
    terms = deck.system.terms
    if isinstance(terms.surface, TableSurface):
        key = f"system.{terms.keys[3]}.file"
        if text := surface_of(terms.surface, key).remark():
            yield Finding(key, text, "warning")


def _physics(loaded: LoadedDeck[PlaneDeck], pulse: LaserField, dt: float, steps: int) -> Iterator[Finding]:
    """Yield the findings of the checks that need the initial state."""
    deck = loaded.deck
    lattice, levels = loaded.once(lattice_of), loaded.once(levels_of)
    psi = systems.initial_state(deck.initial, deck.system, lattice, levels)
    yield from pulse.check_tables(steps * dt)
    yield from pulse.check_residual(steps * dt)
    energy = lattice.energy(psi)
    coarse = deck.time.coarse == "refuse"
    key = "time.steps" if deck.time.steps is not None else "time.dt"
    if deck.time.accuracy is None:
        yield from _time_step(key, energy, pulse, dt, refuse=coarse)
    depth = energy - float(lattice.potential().min())
    for name, axis, charge in zip(deck.system.coordinates, lattice.axes, _pulled(deck), strict=True):
        fastest = max(depth, 0.0, 10.0 * pulse.up * charge**2 / axis.mass)
        wave = math.sqrt(2.0 * axis.mass * fastest) * axis.spacing
        if wave > WAVE[1]:
            text = (
                f"a spacing of {axis.spacing:.4g} bohr along {name} is {2 * math.pi / wave:.3g} points per wavelength of the "
                f"fastest motion; use four or more, {WAVE[1] / wave * axis.spacing:.3g} bohr or less"
            )
            yield Finding(
                f"grid.{_axis_key(deck, name)}.points", text, "error" if wave > WAVE[0] else "warning"
            )
    yield from _room(deck, lattice, psi, pulse)
    yield from _degenerate(deck, levels)


def _degenerate(deck: PlaneDeck, levels: Levels | None) -> Iterator[Finding]:
    """Yield levels of the deck that no energy tells apart from others."""
    if levels is None:
        return
    own = systems.levels_of(deck.initial)
    recorded = range(min(deck.observed.populations.levels, len(levels.energies)))
    alike = [level for level in sorted({*own, *recorded}) if levels.alike(level)]
    if alike:
        listed = ", ".join(map(str, alike))
        yield Finding(
            "initial" if set(alike) & set(own) else "observe",
            f"of degenerate levels any combination may be found: {listed}; break the symmetry, or begin with a formula",
            "warning",
        )


def _pulled(deck: PlaneDeck) -> NDArray[np.float64]:
    """Return the part of the peak field that acts on each coordinate, times its charge, (2,)."""
    sizes, angle = np.ones(1), 0.0
    if deck.system.planar:
        one = LinearInPlane(type="linear") if deck.laser is None else deck.laser.polarization
        sizes, angle = np.array([1.0, one.ratio]) / math.hypot(1.0, one.ratio), one.angle
    return np.asarray(np.linalg.norm(sizes[:, None] * systems.couplings(deck.system, angle), axis=0))


def _axis_key(deck: PlaneDeck, name: str) -> str:
    """Return the key of an axis: y may be that of x."""
    return "x" if name == "y" and deck.grid.y in (None, "same") else name


def _time_step(key: str, energy: float, pulse: LaserField, dt: float, *, refuse: bool) -> Iterator[Finding]:
    """Yield a step too long for the field or the energy."""
    if pulse.fastest > 0.0:
        per_cycle = 2.0 * math.pi / pulse.fastest / dt
        if per_cycle < PER_CYCLE[1]:
            wanted = 2.0 * math.pi / pulse.fastest / PER_CYCLE[1]
            text = f"{per_cycle:.3g} steps per optical cycle do not resolve the field; take dt of {wanted:.3g} a.u. or less"
            yield Finding(key, text, "error" if refuse and per_cycle < PER_CYCLE[0] else "warning")
    if abs(energy) * dt > PHASE[1]:
        text = (
            f"dt times the energy of the initial state ({energy:.4g} hartree) is {abs(energy) * dt:.3g}; "
            f"take dt below {PHASE[1] / abs(energy):.3g} a.u."
        )
        yield Finding(key, text, "error" if refuse and abs(energy) * dt > PHASE[0] else "warning")


def _room(
    deck: PlaneDeck, lattice: PlaneLattice, psi: NDArray[np.complex128], pulse: LaserField
) -> Iterator[Finding]:
    """Yield a box smaller than the quiver motion, and an initial state in the absorber or at a wall."""
    density = np.abs(psi) ** 2 * lattice.cell
    strip = absorbers.width(deck.absorber)
    pulled = _pulled(deck)
    for number, (name, axis) in enumerate(zip(deck.system.coordinates, lattice.axes, strict=True)):
        quiver = pulse.quiver * pulled[number] / axis.mass
        profile = density.sum(axis=1 - number)
        centre = float(profile @ axis.x)
        room = min(centre - axis.outer, axis.high - centre)
        key = f"grid.{_axis_key(deck, name)}.xmax"
        if 0.0 < room < quiver:
            text = f"the wall is {room:.4g} bohr from the initial state, less than the quiver radius {quiver:.4g} bohr"
            yield Finding(key, text)
            return
        taken = float(profile[(axis.x < axis.outer + strip) | (axis.x > axis.high - strip)].sum())
        if strip and taken > 1e-6:
            text = f"{taken:.2g} of the initial state lies in the strips of the absorber along {name}: widen grid"
            yield Finding("absorber", text, "warning")


# --------------------------------------------------------------------------------------------- build


def build(loaded: LoadedDeck[PlaneDeck], device: Device) -> PlaneProblem | Scan:
    """Set up lattice, levels, state and field; of a scan those of all runs."""
    deck = loaded.deck
    decks, values = runs_of(deck)
    pulses = [field_of(one) for one in decks]
    if deck.scan is None:
        return _build(loaded, deck, device, pulses[0])
    # runs go side by side, and no bit of them depends on how many; those of one system share its levels
    alone = replace(device, threads=1)
    systems_of = {id(one.system): (one, pulse) for one, pulse in zip(decks, pulses, strict=True)}
    firsts = {key: _build(loaded, one, alone, pulse) for key, (one, pulse) in systems_of.items()}
    runs = [replace(firsts[id(one.system)], pulse=pulse) for one, pulse in zip(decks, pulses, strict=True)]
    observed = runs[0].observed
    if (hhg := observed.hhg) is not None:
        # spectra of all runs on one axis
        top = max(one.max_order(hhg) for one in runs)
        observed = replace(observed, hhg=hhg.model_copy(update={"max_order": top}))
    runs = [replace(one, observed=observed) for one in runs]
    every = min(sample_interval(one) for one in runs)
    return Scan([replace(one, every=every) for one in runs], values, None, device, runs[0].notices)


def _build(loaded: LoadedDeck[PlaneDeck], deck: PlaneDeck, device: Device, pulse: LaserField) -> PlaneProblem:
    """Set up one run; that with the system of the deck takes what the plan has found."""
    steps, dt = _steps_of(loaded.deck)
    lattice, levels = loaded.once(lattice_of), None
    if deck.system is loaded.deck.system:
        levels = loaded.once(levels_of)
    else:
        lattice = systems.lattice_of(deck.system, lattice.axes, deck.absorber, dt)
        levels = levels_of(deck)
    problem = PlaneProblem(
        geometry=PLANE,
        device=device,
        system=deck.system,
        initial=deck.initial,
        absorber=deck.absorber,
        lattice=lattice,
        levels=levels,
        psi0=systems.initial_state(deck.initial, deck.system, lattice, levels),
        pulse=pulse,
        dt=dt,
        steps=steps,
        mask_dt=dt,
        order=deck.time.order,
        outputs=deck.time.outputs,
        verify=deck.time.verify,
        accuracy=deck.time.accuracy,
        observed=deck.observed,
        radius=radius_of(deck.observed.regions.radius, lattice.axes, deck.absorber),
        angle=0.0 if deck.laser is None else deck.laser.polarization.angle,
        ip=systems.ionisation_potential(deck.system, lattice, levels) if pulse.pulses else None,
        notices=list(deck.time.notices(steps, dt)),
    )
    problem.every = sample_interval(problem)
    if not deck.system.pair:
        return problem
    if isinstance(deck.observed.regions.radius, str):
        problem.notices.append(f"regions.radius: auto is {problem.radius:.4g} bohr")
    tail = float(np.real(_beyond(problem)))
    if pulse.pulses and tail > TAIL:
        problem.notices.append(
            f"{tail:.2g} of the initial state lies beyond the radius of {problem.radius:.4g} bohr, and counts as ionised"
        )
    return problem


def _beyond(problem: PlaneProblem) -> float:
    """Return the norm of the initial state that does not lie inside along both coordinates."""
    density = np.abs(problem.psi0) ** 2 * problem.lattice.cell
    return float(density.sum() - problem.inside[0] @ density @ problem.inside[1])
