"""Histograms of walkers: numpy = CPU twin = CUDA.

Counts are integers, so twin and CUDA agree in every bit.  Against numpy an electron within rounding of an edge
may fall on its other side; positions are random, and none does with these seeds.
"""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.qmc.kernels.estimators.estimators import (
    UNIT,
    count_quanta,
    mesh_histogram,
    pair_histogram,
    quanta,
    radial_histogram,
    take_totals,
)

SIZES = [(1, 1, 1), (1, 2, 1), (33, 5, 3), (257, 10, 5), (1000, 3, 0)]  # walkers, electrons, spin-up
ATOMS = np.array([[0.1, 0.0, -0.3], [0.0, 2.0, 0.4], [40.0, 0.0, 0.0]])


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


def ensemble(walkers, N, seed=0):
    """Return positions and weights, multiples of the unit."""
    generator = np.random.default_rng([seed, walkers, N])
    weight = np.rint(generator.uniform(0.3, 2.0, walkers) * UNIT) / UNIT
    return 1.7 * generator.standard_normal((walkers, N, 3)), weight


def histogram(values, weights, bins, rmax):
    return np.histogram(values, bins, (0.0, rmax), weights=weights)[0]


def filled(device, shape):
    """Return a histogram that has counts already: kernels add."""
    return device.asarray(np.full(shape, 3, np.int64))


def result(device, out):
    return (device.to_host(out) - 3) / UNIT


def pairs_of(device, R, weight, n_up, bins=37, rmax=3.3):
    out = filled(device, (3, bins))
    pair_histogram(device, device.asarray(R), quanta(device, device.asarray(weight)), n_up, rmax, out)
    return result(device, out)


def mesh_of(device, R, weight, n_up, shape=(7, 5, 9)):
    out = filled(device, (2, *shape))
    origin, spacing = np.array([-2.0, -1.5, -3.0]), np.array([0.5, 0.8, 0.61])
    mesh_histogram(
        device, device.asarray(R), quanta(device, device.asarray(weight)), n_up, origin, spacing, out
    )
    return result(device, out)


def radial_of(device, R, weight, n_up, bins=33, rmax=4.1):
    out = filled(device, (2, len(ATOMS), bins))
    count = quanta(device, device.asarray(weight))
    radial_histogram(device, device.asarray(R), count, device.asarray(ATOMS), n_up, rmax, out)
    return result(device, out)


@pytest.mark.parametrize(("walkers", "N", "n_up"), SIZES)
def test_pairs_equal_numpy(device, walkers, N, n_up):
    R, weight = ensemble(walkers, N)
    wanted = np.zeros((3, 37))
    for i, j in itertools.combinations(range(N), 2):
        distance = np.sqrt(((R[:, i] - R[:, j]) ** 2).sum(axis=1))
        wanted[(i >= n_up) + (j >= n_up)] += histogram(distance, weight, 37, 3.3)
    np.testing.assert_allclose(pairs_of(device, R, weight, n_up), wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("walkers", "N", "n_up"), SIZES)
def test_mesh_equals_numpy(device, walkers, N, n_up):
    R, weight = ensemble(walkers, N)
    edges = [-2 + 0.5 * np.arange(8), -1.5 + 0.8 * np.arange(6), -3 + 0.61 * np.arange(10)]
    wanted = []
    for part in (R[:, :n_up], R[:, n_up:]):
        count = np.repeat(weight, part.shape[1])
        wanted.append(np.histogramdd(part.reshape(-1, 3), edges, weights=count)[0])
    np.testing.assert_allclose(mesh_of(device, R, weight, n_up), wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("walkers", "N", "n_up"), SIZES)
def test_radial_equals_numpy(device, walkers, N, n_up):
    R, weight = ensemble(walkers, N)
    wanted = np.zeros((2, 3, 33))
    for i, (a, atom) in itertools.product(range(N), enumerate(ATOMS)):
        distance = np.sqrt(((R[:, i] - atom) ** 2).sum(axis=1))
        wanted[int(i >= n_up), a] += histogram(distance, weight, 33, 4.1)
    np.testing.assert_allclose(radial_of(device, R, weight, n_up), wanted, rtol=0, atol=1e-9)


