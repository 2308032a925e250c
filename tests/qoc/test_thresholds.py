"""Both sides of every limit of the physics checks of qoc: a finding just beyond it, none just before.

The quantity that decides is set through the deck, or through levels put in the place of computed ones.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from qsim.core.deck.load import load_deck
from qsim.core.deck.units import to_unit
from qsim.qoc import checks
from qsim.qoc.control.rungs import ladder_rungs
from qsim.qoc.deck import DECK
from qsim.qoc.models.molecule import level_findings, molecule
from tests.qoc.test_claims import MORSE
from tests.qoc.test_claims import deck as blocks

HARMONIC = {"type": "harmonic", "omega": 0.015, "x0": 3.0}
INTENSITY = float(to_unit(1.0, "W/cm2", "intensity"))  # of a field of 1 a.u.


@pytest.fixture
def made(qoc):
    """Return a function from changes to a deck and its molecule with 12 levels."""

    def make(**changes):
        loaded = load_deck(qoc.write(**blocks(**changes)), DECK)
        return loaded, molecule(loaded.deck.system, 12)

    return make


def severities(findings, text):
    return [finding.severity for finding in findings if text in finding.message]


def judged(deck, found):
    return level_findings(checks._used_levels(deck), found, deck.system.potential)


def system(**changes):
    return {**MORSE, **changes}


# ------------------------------------------------------------------------------------------------ levels


@pytest.mark.parametrize(("level", "expected"), [(20, []), (21, ["error"])])
def test_levels_that_a_morse_potential_holds(made, level, expected):
    """``n < sqrt(2 m D) / beta - 1/2``: with 21.3 for the root, the levels 0 to 20."""
    depth = (21.3 * 1.1) ** 2 / (2 * 1500.0)
    potential = {"type": "morse", "D": depth, "beta": 1.1, "r0": 2.0}
    loaded, found = made(system=system(potential=potential, target=level))
    assert severities(judged(loaded.deck, found), "is not bound") == expected


@pytest.mark.parametrize(("below", "expected"), [(1e-9, []), (-1e-9, ["error"])])
def test_levels_above_the_potential_at_a_wall(made, below, expected):
    loaded, found = made(system=system(potential=HARMONIC))
    energies = found.energies.copy()
    energies[1] = min(found.potential[0], found.potential[-1]) - below
    findings = judged(loaded.deck, replace(found, energies=energies))
    assert severities(findings, "is a box state") == expected


@pytest.mark.parametrize(("factor", "expected"), [(0.99, []), (1.01, ["warning"])])
def test_density_of_a_level_at_a_wall(made, factor, expected):
    loaded, found = made(system=system(potential=HARMONIC))
    states = found.states.copy()
    states[1, -1] = math.sqrt(factor * 1e-6 / found.dx)
    findings = judged(loaded.deck, replace(found, states=states))
    assert severities(findings, "at the wall") == expected


@pytest.mark.parametrize(("factor", "expected"), [(1.02, []), (0.98, ["warning"])])
def test_levels_that_rounding_cannot_tell_apart(made, factor, expected):
    """A thousand roundings of the largest diagonal element."""
    loaded, found = made()
    energies = found.energies.copy()
    energies[2] = energies[1] + factor * 1e3 * np.finfo(float).eps * np.abs(found.diagonal).max()
    findings = checks._degenerate(loaded.deck, replace(found, energies=energies))
    assert severities(findings, "are degenerate to rounding") == expected


@pytest.mark.parametrize(("phase", "expected"), [(1.01, []), (0.99, ["warning"])])
def test_levels_that_the_pulse_cannot_tell_apart(made, phase, expected):
    loaded, found = made()
    energies = found.energies.copy()
    energies[2] = energies[1] + phase / loaded.deck.time.T
    findings = checks._degenerate(loaded.deck, replace(found, energies=energies))
    assert severities(findings, "are nearly degenerate") == expected


# ------------------------------------------------------------------------------------------------- units


@pytest.mark.parametrize(
    ("periods", "expected"), [(1.02, []), (0.98, ["warning"]), (0.025, ["warning"]), (0.0235, [])]
)
def test_durations_that_look_like_femtoseconds(made, periods, expected):
    """Less than a period in atomic units, more than one in femtoseconds: from 1/41.3 to 1."""
    _, found = made()
    duration = periods * 2 * math.pi / float(found.energies[1] - found.energies[0])
    loaded, _ = made(time={"T": duration, "steps": 2000})
    told = checks.unit_slips(loaded.deck, loaded.data, found)
    assert severities(told, "if femtoseconds are meant") == expected


@pytest.mark.parametrize(("mass", "limit"), [(1500.0, 1e14), (1.0, 1e15)])
@pytest.mark.parametrize(("factor", "expected"), [(0.99, []), (1.01, ["warning", "warning"])])
def test_bounds_that_look_like_volts_per_nanometre(made, mass, limit, factor, expected):
    bound = math.sqrt(factor * limit / INTENSITY)
    control = {"guess": {"type": "ladder", "area": 0.4}, "bounds": [-bound, 0.5 * bound]}
    loaded, found = made(control=control)
    heavy = loaded.deck.model_copy(update={"system": loaded.deck.system.model_copy(update={"mass": mass})})
    told = checks.unit_slips(heavy, loaded.data, found)
    assert severities(told, "if V/nm are meant") == expected[:1]


# ---------------------------------------------------------------------------------------------- sampling


@pytest.mark.parametrize(("propagator", "wanted"), [("crank_nicolson", 20), ("eigenbasis", 6)])
@pytest.mark.parametrize(("factor", "expected"), [(1.01, []), (0.99, ["warning"])])
def test_steps_per_period(made, propagator, wanted, factor, expected):
    loaded, found = made(propagator={"type": propagator})
    fastest = float(found.energies[1] - found.energies[0])
    steps = round(factor * wanted * fastest * loaded.deck.time.T / (2 * math.pi))
    findings = checks._sampling(loaded.deck, found, [(0, 1)], steps)
    assert severities(findings, "steps per period") == expected


@pytest.mark.parametrize(("per_period", "expected"), [(2.03, ["warning"]), (1.97, ["error"])])
def test_steps_that_cannot_represent_a_transition(made, per_period, expected):
    loaded, found = made()
    fastest = float(found.energies[1] - found.energies[0])
    steps = round(per_period * fastest * loaded.deck.time.T / (2 * math.pi))
    assert severities(checks._sampling(loaded.deck, found, [(0, 1)], steps), "steps per period") == expected


@pytest.mark.parametrize(("factor", "expected"), [(0.99, []), (1.01, ["error"])])
def test_the_cutoff_of_a_random_guess(made, factor, expected):
    steps, duration = 2000, 9000.0
    cutoff = factor * math.pi * steps / duration
    guess = {"type": "random", "amplitude": 0.001, "cutoff": cutoff}
    loaded, _ = made(control={"guess": guess})
    assert severities(checks._random_guess(loaded.deck, steps), "the highest frequency of") == expected


# ------------------------------------------------------------------------------------------- within reach


def reach(made, found=None, **changes):
    loaded, real = made(**{"optimizer": {"type": "krotov"}, **changes})
    found = real if found is None else found
    return loaded.deck, list(checks._reach(loaded.deck, found, ladder_rungs(loaded.deck, found)))


@pytest.mark.parametrize(("factor", "expected"), [(1.02, []), (0.98, ["warning"])])
def test_time_to_resolve_a_transition_from_its_neighbour(made, factor, expected):
    """Of a Morse potential: the transition 1 -> 2 is slower than 0 -> 1 by the anharmonicity ``beta^2 / m``."""
    duration = factor * 2 * math.pi / (1.1**2 / 1500.0)
    _, findings = reach(made, time={"T": duration, "steps": 2000})
    assert severities(findings, "the time to resolve") == expected


@pytest.mark.parametrize(("factor", "expected"), [(1.02, []), (0.98, ["warning"])])
def test_bounds_that_allow_a_pi_pulse(made, factor, expected):
    _, found = made()
    need = math.pi / (9000.0 * float(abs(found.dipole_matrix[0, 1])))
    control = {"guess": {"type": "ladder", "area": 0.4}, "bounds": [-factor * need, 0.5 * need]}
    _, findings = reach(made, control=control)
    assert severities(findings, "a pi pulse in T") == expected


@pytest.mark.parametrize(("edge", "expected"), [(0.999, []), (1.001, ["warning"])])
def test_bands_without_a_transition(made, edge, expected):
    _, found = made()
    gap = float(found.energies[1] - found.energies[0])
    control = {"guess": {"type": "ladder", "area": 0.4}, "band": [edge * gap, 2 * gap]}
    _, findings = reach(made, control=control, optimizer={"type": "lbfgs"})
    assert severities(findings, "lies in the band") == expected


@pytest.mark.parametrize(("difference", "expected"), [(-0.002, []), (0.002, ["warning"])])
def test_penalties_that_keep_the_threshold_out_of_reach(made, difference, expected):
    """At the maximum of ``sin^2(x/2) - a x^2 / 2`` the slope ``sin(x) / 2 - a x`` is zero: a from the P that is left."""
    _, found = made()
    best = 0.97
    theta = 2 * math.asin(math.sqrt(best))
    alpha = math.sin(theta) / (2 * theta) * 9000.0 * float(found.dipole_matrix[0, 1]) ** 2
    _, findings = reach(made, objective={"alpha": alpha, "threshold": best + difference})
    assert severities(findings, "the maximum of J has P") == expected


@pytest.mark.parametrize(("periods", "expected"), [(10.2, ["warning"]), (9.8, [])])
def test_short_pulses_are_not_judged_by_the_rotating_wave(made, periods, expected):
    _, found = made()
    duration = periods * 2 * math.pi / float(found.energies[1] - found.energies[0])
    changes = {"time": {"T": duration, "steps": 2000}, "objective": {"alpha": 1e6, "threshold": 0.99}}
    _, findings = reach(made, **changes)
    assert severities(findings, "the maximum of J has P") == expected


# --------------------------------------------------------------------------------------------- after a run


@pytest.mark.parametrize(("leak", "warns"), [(0.99e-4, False), (1.01e-4, True)])
def test_populations_of_the_highest_levels(leak, warns):
    populations = np.zeros((3, 6))
    populations[1] = 1.0 - leak, 0.0, 0.0, 0.0, 0.4 * leak, 0.6 * leak
    found, text = checks.truncation(populations, 1e-4)
    assert found == pytest.approx(leak, rel=1e-12)
    assert (text is not None) == warns
    assert checks.truncation(populations, None)[1] is None


@pytest.mark.parametrize(("factor", "warns"), [(0.99, False), (1.01, True)])
def test_populations_times_densities_at_a_wall(made, factor, warns):
    _, found = made()
    states = np.zeros_like(found.states)
    states[4, 0] = math.sqrt(1e-3 / found.dx)
    reached = np.array([1.0, 0.5, 0.1, 0.0, factor * 1e-3])
    assert (checks.walls(replace(found, states=states), reached) is not None) == warns


@pytest.mark.parametrize("limit", [1e14, 1e15])
@pytest.mark.parametrize(("factor", "warns"), [(0.99, False), (1.01, True)])
def test_fields_in_which_matter_ionises(limit, factor, warns):
    peak = math.sqrt(factor * limit / INTENSITY)
    field = np.array([0.0, -peak, 0.5 * peak])
    assert (checks.strong_field(field, limit, True) is not None) == warns
    assert checks.strong_field(field, None, True) is None


@pytest.mark.parametrize(("mass", "limit"), [(20.5, 1e14), (19.5, 1e15)])
def test_model_electrons_stand_more_than_molecules(made, mass, limit):
    loaded, _ = made(system=system(mass=mass))
    assert checks.intensity_limit(loaded.deck) == limit
    bounded, _ = made(system=system(mass=mass), control={"guess": {"type": "zero"}, "bounds": [-1.0, 1.0]})
    assert checks.intensity_limit(bounded.deck) is None
