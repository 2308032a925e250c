"""Photons that meet excited states, tolerances that rounding does not reach, and poles that are not resolved."""

import numpy as np
import pytest

from qsim.sturmian.scatter.photo import fano
from qsim.sturmian.scatter.photo.result import QUANTITIES
from qsim.sturmian.scatter.photo.warnings import warnings_of
from tests.changes import change
from tests.sturmian.test_photons import SMALL

# Of the default tolerance, Mb.
SMALL_TOTALS = [5.345155, 3.206931]
LITHIUM = {
    "system": {"Z": 3},
    "grid": {"R": 18, "order": 9, "ecs": {"angle": 0.3, "length": 30}},
    "basis": {"type": "fedvr"},
    "channels": {"L": 1, "pairs": [[0, 1]]},
    "initial": {"S": 1, "l_max": 0},
    "task": {
        "type": "scatter",
        "process": "photo",
        "photon": [0.9, 2.0],
        "gauges": ["length", "velocity"],
        "levels": 1,
        "threshold": "grid",
    },
}


@pytest.mark.parametrize("R", [14.0, 18.0, 26.0])
def test_an_excited_state_lives_in_the_box_of_the_deck(sturmian, R):
    """2 3S of Li+ with the pair (0, 1), against a grid of turned radii: small boxes have large errors, and these hold."""
    judgement = sturmian.run(**change(LITHIUM, {"grid__R": R})).judgement
    # length and velocity, and how far two grids of the truth differ
    truth, spread = np.array([[1.2876, 0.2668089], [1.28336, 0.2577625]]), np.array([6e-5, 1e-7])
    assert np.all(np.abs(judgement.total - truth) < judgement.total_error + spread)
    assert R < 18.0 or np.all(judgement.total_error < 2e-3 * truth)
    # The wall is multiplied by r in the length gauge.
    assert R > 14.0 or judgement.total_error[0, 1] > judgement.total_error[1, 1]


def test_poles_that_their_errors_hide_are_one_line(sturmian):
    """Of helium's series below n = 2 in a small box some are listed, with errors smaller than they are; others are counted."""
    photon = {"from": "59 eV", "to": "65.3 eV", "count": 20}
    deck = change(SMALL, {"channels": {"L": 1, "l_max": 2}, "task__photon": photon, "task__levels": 2})
    result = sturmian.run(**deck)
    assert 1 <= result.own.poles.size == len(result.resonance_errors)
    assert np.all(result.resonance_errors[:, 3] < 1.0)
    assert result.unresolved
    made = {
        name: scalar
        for q in QUANTITIES
        if q.name.startswith(("fano_", "resonances_"))
        for name, scalar in q.value(result).items()
    }
    assert made["resonances_unresolved"].value == len(result.unresolved)
    # Partial waves move 2s2p by more than its width: at the same distance from it the cross section is known nevertheless.
    judgement, own = result.judgement, result.own
    across = np.abs(own.E - own.poles[0].real) < -4.0 * own.poles[0].imag
    relative = judgement.total_error[0, across] / judgement.total[0, across]
    assert across.sum() > 10
    assert np.median(relative) < 0.2
    assert np.median(judgement.total_position[0, across] / judgement.total[0, across]) > 0.5
    assert all("l_max" in text for text in warnings_of(result) if "worse than" in text)
    # No line from the last energy of a narrow profile cuts through the cross section.
    assert np.diff(own.E).max() < 1.001 * 6.3 / 27.2114 / 19
    assert all(np.isfinite(scalar.value) for scalar in made.values())
    for name, scalar in made.items():
        assert "rho2" not in name or scalar.value <= 1.0


def test_energies_keep_their_distance_from_resonances_that_move():
    """A narrow one by twenty times its width, a wide one by a tenth, two that are close; far away nothing moves."""
    poles = [(-0.9, 1e-4, 2e-3), (-0.7, 4e-3, -4e-4), (-0.6, 1e-3, 1e-3), (-0.597, 1e-3, 3e-3)]
    pairs = [
        (fano.Pole(E - 0.5j * width, np.ones(1), 0.0), fano.Pole(E + move - 0.5j * width, np.ones(1), 0.0))
        for E, width, move in poles
    ]
    E = np.linspace(-1.2, -0.4, 80001)
    moved = fano.shifts(E, pairs)
    for at, width, move in poles:
        near = np.abs(E - at) < min(width, 1e-3)
        assert moved[near] == pytest.approx(move)
    assert np.all(np.diff(E + moved) > 0.0)
    assert not moved[(E < -0.95) | (np.abs(E + 0.8) < 0.05) | (E > -0.55)].any()
    assert not fano.shifts(E, []).any()


@pytest.mark.parametrize("tolerance", [1e-5, 1e-8, 1e-13])
def test_a_tolerance_that_rounding_does_not_reach_keeps_the_best_solution(sturmian, tolerance):
    """Cross sections do not depend on it, and the residual is the one that is there."""
    result = sturmian.run(**SMALL, solver={"tolerance": tolerance})
    assert result.judgement.total[0] == pytest.approx(SMALL_TOTALS, rel=1e-4)
    assert 0.0 < result.own.residual < max(10.0 * tolerance, 1e-8)
    missed = any("was not reached" in text for text in warnings_of(result))
    assert missed == (result.own.residual > 10.0 * tolerance)
