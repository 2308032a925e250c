"""Physics checks of a propagation: the deck against its grid, time step and absorber.

Each check yields findings with the numbers in the message; errors stop the run, warnings are printed and stored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.deck.units import FORGOTTEN, format_quantity, to_unit, without_unit
from qsim.core.errors import NumericsError
from qsim.core.physics.functions import remark_on
from qsim.tridiag.deck.electron import GaussianInitial, levels_of
from qsim.tridiag.deck.photoelectrons import LineTsurff, LineWindow
from qsim.tridiag.deck.potentials.given import PotentialTable
from qsim.tridiag.deck.pulses import CarrierPulse
from qsim.tridiag.propagate.eigenstates import Pencil, mirror, squeezed, window_states
from qsim.tridiag.tdse import absorbers, potentials

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.tridiag.deck.model import PropagationBlocks
    from qsim.tridiag.tdse.pulses import LaserField, PulseField

# below the first an error, below the second a warning
STEPS_PER_CYCLE = (8, 20)
# energy times dt: the Cayley form turns by 2 atan(E dt/2) instead of E dt
PHASE_PER_STEP = (2.0, 0.5)
# |psi|^2 dx of the initial state one spacing from a wall
WALL_DENSITY = 1e-8
# norm of the initial state in the strips
IN_ABSORBER = (1e-2, 1e-6)
# norm of a packet outside of the box
OUTSIDE = (1e-2, 1e-6)
REFLECTION = 1e-2
# distance of levels, relative to the top of the spectrum, at which rounding mixes them by a thousandth
MIXED = 4e-12
CHECKED_LEVELS = 32
# change of the energy of a level in a larger box, relative to its distance from the threshold and to itself
SQUEEZED = 1e-5
# W/cm2: a weaker pulse does nothing to an atom in femtoseconds
WEAK = 1e11
# A at the end, relative to its largest value
REST = 1e-3
# dt times the largest potential, above which the solution loses digits
SOLVER_PHASE = 100.0


@dataclass(frozen=True)
class Setup:
    """Input of the checks.

    Attributes
    ----------
    blocks : PropagationBlocks
        Blocks of the deck.
    x, potential : (n,) float64
        Grid points with the walls, bohr, and V, hartree.
    pulse : LaserField
    dt : float
        Time step, atomic units.
    steps : int
    psi : (n,) complex128
        Initial state, zero at the walls.
    """

    blocks: PropagationBlocks
    x: NDArray[np.float64]
    potential: NDArray[np.float64]
    pulse: LaserField
    dt: float
    steps: int
    psi: NDArray[np.complex128]

    @property
    def dx(self) -> float:
        """Spacing, bohr."""
        return float(self.x[1] - self.x[0])

    @property
    def t_final(self) -> float:
        """Duration, atomic units."""
        return self.dt * self.steps

    @property
    def density(self) -> NDArray[np.float64]:
        """Norm of the initial state at each grid point."""
        return (self.psi.real**2 + self.psi.imag**2) * self.dx

    @property
    def threshold(self) -> float | None:
        """Energy above which the electron is free; None if the potential confines it."""
        return potentials.threshold(self.blocks.potential, self.potential)

    @property
    def inside(self) -> NDArray[np.float64]:
        """V between the walls, hartree."""
        return self.potential[1:-1]

    @property
    def pencil(self) -> Pencil:
        """The field-free Hamiltonian of the run."""
        return Pencil(self.inside, self.dx, self.blocks.grid.stencil)

    @property
    def energy(self) -> float:
        """Energy of the initial state, hartree."""
        pencil = self.pencil
        return (
            sum(
                float(part @ pencil.apply(np.ascontiguousarray(part)))
                for part in (self.psi.real[1:-1], self.psi.imag[1:-1])
            )
            * self.dx
        )

    @property
    def ip(self) -> float:
        """Energy that ionises the initial state, hartree; 0 for a free electron."""
        return max((self.threshold or 0.0) - self.energy, 0.0) if self.threshold is not None else 0.0


def physics(setup: Setup) -> Iterator[Finding]:
    """Yield the findings of all checks but `packet_in_box`, which comes before there is a state."""
    yield from likely_units(setup.pulse)
    if isinstance(setup.blocks.potential, PotentialTable):
        yield from remark_on(setup.blocks.potential, setup.blocks.potential.curve(setup.x), "potential")
    mistyped = any(map(_mistyped, setup.pulse.pulses))
    for check in (
        field_sampling,
        time_step,
        grid_spacing,
        box_and_quiver,
        absorber_strips,
        absorber_reflection,
        walls,
        bound_levels,
        squeezed_levels,
        degenerate_levels,
        field_length,
        photoelectron_window,
        surfaces,
    ):
        # follows from the wrong unit
        if not mistyped or check not in (absorber_reflection, box_and_quiver):
            yield from check(setup)


def likely_units(pulse: LaserField) -> Iterator[Finding]:
    """Yield intensities that look like numbers with the wrong unit: W/m2 in place of W/cm2."""
    for one in pulse.pulses:
        if isinstance(one.block, CarrierPulse) and (metre := _square_metres(one.block.intensity)):
            yield Finding(
                f"{one.key}.intensity",
                f"{metre:.3g} W/m2 are {1e-4 * metre:.3g} W/cm2, which is very weak; if {metre:.3g} W/cm2 is meant, write "
                f"'{metre:.3g} W/cm2'",
                "warning",
            )


def _mistyped(one: PulseField) -> bool:
    """Tell whether a pulse has a wavelength or an intensity that is probably a slip, of which other warnings would follow."""
    if not isinstance(one.block, CarrierPulse):
        return False
    length = one.block.wavelength
    slip = (
        length is not None
        and _is_round(length)
        and without_unit(length, "wavelength", FORGOTTEN["wavelength"])
    )
    return bool(slip or _square_metres(one.block.intensity))


def _square_metres(intensity: float | None) -> float:
    """Return an intensity in W/m2 if it is a round number of these and below 1e11 W/cm2, else 0."""
    metre = float(to_unit(intensity or 0.0, "W/m2", "intensity"))
    return metre if 1e10 <= metre < 1e4 * WEAK and _is_round(metre) else 0.0


def _is_round(value: float) -> bool:
    """Tell whether a number has at most three decimal digits that are not zeros."""
    return math.isclose(float(f"{value:.3g}"), value, rel_tol=1e-9)


def packet_in_box(blocks: PropagationBlocks) -> Iterator[Finding]:
    """Yield a packet that lies outside of the box or sticks out of it."""
    block, grid = blocks.initial, blocks.grid
    if not isinstance(block, GaussianInitial):
        return
    if not grid.xmin < block.x0 < grid.xmax:
        yield Finding(
            "initial.x0",
            f"the packet starts at x0 = {block.x0:g} bohr, outside of the box [{grid.xmin:g}, {grid.xmax:g}]",
        )
        return
    # parts of a Gaussian beyond both walls
    root = math.sqrt(2.0) * block.width
    outside = 0.5 * (math.erfc((block.x0 - grid.xmin) / root) + math.erfc((grid.xmax - block.x0) / root))
    if outside > OUTSIDE[1]:
        yield Finding(
            "initial.width",
            f"{outside:.2g} of the packet lies outside of the box [{grid.xmin:g}, {grid.xmax:g}] bohr; widen it",
            "error" if outside > OUTSIDE[0] else "warning",
        )


def field_sampling(setup: Setup) -> Iterator[Finding]:
    """Yield a carrier that the time step does not resolve."""
    if setup.pulse.fastest == 0.0 or setup.blocks.time.accuracy is not None:
        return
    # the kernel takes the field at the midpoint of a step: too few steps per cycle see another pulse
    per_cycle = 2.0 * math.pi / setup.pulse.fastest / setup.dt
    if per_cycle < STEPS_PER_CYCLE[1]:
        wanted = 2.0 * math.pi / setup.pulse.fastest / STEPS_PER_CYCLE[1]
        yield Finding(
            _step_key(setup),
            f"{per_cycle:.3g} steps per optical cycle do not resolve the field; take dt of {wanted:.3g} a.u. or less",
            _severity(setup, per_cycle < STEPS_PER_CYCLE[0]),
        )


def time_step(setup: Setup) -> Iterator[Finding]:
    """Yield a time step too long for the energies at play, or for the precision of the solver."""
    up, ip = setup.pulse.up, setup.ip
    initial = setup.blocks.initial
    packet = 0.5 * initial.k0**2 if isinstance(initial, GaussianInitial) else 0.0
    # the Cayley form turns a state of energy E by 2 atan(E dt / 2) instead of E dt: an error of E^3 dt^2 / 12 per time
    scales = {
        "the energy of the initial state": abs(setup.energy),
        "the kinetic energy of the packet": packet,
        "the classical cutoff, Ip + 3.17 Up": ip + 3.17 * up if up and setup.threshold is not None else 0.0,
    }
    name, energy = max(scales.items(), key=lambda item: item[1])
    # steps that the run finds are short enough
    if setup.blocks.time.accuracy is not None:
        return
    if energy * setup.dt > PHASE_PER_STEP[1]:
        yield Finding(
            _step_key(setup),
            f"dt times {name} ({energy:.4g} hartree) is {energy * setup.dt:.3g}: the phase of Crank-Nicolson is wrong by "
            f"{energy**3 * setup.dt**2 / 12:.2g} per unit of time; take dt below {PHASE_PER_STEP[1] / energy:.3g} a.u.",
            _severity(setup, energy * setup.dt > PHASE_PER_STEP[0]),
        )
    reach = max(abs(float(setup.x[0])), abs(float(setup.x[-1])))
    field = setup.pulse.peak(setup.t_final) * reach if setup.pulse.gauge == "length" else 0.0
    # in length gauge the field adds x E, which is largest at the walls
    largest = float(np.max(np.abs(setup.potential))) + field
    if largest * setup.dt > SOLVER_PHASE:
        yield Finding(
            _step_key(setup),
            f"dt times the largest potential on the grid ({largest:.4g} hartree) is {largest * setup.dt:.3g}, above "
            f"{SOLVER_PHASE:g}: the solver loses digits; take a shorter dt or a smaller box",
            "warning",
        )


def grid_spacing(setup: Setup) -> Iterator[Finding]:
    """Yield momenta that the grid does not resolve: two points per wavelength are the limit, four the recommendation."""
    initial, pulse = setup.blocks.initial, setup.pulse
    momenta = {}
    # largest momenta at play: of the packet with its width, of rescattered electrons (10 Up), of a bound state at the bottom of V
    if isinstance(initial, GaussianInitial):
        momenta["the packet, |k0| + 1.5 / width"] = abs(initial.k0) + 1.5 / initial.width
    if pulse.up > 0.0 and setup.threshold is not None:
        momenta["electrons of 10 Up"] = math.sqrt(20.0 * pulse.up)
    depth = setup.energy - float(np.min(setup.potential))
    momenta["the initial state at the bottom of the potential"] = math.sqrt(2.0 * max(depth, 0.0))
    name, highest = max(momenta.items(), key=lambda item: item[1])
    if highest * setup.dx > 0.5 * math.pi:
        yield Finding(
            "grid.points",
            f"dx = {setup.dx:.4g} bohr is {2 * math.pi / highest / setup.dx:.3g} points per wavelength for {name} "
            f"({highest:.4g} a.u. of momentum); use four or more, dx of {0.5 * math.pi / highest:.3g} bohr or less",
            "error" if highest * setup.dx > math.pi else "warning",
        )
    # central differences of A p need a phase A dx well below 1; the compact stencil has that phase exactly
    swing = pulse.peak_vector_potential(setup.t_final) * setup.dx
    if pulse.gauge == "velocity" and setup.blocks.grid.stencil == "three_point" and swing > 0.5:
        yield Finding(
            "grid.points",
            f"A dx reaches {swing:.3g}: the central difference of A p is poor; take a smaller dx, or stencil: numerov, which "
            "treats A exactly",
            "warning",
        )


def box_and_quiver(setup: Setup) -> Iterator[Finding]:
    """Yield a box or free space smaller than the quiver motion."""
    # nothing to quiver, or nothing to be ionised
    radius = setup.pulse.quiver
    if radius == 0.0 or setup.threshold is None:
        return
    # a free electron in the field moves by the quiver radius to either side
    centre = float(np.sum(setup.density * setup.x))
    room = min(centre - float(setup.x[0]), float(setup.x[-1]) - centre)
    # the absorber leaves an electron less room than the wall
    free = room - absorbers.width(setup.blocks.absorber)
    if room < radius:
        yield Finding(
            "grid.xmax",
            f"the wall is {room:.4g} bohr from the initial state, less than the quiver radius E0/omega^2 = {radius:.4g} bohr",
        )
    elif 0.0 < free < radius:
        yield Finding(
            "absorber",
            f"the absorber begins {free:.4g} bohr from the initial state, within the quiver radius E0/omega^2 = "
            f"{radius:.4g} bohr: it takes electrons that would return; widen grid",
            "warning",
        )


def absorber_strips(setup: Setup) -> Iterator[Finding]:
    """Yield strips that fill the box, or hold part of the initial state."""
    strip = absorbers.width(setup.blocks.absorber)
    if strip == 0.0:
        return
    box = float(setup.x[-1] - setup.x[0])
    key = "absorber.kmin" if setup.blocks.absorber.type == "manolopoulos" else "absorber.width"
    if 2.0 * strip >= box:
        yield Finding(key, f"two strips of {strip:.4g} bohr leave nothing of a box of {box:.4g} bohr")
        return
    if 4.0 * strip > box:
        yield Finding(
            key,
            f"the strips of {strip:.4g} bohr take {2 * strip / box:.0%} of the box of {box:.4g} bohr",
            "warning",
        )
    inside = (setup.x > setup.x[-1] - strip) | (setup.x < setup.x[0] + strip)
    part = float(np.sum(setup.density[inside]))
    if part > IN_ABSORBER[1]:
        yield Finding(
            key,
            f"{part:.2g} of the initial state lies in the absorber and will be lost; widen grid",
            "error" if part > IN_ABSORBER[0] else "warning",
        )


def absorber_reflection(setup: Setup) -> Iterator[Finding]:
    """Yield an absorber that reflects electrons of the momenta in the deck."""
    block, pulse = setup.blocks.absorber, setup.pulse
    strip = absorbers.width(block)
    if strip == 0.0 or 2.0 * strip >= float(setup.x[-1] - setup.x[0]):
        return
    momenta = []
    # an electron of 2 Up, the largest energy that the field gives directly
    if pulse.up > 0.0:
        momenta.append(2.0 * math.sqrt(pulse.up))
    initial = setup.blocks.initial
    if isinstance(initial, GaussianInitial) and initial.k0:
        momenta.append(abs(initial.k0))
    # above that k^2 / 2 comes near the top of the band of the lattice
    momenta = [k for k in momenta if 1e-6 < k * setup.dx < 1.5]
    if not momenta:
        return
    back = absorbers.reflection(block, setup.dx, np.array(momenta), setup.dt)
    worst = int(np.argmax(back))
    if back[worst] > REFLECTION:
        yield Finding(
            "absorber",
            f"electrons of momentum {momenta[worst]:.3g} a.u. come back with probability {back[worst]:.2g}; "
            + ("lower kmin" if block.type == "manolopoulos" else "change its strength or widen it"),
            "warning",
        )


def walls(setup: Setup) -> Iterator[Finding]:
    """Yield an initial state that feels the walls."""
    # the walls themselves carry none: the points beside them tell
    ends = float(max(setup.density[1], setup.density[-2]))
    if ends > WALL_DENSITY and not setup.blocks.potential.zero:
        yield Finding(
            "grid",
            f"|psi|^2 dx of the initial state at a wall is {ends:.2g} one spacing from it (should stay below {WALL_DENSITY:g}); "
            "widen the box",
            "warning",
        )


def bound_levels(setup: Setup) -> Iterator[Finding]:
    """Yield levels that are no bound states but states of the box."""
    levels, free = levels_of(setup.blocks.initial), setup.threshold
    if not levels or free is None or setup.blocks.potential.zero:
        return
    # levels above the threshold are standing waves of the box, whose energies move with its walls
    bound = setup.pencil.below(free)
    if max(levels) >= bound:
        key = "initial.level" if setup.blocks.initial.type == "eigenstate" else "initial.levels"
        holds = f"bound levels 0 to {bound - 1} only" if bound else "no bound level"
        yield Finding(
            key,
            f"level {max(levels)} is a state of the box, not of the potential, which holds {holds} on this grid",
            "warning",
        )


def squeezed_levels(setup: Setup) -> Iterator[Finding]:
    """Yield levels of the initial state and of the populations whose energies the walls change."""
    block, observed = setup.blocks.potential, setup.blocks.observed.populations
    levels = {*levels_of(setup.blocks.initial), *range(observed.levels if observed is not None else 0)}
    if not levels or block.zero or max(levels) >= CHECKED_LEVELS:
        return
    free = math.inf if setup.threshold is None else setup.threshold
    try:
        found = squeezed(
            lambda x: potentials.evaluate(block, x), setup.x[1:-1], setup.blocks.grid.stencil, levels, free
        )
    except NumericsError:
        return
    for level, (own, there) in found.items():
        if abs(own - there) > SQUEEZED * min(abs(own - free), abs(own)):
            yield Finding(
                "grid",
                f"the walls shape level {level}: its energy is {own:.8g} hartree between them and {there:.8g} in a box "
                "twice as wide; widen the box, unless it is what you mean",
                "warning",
            )


def degenerate_levels(setup: Setup) -> Iterator[Finding]:
    """Yield levels closer than rounding resolves, of which any combination is a solution.

    The eigensolver leaves a residual of about 4e-15 of the top of the spectrum, which mixes two states by that over their
    distance.  The levels of a symmetric potential are made even and odd in turn, so that two wells need no warning; of three or
    more wells, two levels of the same parity may lie as close.
    """
    observed = setup.blocks.observed.populations
    wanted = {
        f"initial.level{'s' * (setup.blocks.initial.type != 'eigenstate')}": levels_of(setup.blocks.initial)
    }
    wanted["observe"] = tuple(range(observed.levels)) if observed is not None else ()
    highest = max((max(levels) for levels in wanted.values() if levels), default=-1)
    if not 0 <= highest < CHECKED_LEVELS:
        return
    try:
        energies, _, _ = window_states(setup.dx, setup.inside, setup.blocks.grid.stencil, highest + 1)
    except NumericsError:
        return
    pencil = setup.pencil
    # rounding is relative to the top of the spectrum, not to the levels
    slack = MIXED * pencil.top
    # distance in number of two levels that can mix
    like = 1 if mirror(setup.inside) is None else 2
    for key, levels in wanted.items():
        for level in sorted(levels):
            low, high = (pencil.below(energies[level] + far) for far in (-slack, slack))
            count = high - low
            if low <= level - like or high > level + like:
                yield Finding(
                    key,
                    f"{count} levels lie within {slack:.1g} hartree of level {level}, closer than rounding resolves: which of "
                    "their combinations the run takes is arbitrary; give initial as a formula or a file",
                    "warning",
                )
                break


def field_length(setup: Setup) -> Iterator[Finding]:
    """Yield a run that ends within the pulse, and a pulse with a zero-frequency part."""
    duration = setup.pulse.duration
    if math.isfinite(duration) and setup.t_final < duration * (1.0 - 1e-6):
        yield Finding(
            "time.t_final",
            f"the run ends at {setup.t_final:.6g} a.u. ({format_quantity(setup.t_final, 'time', 3)}), before the last pulse does "
            f"({duration:.6g} a.u., {format_quantity(duration, 'time', 3)})",
            "warning",
        )
    yield from setup.pulse.check_tables(setup.t_final)
    yield from setup.pulse.check_residual(setup.t_final)


def photoelectron_window(setup: Setup) -> Iterator[Finding]:
    """Yield an energy window narrower than the spacing of the box states."""
    block = setup.blocks.observed.photoelectron
    widths = {} if block is None or block.gamma is None else {"observe": ("photoelectron", block.gamma)}
    for index, one in enumerate(setup.blocks.spectra):
        if isinstance(one, LineWindow):
            step = (one.energy[1] - one.energy[0]) / (one.points - 1)
            widths[f"spectra.{index}.gamma"] = "window", step if one.gamma is None else one.gamma
    # states of a box of length L at momentum k lie pi k / L apart
    energy = max(2.0 * setup.pulse.up, 0.1)
    spacing = math.pi * math.sqrt(2.0 * energy) / float(setup.x[-1] - setup.x[0])
    for key, (what, gamma) in widths.items():
        if gamma < 0.5 * spacing:
            yield Finding(
                key,
                f"{what}: gamma = {gamma:.3g} hartree resolves the single states of the box (spacing {spacing:.2g} "
                f"at {energy:.3g} hartree); widen grid, or take gamma above {0.5 * spacing:.2g}",
                "warning",
            )


def surfaces(setup: Setup) -> Iterator[Finding]:
    """Yield spectra that the end of the run does not allow, and surfaces of t-SURFF in the absorber or within the excursion."""
    pulse, blocks = setup.pulse, setup.blocks
    rest, largest = abs(pulse.residual(setup.t_final)), pulse.peak_vector_potential(setup.t_final)
    if blocks.spectra and largest and rest > REST * largest:
        yield Finding(
            "time.t_final",
            f"A = {rest:.3g} a.u. at the end, its largest value is {largest:.3g}: photoelectron spectra need a field that is "
            f"over; it ends at {pulse.duration:.6g} a.u.",
        )
    strip = absorbers.width(blocks.absorber)
    free = min(-float(setup.x[0]), float(setup.x[-1])) - strip
    for index, one in enumerate(blocks.spectra):
        if not isinstance(one, LineTsurff):
            continue
        key = f"spectra.{index}.radius"
        if one.radius > free - 4.0 * setup.dx:
            yield Finding(
                key,
                f"x = +-{one.radius:.4g} bohr does not lie before the absorber, which begins at {free:.4g}; take a radius of "
                f"{max(free - 10.0, 1.0):.4g}, or a grid wider by {one.radius - free + 10.0:.4g}",
            )
        if one.radius < pulse.quiver:
            yield Finding(
                key,
                f"x = +-{one.radius:.4g} bohr lies within the excursion of the electron, {pulse.quiver:.4g}; a radius of "
                f"{2.0 * pulse.quiver + 20.0:.4g} is advised",
            )


def _severity(setup: Setup, refused: bool) -> Literal["error", "warning"]:
    """Return how severe a coarse step is: `time.coarse: warn` lets the run go on."""
    return "error" if refused and setup.blocks.time.coarse == "refuse" else "warning"


def _step_key(setup: Setup) -> str:
    return "time.dt" if setup.blocks.time.dt is not None else "time.steps"
