"""Tables, narrow pulses and squeezed levels in whole runs: claims hold, and what a user must know is told."""

import numpy as np
import pytest

from qsim.tridiag.deck.laser import Laser
from qsim.tridiag.solver.robustness.verdicts import SingularMatrixError
from qsim.tridiag.solver.solve import solve
from qsim.tridiag.tdse.pulses import LaserField
from qsim_checks.coverage import cover, table


@pytest.mark.parametrize("kind", ["tables", "narrow", "squeezed"])
def test_claims_of_random_decks_hold(kind):
    found = cover("tridiag", 2, seed=20, kind=kind)
    text = "\n".join(f"{trial.index}: {claim}" for trial, claim in found.broken)
    assert found.ok, f"{table([found])}\n{text}\n{[trial.failure for trial in found.failures]}"


def field_of(value, **more):
    return LaserField(Laser(pulses=[{"shape": "expression", "value": value, **more}]))


@pytest.mark.parametrize("place", [1.3007, 2.025, 3.99])
@pytest.mark.parametrize("width", [1e-4, 3e-3, 0.02])
def test_the_mean_of_a_step_holds_a_pulse_narrower_than_it(place, width):
    field = field_of(f"5*exp(-((t-{place})/{width})^2)")
    found = field.steps(200, 0.05)
    assert np.sum(found) * 0.05 == pytest.approx(5.0 * width * np.sqrt(np.pi), rel=1e-9)
    assert field.kicks(200, 0.05)
    # A of the steps beside it is that before and after
    a = field.over((np.arange(200) + 0.5) * 0.05, 0.05, potential=True)
    assert a[0] == 0.0
    assert a[-1] == pytest.approx(-5.0 * width * np.sqrt(np.pi), rel=1e-9)


@pytest.mark.parametrize(
    "value", ["0.1*sin(pi*t/10)^2*cos(0.7*t)", "0.05*exp(-((t-4)/1.5)^2)", "0.02*t*exp(-t)"]
)
def test_smooth_fields_keep_their_midpoints_to_the_last_bit(value):
    field = field_of(value, duration=10.0)
    middle = (np.arange(200) + 0.5) * 0.05
    assert np.array_equal(field.steps(200, 0.05), field.electric(middle))
    assert np.array_equal(field.over(middle, 0.05, potential=True), field.vector_potential(middle))
    assert not field.kicks(200, 0.05)


@pytest.mark.parametrize("level", [20, 25, 38])
def test_inverse_iteration_at_an_eigenvalue(level):
    """Of levels 25 and 38 nothing is left of the last pivot."""
    n = 77
    a, off = np.full(n, -2.1), np.ones(n)
    value = float(np.linalg.eigvalsh(np.diag(a) + np.diag(off[1:], 1) + np.diag(off[1:], -1))[level])
    start = np.linspace(1.0, 2.0, n)
    with pytest.raises(SingularMatrixError):
        solve(a - value, off, off, start)
    found = solve(a - value, off, off, start, on_singular="solve")
    assert any("singular" in note for note in found.notes)
    x = found.x / np.linalg.norm(found.x)
    rest = (a - value) * x
    rest[1:] += x[:-1]
    rest[:-1] += x[1:]
    assert np.abs(rest).max() < 1e-12


def test_three_rows_that_are_singular_to_rounding():
    a, b, c = np.array([1.0, 1.0 + 2.0**-52, 1.0]), np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0])
    found = solve(a, b, c, np.array([2.0, 2.0, 5.0]), on_singular="solve")
    assert np.array_equal(found.x, [2.0, 0.0, 5.0])


@pytest.mark.parametrize(("wall", "told"), [(7.0, True), (45.0, False)])
def test_populations_of_levels_that_the_walls_squeeze_are_told(tridiag, wall, told):
    """The upper level of a Poschl-Teller well with s = 1.4 falls off as exp(-0.4 |x|)."""
    deck = {
        "task": "propagate",
        "grid": {"xmin": -wall, "xmax": wall, "points": round(wall / 0.05)},
        "potential": {"type": "poschl_teller", "depth": 1.68, "a": 1.0},
        "initial": {"type": "eigenstate", "level": 0},
        "time": {"dt": 0.05, "t_final": 0.5},
        "observe": [{"populations": {"levels": 2}}],
    }
    found = tridiag.load(**deck).warnings
    assert any("the walls shape level 1" in str(text) for text in found) == told
