"""Systems with elements over hundreds of orders of magnitude, and at the ends of the range of doubles.

The oracle is elimination in rational numbers.  A solution is good if each row is solved to its own rounding errors; where it is
the last rung's, also each unknown.
"""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from qsim.core.errors import NumericsError
from qsim.tridiag import solve
from qsim.tridiag.solver.ladder import SingularMatrixError
from qsim.tridiag.solver.robustness.extended import Numbers, fits, solve_extended
from qsim.tridiag.solver.stream import solve_streamed
from qsim.tridiag.solver.systems import ArraySource
from qsim_checks import tridiag as coverage
from qsim_checks.coverage import cover
from qsim_checks.tridiag.wild import rational_solution, rowwise

EPS = np.finfo(float).eps
TYPES = ["nshape", "thomas", "woodbury", "lapack"]


def draw(seed, n, decades, kind="d", batch=()):
    """Return bands with wild diagonals, b[0] = c[-1] = 0, and a right-hand side of the same shape."""
    rng = np.random.default_rng(seed)
    shape = (*batch, n)
    a, b, c, d = rng.normal(size=(4, *shape)) + (1j * rng.normal(size=(4, *shape)) if kind == "D" else 0.0)
    b[..., 0] = c[..., -1] = 0.0
    return a * 10.0 ** rng.uniform(-decades, decades, shape), b, c, d


def worst_row(a, b, c, x, d):
    return rowwise(a, b, c, x.reshape(len(a), -1), d.reshape(len(a), -1))


def away(x, exact):
    """Return the largest error of an unknown relative to it, by rational numbers."""
    pairs = zip(x, exact, strict=True)
    return max(
        float((abs(Fraction(z.real) - p) + abs(Fraction(z.imag) - q)) / (abs(p) + abs(q)))
        for z, (p, q) in ((complex(z), e) for z, e in pairs)
    )


# ------------------------------------------------------------------------------------ wild diagonals

SEVEN = (
    np.array([8.1e35, -2.7e-44, 5.2e12, 3.3e-9, 7.7e-61, -1.9e28, 4.4e-38]),
    np.array([0.0, 1.4, -0.7, 2.2, 0.9, -1.1, 0.6]),
    np.array([-0.8, 1.7, 0.4, -1.5, 2.6, 0.3, 0.0]),
    np.array([0.5, -0.2, 1.3, 0.8, -0.4, 0.07, -1.6]),
)


@pytest.mark.parametrize("kind", TYPES)
def test_every_row_of_a_wild_system_is_solved(kind):
    found = solve(*SEVEN, type=kind)
    assert worst_row(*SEVEN[:3], found.x, SEVEN[3]) <= 1e-14
    assert found.rowwise_error <= 1e-14
    assert away(found.x, rational_solution(*SEVEN[:3], SEVEN[3][:, None])[0]) < 1e-13


@pytest.mark.parametrize("kind", ["d", "D"])
@pytest.mark.parametrize("decades", [30, 60, 100])
def test_random_wild_systems(decades, kind):
    for seed in range(12):
        system = draw(seed, 3 + seed, decades, kind)
        found = solve(*system)
        assert worst_row(*system[:3], found.x, system[3]) <= 1e-14
        assert abs(found.rowwise_error - worst_row(*system[:3], found.x, system[3])) <= 8 * EPS
        if found.algorithm == "extended":
            assert away(found.x, rational_solution(*system[:3], system[3][:, None])[0]) <= EPS


def test_wild_batches_and_columns():
    a, b, c, d = draw(5, 11, 80, batch=(4,))
    found = solve(a, b, c, d)
    assert max(worst_row(*one) for one in zip(a, b, c, found.x, d, strict=True)) <= 1e-14
    a, b, c, _ = draw(6, 13, 80)
    d = np.random.default_rng(3).normal(size=(13, 3)) * [1.0, 1e40, 1e-70]
    found = solve(a, b, c, d)
    assert found.x.shape == (13, 3)
    assert worst_row(a, b, c, found.x, d) <= 1e-14