def test_walkers_that_are_nowhere_are_left_out(device):
    R, weight = ensemble(40, 4)
    wanted = [of(device, R[1:], weight[1:], 2) for of in (pairs_of, mesh_of, radial_of)]
    for bad in (np.nan, np.inf, -1e300):
        R[0] = bad * np.arange(1.0, 5.0)[:, None]  # no two at the same place
        with np.errstate(all="ignore"):
            found = [of(device, R, weight, 2) for of in (pairs_of, mesh_of, radial_of)]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_no_walkers(device):
    for of in (pairs_of, mesh_of, radial_of):
        assert not of(device, np.zeros((0, 4, 3)), np.zeros(0), 2).any()


def test_threads_change_nothing():
    R, weight = ensemble(4000, 12)  # enough for several threads
    for of in (pairs_of, mesh_of, radial_of):
        np.testing.assert_array_equal(of(cpu(1), R, weight, 6), of(cpu(3), R, weight, 6))


def test_wrong_arrays_are_refused(device):
    R, weight = (device.asarray(array) for array in ensemble(8, 4))
    count = quanta(device, weight)
    with pytest.raises(ValueError, match="do not match"):
        pair_histogram(device, R, weight, 2, 1.0, filled(device, (3, 5)))
    with pytest.raises(ValueError, match="do not match"):
        pair_histogram(device, R, count, 2, 1.0, filled(device, (2, 5)))
    with pytest.raises(ValueError, match="do not match"):
        mesh_histogram(device, R, count, 2, np.zeros(3), np.ones(3), filled(device, (2, 5, 5)))
    with pytest.raises(ValueError, match="do not match"):
        radial_histogram(device, R, count, device.asarray(ATOMS), 2, 1.0, filled(device, (2, 5, 5)))


@pytest.mark.gpu
@pytest.mark.parametrize("walkers", [1, 31, 32, 33, 8192])
def test_cuda_is_its_twin_in_every_bit(cuda, walkers):
    R, weight = ensemble(walkers, 10, seed=3)
    weight *= np.pi / 3
    for of in (pairs_of, mesh_of, radial_of):
        np.testing.assert_array_equal(of(cuda, R, weight, 5), of(cpu(2), R, weight, 5))


@pytest.mark.parametrize("walkers", [0, 1, 129, 1000])
def test_quanta_are_added_to_a_total(device, walkers):
    weight = np.random.default_rng(walkers).uniform(0.0, 3.0, walkers)
    total = device.asarray(np.full((), 7, np.int64))
    found = count_quanta(device, device.asarray(weight), total)
    assert np.array_equal(device.to_host(found), np.rint(weight * 2.0**24).astype(np.int64))
    assert int(device.to_host(total)) == 7 + int(device.to_host(found).sum())


@pytest.mark.parametrize("walkers", [1, 127, 1000])
def test_totals_are_sums_over_walkers_and_counts_begin_anew(device, walkers):
    """Sums of 1000 terms in another order: a few roundings of their size."""
    generator = np.random.default_rng(walkers)
    weight, energy = generator.uniform(0.5, 1.5, walkers), generator.standard_normal((walkers, 6))
    moves = generator.integers(0, 9, (walkers, 4)).astype(float)
    state = SimpleNamespace(**{k: device.asarray(v) for k, v in {"weight": weight, "energy": energy}.items()})
    state.moves = device.asarray(moves.copy())
    found = take_totals(device, state, 0.3, 0.8)
    total = energy[:, 5]
    beyond = np.maximum(np.abs(total - 0.3) - 0.8, 0.0)
    expected = [*(weight @ energy), weight @ total**2, weight.sum(), *moves.sum(0), weight @ beyond]
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-13 * walkers**0.5)
    assert not device.to_host(state.moves).any()
