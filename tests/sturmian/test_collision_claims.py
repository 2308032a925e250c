"""Errors of cross sections and resonances that are not known, or large: what is claimed and what is said."""

import numpy as np
import pytest
import scipy.constants

from qsim.core.errors import NumericsError
from qsim.core.run.progress import Monitor
from qsim.sturmian.resonances import run as resonances
from qsim.sturmian.scatter import result as quantities
from qsim.sturmian.scatter import warnings as collision_warnings
from qsim.sturmian.scatter.cross_sections import kinematics, observed, summed

PHOTON = kinematics.photon(1.2, -2.9)


def test_a_level_that_the_coarser_box_does_not_hold_has_the_error_of_its_series_or_none():
    """3d changes by 10 % with the box and by 15 % with the partial waves there; nothing tells the error of 4f."""

    def seen(levels):
        known = {name: (value, 0.0) for name, value in levels.items()}
        return observed.Observed(1, 0, 10.0, known, (0.1, 0.01), None, None, [(0, 1)])

    parts = [seen({(1, 0): 9.0, (3, 2): 0.2, (4, 2): 0.08, (4, 3): 0.003})]
    coarse, fewer = [seen({(1, 0): 9.0, (3, 2): 0.22})], [seen({(1, 0): 9.0, (3, 2): 0.253})]
    levels = summed._levels(summed.Solutions(parts, coarse, fewer, 1.0))
    assert levels[4, 2][1] == pytest.approx(2.0 * (1.5 * 0.1 + 0.165) * 0.08)
    assert levels[4, 2][1] == pytest.approx(0.8 * levels[3, 2][1], rel=0.3)
    assert np.isnan(levels[4, 3][1])
    whole = summed.combined(summed.Solutions(parts, coarse, fewer, 1.0), PHOTON, None, np.zeros(1), 2.0)
    assert 0.0 < whole.total[1] < 0.1
    assert 0.003 < whole.unitarity[1] * whole.total[0] < 0.3
    assert collision_warnings._unknown(whole, 3) == []
    (text,) = collision_warnings._unknown(whole, 4)
    assert "the error of 4f is not known" in text
    scalar = quantities._measured(levels[4, 3], "kb", "")
    assert (scalar.value, scalar.unit, scalar.error) == (0.003, "kb", None)


@pytest.mark.parametrize("error", [2.4, 34.0])
def test_a_total_that_is_poorly_known_is_told(error):
    seen = summed.Summed((24.0, error), None, None, None, {}, None, None, None, {}, None, None)
    said = collision_warnings._warnings(seen, unitarity=True)
    assert [text.split(";")[0] for text in said] == (
        [] if error <= 2.4 else ["the total cross section is known to 142 % only"]
    )


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        ((2e-5, 1e-3, 1e-4), None),
        ((3e-4, 1e-3, 1e-4), "may be no resonance"),
        ((2e-5, 1e-3, 4e-4), "the width is known to 40 % only"),
        ((5e-6, 1e-3, 2e-3), "the width is not resolved: it is below 3.0e-03 hartree"),
    ],
)
def test_what_is_said_of_a_resonance(errors, text):
    moved, error, width_error = errors
    found = resonances.Resonance(0, 0, -0.7, -0.7 - 5e-4j, 0.0, 1, 1.0, moved, error, width_error)
    said = resonances._warnings(found)
    assert (text is None) == (not said)
    assert all(text in line for line in said)


def test_a_state_below_the_first_threshold_of_its_parity_has_no_width():
    found = resonances.Resonance(
        1, 1, -0.71, -0.7105 - 1e-9j, 0.0, 1, 1.0, 3e-4, 1e-3, 1e-4, "unnatural", -0.5
    )
    assert found.bound
    assert not resonances._warnings(found)
    assert found.name == "L = 1, S = 1, even parity"


def test_a_state_far_from_where_it_was_sought_is_told():
    found = resonances.Resonance(0, 0, -0.9, -0.7 - 5e-4j, 0.0, 1, 1.0, 2e-5, 1e-3, 1e-4)
    (said,) = resonances._warnings(found)
    assert "lies 0.2 hartree from -0.9, where it was sought" in said
    # the energies of a range are a grid, and no guesses
    assert not resonances._warnings(found, alone=False)


@pytest.mark.parametrize("near", [[-1.99, -0.72], [-1.99]])
def test_a_bound_state_is_no_resonance(sturmian, near):
    """Helium of s waves, whose 2 1S lies at -2.144 and whose box puts a level below the ground state of the ion."""
    deck = {
        "system": {"Z": 2},
        "grid": {"R": 14, "order": 7, "ecs": {"angle": 0.3, "length": 10}},
        "basis": "fedvr",
        "channels": {"L": 0, "S": 0, "pairs": [[0, 0]]},
        "task": {"type": "scatter", "process": "resonances", "near": near, "errors": False},
    }
    monitor = Monitor.silent()
    if len(near) == 1:
        with pytest.raises(NumericsError, match="is a bound state, which belongs to task: bound"):
            sturmian.run(monitor, **deck)
        return
    (found,) = sturmian.run(monitor, **deck).resonances
    assert found.energy.real == pytest.approx(-0.7228, abs=1e-3)
    assert any("is a bound state, no resonance, and left out" in text for text in monitor.warnings)


def test_states_are_found_from_energies_that_lie_on_them(sturmian):
    """The equations behind them do not hold there: narrow states of Z = 4, nearer to the energies than 1e-9 hartree."""
    near = [-2.614965486, -2.5, -2.326270847, -2.6]
    deck = {
        "system": {"Z": 4},
        "grid": {"R": 8, "order": 7, "ecs": {"angle": 0.3, "length": 8}},
        "basis": "fedvr",
        "channels": {"L": 1, "pairs": [[0, 1]]},
        "task": {"type": "scatter", "process": "resonances", "near": near, "errors": False},
    }
    found = [one.energy.real for one in sturmian.run(**deck).resonances]
    assert found == pytest.approx([-2.6149654, -2.500499, -2.3263, -2.6149654], abs=2e-4)


@pytest.mark.parametrize("rows", [6, 60])
def test_errors_hold_what_the_rows_of_a_table_leave_open(sturmian, tmp_path, rows):
    """s waves of photoionised lithium's outer pair in the field of a screened nucleus, against the formula of the rows."""
    r = np.geomspace(0.02, 9.0, rows)
    file = tmp_path / "screened.csv"
    np.savetxt(file, np.stack([r, -(1.5 + 1.5 * np.exp(-1.9 * r)) / r], axis=1), delimiter=",", fmt="%.15e")
    deck = {
        "grid": {"R": 18, "order": 8, "ecs": {"angle": 0.3, "length": 12}},
        "basis": "fedvr",
        "channels": {"pairs": [[0, 1]]},
        "task": {"type": "scatter", "process": "photo", "excess": 1.5, "gauges": ["length"]},
    }
    fields = (
        {"type": "table", "file": str(file)},
        {"type": "expression", "value": "-(1.5 + 1.5*exp(-1.9*r))/r", "charge": 1.5},
    )
    table, formula = (
        sturmian.run(system={"Z": 3, "potential": field}, **deck).columns[0][0].total for field in fields
    )
    assert abs(table[0] - formula[0]) < table[1]
    assert (table[1] > 2.0 * formula[1]) == (rows == 6)


def test_a_kilobarn_is_1e_minus_25_square_metres():
    bohr = scipy.constants.physical_constants["Bohr radius"][0]
    assert pytest.approx(bohr**2 / 1e-25, rel=1e-8) == kinematics.KILOBARN
