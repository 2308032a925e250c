"""Estimators: normalisation against densities that are known, weights, checkpoints, and what is refused.

Chance: seeds are fixed; bounds are about 5 standard deviations per number.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import erf

from qsim.core.device.device import cpu
from qsim.core.results.tables import match_tables, resolve_dimensions
from qsim.core.statistics import student
from qsim.qmc.estimators.collection import estimator_tables, make
from qsim.qmc.estimators.density import Density, default_extent
from qsim.qmc.estimators.histograms import Setting
from qsim.qmc.estimators.pair_density import Gofr
from qsim.qmc.estimators.radial_density import RadialDensity
from qsim.qmc.kernels.estimators.crystal import sums_of_waves

ATOMS = np.array([[0.0, 0.0, 0.5], [0.0, 1.0, 0.0]])
ALL = [
    Gofr(bins=60, rmax=9.0),
    Density(mesh=[8, 9, 10], extent=[[-6.0, 6.0], [-6.0, 6.0], [-6.0, 6.0]]),
    RadialDensity(bins=40, rmax=10.0),
]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


def gaussian(walkers, N, block):
    """Return independent electrons of density exp(-r^2/2)/(2 pi)^(3/2)."""
    return np.random.default_rng([9, block]).standard_normal((walkers, N, 3))


def measured(device, requests=ALL, n_up=3, n_dn=2, blocks=24, walkers=500, weight=None):
    estimators = make(Setting(device, n_up, n_dn, ATOMS), requests)
    for block in range(blocks):
        for sample in range(2):
            R = gaussian(walkers, n_up + n_dn, 2 * block + sample)
            w = np.ones(walkers) if weight is None else weight(R)
            estimators.accumulate(device.asarray(R), device.asarray(w))
        estimators.close_block()
    return estimators


def within(found, error, wanted, counts):
    """Entries with at least 100 expected counts agree within 5.5 of their errors (from 32 blocks: Student's t)."""
    enough = counts > 100
    assert enough.sum() >= 20
    np.testing.assert_array_less(np.abs(found - wanted)[enough], 5.5 * error[enough])
    # and the errors are those of independent counts, on average, times Student's factor of 32 blocks that might correlate
    assert np.mean((error / wanted * np.sqrt(counts))[enough]) == pytest.approx(student(16.0), rel=0.25)


def test_integrals_are_numbers_of_pairs_and_electrons(device):
    """Everything lies within the ranges, so sums are exact."""
    estimators = measured(device)
    tables = estimators.arrays()
    shells = 4 * np.pi / 3 * np.diff(np.linspace(0, 9, 61) ** 3)
    for kind, pairs in (("uu", 3), ("ud", 6), ("dd", 1)):
        assert tables[f"gofr_{kind}"] @ shells == pytest.approx(pairs, rel=1e-10)
    cell = 12**3 / (8 * 9 * 10)
    assert tables["density_up"].shape == (8, 9, 10)
    assert tables["density_up"].sum() * cell == pytest.approx(3, rel=1e-10)
    assert tables["density_down"].sum() * cell == pytest.approx(2, rel=1e-10)
    assert estimators.members["density"].integral == pytest.approx(5, rel=1e-10)
    shells = 4 * np.pi / 3 * np.diff(np.linspace(0, 10, 41) ** 3)
    np.testing.assert_allclose(tables["radial_up"] @ shells, [3, 3], rtol=1e-10)
    np.testing.assert_allclose(tables["radial_down"] @ shells, [2, 2], rtol=1e-10)
    assert estimators.notes() == []


def test_densities_of_independent_electrons(device):
    """Distances of two Gaussian electrons are Gaussian of twice the variance; both densities are known."""
    tables = measured(device, blocks=32).arrays()
    edges = np.linspace(0, 9, 61)
    fine = np.linspace(edges[:-1], edges[1:], 201)
    weight = fine**2 * np.exp(-(fine**2) / 4) / (4 * np.pi) ** 1.5
    shell = np.diff(edges**3) / 3
    wanted = np.trapezoid(weight, fine, axis=0) / shell
    for kind, pairs in (("uu", 3), ("ud", 6), ("dd", 1)):
        counts = 32 * 1000 * pairs * wanted * 4 * np.pi * shell
        within(tables[f"gofr_{kind}"], tables[f"gofr_{kind}_error"], pairs * wanted, counts)
    mean = []
    for d in range(3):
        e = np.linspace(-6, 6, (9, 10, 11)[d])
        mean.append(0.5 * np.diff(erf(e / np.sqrt(2))) / np.diff(e))
    exact = np.einsum("i,j,k->ijk", *mean)
    counts = 32 * 1000 * 3 * exact * 12**3 / exact.size
    within(tables["density_up"], tables["density_up_error"], 3 * exact, counts)
    np.testing.assert_allclose(tables["density_x"], np.arange(8) * 1.5 - 5.25)


def test_weights_count(device):
    """Reweighting the Gaussian by exp(-r^2/2) of one electron makes it narrower; electrons are counted as before."""
    estimators = measured(
        device,
        [RadialDensity(bins=20, rmax=10.0)],
        1,
        0,
        weight=lambda R: np.exp(-0.5 * (R[:, 0] ** 2).sum(axis=1)),
    )
    tables = estimators.arrays()
    r, edges = tables["radial_r"], np.linspace(0, 10, 21)
    shells = 4 * np.pi / 3 * np.diff(edges**3)
    np.testing.assert_allclose(tables["radial_up"] @ shells, 1, rtol=1e-7)
    # variance 1/2 along each axis, about atoms at distances 1/2 and 1: <r^2> = 3/2 + d^2
    for atom, d in enumerate((0.5, 1.0)):
        second = (tables["radial_up"][atom] * shells) @ r**2
        assert second == pytest.approx(1.5 + d * d, rel=0.05)
    assert not tables["radial_down"].any()


def test_errors_need_blocks(device):
    tables = measured(device, blocks=19, walkers=20).arrays()
    assert np.isnan(tables["gofr_uu_error"]).all()
    assert np.isfinite(tables["gofr_uu"]).all()
    assert np.isfinite(measured(device, blocks=20, walkers=20).arrays()["gofr_uu_error"]).all()


def test_electrons_outside_of_the_mesh_are_noticed(device):
    estimators = measured(device, [Density(mesh=[4, 4, 4], extent=[[-1.0, 1.0]] * 3)], blocks=2)
    (note,) = estimators.notes()
    assert "of 5 electrons" in note
    assert "extent" in note


def test_a_run_continues(device):
    whole = measured(device, blocks=22, walkers=30)
    first = measured(device, blocks=9, walkers=30)
    resumed = make(Setting(device, 3, 2, ATOMS), ALL)
    resumed.restore(first.state())
    for block in range(9, 22):
        for sample in range(2):
            resumed.accumulate(
                device.asarray(gaussian(30, 5, 2 * block + sample)), device.asarray(np.ones(30))
            )
        resumed.close_block()
    for name, table in whole.arrays().items():
        np.testing.assert_array_equal(resumed.arrays()[name], table)


def test_nothing_to_continue_from_is_a_start():
    estimators = measured(cpu(1), blocks=2, walkers=5)
    estimators.restore({})
    assert estimators.members["gofr"].sums.blocks == 0


def test_tables_are_declared():
    arrays = {
        f"series_1/{name}": table for name, table in measured(cpu(1), blocks=1, walkers=5).arrays().items()
    }
    declared = match_tables(
        [replace(table, name=f"series_*/{table.name}") for table in estimator_tables()], arrays
    )
    assert set(declared) == set(arrays)
    resolve_dimensions(declared, arrays)


def test_nothing_to_measure():
    estimators = make(Setting(cpu(1), 1, 1, ATOMS), [])
    assert not estimators
    estimators.accumulate(np.zeros((3, 2, 3)), np.ones(3))
    estimators.close_block()
    assert estimators.arrays() == {}
    assert estimators.state() == {}


def test_empty_blocks_do_not_count():
    estimators = make(Setting(cpu(1), 1, 1, ATOMS), ALL)
    estimators.close_block()
    assert estimators.members["gofr"].sums.blocks == 0


def test_default_mesh_and_extent():
    np.testing.assert_array_equal(default_extent(ATOMS), [[-6, 6], [-6, 7], [-6, 6.5]])
    np.testing.assert_array_equal(default_extent(np.zeros((0, 3))), [[-6, 6]] * 3)


@pytest.mark.gpu
def test_cuda_measures_the_same_in_every_bit(cuda):
    one, other = measured(cpu(2)).arrays(), measured(cuda).arrays()
    for name, table in one.items():
        np.testing.assert_array_equal(other[name], table)


@pytest.mark.parametrize("threads", [1, 3])
def test_sums_of_waves(threads):
    """Against complex exponentials, with phases of many turns of either sign."""
    rng = np.random.default_rng(5)
    R, waves = 30.0 * rng.normal(size=(37, 5, 3)), rng.normal(size=(43, 3))
    waves[0] = 0.0
    exact = np.exp(1j * (R.astype(np.longdouble) @ waves.T.astype(np.longdouble))).sum(1)
    found = [sums_of_waves(cpu(threads), R, waves) for _ in range(2)]
    assert np.array_equal(*found)
    # a phase of some hundreds has an error of 1e-13
    assert np.abs(found[0][0] + 1j * found[0][1] - exact).max() < 3e-13
