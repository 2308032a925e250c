"""Physics checks of ``task: atom``: requests of a deck that its grid, steps or absorber cannot meet."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.physics.functions import remark_on
from qsim.tridiag.atom.polarization import frame_of
from qsim.tridiag.atom.problem import CORE, TURN, angular_estimate, potential_value
from qsim.tridiag.deck.central.given import TableAtom
from qsim.tridiag.deck.initial import Level
from qsim.tridiag.deck.photoelectrons import TsurffSpectrum
from qsim.tridiag.tdse import absorbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.tridiag.atom.evolution.propagator import AtomLattice
    from qsim.tridiag.atom.problem import Setting
    from qsim.tridiag.deck.atom import AtomDeck
    from qsim.tridiag.tdse.pulses import LaserField

__all__ = ["Setup", "findings"]

# Z dr0: above the first an error, above the second a warning
NUCLEUS = (0.5, 0.2)
STEPS_PER_CYCLE = (8, 20)
# dt times an energy of a photoelectron
PHASE = 2.0
# of the estimate of lmax, that weak fields do not need
LEAST_L = 5
# norm of a level beyond so much of the box, from which the wall shapes it
OUTER, SHAPED = 0.9, 1e-4
# A at the end, relative to its largest value
REST = 1e-3


@dataclass(frozen=True)
class Setup:
    """Input of the checks."""

    deck: AtomDeck
    pulse: LaserField
    setting: Setting
    lattice: AtomLattice

    @property
    def t_final(self) -> float:
        """Duration, a.u."""
        return self.setting.dt * self.setting.steps

    @property
    def fastest(self) -> float:
        """Momentum up to which electrons are expected, a.u.: ``sqrt(2 (10 Up + w)) + max A``."""
        a = self.pulse.peak_vector_potential(self.t_final)
        return math.sqrt(2.0 * (10.0 * self.pulse.up + self.pulse.fastest)) + (
            a if self.setting.gauge == "velocity" else 0.0
        )


def findings(setup: Setup) -> Iterator[Finding]:
    """Yield the findings of all checks."""
    for check in (
        nucleus,
        spacing,
        sampling,
        levels_in_box,
        populations_in_box,
        momenta,
        absorber,
        core,
        turning,
        spectra,
        tables,
    ):
        yield from check(setup)


def tables(setup: Setup) -> Iterator[Finding]:
    """Yield tables of a field that end within the run, and tables whose rows do not determine their curve."""
    if isinstance(setup.deck.atom, TableAtom):
        yield from remark_on(setup.deck.atom, setup.deck.atom.curve, "atom")
    yield from setup.pulse.check_tables(setup.t_final)


def nucleus(setup: Setup) -> Iterator[Finding]:
    """Yield a spacing at the nucleus that the Numerov scheme cannot take."""
    # the corrected first row of M2 has a pole at Z dr = 1.2
    charge, step = setup.lattice.charge, setup.lattice.grid.step
    if charge * step > NUCLEUS[1]:
        severe = charge * step > NUCLEUS[0]
        key = "grid.dr" if setup.deck.grid.map == "none" else "grid.map"
        yield Finding(
            key,
            f"the spacing {step:.4g} bohr at a nucleus of charge {charge:.4g} gives Z dr = {charge * step:.3g}, at most "
            f"{NUCLEUS[0]} is possible and {NUCLEUS[1]} advisable; take dr0 of {NUCLEUS[1] / charge:.3g} or less, or map: auto",
            "error" if severe else "warning",
        )


def spacing(setup: Setup) -> Iterator[Finding]:
    """Yield a spacing that cannot carry the fastest electrons."""
    if not setup.pulse.pulses:
        return
    # four points per wavelength
    fastest, widest = setup.fastest, setup.setting.dr
    if fastest and widest > math.pi / (2.0 * fastest):
        yield Finding(
            "grid.dr",
            f"electrons of momentum {fastest:.3g} need a spacing of at most pi/(2 k) = {math.pi / (2 * fastest):.3g} bohr, "
            f"found {widest:g}",
        )


def sampling(setup: Setup) -> Iterator[Finding]:
    """Yield steps too long for the carrier."""
    if not setup.pulse.fastest or setup.deck.time.accuracy is not None:
        return
    count = 2.0 * math.pi / (setup.pulse.fastest * setup.setting.dt)
    if count < STEPS_PER_CYCLE[1]:
        severe = count < STEPS_PER_CYCLE[0] and setup.deck.time.coarse == "refuse"
        need = 2.0 * math.pi / (setup.pulse.fastest * STEPS_PER_CYCLE[1])
        key = "time.steps" if setup.deck.time.dt is None else "time.dt"
        yield Finding(
            key,
            f"{count:.3g} steps per optical cycle; {STEPS_PER_CYCLE[1]} need dt of at most {need:.3g} a.u.",
            "error" if severe else "warning",
        )


def levels_in_box(setup: Setup) -> Iterator[Finding]:
    """Yield an initial level that is not in the box or below the nucleus' own."""
    from qsim.tridiag.atom.states.levels import Radial

    for index, one in enumerate(setup.deck.levels):
        key = "initial" if len(setup.deck.levels) == 1 else f"initial.{index}"
        radial = Radial(setup.lattice, one.l)
        count = radial.below(0.0)
        if count <= one.n - one.l - 1:
            yield Finding(
                key,
                f"a box of {setup.lattice.grid.wall:.4g} bohr holds {count} bound levels of l = {one.l}, so "
                f"that {one.name} is not among them; take grid.rmax of {_radius_of(setup, one.n):.4g}, or a lower level",
            )
            continue
        phi = radial.state(radial.energy(one.n - one.l - 1))
        edge = float(np.sum(phi[-25:] ** 2))
        if edge > 1e-8:
            yield Finding(
                key,
                f"{one.name} has {edge:.2g} of its norm at the wall of {setup.lattice.grid.wall:.4g} bohr; grid.rmax of "
                f"{_radius_of(setup, one.n):.4g} holds it",
                "error" if edge > 1e-2 else "warning",
            )


