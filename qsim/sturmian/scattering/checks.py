"""What a collision deck gets wrong: keys that contradict each other, and numbers that cannot hold the physics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.sturmian.deck.blocks import Gsf, SquareWell, as_list
from qsim.sturmian.deck.collision import Scatter
from qsim.sturmian.radial import automatic, potentials
from qsim.sturmian.two_electron import angular

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.sturmian.deck.model import SturmianDeck
    from qsim.sturmian.scattering.setup import Numbers

POINTS_PER_WAVE = 5.0
SAFE_ANGLE = 0.42  # rad, above which eigenvectors on the contour become nearly dependent
NEAR_LEVEL = 1e-6  # hartree: distance of a total energy to a level, where a channel opens
KEYS = {
    "e_h": ("energy",),
    "photo": ("excess", "gauges"),
    "born": ("incident", "q", "ejected"),
    "resonances": ("near",),
}
OWN = ("energy", "excess", "gauges", "incident", "q", "near")
SCANNED = ("N", "l_max", "R", "order", "energy")


def energies_of(deck: SturmianDeck) -> list[float]:
    """Return the energies of a deck: impact energies, or excess energies, from the task or from ``scan.energy``."""
    task = deck.task
    assert isinstance(task, Scatter)
    if task.process == "born":
        return [sum(task.ejected or [])]
    given = task.energy if task.process == "e_h" else task.excess
    if given is None and deck.scan is not None and deck.scan.energy:
        return list(deck.scan.energy)
    return [] if given is None else as_list(given)


def of_deck(deck: SturmianDeck) -> Iterator[Finding]:
    """Yield contradictions that need no calculation."""
    task = deck.task
    assert isinstance(task, Scatter)
    if deck.run.precision != "double":
        yield Finding("run.precision", f"sturmian runs in double precision, not {deck.run.precision}")
    yield from deck.grid.check()
    yield from _keys(deck, task)
    yield from _channels(deck, task)
    yield from _basis(deck)
    if deck.states is not None:
        yield Finding(
            "states", "states are those of task: bound; a collision begins with the state of initial"
        )
    if deck.extrapolate is not None:
        yield Finding(
            "extrapolate", "this block belongs to task: bound; a collision takes channels.l_max as it is"
        )
    if deck.scan is not None:
        yield from _scan(deck, task)
    initial = getattr(deck, "initial", None)
    if initial is not None and "initial" in deck.model_fields_set and task.process in ("e_h", "resonances"):
        text = (
            "the target of e_h is the 1s level"
            if task.process == "e_h"
            else "resonances have no initial state"
        )
        yield Finding("initial", f"{text}; this block belongs to photo and born")


def _keys(deck: SturmianDeck, task: Scatter) -> Iterator[Finding]:
    own = KEYS[task.process]
    for key in OWN:
        if key in task.model_fields_set and key not in own and getattr(task, key) is not None:
            place = next(name for name, keys in KEYS.items() if key in keys)
            yield Finding(
                f"task.{key}", f"{key} belongs to process: {place}, but the deck has process: {task.process}"
            )
    scanned = deck.scan is not None and deck.scan.energy is not None
    for key in own:
        if key == "gauges" or getattr(task, key) is not None:
            continue
        if key in ("energy", "excess") and scanned:
            continue
        yield Finding(f"task.{key}", f"required for process: {task.process}")
    yield from _energies(deck, task, own[0])
    yield from _ejected(deck, task)


def _energies(deck: SturmianDeck, task: Scatter, key: str) -> Iterator[Finding]:
    energies = energies_of(deck)
    for k, value in enumerate(energies):
        if value in energies[:k]:
            yield Finding(f"task.{key}.{k}", f"the energy {value:g} hartree is a duplicate")
    if len(set(task.gauges)) != len(task.gauges):
        yield Finding("task.gauges", "a gauge is a duplicate")
    if task.process == "e_h" and deck.system.potential.type == "coulomb":
        level = -0.5 * deck.system.Z**2
        for k, value in enumerate(energies):
            if (
                value + level <= 0.0
                and {"sdcs", "fdcs"} & set(task.observables)
                and "observables" in task.model_fields_set
            ):
                text = (
                    f"{value:g} hartree is below the ionisation energy {-level:g}: there is no energy sharing"
                )
                yield Finding(f"task.energy.{k}", f"{text}; leave sdcs and fdcs out of observables")


def _ejected(deck: SturmianDeck, task: Scatter) -> Iterator[Finding]:
    energies = energies_of(deck)
    if task.ejected is not None and task.process == "photo" and task.excess is not None:
        total = sum(task.ejected)
        if any(abs(value - total) > 1e-6 * total for value in as_list(task.excess)):
            yield Finding(
                "task.ejected",
                f"the two energies add up to {total:g} hartree, which is not the excess energy",
            )
    if task.ejected is not None and task.process == "e_h" and deck.system.potential.type == "coulomb":
        total = sum(task.ejected)
        if any(abs(value - 0.5 * deck.system.Z**2 - total) > 1e-6 * total for value in energies):
            yield Finding(
                "task.ejected", f"the two energies add up to {total:g} hartree, which is not the total energy"
            )
    if "fdcs" in task.observables and deck.system.potential.type != "coulomb":
        yield Finding(
            "task.observables",
            "fdcs takes the phases of pure Coulomb waves; this system has another potential",
        )
    if "acceleration" in task.gauges and task.process == "photo" and deck.system.potential.type != "coulomb":
        yield Finding("task.gauges", "the acceleration is that in the field -Z/r; take length and velocity")


def _channels(deck: SturmianDeck, task: Scatter) -> Iterator[Finding]:
    from qsim.sturmian.scattering.problem import initial_of

    channels, initial = deck.channels, initial_of(deck)
    if channels.pairs is not None and channels.l_max is not None:
        yield Finding("channels.l_max", "give either l_max or a list of pairs, not both")
    if channels.parity != "natural":
        text = "a collision from an s level reaches natural parity, (-1)^L, only"
        yield Finding("channels.parity", f"{text}; leave it out")
    for name in ("L", "S"):
        values = as_list(getattr(channels, name))
        for k, value in enumerate(values):
            if value in values[:k]:
                yield Finding(f"channels.{name}.{k}", f"{name} = {value} is a duplicate")
    if task.process in ("photo", "born") and channels.S is not None and as_list(channels.S) != [initial.S]:
        yield Finding(
            "channels.S",
            f"photons and fast charges keep the spin, S = {initial.S} of the initial state; leave it out",
        )
    yield from _sectors(deck, task)


def _sectors(deck: SturmianDeck, task: Scatter) -> Iterator[Finding]:
    from qsim.sturmian.scattering.problem import initial_of, pairs_of, sectors_of

    channels, initial = deck.channels, initial_of(deck)
    sectors = sectors_of(deck)
    for k, (la, lb) in enumerate(channels.pairs or []):
        if not any(angular.allowed(sector.L, la, lb) for sector in sectors):
            Ls = ", ".join(str(L) for L in dict.fromkeys(sector.L for sector in sectors))
            text = f"({la}, {lb}) cannot couple to L = {Ls} with parity (-1)^L"
            yield Finding(f"channels.pairs.{k}", text)
    for sector in sectors:
        pairs = pairs_of(deck, sector)
        if not pairs:
            key = "channels.pairs" if channels.pairs is not None else "channels.l_max"
            yield Finding(key, f"no pair (la, lb) couples to L = {sector.L}; give l_max {sector.L} at least")
        elif task.process == "e_h" and (0, sector.L) not in pairs:
            key = "channels.pairs" if channels.pairs is not None else "channels.l_max"
            yield Finding(
                key, f"the pair (0, {sector.L}) of the incident electron is missing for L = {sector.L}"
            )
        if task.process == "photo" and abs(sector.L - initial.L) != 1:
            text = f"a photon does not lead from L = {initial.L} to L = {sector.L} with natural parity"
            yield Finding("channels.L", f"{text}; give {initial.L + 1}")


def _basis(deck: SturmianDeck) -> Iterator[Finding]:
    basis = deck.basis
    if "basis" not in deck.model_fields_set or not isinstance(basis, Gsf):
        if deck.solver.type == "dense":
            text = "dense makes the matrix of Sturmian functions; with basis: fedvr take matrix_free"
            yield Finding("solver.type", text)
        return
    assert isinstance(deck.task, Scatter)
    if deck.task.process == "resonances":
        yield Finding("basis.type", "resonances are found in the whole grid; give basis: fedvr")
        return
    if basis.boundary == "bound":
        yield Finding("basis.boundary", "a collision needs outgoing functions; leave it out")
    if not isinstance(basis.energy, str) and basis.energy <= 0.0:
        text = f"a collision needs functions of a positive energy, found {basis.energy:g}"
        yield Finding("basis.energy", f"{text}; total takes that of the collision")
    if basis.auxiliary is not None:
        yield Finding("basis.auxiliary", "a collision takes the potential of the system as U; leave it out")
    if not isinstance(basis.generating, SquareWell):
        text = f"functions of {basis.generating.type} do not hold outgoing waves of other energies"
        fix = "give square_well with a tail of 4 bohr, or basis: fedvr"
        yield Finding("basis.generating.type", f"{text}, and converge to wrong cross sections; {fix}")
        return
    if basis.generating.tail == 0.0:
        text = "without a tail the edge of the well reflects channels of other energies by some per cent; 4 bohr cure it"
        yield Finding("basis.generating.tail", text, "warning")
    sizes = as_list(basis.N)
    if len(set(sizes)) > 1:
        yield Finding("basis.N", "a collision needs the same number of functions of every l; give one number")


def _scan(deck: SturmianDeck, task: Scatter) -> Iterator[Finding]:
    assert deck.scan is not None
    given = deck.scan.given()
    for key, values in given.items():
        if key not in SCANNED:
            yield Finding(
                f"scan.{key}", f"a collision scans {', '.join(SCANNED)}; {key} belongs to task: bound"
            )
        for k, value in enumerate(values):
            if value in values[:k]:
                yield Finding(f"scan.{key}.{k}", f"the value {value:g} is a duplicate")
    if "energy" in given:
        yield from _scanned_energies(task, given["energy"])
    if "N" in given and not (isinstance(deck.basis, Gsf) and "basis" in deck.model_fields_set):
        yield Finding("scan.N", "N belongs to basis: gsf, but the basis is the whole grid")
    if "l_max" in given and deck.channels.pairs is not None:
        yield Finding("scan.l_max", "channels lists its pairs; give channels.l_max")
    if "R" in given and isinstance(deck.grid.elements, list):
        yield Finding("scan.R", "the bounds of the elements are given, and R with them; give their number")


def _scanned_energies(task: Scatter, values: list[float]) -> Iterator[Finding]:
    key = "energy" if task.process == "e_h" else "excess"
    if task.process not in ("e_h", "photo"):
        yield Finding("scan.energy", f"process: {task.process} has no energies to scan")
    elif getattr(task, key) is not None:
        yield Finding("scan.energy", f"give the energies once, here or as task.{key}")
    for k, value in enumerate(values):
        if value <= 0.0:
            yield Finding(f"scan.energy.{k}", f"a collision needs a positive energy, found {value:g}")


# -------------------------------------------------------------------------------------------- numbers


def depth_of(deck: SturmianDeck) -> float:
    """Return the energy that holds the last electron to the nucleus or core, hartree."""
    return 0.5 * max(potentials.OneBody(deck.system.potential, deck.system.Z).charge, 1.0) ** 2


def fastest(deck: SturmianDeck) -> float | None:
    """Return the largest wave number of an electron, 1/bohr: of one that leaves the other in 1s; None without energies."""
    task, depth = deck.task, depth_of(deck)
    assert isinstance(task, Scatter)
    if task.process == "resonances":
        energies = list(task.near or [])
    elif task.process == "e_h":
        energies = [value - depth for value in energies_of(deck)]
    else:
        energies = energies_of(deck)
    if not energies:
        return None
    return math.sqrt(2.0 * max(max(energies) + depth, depth))


def of_numbers(deck: SturmianDeck, numbers: Numbers, bounds: NDArray[np.complex128]) -> Iterator[Finding]:
    """Yield what grid, box and basis do to the waves of the collision."""
    task = deck.task
    assert isinstance(task, Scatter)
    if numbers.angle > SAFE_ANGLE:
        text = f"at {numbers.angle:g} rad the eigenvectors on the contour become nearly dependent"
        yield Finding("grid.ecs.angle", f"{text}, and the solver slow or wrong; 0.3 is safe", "warning")
    if numbers.r0 is not None and numbers.r0 > numbers.R * (1.0 + 1e-12):
        text = f"the well ends at r0 = {numbers.r0:g}, beyond R = {numbers.R:g} bohr"
        yield Finding("basis.generating.r0", text)
    charge = potentials.OneBody(deck.system.potential, deck.system.Z).charge
    if charge < 1.0 and task.process == "e_h":
        yield Finding(
            "system.potential", f"a target of charge {charge:g} holds no electron for another one to hit"
        )
        return
    depth = depth_of(deck)
    energies = [value - depth for value in energies_of(deck)] if task.process == "e_h" else energies_of(deck)
    if task.process == "resonances":
        energies = list(task.near or [])
    key = {"e_h": "task.energy", "photo": "task.excess", "born": "task.ejected"}.get(
        task.process, "task.near"
    )
    yield from _box(deck, numbers, depth)
    if task.process == "e_h" and deck.system.potential.type == "coulomb":
        yield from _thresholds(energies, depth, key)
    positive = [value for value in energies if value > 0.0]
    if positive and task.process != "resonances":
        wave = 2.0 * math.pi / math.sqrt(min(positive))  # of an electron that takes half
        if wave > 0.5 * numbers.R:
            text = f"the box of {numbers.R:g} bohr is too small for electrons of {0.5 * min(positive):.3g} hartree each, "
            text += f"whose waves are {wave:.3g} bohr long"
            yield Finding("grid.R", f"{text}; give {math.ceil(2.0 * wave)} bohr at least, or a larger energy")
    k_max = fastest(deck)
    if k_max is None:
        return
    yield from _resolution(numbers, bounds, k_max)
    if not numbers.whole:
        yield from _functions(numbers, bounds, k_max, min(energies))


def _functions(
    numbers: Numbers, bounds: NDArray[np.complex128], k_max: float, lowest: float
) -> Iterator[Finding]:
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


def _box(deck: SturmianDeck, numbers: Numbers, depth: float) -> Iterator[Finding]:
    """Yield a contour that begins inside the target."""
    from qsim.sturmian.scattering.problem import initial_of

    assert isinstance(deck.task, Scatter)
    if deck.task.process in ("photo", "born"):
        initial = initial_of(deck)
        charge = math.sqrt(2.0 * depth)
        need = automatic.radius(
            automatic.ionisation(charge, initial.L, initial.S, initial.root), deck.system.Z
        )
    else:
        need = 16.0 / math.sqrt(2.0 * depth)
    if need > numbers.R:
        text = f"the contour begins at R = {numbers.R:g} bohr, inside of the target"
        yield Finding("grid.R", f"{text}; its electrons need {need:.3g} bohr")


def _thresholds(energies: list[float], depth: float, key: str) -> Iterator[Finding]:
    for k, value in enumerate(energies):
        if value >= 0.0:
            if value < NEAR_LEVEL:
                yield Finding(f"{key}.{k}", "the total energy is zero: the ionisation threshold itself")
            continue
        n = max(1, round(math.sqrt(depth / -value)))
        if abs(value + depth / n**2) < NEAR_LEVEL:
            text = f"the total energy {value:g} hartree is the level n = {n} of the target: a channel opens there"
            yield Finding(f"{key}.{k}", f"{text}; take an energy above or below it")


def _resolution(numbers: Numbers, bounds: NDArray[np.complex128], k_max: float) -> Iterator[Finding]:
    widths = np.diff(bounds[bounds.imag == 0.0].real)
    wave = 2.0 * math.pi / k_max
    points = wave * (numbers.order - 1) / float(widths.max())
    if points < POINTS_PER_WAVE:
        text = f"{points:.2g} points per wavelength where elements are {widths.max():.3g} bohr wide and the fastest waves "
        fix = "give a higher order, or elements: auto"
        yield Finding("grid.order", f"{text}{wave:.3g} bohr long, but {POINTS_PER_WAVE:g} are needed; {fix}")