@pytest.mark.parametrize("seed", range(4))
def test_wild_cyclic_systems(seed):
    a, b, c, d = draw(seed, 5 + seed, 70)
    b[0], c[-1] = 1.3, -0.4
    found = solve(a, b, c, d, cyclic=True)
    assert worst_row(a, b, c, found.x, d) <= 1e-14
    assert found.rowwise_error <= 1e-14


def test_cyclic_systems_whose_products_overflow():
    """The residual of a first solution may overflow where the right-hand side is finite: it is pivoted, not called infinite."""
    a, b, c = (np.array([v, 2e-90, -3e80, 5e99, 1e-70]) for v in (4e-99, -7e95, 6e98))
    d = np.array([1e100, -2e-95, 3e98, 4e-60, 1e99])
    found = solve(a, b, c, d, cyclic=True)
    assert worst_row(a, b, c, found.x, d) <= 1e-14


def test_single_precision_is_wild_sooner():
    a, b, c, d = (v.astype(np.float32) for v in draw(8, 9, 15))
    found = solve(a, b, c, d)
    assert found.x.dtype == np.float32
    assert worst_row(a, b, c, found.x, d) <= 5.4e-6


def test_wild_and_singular():
    """Rows (2^200, 2^-200, 0) and (3 2^200, 3 2^-200, 0) depend on each other."""
    a = np.array([2.0**200, 3 * 2.0**-200, 3e-50])
    b = np.array([0.0, 3 * 2.0**200, 1e-50])
    c = np.array([2.0**-200, 0.0, 0.0])
    with pytest.raises(SingularMatrixError):
        solve(a, b, c, np.ones(3))


def test_errors_can_be_asked_for_instead():
    with pytest.raises(NumericsError, match="cannot be solved reliably"):
        solve(*SEVEN, on_unstable="error")


def test_long_systems_that_no_rung_solves_are_refused(monkeypatch):
    systems = [draw(seed, 17, 100) for seed in range(30)]
    last = [system for system in systems if solve(*system).algorithm == "extended"]
    assert last
    monkeypatch.setattr("qsim.tridiag.solver.robustness.extended.UNKNOWNS", 5)
    for system in last:
        with pytest.raises(NumericsError, match="of a row .* exceeds the tolerance"):
            solve(*system)


