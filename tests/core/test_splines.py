"""Splines are those of SciPy."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from qsim.core.physics.splines import cubic_spline


@pytest.mark.parametrize("points", [4, 5, 6, 33, 200])
@pytest.mark.parametrize("even", [True, False])
def test_splines_are_those_of_scipy_between_points_at_them_and_beyond(points, even):
    generator = np.random.default_rng(points)
    x = np.arange(points) - 0.5 if even else np.cumsum(generator.uniform(0.1, 2.0, points))
    y = generator.normal(size=points)
    at = np.concatenate([x, generator.uniform(x[0] - 1.0, x[-1] + 1.0, 50)])
    expected = CubicSpline(x, y)(at)
    # rounding of a few operations, of which cubes beyond the ends are the largest
    np.testing.assert_allclose(cubic_spline(x, y, at), expected, rtol=0, atol=1e-13 * np.abs(expected).max())
