"""A field that is only propagated stays what it is: within its bounds, without a search."""

import numpy as np
from numpy.testing import assert_allclose

from qsim.core.deck.load import load_deck
from qsim.qoc.control.parametrisation import EXACT, ROOM, parametrisation
from qsim.qoc.deck.model import QocDeck

DECK = {
    "method": "qoc",
    "system": {
        "mass": 1728.468338,
        "potential": {"type": "morse", "D": 0.1994, "beta": 1.189, "r0": 1.821},
        "dipole": {"type": "linear", "slope": 1.0},
        "grid": {"xmin": 1.0, "xmax": 5.0, "points": 641},
        "initial": 0,
        "target": 1,
    },
    "time": {"T": 3000, "steps": 600},
    "control": {"guess": "zero", "bounds": [-0.002, 0.003], "zero_area": True},
    "optimizer": "none",
}


def test_bounds_leave_a_field_within_them_as_it_is():
    control = load_deck(DECK, QocDeck).deck.control
    t = (np.arange(600) + 0.5) * 5.0
    field = 0.00199 * np.sin(2.0 * np.pi * 12.0 * t / 3000.0)
    made = parametrisation(control, t, 3000.0, EXACT)
    assert_allclose(made.field(made.parameters(field)), field, atol=1e-12 * 0.003)
    # A search could not move what lies next to a bound: it begins a tenth below.
    searched = parametrisation(control, t, 3000.0)
    assert np.abs(searched.field(searched.parameters(field))).max() < ROOM * 0.003
    beyond = made.field(made.parameters(2.0 * field))
    assert beyond.min() >= -0.002
    assert beyond.max() <= 0.003


def test_a_shape_would_multiply_the_field_of_a_file(tmp_path):
    (tmp_path / "pulse.csv").write_text("t (fs), E (V/nm)\n0, 0\n1, 0.1\n2, 0.1\n100, 0\n")
    guess = {"type": "file", "file": str(tmp_path / "pulse.csv")}
    control = {"guess": guess, "shape": {"type": "sin2_edges", "rise": 0.05}}
    told = load_deck({**DECK, "control": control}, QocDeck).warnings
    assert any("control.shape: warning: the field of the file is multiplied" in text for text in told)
    assert not load_deck({**DECK, "control": {"guess": guess}}, QocDeck).warnings
