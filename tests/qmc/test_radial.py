"""Radial functions and tables, harmonics, spherical rules: closed forms, derivatives, exactness."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from qsim.qmc.system import radial
from qsim.qmc.system.quadrature import EXACT_TO, legendre, random_rotation, rule
from qsim.qmc.system.radial import KNOTS, LARGEST, Terms, evaluate, reach_of, table
from qsim.qmc.wavefunction.harmonics import order, solid_harmonics
from qsim.qmc.wavefunction.molecules.sto import hydrogen_function, norm_squared, overlap, slater_function
from qsim.qmc.wavefunction.molecules.trap import oscillator_function

GENERATOR = np.random.default_rng(7)
BETWEEN = np.concatenate([GENERATOR.uniform(a, b, 4) for a, b in itertools.pairwise(KNOTS)])


def integral(values, power=2):
    """Integrate values(r) r^power over the radial grid by Gauss-Legendre rules of its intervals."""
    x, w = np.polynomial.legendre.leggauss(10)
    half = 0.5 * np.diff(KNOTS)[:, None]
    r = (half * x + 0.5 * (KNOTS[1:] + KNOTS[:-1])[:, None]).ravel()
    return float(((half * w).ravel() * r**power * values(r)).sum())


# --- radial functions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        Terms.of([1.0, -0.3], [0, 2], [1.5, 0.7], [0.0, 0.2]),
        Terms.of(2.0, 3, 0.0, 0.4),
        slater_function(3, 1, 2.2),
        hydrogen_function(3, 0, 2.0),
        oscillator_function(2, 1, 0.3),
    ],
)
def test_slopes_and_curvatures(f):
    r = np.array([0.05, 0.4, 1.1, 3.0])
    h = 1e-4
    low, mid, high = f(r - h), f(r), f(r + h)
    scale = np.abs(mid.curvature).max()
    assert_allclose(mid.slope, (high.value - low.value) / (2 * h), atol=1e-7 * scale)
    assert_allclose(mid.curvature, (high.slope - low.slope) / (2 * h), atol=1e-7 * scale)


def test_terms_are_regular_at_the_origin():
    value, slope, curvature = Terms.of([2.0, 5.0, 7.0], [0, 1, 2], [0.5, 0.0, 0.0])(np.zeros(1))
    assert value == 2.0
    assert slope == pytest.approx(5.0 - 1.0)
    assert curvature == pytest.approx(14.0 + 0.5)
    with pytest.raises(ValueError, match="not negative"):
        Terms.of(1.0, -1)


@pytest.mark.parametrize(("n", "ell"), [(1, 0), (2, 0), (2, 1), (3, 2), (4, 0)])
def test_slater_functions_are_normalised(n, ell):
    f = slater_function(n, ell, 1.3)
    assert norm_squared(f, ell) == pytest.approx(1.0, rel=1e-12)
    assert integral(lambda r: (r**ell * f(r).value) ** 2) == pytest.approx(1.0, rel=1e-10)


@pytest.mark.parametrize("ell", [0, 1, 3])
def test_hydrogen_functions_are_orthonormal(ell):
    functions = [hydrogen_function(n, ell, 2.0) for n in range(ell + 1, ell + 4)]
    S = [[overlap(f, g, ell) for g in functions] for f in functions]
    assert_allclose(S, np.eye(3), atol=1e-11)


@pytest.mark.parametrize(("n", "ell"), [(1, 0), (3, 0), (3, 1), (4, 3)])
def test_hydrogen_functions_are_eigenfunctions(n, ell):
    r = np.array([0.3, 1.0, 2.7])
    R, slope, curvature = hydrogen_function(n, ell, 3.0)(r)
    energy = -0.5 * (curvature + 2 * (ell + 1) * slope / r) - 3.0 / r * R
    assert_allclose(energy, -0.5 * (3.0 / n) ** 2 * R, atol=1e-10)


@pytest.mark.parametrize(("k", "ell"), [(0, 0), (1, 0), (2, 0), (0, 2), (2, 3)])
def test_oscillator_functions_are_eigenfunctions(k, ell):
    omega, mass = 0.7, 2.0
    f = oscillator_function(k, ell, 0.5 * mass * omega)
    r = np.array([0.2, 1.0, 1.9])
    R, slope, curvature = f(r)
    energy = -0.5 / mass * (curvature + 2 * (ell + 1) * slope / r) + 0.5 * mass * omega**2 * r**2 * R
    assert_allclose(energy, omega * (2 * k + ell + 1.5) * R, atol=1e-11)
    assert integral(lambda r: (r**ell * f(r).value) ** 2) == pytest.approx(1.0, rel=1e-10)


# --- tables ---------------------------------------------------------------------------------------


def test_the_grid_is_graded():
    assert KNOTS.size == radial.INTERVALS + 1 == 385
    assert KNOTS[0] == 0.0
    assert KNOTS[32] == 2.0**-6
    assert KNOTS[-1] == LARGEST == 32.0
    assert np.all(np.diff(KNOTS) > 0.0)


@pytest.mark.parametrize(
    ("f", "values", "curvatures"),
    [
        (Terms.of(1.0, 0, 8.0), 1e-10, 1e-6),
        (Terms.of(1.0, 0, 1.0), 1e-10, 1e-6),
        (Terms.of(1.0, 0, 0.0, 2000.0), 1e-8, 1e-4),
        (Terms.of(1.0, 0, 0.0, 0.25), 1e-9, 1e-5),
        (hydrogen_function(3, 0, 4.0), 1e-9, 1e-5),
    ],
)
def test_tables_follow_their_functions(f, values, curvatures):
    tabulated, exact = evaluate(table(f), BETWEEN), f(BETWEEN)
    assert np.abs(tabulated.value - exact.value).max() < values * np.abs(exact.value).max()
    assert np.abs(tabulated.curvature - exact.curvature).max() < curvatures * np.abs(exact.curvature).max()
    at_knots = evaluate(table(f), KNOTS[:-1])
    for ours, theirs in zip(at_knots, f(KNOTS[:-1]), strict=True):
        assert_allclose(ours, theirs, atol=1e-13 * np.abs(theirs).max())


def test_tables_are_twice_continuous():
    f = hydrogen_function(2, 0, 3.0)
    c = table(f)
    h = np.diff(KNOTS)
    end = np.stack([c.sum(1), c @ np.arange(6.0) / h, c @ (np.arange(6.0) * (np.arange(6.0) - 1)) / h**2])
    begin = np.stack([c[:, 0], c[:, 1] / h, 2 * c[:, 2] / h**2])
    for d in range(3):
        assert np.abs(end[d, :-1] - begin[d, 1:]).max() < 1e-8 * np.abs(begin[d]).max()


@given(st.floats(0.0, 40.0))
@settings(deadline=None, max_examples=200)
def test_places_of_radii(r):
    """A straight line is reproduced, so interval and place belong together."""
    line = radial.Jet
    value = evaluate(table(lambda x: line(x, np.ones_like(x), np.zeros_like(x))), np.array([r])).value[0]
    assert value == pytest.approx(r if r < LARGEST else 0.0, rel=1e-14, abs=1e-300)


def test_reach_and_cut():
    f = Terms.of(1.0, 0, 0.0, 1.0)
    reach = reach_of(f, 0)
    assert reach in KNOTS
    assert np.exp(-(reach**2)) < 1e-13 < np.exp(-((reach - 0.6) ** 2))
    c = table(f, reach)
    assert not evaluate(c, np.array([reach, reach + 1.0, 31.9, 33.0])).value.any()
    assert reach_of(Terms.of(0.0)) == 0.0
    assert reach_of(Terms.of(1.0, 0, 0.01)) == LARGEST


# --- harmonics ------------------------------------------------------------------------------------


def sphere(n_theta=14, n_phi=28):
    x, w = np.polynomial.legendre.leggauss(n_theta)
    phi = 2 * np.pi * np.arange(n_phi) / n_phi
    s = np.sqrt(1 - x * x)
    points = np.stack(
        [np.outer(s, np.cos(phi)), np.outer(s, np.sin(phi)), np.outer(x, np.ones(n_phi))], -1
    ).reshape(-1, 3)
    return points, np.repeat(w / (2 * n_phi), n_phi)


def test_harmonics_are_orthonormal():
    points, weights = sphere()
    S = np.concatenate([solid_harmonics(ell, points)[0] for ell in range(5)], axis=1)
    assert_allclose(4 * np.pi * (S * weights[:, None]).T @ S, np.eye(25), atol=1e-12)


def test_harmonics_in_closed_form():
    d = GENERATOR.normal(size=(5, 3))
    x, y, z = d.T
    assert_allclose(solid_harmonics(1, d)[0], math.sqrt(0.75 / np.pi) * d, rtol=1e-12)
    two = math.sqrt(15 / np.pi) * np.stack(
        [
            x * y / 2,
            y * z / 2,
            (2 * z * z - x * x - y * y) / (4 * math.sqrt(3)),
            x * z / 2,
            (x * x - y * y) / 4,
        ]
    )
    assert_allclose(solid_harmonics(2, d)[0], two.T, rtol=1e-11, atol=1e-12)
    assert order(3) == [-3, -2, -1, 0, 1, 2, 3]


@pytest.mark.parametrize("ell", range(6))
def test_harmonics_are_harmonic(ell):
    d = GENERATOR.normal(size=(4, 3))
    h = 1e-3
    S, G = solid_harmonics(ell, d)
    laplacian = -6 * S
    for x in range(3):
        step = h * np.eye(3)[x]
        (high, slope_high), (low, slope_low) = solid_harmonics(ell, d + step), solid_harmonics(ell, d - step)
        assert_allclose(G[..., x], (high - low) / (2 * h), atol=1e-4)
        assert_allclose(0.5 * (slope_high + slope_low)[..., x], G[..., x], atol=1e-3)
        laplacian = laplacian + high + low
    assert np.abs(laplacian / h**2).max() < 1e-3


# --- spherical rules ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", EXACT_TO)
def test_rules_are_exact(size):
    points, weights = rule(size)
    assert len(points) == size
    assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-14)
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    turn = random_rotation(GENERATOR)
    for ell in range(1, EXACT_TO[size] + 1):
        assert np.abs(weights @ solid_harmonics(ell, points @ turn.T)[0]).max() < 1e-13
    beyond = EXACT_TO[size] + 1
    assert np.abs(weights @ solid_harmonics(beyond, points @ turn.T)[0]).max() > 1e-3


def test_other_rules_are_refused():
    with pytest.raises(ValueError, match="6, 12, 18, 26, 32, 50 points, not 14"):
        rule(14)


def test_legendre_polynomials():
    x = np.linspace(-1, 1, 9)
    assert_allclose(legendre(4, x), [np.ones(9), x, (3 * x**2 - 1) / 2, (5 * x**3 - 3 * x) / 2], atol=1e-14)
    assert legendre(1, x).shape == (1, 9)


def test_rotations_are_rotations():
    turns = np.array([random_rotation(GENERATOR) for _ in range(400)])
    assert_allclose(turns @ np.swapaxes(turns, 1, 2), np.broadcast_to(np.eye(3), turns.shape), atol=1e-13)
    assert_allclose(np.linalg.det(turns), 1.0, atol=1e-13)
    assert np.abs(turns.mean(0)).max() < 0.15  # 5 standard errors of 1 / sqrt(3 400)
