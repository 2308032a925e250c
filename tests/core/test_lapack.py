"""Eigenvalues by LAPACK's own routines, beside which a stop is heard."""

import numpy as np
import pytest
import scipy.linalg

from qsim.core.device import pool
from qsim.core.device.pool import listening
from qsim.core.run.stops import aside, lapack

EPS = np.finfo(float).eps


def symmetric(size, seed=3):
    matrix = np.random.default_rng(seed).normal(size=(size, size))
    return matrix + matrix.T


@pytest.mark.parametrize(("size", "count"), [(1, 1), (7, 1), (7, 7), (60, 11), (500, 3)])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "overlap"])
def test_lowest_pairs_are_those_of_scipy(size, count, beside):
    H, B = symmetric(size), np.random.default_rng(4).normal(size=(size, size))
    S = B @ B.T / size + np.eye(size) if beside else None
    metric = np.eye(size) if S is None else S
    kept = H.copy()
    values, vectors = lapack.lowest_pairs(H, S, count)
    # Lost are some roundings of the largest element per row.
    tolerance = 20.0 * EPS * size * np.abs(H).max()
    expected = scipy.linalg.eigh(H, S, eigvals_only=True)[:count]
    np.testing.assert_allclose(values, expected, rtol=0.0, atol=tolerance)
    np.testing.assert_allclose(H @ vectors, metric @ vectors * values, rtol=0.0, atol=20.0 * tolerance)
    np.testing.assert_allclose(
        vectors.T @ metric @ vectors, np.eye(count), rtol=0.0, atol=20.0 * EPS * size * np.abs(metric).max()
    )
    np.testing.assert_array_equal(H, kept)


def test_an_overlap_that_is_not_positive_definite_is_an_error():
    with pytest.raises(np.linalg.LinAlgError, match="LAPACK.s info is 7 for 5 rows"):
        lapack.lowest_pairs(symmetric(5), np.diag([1.0, -1.0, 1.0, 1.0, 1.0]), 1)


@pytest.mark.parametrize("solve", [lapack.eigh, lambda matrix: lapack.lowest_pairs(matrix, None, 2)])
def test_a_stop_is_heard_while_a_large_matrix_is_solved(monkeypatch, solve):
    monkeypatch.setattr(aside, "LOOK", 0.001)
    monkeypatch.setattr(pool, "LISTEN", 0.0)

    def stop():
        raise KeyboardInterrupt

    with listening(stop), pytest.raises(KeyboardInterrupt):
        solve(symmetric(900))
    aside._left.pop().join(60)
