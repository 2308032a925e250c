"""Bare numbers that were hardly meant in atomic units are told, in every method and task; others are not."""

import itertools
from pathlib import Path

import pytest
import yaml

from qsim.core.deck.load import load_deck
from qsim.core.deck.units import FORGOTTEN, UNITS, parse_quantity, without_unit
from qsim.core.errors import DeckError
from qsim.core.run.stages import stage

INPUTS = Path(__file__).resolve().parents[2] / "inputs"


def told(deck, *overrides):
    """Return the warnings about forgotten units of an input deck with some keys replaced."""
    loaded = load_deck(INPUTS / f"{deck}.yaml", stage(deck.split("/")[0], "deck").DECK, overrides)
    warnings = [text for text in loaded.warnings if "without a unit" in text]
    assert len(warnings) == len(loaded.doubts())
    return warnings


@pytest.mark.parametrize(
    ("deck", "key", "number", "meant"),
    [
        ("tridiag/ar_ati", "laser.pulses.0.wavelength", "1030", "1030 nm"),
        ("tridiag/ar_ati", "laser.pulses.0.wavelength", "0.8", "0.8 um"),
        ("tridiag/hhg_800nm", "laser.pulses.0.wavelength", "400", "400 nm"),
        ("tridiag/ar_ati", "laser.pulses.0.intensity", "2e9", "2e+09 W/cm2"),
        ("tridiag/hhg_800nm", "laser.pulses.0.intensity", "150", "150 TW/cm2"),
        ("tridiag/ar_ati", "laser.pulses.0.cep", "-90", "-90 deg"),
        ("tridiag/packet", "initial.x0", "-5e-9", "-5e-09 m"),
        ("tridiag/packet", "initial.k0", "250", "250 1/nm"),
        ("qoc/morse", "system.mass", "0.9796", "0.9796 u"),
        ("qoc/morse", "system.mass", "35", "35 u"),
        ("qoc/morse", "system.potential.D", "4.62", "4.62 eV"),
        ("qoc/morse", "system.potential.D", "37255", "37255 cm-1"),
        ("qoc/morse", "system.potential.beta", "1.9", "1.9 1/angstrom"),
        ("qoc/morse", "system.potential.r0", "1.2746", "1.2746 angstrom"),
        ("qmc/hooke", "wavefunction.orbitals.omega", "120", "120 eV"),
    ],
)
def test_a_number_without_its_unit_is_told(deck, key, number, meant):
    warnings = told(deck, f"{key}={number}")
    assert len(warnings) == 1
    assert f"{key}: " in warnings[0]
    assert f"if {meant} is meant, write '{meant}'" in warnings[0]
    assert told(deck, f"{key}='{meant}'") == []


def test_of_a_list_of_numbers_the_first_is_enough():
    (warning,) = told("sturmian/li_plus_scan", "scan.energy=[-2.0, -400, -500]")
    assert "scan.energy.1: warning: -400 without a unit" in warning


def test_a_pulse_shorter_than_a_cycle_was_meant_in_femtoseconds():
    pulse = "{shape: gaussian, wavelength: 800 nm, intensity: 1e14 W/cm2, fwhm: %s}"
    assert "write '30 fs'" in told("tridiag/hhg_800nm", f"laser.pulses=[{pulse % 30}]")[0]
    assert told("tridiag/hhg_800nm", f"laser.pulses=[{pulse % 300}]") == []
    assert told("tridiag/hhg_800nm", f"laser.pulses=[{pulse % '0.7 fs'}]") == []


def test_a_forgotten_unit_is_told_beside_the_mistakes_that_follow_from_it():
    """Of the physics, and of keys."""
    model = stage("qoc", "deck").DECK
    loaded = load_deck(INPUTS / "qoc/morse.yaml", model, ["system.mass=0.9796"])
    with pytest.raises(DeckError, match="if 0.9796 u is meant") as caught:
        loaded.raise_for(stage("qoc", "build").plan(loaded).findings)
    assert {problem.severity for problem in caught.value.diagnostics} == {"error", "warning"}
    overrides = ["laser.pulses.0.wavelength=650", "laser.pulses.0.omega=0.07"]
    with pytest.raises(DeckError, match="if 650 nm is meant"):
        load_deck(INPUTS / "tridiag/ar_ati.yaml", stage("tridiag", "deck").DECK, overrides)
    nothing = "laser.pulses=[{shape: sin2, intensity: 1e14 W/cm2, duration: 5}]"
    with pytest.raises(DeckError, match="give one of wavelength, omega"):
        load_deck(INPUTS / "tridiag/ar_ati.yaml", stage("tridiag", "deck").DECK, [nothing])


@pytest.mark.parametrize("path", sorted(INPUTS.glob("*/*.yaml")), ids=lambda path: path.stem)
def test_decks_in_atomic_units_are_left_alone(path):
    assert told(f"{path.parent.name}/{path.stem}") == []


@pytest.mark.parametrize(
    ("key", "number"), [("laser.pulses.0.wavelength", "15118"), ("laser.pulses.0.wavelength", "800 bohr")]
)
def test_numbers_that_may_be_meant_so(key, number):
    assert told("tridiag/ar_ati", f"{key}={number}") == []
    assert told("qoc/morse", "system.mass=1", "system.potential.r0=2.2") == []


def test_ranges_name_units_of_their_kind_and_exclude_each_other():
    for kind, ranges in FORGOTTEN.items():
        for low, high, unit in ranges:
            assert low < high
            assert unit in UNITS[kind] or parse_quantity(f"1 {unit}", kind) > 0
        for (_, high, _), (low, _, _) in itertools.pairwise(ranges):
            assert high <= low
    assert without_unit(0.0, "mass", FORGOTTEN["mass"]) == ""


@pytest.mark.parametrize(
    ("deck", "old", "new"),
    [
        ("qoc/travolta_fig5", "time.tau=0.02", "time.dt=0.02"),
        ("tridiag/h_static_rate", "grid={rmax: 80, lmax: 9}", "grid={rmax: 80, l_max: 9}"),
    ],
)
def test_old_names_of_keys_are_taken_with_a_note(deck, old, new):
    path = INPUTS / f"{deck}.yaml"
    text = path.read_text(encoding="utf-8").replace("dt: 0.01}", "tau: 0.01}") if "tau" in old else None
    source = yaml.safe_load(text) if text else path
    model = stage(deck.split("/")[0], "deck").DECK
    before, now = load_deck(source, model, [old]), load_deck(path, model, [new])
    assert before.resolved() == now.resolved()
    (note,) = before.notes
    assert "called" in note
    assert "accepted until version 1.0" in note
    assert not now.notes
    assert before.warnings == now.warnings