def populations_in_box(setup: Setup) -> Iterator[Finding]:
    """Yield levels of requested populations that the wall shapes: they are levels of the box, not of the atom."""
    from qsim.tridiag.atom.states.levels import Radial

    asked, lattice = [one.populations for one in setup.deck.observe if one.populations], setup.lattice
    if not asked:
        return
    nmax, shaped = asked[0].nmax, {}
    for l in range(min(nmax, setup.setting.lmax + 1)):
        radial = Radial(lattice, l)
        for n in range(l + 1, min(nmax, l + radial.below(0.0)) + 1):
            phi = radial.state(radial.energy(n - l - 1))
            outer = float(np.sum(phi[lattice.grid.r > OUTER * lattice.grid.wall] ** 2))
            if outer > SHAPED:
                shaped[n, l] = outer
    if shaped:
        names = ", ".join(Level(n=n, l=l).name for n, l in sorted(shaped))
        worst, highest = max(shaped.values()), max(n for n, _ in shaped)
        yield Finding(
            "observe",
            f"populations: the wall of {lattice.grid.wall:.4g} bohr shapes {names}, of whose norm up to {worst:.2g} "
            f"lies in its last tenth; grid.rmax of {_radius_of(setup, highest):.4g} holds them",
            "warning",
        )


def _radius_of(setup: Setup, n: int) -> float:
    """Return a radius that holds a level to 1e-8: its turning point far out and, fitted to n = 1 to 30, its tail."""
    charge = max(potential_value(setup.deck, lambda block: block.tail), 1.0)
    return (2.35 * n**2 + 11.5 * n) / charge


def momenta(setup: Setup) -> Iterator[Finding]:
    """Yield an lmax below what the field gives to the electron."""
    if isinstance(setup.deck.grid.l_max, str) or not setup.pulse.pulses:
        return
    gauge, a = setup.setting.gauge, setup.pulse.peak_vector_potential(setup.t_final)
    lowest = max((one.l for one in setup.deck.levels), default=0)
    # the estimate is that from which `auto` begins to grow
    need = lowest + angular_estimate(setup.pulse, a, gauge)
    if setup.setting.lmax < need - LEAST_L:
        yield Finding(
            "grid.l_max",
            f"the electron quivers by {setup.pulse.quiver:.3g} bohr with a momentum of {a:.3g} a.u., which takes lmax of about "
            f"{need} in {gauge} gauge, found {setup.setting.lmax}; auto finds it",
            "warning",
        )


