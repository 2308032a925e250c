"""Consistency rules of a collision deck: key against key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.sturmian.deck import photon_rules
from qsim.sturmian.deck.blocks import Gsf, SquareWell, as_list
from qsim.sturmian.deck.collision import EnergyRange, NearRange, Scatter
from qsim.sturmian.deck.collision_symmetry import Sector, energies_of, initial_of, pairs_of, sectors_of
from qsim.sturmian.deck.photon import DETAILS, ExcessRange, values_of
from qsim.sturmian.deck.shared_rules import numbers_and_grid, scanned, symmetries
from qsim.sturmian.deck.symmetry import allowed, parity_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.sturmian.deck.model import SturmianDeck

KEYS = {
    "e_h": ("energy",),
    "photo": ("excess", "gauges", "photon", "threshold", "compare"),
    "born": ("ejected", "incident", "q"),
    "resonances": ("near",),
}
OWN = ("energy", "excess", "gauges", "photon", "threshold", "compare", "incident", "q", "near")
# Keys that no deck has to give: with a default, or instead of another one.
OPTIONAL = ("gauges", "photon", "threshold", "compare")
# Hartree: largest energy that counts for a scattering length, k = 0.25; fewest energies.
SLOW, SLOW_ENERGIES = 0.03125, 4
SCANNED = ("N", "l_max", "R", "order", "angle", "length", "energy")


def of_deck(deck: SturmianDeck) -> Iterator[Finding]:
    """Yield contradictions that need no calculation."""
    task = deck.task
    assert isinstance(task, Scatter)
    yield from numbers_and_grid(deck)
    yield from _keys(deck, task)
    yield from _channels(deck, task)
    yield from _basis(deck)
    if deck.states is not None:
        yield Finding("states", "states belong to task: bound; a collision begins with the state of initial")
    if deck.extrapolate is not None:
        yield Finding(
            "extrapolate", "this block belongs to task: bound; a collision takes channels.l_max as it is"
        )
    if deck.scan is not None:
        yield from _scan(deck, task)
    # Electrons and resonances begin without a bound state of two electrons: a block that would
    # have no effect is refused.
    initial = getattr(deck, "initial", None)
    if initial is not None and "initial" in deck.model_fields_set and task.process in ("e_h", "resonances"):
        text = (
            "the target of e_h is the 1s level"
            if task.process == "e_h"
            else "resonances have no initial state"
        )
        yield Finding("initial", f"{text}; this block belongs to photo and born")


def _keys(deck: SturmianDeck, task: Scatter) -> Iterator[Finding]:
    """Yield keys of another process, missing keys of this one, and mistakes in their values."""
    own = KEYS[task.process]
    for key in OWN:
        if key in task.model_fields_set and key not in own and getattr(task, key) is not None:
            place = next(name for name, keys in KEYS.items() if key in keys)
            yield Finding(
                f"task.{key}", f"{key} belongs to process: {place}, but the deck has process: {task.process}"
            )
    scanned = deck.scan is not None and deck.scan.energy is not None
    for key in own:
        if key in OPTIONAL or getattr(task, key) is not None:
            continue
        if key == "excess" and task.photon is not None:
            continue
        # The energies are in the scan instead.
        if key in ("energy", "excess", "ejected") and scanned:
            continue
        yield Finding(f"task.{key}", f"required for process: {task.process}")
    if task.by_photons:
        yield from photon_rules.rules(deck, task)
    elif foreign := [name for name in task.observables if name in DETAILS]:
        text = f"{foreign[0]} belongs to photon energies; give process: photo and photon, such as {{from: 25 eV, to: 60 eV}}"
        yield Finding("task.observables", text)
    if task.process == "photo" and not task.by_photons:
        yield from _above(task)
    yield from _energies(deck, task, own[0])
    yield from _length(deck, task)
    yield from _eigenphases(deck, task)
    yield from _ejected(deck, task)


def _above(task: Scatter) -> Iterator[Finding]:
    """Yield keys and energies that photons above double ionisation do not have."""
    for key in ("threshold", "compare"):
        if key in task.model_fields_set:
            yield Finding(f"task.{key}", f"{key} belongs to photon energies; give photon instead of excess")
    if isinstance(task.excess, ExcessRange) and task.excess.to <= task.excess.first:
        text = f"the range ends at {task.excess.to:g} hartree, which is not above its beginning"
        yield Finding("task.excess.to", text)
    elif 0.0 in values_of(task.excess):
        text = "at an excess of zero two electrons are free and at rest: a threshold"
        yield Finding("task.excess", f"{text}; give an energy above or below it, or photon")


def _energies(deck: SturmianDeck, task: Scatter, key: str) -> Iterator[Finding]:
    """Yield duplicate energies and gauges, and energy sharing requested below the ionisation threshold."""
    energies = energies_of(deck)
    given = task.energy
    if isinstance(given, EnergyRange) and given.to <= given.first:
        text = f"the range ends at {given.to:g} hartree, which is not above its beginning"
        yield Finding("task.energy.to", text)
        return
    if isinstance(task.near, NearRange) and task.near.to <= task.near.first:
        text = f"the range ends at {task.near.to:g} hartree, which is not above its beginning"
        yield Finding("task.near.to", text)
    seen: set[float] = set()
    for k, value in enumerate(energies):
        if value in seen:
            yield Finding(f"task.{key}.{k}", f"the energy {value:g} hartree is a duplicate")
        seen.add(value)
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
                place = "task.energy" if isinstance(given, EnergyRange) else f"task.energy.{k}"
                yield Finding(place, f"{text}; leave sdcs and fdcs out of observables")


def _length(deck: SturmianDeck, task: Scatter) -> Iterator[Finding]:
    """Yield what a scattering length lacks: electrons, slow ones, and their S wave."""
    if "scattering_length" not in task.observables:
        return
    if task.process != "e_h":
        text = f"a scattering length belongs to process: e_h, but the deck has process: {task.process}"
        yield Finding("task.observables", text)
        return
    if deck.system.potential.type == "coulomb" and deck.system.Z != 1.0:
        text = f"the field of the ion, Z = {deck.system.Z:g}, has no scattering length; its phases over pi are quantum defects"
        yield Finding("task.observables", text)
    slow = sum(value <= SLOW for value in energies_of(deck))
    if slow < SLOW_ENERGIES:
        text = f"a scattering length needs {SLOW_ENERGIES} energies up to {SLOW:g} hartree at least, found {slow}"
        yield Finding("task.observables", text)
    if not any(sector.L == 0 for sector in sectors_of(deck)):
        yield Finding("channels.L", "only L = 0 has a scattering length; add it")


def _eigenphases(deck: SturmianDeck, task: Scatter) -> Iterator[Finding]:
    """Yield what eigenphases lack: electrons, energies below ionisation, and the whole grid."""
    if "eigenphases" not in task.observables:
        return
    if task.process != "e_h":
        text = f"eigenphases belong to process: e_h, but the deck has process: {task.process}"
        yield Finding("task.observables", text)
        return
    if deck.system.potential.type == "coulomb" and all(
        value >= 0.5 * deck.system.Z**2 for value in energies_of(deck)
    ):
        text = "above ionisation the open channels have no end; eigenphases need energies below it"
        yield Finding("task.observables", text)
    if "basis" in deck.model_fields_set and deck.basis.type != "fedvr":
        yield Finding("basis.type", "eigenphases need every channel on the whole grid; give basis: fedvr")


def _ejected(deck: SturmianDeck, task: Scatter) -> Iterator[Finding]:
    """Yield ejected energies that miss the total, and observables and gauges that need a pure Coulomb field."""
    energies = energies_of(deck)
    if task.ejected is not None and task.process == "photo" and task.excess is not None:
        # Equal up to rounding of the units in which the energies are given.
        total = sum(task.ejected)
        if any(abs(value - total) > 1e-6 * total for value in energies):
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
    channels, initial = deck.channels, initial_of(deck)
    yield from symmetries(deck)
    if "parity" in channels.model_fields_set and task.process != "resonances":
        yield from _parity(deck, task)
    if task.process in ("photo", "born") and channels.S is not None and as_list(channels.S) != [initial.S]:
        yield Finding(
            "channels.S",
            f"photons and fast charges keep the spin, S = {initial.S} of the initial state; leave it out",
        )
    yield from _sectors(deck, task)


def _parity(deck: SturmianDeck, task: Scatter) -> Iterator[Finding]:
    """Yield a parity that the collision does not reach."""
    channels, initial = deck.channels, initial_of(deck)
    if not task.by_photons:
        if channels.parity != "natural":
            text = "a collision from an s level reaches natural parity, (-1)^L, only"
            yield Finding("channels.parity", f"{text}; leave it out")
        return
    sectors = sectors_of(deck)
    if any(parity_of(one.L, channels.parity) == parity_of(one.L, one.parity) for one in sectors):
        return
    Ls = ", ".join(str(one.L) for one in sectors)
    term = f"{2 * initial.S + 1}{'SPDFG'[initial.L]}"
    reached = "natural" if initial.L == 0 else sectors[0].parity
    text = f"the dipole leads from {term} to {reached} parity only, L = {Ls}"
    yield Finding("channels.parity", f"{text}; leave it out")


def _sectors(deck: SturmianDeck, task: Scatter) -> Iterator[Finding]:
    """Yield pairs that no symmetry has, and symmetries without pairs, incident electron or dipole transition."""
    channels, initial = deck.channels, initial_of(deck)
    sectors = sectors_of(deck)
    for k, (la, lb) in enumerate(channels.pairs or []):
        if not any(allowed(sector.L, la, lb, sector.parity) for sector in sectors):
            Ls = ", ".join(str(L) for L in dict.fromkeys(sector.L for sector in sectors))
            parity = {"natural": "parity (-1)^L", "unnatural": "parity -(-1)^L"}.get(
                channels.parity, f"{channels.parity} parity"
            )
            text = f"({la}, {lb}) cannot couple to L = {Ls} with {parity}"
            yield Finding(f"channels.pairs.{k}", text)
    for sector in sectors:
        pairs = pairs_of(channels, sector)
        if not pairs:
            key = "channels.pairs" if channels.pairs is not None else "channels.l_max"
            yield Finding(key, _nothing(sector))
        elif task.process == "e_h" and (0, sector.L) not in pairs:
            key = "channels.pairs" if channels.pairs is not None else "channels.l_max"
            yield Finding(
                key, f"the pair (0, {sector.L}) of the incident electron is missing for L = {sector.L}"
            )
        # Dipole selection rule: L changes by one, or not at all into unnatural parity, which photon energies know.
        kept = task.by_photons and sector.L == initial.L > 0
        if task.process == "photo" and abs(sector.L - initial.L) != 1 and not kept:
            text = f"a photon does not lead from L = {initial.L} to L = {sector.L} with natural parity"
            yield Finding("channels.L", f"{text}; give {initial.L + 1}")


def _nothing(sector: Sector) -> str:
    """Return what to change where a symmetry has no pairs."""
    natural = parity_of(sector.L, sector.parity) == parity_of(sector.L, "natural")
    if natural:
        return f"no pair (la, lb) couples to L = {sector.L}; give l_max {sector.L} at least"
    text = f"no pair (la, lb) of {parity_of(sector.L, sector.parity)} parity couples to L = {sector.L}"
    if sector.L == 0:
        return f"{text}: two momenta that add up to zero are equal"
    return f"{text}; give l_max {sector.L} at least"


def _basis(deck: SturmianDeck) -> Iterator[Finding]:
    """Yield functions that cannot hold the outgoing waves of a collision."""
    basis = deck.basis
    # The default of a collision is the whole grid, not the functions that are the default of
    # bound states.
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
        yield Finding("basis.energy", f"{text}; total takes the collision's")
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
    for key in given:
        if key not in SCANNED:
            yield Finding(
                f"scan.{key}", f"a collision scans {', '.join(SCANNED)}; {key} belongs to task: bound"
            )
    if "energy" in given:
        yield from _scanned_energies(task, given["energy"])
    if "N" in given and not (isinstance(deck.basis, Gsf) and "basis" in deck.model_fields_set):
        yield Finding("scan.N", "N belongs to basis: gsf, but the basis is the whole grid")
    yield from scanned(deck, given)


def _scanned_energies(task: Scatter, values: list[float]) -> Iterator[Finding]:
    key = {"e_h": "energy", "photo": "excess", "born": "ejected"}.get(task.process, "near")
    if task.process == "resonances":
        yield Finding("scan.energy", f"process: {task.process} has no energies to scan; give task.near")
    elif getattr(task, key) is not None:
        yield Finding("scan.energy", f"give the energies once, here or as task.{key}")
    for k, value in enumerate(values):
        if value <= 0.0:
            yield Finding(f"scan.energy.{k}", f"a collision needs a positive energy, found {value:g}")
