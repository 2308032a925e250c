"""Tables as curves that keep to their rows; see :mod:`qsim.core.physics.curves`."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from qsim.core.physics.curves import table_curve

EIGHT = 2.0 * np.pi / 9.0


def curve_of(x, y, how="auto"):
    return table_curve("table.csv", np.asarray(x, float), np.asarray(y, float), how)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([0, 7, 8.5, 21, 24, 90], [0, 0, 0.04, 0.04, 0, 0]),
        ([-30, -5, -4.8, -3, -2.7, 3, 3.2, 5, 5.5, 30], [0, 0, 2, 2, -0.7, -0.7, 2, 2, 0, 0]),
        (
            np.arange(0.0, 40.0, 2.0),
            np.where((np.arange(0.0, 40.0, 2.0) >= 12) & (np.arange(0.0, 40.0, 2.0) <= 26), 0.3, 0.0),
        ),
    ],
    ids=["trapezoid", "barriers", "even rows"],
)
@pytest.mark.parametrize("how", ["auto", "monotone", "linear"])
def test_curves_stay_within_rows_with_corners(x, y, how):
    curve = curve_of(x, y, how)
    fine = np.linspace(curve.at.x[0], curve.at.x[-1], 20001)
    assert min(y) - 1e-12 <= curve.at(fine).min()
    assert curve.at(fine).max() <= max(y) + 1e-12
    if how != "monotone":
        assert np.allclose(curve.at(fine), np.interp(fine, x, y), rtol=0.0, atol=1e-12)


def test_smooth_dense_tables_are_one_spline_to_the_last_bit():
    x = np.linspace(-6.0, 9.0, 83)
    y = -1.3 / np.cosh(0.6 * x) + 0.02 * x
    curve = curve_of(x, y)
    assert np.array_equal(curve.at.c, CubicSpline(x, y).c)
    assert not curve.remark("x", "auto")


@pytest.mark.parametrize("count", [30, 60, 200])
@pytest.mark.parametrize("jitter", [0.0, 0.35])
def test_the_error_of_smooth_tables_covers_the_truth(count, jitter):
    x = np.linspace(-8.0, 8.0, count)
    x[1:-1] += jitter * (x[1] - x[0]) * np.random.default_rng(count).uniform(-1, 1, count - 2)

    def f(x):
        return np.exp(-(x**2) / 7.0) * np.cos(1.2 * x)

    curve = curve_of(x, f(x))
    fine = np.linspace(-8.0, 8.0, 5001)
    true = np.abs(curve.at(fine) - f(fine)).max()
    assert true <= np.abs(curve.other(fine) - curve.at(fine)).max()


def test_a_spline_that_leaves_its_rows_is_told_with_the_largest_excess():
    curve = curve_of([0, 7, 8.5, 21, 24, 90], [0, 0, 0.04, 0.04, 0, 0], "cubic")
    assert curve.excess > 0.3
    assert f"{curve.excess:.3g}" in curve.remark("t", "cubic")


def test_sparse_rows_are_told_and_straight_ones_are_not():
    x = np.linspace(-4.5, 4.5, 10)
    assert "too few for a cubic spline" in curve_of(x, (x * x - 9.0) ** 2).remark("x", "auto")
    assert not curve_of(x, 0.3 * x - 1.0).remark("x", "auto")
    assert not curve_of([0, 1, 2, 5], [0, 1, 0, 0], "linear").remark("x", "linear")


def test_lines_state_the_curve():
    curve = curve_of([0, 1, 2.5, 5], [0, 1, 0.2, 0], "linear")
    assert np.array_equal(curve.at.c, curve.other.c)


def test_pieces_with_corners_do_not_spoil_smooth_ones():
    """A pulse of dense rows between two far rows of a quiet field stays a spline of its own."""
    t = np.arange(50.0, 90.1, 0.5)
    e = 0.03 * np.sin(np.pi * (t - 50) / 40) ** 2 * np.sin(0.4 * (t - 50))
    curve = curve_of([0, *t, 300], [0, *e, 0])
    assert np.sum(curve.pieces == "cubic") >= t.size - 3
    assert np.abs(curve.at(np.linspace(0, 49.9, 500))).max() < 1e-12
    assert np.abs(curve.at(np.linspace(91, 300, 500))).max() < 1e-4
