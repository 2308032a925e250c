"""Physics checks that need the eigenstates: the deck against its molecule.

Each check yields findings with the numbers in the message; errors stop the run, warnings are printed and stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.deck.table_units import Tabulated
from qsim.core.deck.units import to_unit
from qsim.core.errors import InvalidInput, QsimError
from qsim.core.physics.functions import curve_of, remark_on
from qsim.qoc.control.rungs import ladder_rungs
from qsim.qoc.deck.system import levels_of
from qsim.qoc.models.molecule import WALL_DENSITY, level_findings
from qsim.qoc.models.molecule import molecule as solved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.qoc.deck.model import QocDeck
    from qsim.qoc.models.molecule import Molecule

STEPS_PER_PERIOD = {"crank_nicolson": 20, "eigenbasis": 6}
# Gap, in roundings of the Hamiltonian, below which the mixture of two levels is arbitrary.
ROUNDING_GAPS = 1e3
# a.u. of time.
FEMTOSECOND = 41.341373336
# Electron masses above which a particle is no model electron.
NUCLEAR_MASS = 20.0
# W/cm2.
MOLECULE_INTENSITY = 1e14
MODEL_INTENSITY = 1e15
# Periods in T from which the two-level estimates (rotating-wave approximation) are trusted.
RWA_PERIODS = 10


def physics(
    deck: QocDeck, molecule: Molecule, steps: int, data: Mapping[str, Any] | None = None
) -> Iterator[Finding]:
    """Yield the findings of all checks; of numbers without a unit, in `data` as they were written, with what may be meant."""
    data = data or {}
    for name in ("potential", "dipole"):
        if isinstance(block := getattr(deck.system, name, None), Tabulated):
            yield from remark_on(block, curve_of(block), f"system.{name}")
    remedy = _angstrom(deck, data, molecule)
    yield from level_findings(_used_levels(deck), molecule, deck.system.potential, remedy)
    yield from _degenerate(deck, molecule)
    try:
        rungs = ladder_rungs(deck, molecule)
    except InvalidInput as problem:
        yield Finding(problem.key, str(problem), "warning" if deck.optimizer.type == "none" else "error")
        return
    except IndexError:
        # a level above the retained ones, reported by the rules
        return
    yield from _sampling(deck, molecule, rungs, steps)
    yield from _random_guess(deck, steps)
    if deck.optimizer.type != "none":
        yield from _reach(deck, molecule, rungs, bare_duration(data))


def _used_levels(deck: QocDeck) -> list[tuple[str, int]]:
    used = []
    for i, (initial, target) in enumerate(deck.system.state_pairs()):
        where = f"system.pairs.{i}." if deck.system.pairs is not None else "system."
        used += [(f"{where}initial", v) for v in levels_of(initial)] + [
            (f"{where}target", v) for v in levels_of(target)
        ]
    return used


def _degenerate(deck: QocDeck, molecule: Molecule) -> Iterator[Finding]:
    """Warn of used levels that cannot be told from a neighbour: by rounding, or within the pulse (less than one radian)."""
    rounding = ROUNDING_GAPS * float(np.finfo(float).eps * np.abs(molecule.diagonal).max())
    lists = [set(t) for _, t in deck.system.state_pairs() if isinstance(t, list)]
    reported: set[tuple[int, int]] = set()
    for key, level in _used_levels(deck):
        for pair in ((level - 1, level), (level, level + 1)):
            together = any(set(pair) <= levels for levels in lists) and key.endswith("target")
            if pair[0] < 0 or pair[1] >= molecule.energies.size or pair in reported or together:
                continue
            gap = float(molecule.energies[pair[1]] - molecule.energies[pair[0]])
            remedy = f"name both, as in target: [{pair[0]}, {pair[1]}], or make the potential asymmetric"
            if gap < rounding:
                reported.add(pair)
                text = f"levels {pair[0]} and {pair[1]} are degenerate to rounding (gap {gap:.2g}, limit {rounding:.2g} hartree)"
                yield Finding(
                    key, f"{text}: level {level} is an arbitrary mixture of them; {remedy}", "warning"
                )
            elif gap * deck.time.T < 1.0:
                reported.add(pair)
                text = f"levels {pair[0]} and {pair[1]} are nearly degenerate (gap {gap:.2g} hartree)"
                yield Finding(
                    key,
                    f"{text}: in T = {deck.time.T:g} a.u. their phases part by {gap * deck.time.T:.2g} rad only (2 pi / gap = "
                    f"{2 * math.pi / gap:.3g} a.u.), so no frequency tells them apart; {remedy}",
                    "warning",
                )


def unit_slips(deck: QocDeck, data: Mapping[str, Any], molecule: Molecule) -> Iterator[Finding]:
    """Warn of bare numbers that look as if they were meant in another unit.

    Parameters
    ----------
    data : dict
        The deck as it was written: numbers are in atomic units, texts have a unit of their own.
    """
    duration = bare_duration(data)
    used = sorted({level for _, level in _used_levels(deck) if level < molecule.energies.size})
    if duration is not None and len(used) > 1:
        span = float(molecule.energies[used[-1]] - molecule.energies[used[0]])
        # less than one period as it is, at least one if femtoseconds were meant
        periods = deck.time.T * span / (2 * math.pi)
        if periods < 1.0 <= periods * FEMTOSECOND:
            yield Finding(
                "time.T",
                f"T = {duration:g} without a unit is in atomic units, {duration / FEMTOSECOND:.3g} fs: {periods:.2g} periods "
                f"of the transition between the levels in use; if femtoseconds are meant, write '{duration:g} fs'",
                "warning",
            )
    control = data.get("control") or {}
    guess = control.get("guess")
    numbers = [("control.bounds", value) for value in control.get("bounds") or ()]
    if isinstance(guess, Mapping):
        numbers.append(("control.guess.amplitude", guess.get("amplitude")))
    limit = math.sqrt(
        (MOLECULE_INTENSITY if deck.system.mass > NUCLEAR_MASS else MODEL_INTENSITY)
        / float(to_unit(1.0, "W/cm2", "intensity"))
    )
    large = {key: abs(v) for key, v in numbers if isinstance(v, int | float) and abs(v) > limit}
    for key, value in large.items():
        yield Finding(
            key,
            f"{value:g} without a unit is in atomic units, {float(to_unit(value, 'V/nm', 'electric field')):.3g} V/nm or "
            f"{value**2 * float(to_unit(1.0, 'W/cm2', 'intensity')):.2g} W/cm2; if V/nm are meant, write '{value:g} V/nm'",
            "warning",
        )


def bare_duration(data: Mapping[str, Any]) -> float | None:
    """Return the duration T of a deck that gives no unit for it, else None."""
    duration = (data.get("time") or {}).get("T")
    return duration if type(duration) in (int, float) else None


def _angstrom(deck: QocDeck, data: Mapping[str, Any], molecule: Molecule) -> str:
    """Return a remedy for a grid without a unit whose walls cut a level in use, where the same numbers in angstrom hold it."""
    typed = (data.get("system") or {}).get("grid") or {}
    given = [typed.get(name) for name in ("xmin", "xmax")]
    ends = [float(end) for end in given if isinstance(end, int | float)]
    used = tuple({level for _, level in _used_levels(deck) if level < molecule.energies.size})
    if len(ends) < 2 or not used or molecule.wall_density(used) <= WALL_DENSITY:
        return ""
    bohr = 1.0 / float(to_unit(1.0, "angstrom", "length"))
    wider = deck.system.grid.model_copy(update={"xmin": ends[0] * bohr, "xmax": ends[1] * bohr})
    try:
        held = solved(deck.system.model_copy(update={"grid": wider}), max(used) + 1)
    except (QsimError, ValueError):
        # a table or a formula that ends before
        return ""
    if held.wall_density(used) > WALL_DENSITY:
        return ""
    begin, end = (f"{x:g}" for x in ends)
    return f"; if the grid is meant in angstrom, write xmin: '{begin} angstrom', xmax: '{end} angstrom'"


def _sampling(
    deck: QocDeck, molecule: Molecule, rungs: list[tuple[int, int]], steps: int
) -> Iterator[Finding]:
    energies = molecule.energies
    fastest = max(abs(energies[b] - energies[a]) for a, b in rungs)
    per_period = 2.0 * math.pi / fastest / (deck.time.T / steps)
    wanted = STEPS_PER_PERIOD[deck.propagator.type]
    if per_period < 2:
        yield Finding(
            "time.steps",
            f"{per_period:.3g} steps per period of the fastest transition ({fastest:.6g} hartree) cannot represent it; "
            f"use at least {math.ceil(wanted * fastest * deck.time.T / (2 * math.pi))} steps",
        )
    elif per_period < wanted:
        yield Finding(
            "time.steps",
            f"{per_period:.3g} steps per period of the fastest transition ({fastest:.6g} hartree); use at least {wanted}, "
            f"that is {math.ceil(wanted * fastest * deck.time.T / (2 * math.pi))} steps",
            "warning",
        )


def _random_guess(deck: QocDeck, steps: int) -> Iterator[Finding]:
    guess, highest = deck.control.guess, math.pi * steps / deck.time.T
    if guess.type == "random" and guess.cutoff is not None and guess.cutoff > highest:
        yield Finding(
            "control.guess.cutoff",
            f"{guess.cutoff:g} hartree is above pi / tau = {highest:.6g}, the highest frequency of {steps} steps",
        )


def _reach(
    deck: QocDeck, molecule: Molecule, rungs: list[tuple[int, int]], bare: float | None = None
) -> Iterator[Finding]:
    duration, energies, mu = deck.time.T, molecule.energies, np.abs(molecule.dipole_matrix)
    gaps = sorted({round(abs(energies[b] - energies[a]), 15) for a, b in rungs})
    nearby = []
    # transitions that leave the ladder, next to the ones on it
    for a, b in rungs:
        for level in (a, b):
            for other in range(energies.size):
                if (
                    other in (a, b)
                    or mu[level, other] < 0.05 * mu[a, b]
                    or (min(level, other), max(level, other)) in rungs
                ):
                    continue
                nearby.append(abs(abs(energies[other] - energies[level]) - abs(energies[b] - energies[a])))
    need = 2 * math.pi / min(nearby) if nearby and min(nearby) > 0.0 else math.inf
    if nearby and duration < need:
        meant = ""
        if bare is not None and duration * FEMTOSECOND >= need:
            meant = f"; if {bare:g} fs is meant, write '{bare:g} fs'"
        yield Finding(
            "time.T",
            f"T = {duration:g} a.u. ({duration / FEMTOSECOND:.3g} fs) is shorter than 2 pi / {min(nearby):.4g} = {need:.4g} a.u. "
            f"({need / FEMTOSECOND:.3g} fs), the time to resolve the wanted transition from its neighbour: expect leakage{meant}",
            "warning",
        )
    alpha, threshold = deck.objective.alpha, deck.objective.threshold
    if len(rungs) == 1 and deck.system.pairs is None:
        a, b = rungs[0]
        # two levels: the penalty caps P however long the search, Eq. (Q13)
        best = capped_probability(alpha, mu[a, b], duration)
        periods = duration * abs(energies[b] - energies[a]) / (2 * math.pi)
        if alpha > 0 and best < threshold and periods > RWA_PERIODS:
            yield Finding(
                "objective.alpha",
                f"with alpha = {alpha:g} the maximum of J has P of about {best:.4f} (two-level estimate), below the threshold "
                f"{threshold:g}; lower alpha or the threshold",
                "warning",
            )
        if deck.control.bounds is not None:
            # a pi pulse of constant amplitude, mu A T = pi
            need = math.pi / (mu[a, b] * duration)
            have = max(-deck.control.bounds[0], deck.control.bounds[1])
            if have < need:
                yield Finding(
                    "control.bounds",
                    f"a pi pulse in T = {duration:g} a.u. needs an amplitude of {need:.4g} a.u.; the bounds allow {have:.4g}",
                    "warning",
                )
    if deck.control.band is not None and not any(
        deck.control.band[0] <= g <= deck.control.band[1] for g in gaps
    ):
        yield Finding(
            "control.band",
            f"no transition of the ladder ({', '.join(f'{g:.4g}' for g in gaps)} hartree) lies in the band",
            "warning",
        )


def capped_probability(alpha: float, dipole: float, duration: float) -> float:
    """Return P at the maximum of ``sin^2(theta/2) - alpha theta^2 / (2 mu^2 T)`` (Eq. Q13): a resonant pulse of area theta.

    A carrier ``A cos(omega t)`` of area ``theta = mu A T`` has the fluence ``A^2 T / 2 = theta^2 / (2 mu^2 T)``.
    """
    theta = np.linspace(0.0, math.pi, 2001)
    j = np.sin(0.5 * theta) ** 2 - alpha * theta**2 / (2.0 * dipole**2 * duration)
    return float(np.sin(0.5 * theta[int(np.argmax(j))]) ** 2)


def truncation(populations: np.ndarray, tolerance: float | None) -> tuple[float, str | None]:
    """Return the largest population seen in the two highest retained levels, and a warning if it exceeds the tolerance."""
    leak = float(populations[:, -2:].sum(axis=1).max())
    if tolerance is not None and leak > tolerance:
        return leak, (
            f"the highest two of {populations.shape[1]} retained levels reach a population of {leak:.2g} "
            f"(propagator.truncation_tolerance {tolerance:g}); raise propagator.states"
        )
    return leak, None


def walls(molecule: Molecule, reached: np.ndarray) -> str | None:
    """Return a warning if levels that the run reached are cut off by a wall.

    Weighted by the largest population of each level during the run: a level seen with 1e-4 and a density of 1e-3 counts like
    one seen with 1 and a density of 1e-7.
    """
    known = min(reached.size, molecule.energies.size)
    densities = np.array([molecule.wall_density((k,)) for k in range(known)])
    weighted = reached[:known] * densities
    k = int(np.argmax(weighted))
    if weighted[k] <= WALL_DENSITY:
        return None
    return (
        f"the pulse reaches level {k} (population {reached[k]:.2g}), whose |psi|^2 dx at the wall is {densities[k]:.2g} "
        f"(population times density should stay below {WALL_DENSITY:g}); widen system.grid"
    )


def intensity_limit(deck: QocDeck) -> float | None:
    """Return the intensity (W/cm2) at which matter ionises at once; None where the deck bounds the field."""
    if deck.control.bounds is not None:
        return None
    return MOLECULE_INTENSITY if deck.system.mass > NUCLEAR_MASS else MODEL_INTENSITY


def strong_field(field: np.ndarray, limit: float | None, given: bool) -> str | None:
    """Return a warning if a control field passes an intensity (W/cm2).

    Parameters
    ----------
    field : (N,) float64
        Field, a.u.
    limit : float or None
        As :func:`intensity_limit` returns it.
    given : bool
        Whether the first field has an amplitude that the deck states.
    """
    peak = float(np.abs(field).max(initial=0.0))
    intensity = peak**2 * float(to_unit(1.0, "W/cm2", "intensity"))
    if limit is None or intensity < limit:
        return None
    cause = "T is too short for the transition, or was meant in another unit (a bare number is in a.u. of 0.0242 fs)"
    if given:
        cause = "a field in other units than a.u. (5.14e11 V/m), or " + cause
    return (
        f"the field peaks at {peak:.3g} a.u., an intensity of {intensity:.2g} W/cm2 (bound levels hold up to {limit:g}); "
        f"likely cause: {cause}; limit the field with control.bounds, such as [-3 V/nm, 3 V/nm]"
    )