def absorber(setup: Setup) -> Iterator[Finding]:
    """Yield an absorber that does not fit."""
    # a strip of most of the box leaves no room for the atom; within the excursion it takes returning electrons
    strip = absorbers.width(setup.deck.absorber)
    wall = setup.lattice.grid.wall
    if strip and strip > 0.7 * wall:
        yield Finding(
            "absorber",
            f"the absorber is {strip:.4g} bohr wide, the box only {wall:.4g}; grid.rmax of "
            f"{strip + 60.0:.4g} leaves room for the atom",
        )
    elif strip and wall - strip < setup.pulse.quiver:
        yield Finding(
            "grid.rmax",
            f"the electron quivers by {setup.pulse.quiver:.4g} bohr, the absorber begins at {wall - strip:.4g}; grid.rmax of "
            f"{2.0 * setup.pulse.quiver + strip + 30.0:.4g} is advised",
            "warning",
        )


def core(setup: Setup) -> Iterator[Finding]:
    """Yield velocity gauge at a dense core with too long steps."""
    # angular and radial parts of A.p cancel for high l only within dt^2
    if setup.setting.core > CORE:
        dt = setup.setting.dt * CORE / setup.setting.core
        yield Finding(
            "time.dt",
            f"velocity gauge with dt A (lmax + 1) / dr = {setup.setting.core:.3g} at the nucleus, above "
            f"{CORE:g}: the couplings of high l do not cancel there, so that every step is made in {setup.setting.parts} parts "
            f"and the core of high l is emptied after each; dt of {dt:.3g} needs one part, and length gauge always does",
            "warning",
        )


def turning(setup: Setup) -> Iterator[Finding]:
    """Yield length gauge with long steps in a large box."""
    if setup.setting.gauge != "length" or not setup.pulse.pulses:
        return
    # rotation angle of the outermost pairs in a step, with c < 0.6: the splitting error grows with its cube
    turn = setup.lattice.grid.wall * setup.pulse.peak(setup.t_final) * setup.setting.dt
    if turn > 2.0 * TURN:
        yield Finding(
            "laser.gauge",
            f"length gauge with rmax E dt = {turn:.3g}, above {2.0 * TURN:g}: couplings of neighbouring "
            f"l are split poorly far out; take dt "
            f"of {setup.setting.dt * 2.0 * TURN / turn:.3g}, or velocity gauge",
            "warning",
        )


def spectra(setup: Setup) -> Iterator[Finding]:
    """Yield spectra that the end of the run does not allow."""
    if not setup.deck.spectra:
        return
    # canonical momenta are final velocities only once A = 0
    rest, largest = abs(setup.pulse.residual(setup.t_final)), setup.pulse.peak_vector_potential(setup.t_final)
    if largest and rest > REST * largest:
        yield Finding(
            "time.t_final",
            f"A = {rest:.3g} a.u. at the end, its largest value is {largest:.3g}: photoelectron spectra "
            f"need a field that is over; "
            f"it ends at {setup.pulse.duration:.6g} a.u.",
        )
    for index, one in enumerate(setup.deck.spectra):
        if isinstance(one, TsurffSpectrum):
            yield from _sphere(setup, f"spectra.{index}.radius", one.radius)
        if one.polar is not None and not frame_of(setup.deck).planar:
            yield Finding(
                f"spectra.{index}.polar",
                "the run goes along the field, where azimuths are all alike: leave polar out, and set angles",
            )
        k = math.sqrt(2.0 * max(one.energy[1], 0.0))
        widest = setup.setting.dr
        # Numerov waves of k dr = 1 have a relative error of the energy of a few 1e-3
        if k * widest > 1.0:
            yield Finding(
                f"spectra.{index}.energy",
                f"the highest energy {one.energy[1]:.4g} hartree needs a spacing of at most 1/k = "
                f"{1.0 / k:.3g} bohr, found {widest:g}",
            )


def _sphere(setup: Setup, key: str, radius: float) -> Iterator[Finding]:
    """Yield a sphere of t-SURFF that lies in the absorber, or within the excursion of the electron."""
    # electrons must pass the sphere before they are absorbed, and must not come back through it
    free = setup.lattice.grid.wall - absorbers.width(setup.deck.absorber)
    if radius > free - 4.0 * setup.setting.dr:
        yield Finding(
            key,
            f"the sphere of {radius:.4g} bohr does not lie before the absorber, which begins at {free:.4g}; take a radius of "
            f"{max(free - 10.0, 1.0):.4g}, or grid.rmax of {radius + absorbers.width(setup.deck.absorber) + 10.0:.4g}",
        )
    if radius < setup.pulse.quiver:
        yield Finding(
            key,
            f"the sphere of {radius:.4g} bohr lies within the excursion of the electron, {setup.pulse.quiver:.4g}; a radius of "
            f"{2.0 * setup.pulse.quiver + 20.0:.4g} is advised",
        )
