"""Pair densities, expansion and nested quadrature: sums as they are written = CPU twin = CUDA.

Tolerances.  An expansion only multiplies by a factor; a pair density is one product.  A nested sum adds Ns Nq and then Nq terms,
whose rounding is bounded by ``4 eps Nq`` times the sum of their sizes.
"""

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.sturmian.kernels import repulsion
from qsim.sturmian.kernels.repulsion import (
    SIDES,
    expand_pairs,
    kronecker_products,
    pair_count,
    pair_densities,
    simpson_terms,
)

EPS = 2.3e-16
KINDS = [np.float64, np.complex128]
SIZES = [1, 2, 15, 16, 17, 33]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


def random(shape, kind, seed=0):
    generator = np.random.default_rng([seed, *shape])
    values = generator.standard_normal(shape)
    return values + 1j * generator.standard_normal(shape) if kind is np.complex128 else values


def packed_numbers(n):
    """Return p[n', n] of all pairs, n (n + 1)/2 + n' for n' <= n, symmetric."""
    low, high = np.sort(np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij")), axis=0)
    return high * (high + 1) // 2 + low


# ------------------------------------------------------------------------------------ pair densities


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", SIZES)
def test_packed_pairs_are_products(device, n, kind):
    c = random((7, n), kind)
    on_device = device.asarray(c)
    rho = device.to_host(pair_densities(device, on_device, on_device, True))
    assert rho.shape == (7, n * (n + 1) // 2)
    want = c[:, :, None] * c[:, None, :]
    np.testing.assert_allclose(rho[:, packed_numbers(n)], want, rtol=4 * EPS, atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n1", "n0"), [(1, 1), (3, 5), (33, 16), (16, 33)])
def test_full_pairs_are_products(device, n1, n0, kind):
    first, second = random((300, n1), kind), random((300, n0), kind, 1)
    rho = pair_densities(device, device.asarray(first), device.asarray(second), False)
    want = (first[:, :, None] * second[:, None, :]).reshape(300, -1)
    np.testing.assert_allclose(device.to_host(rho), want, rtol=4 * EPS, atol=1e-15)


def test_packed_pairs_are_those_of_equal_functions():
    with pytest.raises(ValueError, match="packed pairs"):
        pair_count(3, 4, True)
    with pytest.raises(ValueError, match="different grids"):
        pair_densities(cpu(1), np.zeros((3, 2)), np.zeros((4, 2)), False)


# ------------------------------------------------------------------------------------------ expansion


def expanded(values, shape, packed_a, packed_b):
    """Return the matrix [(a' b'), (a b)] by fancy indexing."""
    na1, na0, nb1, nb0 = shape
    p = packed_numbers(na0) if packed_a else np.arange(na1 * na0).reshape(na1, na0)
    q = packed_numbers(nb0) if packed_b else np.arange(nb1 * nb0).reshape(nb1, nb0)
    four = values[p[:, :, None, None], q[None, None, :, :]]  # a', a, b', b
    return four.transpose(0, 2, 1, 3).reshape(na1 * nb1, na0 * nb0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "packed"),
    [
        ((1, 1, 1, 1), (True, True)),
        ((5, 5, 17, 17), (True, True)),
        ((18, 18, 33, 33), (True, True)),
        ((3, 4, 17, 17), (False, True)),
        ((17, 17, 18, 3), (True, False)),
        ((2, 3, 17, 16), (False, False)),
    ],
)
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("streamed", [0, 1 << 60], ids=["past the caches", "plain"])
def test_expansion(device, shape, packed, kind, accumulate, streamed, monkeypatch):
    monkeypatch.setattr(repulsion, "STREAMED", streamed)
    pairs = pair_count(*shape[:2], packed[0]), pair_count(*shape[2:], packed[1])
    values = random(pairs, kind)
    before = random((shape[0] * shape[2], shape[1] * shape[3]), kind, 3)
    out = device.asarray(before.copy())
    expand_pairs(device, device.asarray(values), shape, *packed, False, 0.5, accumulate, out)
    want = 0.5 * expanded(values, shape, *packed) + (before if accumulate else 0.0)
    np.testing.assert_allclose(device.to_host(out), want, rtol=4 * EPS, atol=4 * EPS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", SIZES)
def test_expansion_of_a_lower_triangle(device, n, kind):
    values = random((n * (n + 1) // 2,) * 2, kind)
    whole = np.tril(values) + np.tril(values, -1).T
    values[np.triu_indices_from(values, 1)] = np.nan  # must not be read
    out = device.xp.empty((n * n, n * n), values.dtype)
    expand_pairs(device, device.asarray(values), (n,) * 4, True, True, True, 1.0, False, out)
    np.testing.assert_array_equal(device.to_host(out), expanded(whole, (n,) * 4, True, True))


def test_expansion_refuses_what_does_not_fit():
    out = np.empty((4, 4))
    with pytest.raises(ValueError, match="do not belong"):
        expand_pairs(cpu(1), np.zeros((3, 4)), (2, 2, 2, 2), True, True, False, 1.0, False, out)
    with pytest.raises(ValueError, match="square"):
        expand_pairs(cpu(1), np.zeros((3, 4)), (2, 2, 2, 2), True, False, True, 1.0, False, out)


# ---------------------------------------------------------------------------------- Kronecker products


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 4, 2, 5), (17, 16, 9, 33)])
def test_kronecker_products(device, shape, accumulate, kind):
    first, second = random(shape[:2], kind), random(shape[2:], kind, 1)
    before = random((shape[0] * shape[2], shape[1] * shape[3]), kind, 2)
    out = device.asarray(before.copy())
    kronecker_products(device.asarray(first), device.asarray(second), accumulate, out)
    want = np.kron(first, second) + (before if accumulate else 0.0)
    np.testing.assert_allclose(device.to_host(out), want, rtol=8 * EPS, atol=16 * EPS)


def test_kronecker_products_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="no Kronecker product"):
        kronecker_products(np.zeros((2, 2)), np.zeros((2, 3)), False, np.zeros((4, 5)))
    with pytest.raises(ValueError, match="no Kronecker product"):
        kronecker_products(np.zeros((2, 2)), np.zeros((2, 2), complex), False, np.zeros((4, 4)))


# ---------------------------------------------------------------------------------- nested quadrature


def nested(inner, fine_weights, weights, outer, swapped):
    """Return one term of Eq. (21) as written, and the sum of the sizes of its terms."""
    h = np.einsum("js,jsn,jsm->jnm", fine_weights, *inner)
    size = np.einsum("js,jsn,jsm->jnm", fine_weights, *map(abs, inner))
    totals = []
    for part, functions in ((h, outer), (size, list(map(abs, outer)))):
        g = weights[:, None, None] * np.cumsum(part[::-1], axis=0)[::-1]
        totals.append(
            np.einsum("jnm,jp,jq->" + ("pnqm" if swapped else "npmq"), g, *functions, optimize=True)
        )
    shape = totals[0].shape
    return [total.reshape(shape[0] * shape[1], -1) for total in totals]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("n1", "n0", "m1", "m0", "points"), [(1, 1, 1, 1, 1), (3, 4, 2, 5, 33), (4, 4, 9, 17, 130)]
)
def test_nested_sums(device, n1, n0, m1, m0, points, swapped, kind):
    inner = random((points, 5, n1), kind), random((points, 5, n0), kind, 1)
    outer = random((points, m1), kind, 2), random((points, m0), kind, 4)
    fine_weights, weights = abs(random((points, 5), np.float64)), abs(random((points,), np.float64))
    want, size = nested(inner, fine_weights, weights, outer, swapped)
    before = random(want.shape, kind, 5)
    for side in SIDES if device.is_cuda else SIDES[:1]:
        out = device.asarray(before.copy())
        simpson_terms(
            device,
            tuple(map(device.asarray, inner)),
            device.asarray(fine_weights),
            device.asarray(weights),
            tuple(map(device.asarray, outer)),
            swapped,
            out,
            side,
        )
        error = np.abs(device.to_host(out) - before - want)
        assert np.all(error <= 4 * EPS * (points + 8) * (size + abs(before)))


def test_nested_sums_refuse_other_shapes():
    ones = np.ones((3, 5, 2)), np.ones((3, 5, 2))
    with pytest.raises(ValueError, match="does not belong"):
        simpson_terms(
            cpu(1), ones, np.ones((3, 5)), np.ones(3), (np.ones((3, 2)),) * 2, False, np.zeros((3, 3))
        )
    with pytest.raises(ValueError, match="dtypes"):
        simpson_terms(
            cpu(1),
            ones,
            np.ones((3, 5)),
            np.ones(3),
            (np.ones((3, 2)),) * 2,
            False,
            np.zeros((4, 4), complex),
        )
