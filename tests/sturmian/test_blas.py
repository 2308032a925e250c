"""Matrix products of the dense route: tiles = NumPy, with the same bits on any number of threads.

Tolerance.  A product of random numbers of order one adds k terms; their rounding is bounded by ``eps k`` times the sizes.
"""

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from qsim.core.device import blas
from qsim.core.device.device import cpu
from qsim.sturmian.linalg.blas import TILE, product, symmetric_square

EPS = 2.3e-16
SIZES = [(1, 1, 1), (3, 40, 5), (TILE, 70, TILE + 1), (2 * TILE + 5, 33, 3 * TILE)]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


def random(shape, kind, seed=0):
    generator = np.random.default_rng([seed, *shape])
    values = generator.standard_normal(shape)
    return values + 1j * generator.standard_normal(shape) if kind is np.complex128 else values


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.parametrize("kind", [np.float64, np.complex128])
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products_of_tiles_are_products(device, m, k, n, kind):
    a, b = random((m, k), kind), random((k, n), kind, 1)
    found = device.to_host(product(device, device.asarray(a), device.asarray(b)))
    assert np.all(abs(found - a @ b) <= 4 * EPS * k * (abs(a) @ abs(b)))


@pytest.mark.parametrize("kind", [np.float64, np.complex128])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (40, 5), (70, TILE + 1), (33, 3 * TILE)])
def test_lower_triangles_are_those_of_the_square(device, k, n, kind):
    x = random((k, n), kind)
    found = np.tril(device.to_host(symmetric_square(device, device.asarray(x))))
    assert np.all(abs(found - np.tril(x.T @ x)) <= 4 * EPS * k * (abs(x.T) @ abs(x)))


@pytest.mark.parametrize("kind", [np.float64, np.complex128])
def test_threads_change_no_bit(kind):
    a, b = random((3 * TILE, 65), kind), random((65, 2 * TILE + 9), kind, 1)
    one, four = cpu(1), cpu(4)
    np.testing.assert_array_equal(product(one, a, b), product(four, a, b))
    np.testing.assert_array_equal(np.tril(symmetric_square(one, b)), np.tril(symmetric_square(four, b)))


def test_blas_has_one_thread_while_the_program_has_several():
    before = blas_threads()
    with blas.one_thread():
        assert blas_threads() == {1}
    assert blas_threads() == before
    with blas.small_matrices(2):
        with blas.one_thread():
            assert blas_threads() == {1}
        with blas.large_matrices(blas.LARGE), blas.one_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == before
