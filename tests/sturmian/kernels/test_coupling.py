"""Repulsion on the product grid: numpy = CPU twin = CUDA.

Tolerance: a point sums at most L C products; ``4 eps`` times the sum of their sizes held everywhere.
"""

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.sturmian.kernels.coupling import coupling, terms

EPS = 2.3e-16


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


def case(L, P, C, points, m, dtype, sparse=0.6, seed=0):
    generator = np.random.default_rng([seed, L, P, C, points, m])

    def numbers(*shape):
        x = generator.standard_normal(shape)
        return (x + 1j * generator.standard_normal(shape)) if dtype == np.complex128 else x

    A = generator.standard_normal((L, P, C)) * (generator.random((L, P, C)) < sparse)
    return numbers(L, points), numbers(m, C, points), A


def oracle(G, F, A):
    return np.einsum("lpc,lx,mcx->mpx", A, G, F)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize(
    ("L", "P", "C", "points", "m"),
    [(1, 1, 1, 1, 1), (9, 5, 5, 1024, 2), (5, 3, 6, 255, 1), (7, 9, 17, 1000, 3), (21, 11, 11, 4097, 1), (3, 8, 8, 257, 1)],
)  # fmt: skip
def test_coupling_equals_einsum(device, L, P, C, points, m, dtype):
    G, F, A = case(L, P, C, points, m, dtype)
    out = device.xp.empty((m, P, points), dtype)
    coupling(device, device.asarray(G), device.asarray(F), terms(device, A), out)
    bound = 4 * EPS * oracle(np.abs(G), np.abs(F), np.abs(A)) + 1e-300
    assert np.all(np.abs(device.to_host(out) - oracle(G, F, A)) <= bound)


def test_rows_without_coefficients_become_zero(device):
    G, F, A = case(4, 3, 4, 300, 1, np.float64)
    A[:, 1] = 0
    out = device.asarray(np.full((1, 3, 300), np.nan))
    coupling(device, device.asarray(G), device.asarray(F), terms(device, A), out)
    host = device.to_host(out)
    assert np.all(host[0, 1] == 0)
    assert np.isfinite(host).all()


def test_threads_do_not_change_a_bit():
    G, F, A = case(9, 7, 7, 200_003, 1, np.float64)
    results = []
    for threads in (1, 2, 3):
        device = cpu(threads)
        out = np.empty((1, 7, 200_003))
        coupling(device, G, F, terms(device, A), out)
        results.append(out)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_wrong_shapes_are_refused(device):
    G, F, A = case(2, 2, 2, 64, 1, np.float64)
    with pytest.raises(ValueError, match="do not match"):
        coupling(device, device.asarray(G), device.asarray(F), terms(device, A), device.xp.empty((1, 2, 63)))
