"""Both sides of every limit of the checks of sturmian and of what is said about its results."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from qsim.core.errors import NumericsError
from qsim.sturmian import checks
from qsim.sturmian.bound import warnings as bound_warnings
from qsim.sturmian.radial.box import BOX_DENSITY
from qsim.sturmian.radial.parameters import Radial, Values, bounds_of
from tests.sturmian.test_bad_input import BASE, changed


@pytest.fixture
def severities(sturmian):
    """Return a function from values and a text to how severe the findings with this text are."""

    def found(text, points=100, deck=BASE, **values):
        usual = {"R": 16.0, "order": 10, "sizes": (10,), "energy": -0.9, "alpha": 0.6}
        loaded = sturmian.load(**deck)
        findings = checks.physics(loaded.deck, Values(**{**usual, **values}), points)
        return [finding.severity for finding in findings if text in finding.message]

    return found


@pytest.mark.parametrize(("exponent", "expected"), [(595.0, []), (605.0, ["error"])])
def test_underflow_of_the_generating_potential(severities, exponent, expected):
    assert severities("exp(-alpha R) underflows", alpha=exponent / 16.0) == expected


@pytest.mark.parametrize(("factor", "expected"), [(0.99, []), (1.01, ["error"])])
@pytest.mark.parametrize("key", ["R", "alpha"])
def test_underflow_within_a_scan(severities, key, factor, expected):
    usual = {"R": 16.0, "alpha": 0.6}
    scanned = factor * 600.0 * usual[key] / (16.0 * 0.6)
    deck = changed(scan={key: [usual[key], scanned]}, grid={"R": 16, "order": 10})
    if expected:  # the plan refuses it, too
        with pytest.raises(Exception, match="underflows"):
            severities("underflows", deck=deck)
    else:
        assert severities("underflows", deck=deck) == []


@pytest.mark.parametrize(("count", "expected"), [(100, []), (101, ["error"])])
def test_more_functions_than_points(severities, count, expected):
    assert severities("functions, but the radial grid has 100", sizes=(count,)) == expected


@pytest.mark.parametrize(("lengths", "expected"), [(6.1, []), (5.9, ["warning"])])
def test_functions_that_do_not_end_within_the_box(severities, lengths, expected):
    """``exp(-kappa R)`` with kappa R = 6 is left at the wall."""
    energy = -0.5 * (lengths / 16.0) ** 2
    assert severities("do not end within R", energy=energy) == expected


@pytest.mark.parametrize(("points", "expected"), [(5.15, []), (4.85, ["error"])])
def test_points_per_wavelength(sturmian, severities, points, expected):
    """A fast wave, to which the charge adds little: its length over the distance of points in the widest element."""
    deck = changed(grid={"R": 16, "order": 10, "elements": 400})
    values = Values(R=16.0, order=10, sizes=(10,), energy=-0.9, alpha=0.6)
    widest = np.diff(bounds_of(Radial.of(sturmian.load(**deck).deck), values)).max()
    wave = points * widest / 9
    found = severities("points per wavelength", deck=deck, energy=0.5 * (2 * math.pi / wave) ** 2)
    assert found == expected


# ----------------------------------------------------------------------------------------- results

BOUND = {"energy": -2.9, "threshold": -2.0, "bound": True, "L": 0, "S": 0, "parity": "even", "root": 0}
SURE = {"error_radial": 1e-6, "error_angular": 1e-6, "error_in_pairs": 1e-5, "error_radial_limit": 1e-6}
MOMENTS = {"kinetic": 2.9, "virial_ratio": 2.0}


def state(**changes):
    return SimpleNamespace(**{**BOUND, **SURE, "moments": MOMENTS, "wall": 0.0, **changes})


def result(*states, extrapolate=(), bare=True, R=16.0, charge=2.0):
    r = np.linspace(0.1, R, 50)
    problem = SimpleNamespace(
        grid=SimpleNamespace(r=r, R=R),
        V=-2.0 / r,
        is_gsf=True,
        is_bare=bare,
        extrapolate=extrapolate,
        lists_pairs=False,
        radial=SimpleNamespace(core_charge=charge),
    )
    return SimpleNamespace(problem=problem, states=list(states))


def said(found, text):
    return sum(text in line for line in bound_warnings.require_contained(found))


@pytest.mark.parametrize(("error", "times"), [(0.98e-3, 0), (1.02e-3, 1)])
def test_poor_functions(error, times):
    assert said(result(state(error_radial=error)), "functions and grid are poor") == times


@pytest.mark.parametrize(("part", "text"), [
    ("error_radial", "what functions and grid leave out was not estimated"),
    ("error_angular", "what the missing partial waves add was not estimated"),
])  # fmt: skip
def test_errors_that_were_not_estimated(part, text):
    assert said(result(state()), text) == 0
    assert said(result(state(**{part: math.nan})), text) == 1


def test_an_extrapolation_whose_error_was_not_estimated():
    text = "leave out at l_max = 4 was not estimated"
    assert said(result(state(), extrapolate=(2, 4)), text) == 0
    assert said(result(state(error_radial_limit=math.nan)), text) == 0  # nothing is extrapolated
    assert said(result(state(error_radial_limit=math.nan), extrapolate=(2, 4)), text) == 1


@pytest.mark.parametrize(("times_error", "expected"), [(9.8, 0), (10.2, 1)])
def test_a_virial_ratio_beside_the_estimated_error(times_error, expected):
    """The gain ``T (2 - q)^2 / 4`` against ten errors; of other charges than nuclei it says nothing."""
    q = 2.0 + math.sqrt(4 * times_error * SURE["error_in_pairs"] / MOMENTS["kinetic"])
    one = state(moments={"kinetic": MOMENTS["kinetic"], "virial_ratio": q})
    assert said(result(one), "the virial ratio") == expected
    assert said(result(one, bare=False), "the virial ratio") == 0


@pytest.mark.parametrize(("factor", "refused"), [(0.97, False), (1.03, True)])
def test_density_at_the_end_of_the_box(factor, refused):
    """A weakly bound state: 0.05 hartree, kappa = 0.316; its slope at a wall is 2 kappa times its amplitude."""
    kappa = math.sqrt(0.1)
    one = state(energy=-2.05, wall=factor * BOX_DENSITY * (2 * kappa) ** 2)
    if refused:
        with pytest.raises(NumericsError, match="is not contained in the box"):
            bound_warnings.require_contained(result(one))
        above = state(energy=-2.05, wall=one.wall, root=1)
        lowest = state(energy=-2.9)
        assert said(result(lowest, above), "is not contained in the box") == 1  # told of higher ones
    else:
        assert said(result(one), "is not contained") == 0


@pytest.mark.parametrize(("ratio", "confined"), [(0.98, False), (1.02, True)])
def test_a_potential_that_rises_almost_linearly(ratio, confined):
    """``V = r^p`` has the slope p V / r: at least 0.9 of that of a line."""
    r = np.linspace(10.0, 10.001, 5)
    assert bound_warnings.confining(r, r ** (0.9 * ratio)) == confined


@pytest.mark.parametrize(
    ("error", "text"), [(0.062, "too poor to tell"), (0.058, "not a bound state, but one of")]
)
def test_a_state_above_its_threshold(error, text):
    """Twice the radial error must cover the distance to the threshold, 0.12 hartree."""
    one = state(energy=-1.88, bound=False, error_radial=error, error_threshold=0.0)
    assert text in bound_warnings._above_threshold(one, False)