def test_rows_far_from_a_source_are_solved():
    """A right-hand side that is zero but in one row: most windows of the kernels see nothing of it."""
    n = 20_000
    d = np.zeros(n)
    d[n // 2] = 1.0
    found = solve(np.full(n, 4.0), np.full(n, -1.0), np.full(n, -1.0), d)
    assert found.rowwise_error <= 1e-14
    ratio = 2.0 - np.sqrt(3.0)
    rows = np.arange(n // 2, n // 2 + 400)
    exact = ratio ** (rows - n // 2) / (2 * np.sqrt(3.0))
    np.testing.assert_allclose(found.x[rows], exact, rtol=1e-12)


def test_streamed_rows_are_judged_one_by_one():
    rng = np.random.default_rng(2)
    b, c, d = rng.normal(size=(3, 4000))
    a = rng.normal(size=4000) * 10.0 ** rng.uniform(-60, 60, 4000)
    with pytest.raises(NumericsError, match="backward error of a row"):
        solve_streamed(ArraySource(a, b, c, d), budget=200_000)


# ---------------------------------------------------------------------------- ends of the range of doubles


def tridiagonal(scale, n=12):
    off = np.full(n, scale)
    return 4 * off, off.copy(), off.copy()


def test_denormal_matrices_are_scaled():
    d = np.random.default_rng(4).normal(size=12)
    for scale, load in ((3e-311, 1e-20), (1e-305, 1e-305), (7e-309, 1.0e-8)):
        bands = tridiagonal(scale)
        bands[1][0] = bands[2][-1] = 0.0
        found = solve(*bands, load * d)
        assert worst_row(*bands, found.x, load * d) <= 1e-14
        assert away(found.x, rational_solution(*bands, (load * d)[:, None])[0]) < 1e-14


@pytest.mark.parametrize("n", [1, 12, 12_000])
def test_solutions_out_of_range_are_told_as_such(n):
    with pytest.raises(NumericsError, match=r"overflows: x\[\d+\] is about 1e\+4") as caught:
        solve(*tridiagonal(1e-210, n), np.full(n, 1e199))
    assert not isinstance(caught.value, SingularMatrixError)
    with pytest.raises(NumericsError, match=r"underflows: .* is about 1e-4") as caught:
        solve(*tridiagonal(1e220, n), np.full(n, 1e-230))
    assert not isinstance(caught.value, SingularMatrixError)
    assert "power of two" in caught.value.hint


def test_single_unknowns_that_underflow_are_told():
    a, b, c = np.array([1.0, 1e200, 1.0]), np.zeros(3), np.zeros(3)
    found = solve(a, b, c, np.array([1.0, 1e-150, 2.0]))
    assert found.x.tolist() == [1.0, 0.0, 2.0]
    assert any("1 unknown(s) below 2.2e-308" in note for note in found.notes)


# ------------------------------------------------------------------------------------------ the last rung


def test_exact_zeros_and_tiny_differences():
    """x = (0, 1, 0), and a matrix whose rows differ by one part in 1e200."""
    third = 1.0 / 3.0
    a, b, c = np.array([third, 0.1, third]), np.array([0.0, 0.7, 0.3]), np.array([0.3, 0.7, 0.0])
    exact = solve_extended(Numbers(a, b, c, np.array([[0.3, 0.1, 0.3]])))
    assert exact.x.tolist() == [[0.0, 1.0, 0.0]]
    a, b, c = np.array([1.0, 1.0]), np.array([0.0, 1.0]), np.array([1.0, 0.0])
    with pytest.raises(SingularMatrixError):
        solve_extended(Numbers(a, b, c, np.ones((1, 2))))
    a, b, c = np.array([1e-100, 1.0, 1.0]), np.array([0.0, 1.0, 1.0]), np.array([1.0, 1e-100, 0.0])
    found = solve_extended(Numbers(a, b, c, np.array([[1.0, 2.0, 3.0]])))
    assert away(found.x[0], rational_solution(a, b, c, np.array([[1.0], [2.0], [3.0]]))[0]) <= EPS


def test_errors_of_the_last_rung_are_exact():
    system = draw(2, 7, 90, "D")
    found = solve_extended(Numbers(*system[:3], system[3][None]))
    assert found.rowwise == pytest.approx(worst_row(*system[:3], found.x[0], system[3]), rel=1e-12)
    assert found.backward <= found.rowwise
    assert Decimal(found.residual).is_finite()
    assert fits(1, 5000, np.dtype(complex))
    assert not fits(2, 5000, np.dtype(complex))


# ------------------------------------------------------------------------------------------ masked arrays


def test_masked_elements_are_refused():
    a, b, c = tridiagonal(1.0, 6)
    d = np.ma.masked_array(np.ones(6), mask=[False] * 4 + [True, False])
    with pytest.raises(ValueError, match=r"d\[4\] is masked"):
        solve(a, b, c, d)
    with pytest.raises(ValueError, match=r"a\[1\] is masked"):
        ArraySource(np.ma.masked_greater([4.0, 9.0, 4.0], 5.0), b[:3], c[:3], np.ones(3))
    plain = np.ma.masked_array(np.ones(6), mask=np.zeros(6, bool))
    np.testing.assert_array_equal(solve(a, b, c, plain).x, solve(a, b, c, np.ones(6)).x)


# ----------------------------------------------------------------------------------------------- decks


@pytest.mark.exhaustive
def test_random_wild_decks(monkeypatch):
    monkeypatch.setattr(coverage, "WILD", 2.0)
    found = cover("tridiag", 1000, seed=3)
    assert found.ok, (found.broken, [trial.failure for trial in found.failures])
