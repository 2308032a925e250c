"""Collision decks against physics: whether box, grid and basis hold the waves."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput
from qsim.sturmian.deck.blocks import ANGLE
from qsim.sturmian.deck.collision import NearRange
from qsim.sturmian.radial import automatic, potentials

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.sturmian.deck.blocks import System
    from qsim.sturmian.deck.collision_symmetry import Settings
    from qsim.sturmian.driven.numbers import Numbers

POINTS_PER_WAVE = 5.0
# Angle, rad, above which eigenvectors on the contour become nearly dependent.
SAFE_ANGLE = 0.42
# Angle times points of the radial grid, up to which they do not: the condition of the eigenvectors is about
# exp(2.35 (n angle)^(1/2) - 4), within a factor of five (230 to 626 points, 0.1 to 0.3 rad), and 1e9 here.
TURNED = 110.0
# Share of the amplitude of the slowest electron that a contour of automatic length may return: of photoelectrons, and in
# collisions, where slow electrons are met alone and phases are wanted.
RETURNED, LITTLE = 1e-3, 1e-4
# Largest principal quantum number of the levels near which a contour of automatic length looks for slow electrons.
LEVELS = 6
# Hartree: energy of the slowest photoelectron that an automatic contour is made for, and twice the pull of one charge at its
# end, 1/120 bohr.
SLOWEST, PULL = 0.004, 1.0 / 60.0
# Bohr: longest automatic contour.
LONGEST = 400.0
# Share of the needed radius by which the smaller box of a larger R that is advised exceeds it.
ROOMY = 1.05
# The same share from which a given contour is worth a warning.
REFLECTED = 0.02
# Share of the estimated ionisation energy below which a photon ionises nothing for sure.
SURE = 0.9
BOUND_LEVELS = "bound levels belong to task: response"
HARTREE_EV = 27.211386245981
# Hartree: distance of a total energy to a level, where a channel opens.
NEAR_LEVEL = 1e-6


def depth_of(system: System) -> float:
    """Return the energy that holds the last electron to the nucleus or core, hartree."""
    return 0.5 * max(potentials.OneBody(system.potential, system.Z).charge, 1.0) ** 2


def ionisation_of(settings: Settings) -> float:
    """Return an estimate of the energy that removes one electron from the initial state, hartree."""
    charge, initial = (
        potentials.OneBody(settings.system.potential, settings.system.Z).charge,
        settings.initial,
    )
    return automatic.ionisation(max(charge, 1.0), initial.L, initial.S, initial.root)


def totals(settings: Settings) -> list[float]:
    """Return the energies of both electrons together, hartree."""
    if settings.task.process == "resonances":
        return settings.task.sought
    if settings.photons:
        lost = ionisation_of(settings) + depth_of(settings.system)
        return [value - lost for value in settings.photons]
    depth = depth_of(settings.system) if settings.task.process == "e_h" else 0.0
    return [value - depth for value in settings.energies]


def fastest(settings: Settings) -> float | None:
    """Return the largest wave number of an electron, 1/bohr: of one that leaves the other in 1s; None without energies."""
    energies, depth = totals(settings), depth_of(settings.system)
    if not energies:
        return None
    return math.sqrt(2.0 * max(max(energies) + depth, depth))


def safe_angle(points: int) -> float:
    """Return the largest angle of a contour, rad, at which the eigenvectors on a radial grid of n points are no danger."""
    return min(SAFE_ANGLE, max(0.01, math.floor(100.0 * TURNED / points) / 100.0))


def charge_of(settings: Settings) -> float:
    """Return the charge that an electron far outside sees of the nucleus or core."""
    return potentials.OneBody(settings.system.potential, settings.system.Z).charge


def contour_length(settings: Settings, angle: float, R: float) -> float:
    """Return the length of a contour from R, bohr, that returns next to nothing of the slowest electron; 0 without any."""
    if settings.task.by_photons:
        # The estimate of the threshold is good to some per cent only: no electron slower than this is waited for.
        first = max(min(totals(settings)) + depth_of(settings.system), SLOWEST)
        k = math.sqrt(2.0 * first + PULL * max(charge_of(settings) - 1.0, 0.0))
        return math.ceil(min(decay_length(k, angle, RETURNED), LONGEST))
    if settings.task.process != "e_h":
        return 0.0
    open_, closed = slowest(settings, LEVELS)
    length = decay_length(open_, angle, LITTLE)
    if closed is not None:
        # A closed channel decays as exp(-kappa r) from the nucleus on, and on the contour by its real part.
        reach = -0.5 * math.log(LITTLE) / closed
        length = max(length, (reach - R) / math.cos(angle))
    return math.ceil(min(length, LONGEST))


def decay_length(k: float, angle: float, share: float) -> float:
    """Return the length of a contour, bohr, that returns a share of the amplitude of a wave of k, 1/bohr."""
    # exp(-2 k l sin(angle)) is the share: the wave decays on the way out and on the way back.
    return -math.log(share) / (2.0 * k * math.sin(angle))


def slowest(settings: Settings, highest: int) -> tuple[float, float | None]:
    """Return the wave numbers of the slowest open and the nearest closed channel of electron impact, 1/bohr.

    Levels up to n = `highest` are looked at, `-Z^2 / 2 n^2` in a Coulomb field; in others that of the target alone.  None where
    every channel is open.
    """
    depth = depth_of(settings.system)
    count = highest if settings.system.potential.type == "coulomb" else 1
    levels = [-depth / n**2 for n in range(1, count + 1)]
    gaps = [E - level for E in totals(settings) for level in levels]
    open_ = min(gap for gap in gaps if gap > 0.0)
    closed = [-gap for gap in gaps if gap < 0.0]
    return math.sqrt(2.0 * open_), math.sqrt(2.0 * min(closed)) if closed else None


def physics(settings: Settings, numbers: Numbers, bounds: NDArray[np.complex128]) -> Iterator[Finding]:
    """Yield the mistakes in grid, box and basis for the waves of the collision."""
    task, system = settings.task, settings.system
    points = numbers.points(float(system.Z))
    # On the whole grid the safe angle depends on the number of points, among functions it does
    # not.
    if numbers.angle > (safe := safe_angle(points) if numbers.whole else SAFE_ANGLE):
        text = (
            f"at {numbers.angle:g} rad the eigenvectors on a grid of {points} points become nearly dependent"
        )
        yield Finding(
            "grid.ecs.angle", f"{text}, and the solver slow or wrong; {min(ANGLE, safe):g} is safe", "warning"
        )
    if numbers.r0 is not None and numbers.r0 > numbers.R * (1.0 + 1e-12):
        text = f"the well ends at r0 = {numbers.r0:g}, beyond R = {numbers.R:g} bohr"
        yield Finding("basis.generating.r0", text)
    charge = potentials.OneBody(system.potential, system.Z).charge
    # Without a target nothing else has a meaning.
    if charge < 1.0 and task.process == "e_h":
        yield Finding(
            "system.potential", f"a target of charge {charge:g} holds no electron for another one to hit"
        )
        return
    depth, energies = depth_of(system), totals(settings)
    key = {"e_h": "task.energy", "photo": "task.excess", "born": "task.ejected"}.get(
        task.process, "task.near"
    )
    if task.by_photons:
        yield from _photons(settings, numbers)
    if task.process == "resonances":
        yield from _below_the_ion(settings, depth)
    yield from _box(settings, numbers, depth)
    yield from _contour(settings, numbers, charge)
    if task.process == "e_h" and system.potential.type == "coulomb":
        yield from _thresholds(energies, depth, key)
    positive = [value for value in energies if value > 0.0]
    if positive and task.process != "resonances" and not task.by_photons:
        # of an electron that takes half
        wave = 2.0 * math.pi / math.sqrt(min(positive))
        if wave > 0.5 * numbers.R:
            text = f"the box of {numbers.R:g} bohr is too small for electrons of {0.5 * min(positive):.3g} hartree each, "
            text += f"whose waves are {wave:.3g} bohr long"
            yield Finding("grid.R", f"{text}; give {math.ceil(2.0 * wave)} bohr at least, or a larger energy")
    k_max = fastest(settings)
    if k_max is None:
        return
    yield from _resolution(numbers, bounds, k_max)
    if not numbers.whole:
        yield from _functions(numbers, bounds, k_max, min(energies))


def _below_the_ion(settings: Settings, depth: float) -> Iterator[Finding]:
    """Yield energies at which no electron can leave the other one, so that what lies there is bound."""
    near = settings.task.near
    if isinstance(near, NearRange):
        return
    for k, value in enumerate(settings.task.sought):
        if value <= -depth:
            place = f"task.near.{k}" if isinstance(near, list) else "task.near"
            text = f"{value:g} hartree is below the ground state of the ion, {-depth:g}, where states are bound and no resonances"
            yield Finding(place, f"{text}; give an energy above it, or task: bound")


def _photons(settings: Settings, numbers: Numbers) -> Iterator[Finding]:
    """Yield photons that ionise nothing for sure, and levels that the box does not hold."""
    yield from _too_small(settings)
    yield from _sharing(settings)
    levels, Z = settings.task.levels, float(settings.system.Z)
    radius = 2.0 * levels**2 / Z + 8.0 / Z
    if "levels" in settings.task.model_fields_set and radius > numbers.R:
        text = f"n = {levels} needs R >= {radius:.3g} bohr ((2 n^2 + 8)/Z); the box has {numbers.R:g}"
        yield Finding("task.levels", f"{text}; give fewer levels or a larger grid.R")


def _too_small(settings: Settings) -> Iterator[Finding]:
    """Yield the first energy that ionises nothing for sure."""
    task, need, depth = settings.task, ionisation_of(settings), depth_of(settings.system)
    for k, value in enumerate(settings.photons):
        if value < SURE * need:
            text = f"{_ev(value)} is below the ionisation energy of this state, about {_ev(need)}"
            place = f"task.photon.{k}" if isinstance(task.photon, list) else "task.photon"
            yield Finding(place, f"{text}; {BOUND_LEVELS}")
            return
    for k, value in enumerate(settings.energies):
        if value <= -depth:
            text = f"an excess of {_ev(value)} frees no electron: the ion alone has {_ev(-depth)}"
            place = f"task.excess.{k}" if isinstance(task.excess, list) else "task.excess"
            yield Finding(place, f"{text}; {BOUND_LEVELS}")
            return


def _sharing(settings: Settings) -> Iterator[Finding]:
    """Yield energy sharing of two electrons, which photon energies do not have, where the deck asks for it."""
    task = settings.task
    wanted = [name for name in ("sdcs", "fdcs") if name in task.observables]
    if not wanted or "observables" not in task.model_fields_set:
        return
    double = ionisation_of(settings) + depth_of(settings.system)
    if max(totals(settings)) < 0.0:
        text = f"{wanted[0]}: no energy sharing below double break-up (about {_ev(double)}); leave it out"
    else:
        text = (
            f"{wanted[0]} needs two free electrons; give energies above double break-up as a positive excess"
        )
    yield Finding("task.observables", text)


def _ev(value: float) -> str:
    return f"{value * HARTREE_EV:.5g} eV"


def _contour(settings: Settings, numbers: Numbers, charge: float) -> Iterator[Finding]:
    """Yield a contour on which the slowest incident electron does not decay."""
    if settings.task.process != "e_h":
        return
    energy = min(settings.energies)
    returned = numbers.reflection(math.sqrt(2.0 * energy), charge)
    if returned > REFLECTED:
        text = f"{100.0 * returned:.0f} % of the wave of an electron of {energy:.3g} hartree come back from the end of a "
        text += f"contour of {numbers.length:g} bohr at {numbers.angle:g} rad"
        fix = f"give about {contour_length(settings, numbers.angle, numbers.R):g} bohr, or auto"
        yield Finding("grid.ecs.length", f"{text}; {fix}", "warning")


def _functions(
    numbers: Numbers, bounds: NDArray[np.complex128], k_max: float, lowest: float
) -> Iterator[Finding]:
    """Yield numbers of Sturmian functions that are too small for the fastest wave or too large for the grid."""
    # A box of length R holds k R / pi half waves; the measured surplus is 30 % and ten
    # functions for the tail of the well and the nucleus.
    need = math.ceil(1.3 * k_max * numbers.R / math.pi + 10.0)
    if min(numbers.sizes) < need:
        text = (
            f"{min(numbers.sizes)} functions do not hold waves of {k_max:.3g} per bohr in {numbers.R:g} bohr"
        )
        yield Finding("basis.N", f"{text}: the fastest channel would be lost; give {need} at least")
    points = (bounds.size - 1) * (numbers.order - 1) - 1
    if max(numbers.sizes) > points // 2:
        text = f"{max(numbers.sizes)} functions, but the radial grid has {points} points; give at most half as many"
        yield Finding("basis.N", text)
    if numbers.energy is None and lowest <= 0.0:
        text = "outgoing functions of the total energy need a positive one"
        yield Finding("basis.energy", f"{text}; below the ionisation threshold take basis: fedvr")


def _box(settings: Settings, numbers: Numbers, depth: float) -> Iterator[Finding]:
    """Yield a contour that begins inside the target."""
    if settings.task.process in ("photo", "born"):
        initial = settings.initial
        # The initial state's own radius for photons and fast charges; for electrons the 1s
        # target, whose density has fallen to exp(-32) there.
        charge = math.sqrt(2.0 * depth)
        need = automatic.radius(
            automatic.ionisation(charge, initial.L, initial.S, initial.root), settings.system.Z
        )
    else:
        need = 16.0 / math.sqrt(2.0 * depth)
    if need > numbers.R:
        text = f"the contour begins at R = {numbers.R:g} bohr, inside of the target"
        yield Finding("grid.R", f"{text}; its electrons need {need:.3g} bohr")
    yield from _settled(settings, numbers)


def _settled(settings: Settings, numbers: Numbers) -> Iterator[Finding]:
    """Yield a contour that begins where the potential is not yet ``-charge / r``; the error runs have a smaller box."""
    system = settings.system
    Z = float(system.Z)
    try:
        need = potentials.OneBody(system.potential, Z).settled_from()
    except InvalidInput as error:
        yield Finding(error.key, str(error))
        return
    boxes = [numbers.coarser(Z).R, numbers.R] if settings.task.errors else [numbers.R]
    if min(boxes) >= need:
        return
    # Boxes end with an element, whose width depends on R.
    enough, elements = need, None if isinstance(numbers.elements, tuple) else numbers.elements
    while settings.task.errors and ROOMY * need > replace(numbers, R=enough, elements=elements).coarser(Z).R:
        enough *= 1.02
    text = f"the contour begins at R = {numbers.R:g} bohr"
    if need <= numbers.R:
        text += f", and at {min(boxes):.4g} bohr in the smaller box that tells the error"
    text += f", but the potential is -charge/r from {need:.4g} bohr on"
    yield Finding(
        "grid.R", f"{text}; give {math.ceil(enough)} bohr at least, or a potential of shorter range"
    )


def _thresholds(energies: list[float], depth: float, key: str) -> Iterator[Finding]:
    for k, value in enumerate(energies):
        if value >= 0.0:
            if value < NEAR_LEVEL:
                yield Finding(f"{key}.{k}", "the total energy is zero: the ionisation threshold itself")
            continue
        # Levels of a hydrogenic target are -depth / n^2.
        n = max(1, round(math.sqrt(depth / -value)))
        if abs(value + depth / n**2) < NEAR_LEVEL:
            text = f"the total energy {value:g} hartree is the level n = {n} of the target: a channel opens there"
            yield Finding(f"{key}.{k}", f"{text}; take an energy above or below it")


def _resolution(numbers: Numbers, bounds: NDArray[np.complex128], k_max: float) -> Iterator[Finding]:
    # On the contour waves decay and need no resolution of their own.
    widths = np.diff(bounds[bounds.imag == 0.0].real)
    wave = 2.0 * math.pi / k_max
    points = wave * (numbers.order - 1) / float(widths.max())
    if points < POINTS_PER_WAVE:
        text = f"{points:.2g} points per wavelength where elements are {widths.max():.3g} bohr wide and the fastest waves "
        fix = "give a higher order, or elements: auto"
        yield Finding("grid.order", f"{text}{wave:.3g} bohr long, but {POINTS_PER_WAVE:g} are needed; {fix}")
