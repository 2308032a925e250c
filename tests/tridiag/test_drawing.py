"""Figures of tridiag: energies of photoelectrons in the unit of the deck."""

from types import SimpleNamespace

import pytest

from qsim.core.deck.units import UNITS
from qsim.tridiag.tdse.drawing import energy_unit


@pytest.mark.parametrize(
    ("deck", "overrides", "unit"),
    [
        ('spectra: [{method: tsurff, radius: 60, energy: ["1 eV", "40 eV"]}]', [], "eV"),
        ("spectra: [{method: tsurff, radius: 60, energy: [0.05, 1.4]}]", [], "hartree"),
        ("spectra:\n  - {method: window, energy: [0.1, 50eV]}", [], "eV"),
        ('observe: [norm, {photoelectron: {energies: ["-5 rydberg", 0.8]}}]', [], "rydberg"),
        ('observe: [norm, {photoelectron: {energies: ["-5e2 kJ/mol", 0.8]}}]', [], "kJ/mol"),
        ('laser: {pulses: [{omega: "3 eV"}]}\nspectra: [{energy: [0, 1]}]', [], "hartree"),
        ("spectra: [{energy: [0.05, 1.4]}]", ["spectra.0.energy=[1 eV, 30 eV]"], "eV"),
        ("", [], "hartree"),
    ],
)
def test_energies_are_drawn_in_the_unit_of_the_deck(deck, overrides, unit):
    results = SimpleNamespace(provenance={"deck_text": deck, "overrides": overrides})
    name, factor = energy_unit(results)
    assert name == unit
    assert factor * UNITS["energy"][unit] == pytest.approx(1.0)
