"""What a finite cell lacks: the kinetic correction against sums over waves of the electron gas, transforms of pair functions."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad

from qsim.core.run.stages import Method
from qsim.qmc.statistics.finite_size import kinetic_correction
from qsim.qmc.system.cell import Cell
from qsim.qmc.wavefunction.jastrow import NONE, Function, Jastrow

output = Method("qmc")

SPLINE = Function("uu", "bspline", -0.25, (0.4, 0.3, -0.2, 0.1, 0.05), 3.7)


def gas(k, density):
    """Pair function and structure factor of the electron gas in the random phase approximation (Gaskell 1961)."""
    x = np.minimum(k / (2.0 * (3.0 * np.pi**2 * density) ** (1.0 / 3.0)), 1.0)
    free = 1.5 * x - 0.5 * x**3
    S = 1.0 / np.sqrt(free**-2 + 16.0 * np.pi * density / k**4)
    return (1.0 / S - 1.0 / free) / (2.0 * density), S


def of_pairs(k, density):
    """The part of a wave in the kinetic energy of the pair functions, hartree."""
    u, S = gas(k, density)
    return 0.25 * density * k**2 * u * (1.0 - S)


@pytest.mark.parametrize("rs", [1.0, 2.0, 5.0, 10.0])
@pytest.mark.parametrize("electrons", [14, 38, 114])
def test_the_kinetic_correction_is_what_a_sum_over_waves_lacks_of_the_integral(rs, electrons):
    density = 3.0 / (4.0 * math.pi * rs**3)
    volume = electrons / density
    L, most = volume ** (1.0 / 3.0), 40
    m = np.arange(-most, most + 1)
    square = (m[:, None, None] ** 2 + m[:, None] ** 2 + m**2).ravel()
    square, count = np.unique(square[(square > 0) & (square <= most**2)], return_counts=True)
    k = 2.0 * np.pi / L * np.sqrt(square)
    fine = np.linspace(1e-6, 2.0 * np.pi / L * most, 200_001)
    bulk = volume / (2.0 * np.pi**2) * np.trapezoid(fine**2 * of_pairs(fine, density), fine)
    lacks = bulk - (count * of_pairs(k, density)).sum()
    found = kinetic_correction(k[0], float(gas(k[0], density)[0]), electrons, volume)
    assert abs(lacks - found.value) < found.error
    assert abs(lacks - found.value) < 0.1 * lacks  # Drummond's next order is 3 to 40 % of the first here


def test_pair_functions_of_plasmons_need_no_interpolation():
    density, k = 0.01, 0.2
    plasma = math.sqrt(4.0 * math.pi * density)
    found = kinetic_correction(k, 4.0 * math.pi / (plasma * k**2), 20, 20 / density)
    assert found.value == pytest.approx(plasma / 4.0)
    assert found.error == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("k", [0.05, 0.8, 5.0])
def test_the_transform_of_a_pair_function(k):
    def integrand(r):
        return 4.0 * np.pi / k * r * np.sin(k * r) * SPLINE.jet(np.array([r]))[0, 0]

    knots = SPLINE.h * np.arange(7)
    exact = sum(quad(integrand, a, b, epsabs=1e-12)[0] for a, b in itertools.pairwise(knots))
    assert SPLINE.wave(k) == pytest.approx(exact, rel=1e-10)
    assert NONE.wave(k) == 0.0
    with pytest.raises(ValueError, match="no range"):
        Function("ud", "pade", -0.5, (1.0,)).wave(k)


def test_pairs_of_equal_and_opposite_spin_count_by_their_numbers():
    other = SPLINE.with_parameters([0.1] * 5)
    jastrow = Jastrow((SPLINE, other), np.zeros(0, np.int64), n_up=3)
    found = jastrow.pair_wave(0.7, 4)
    assert found == pytest.approx((10 * SPLINE.wave(0.7) + 6 * other.wave(0.7)) / 16)
    assert Jastrow((NONE, NONE), np.zeros(0, np.int64), n_up=3).pair_wave(0.7, 4) is None


def test_the_shortest_wave_of_a_skewed_cell():
    """Of a lattice whose reciprocal basis is far from reduced."""
    cubic = np.diag([2.0, 3.0, 4.0])
    cell = Cell(np.array([[1, 0, 0], [5, 1, 0], [-3, 4, 1]]) @ cubic)
    assert cell.shortest_wave == pytest.approx(2.0 * np.pi / 4.0)


def test_a_run_adds_both_corrections(qmc):
    spline = {"uu": [0.9, 0.6, 0.35, 0.15], "ud": [1.2, 0.7, 0.4, 0.15]}
    result = qmc.run(
        system={"electrons": 14, "rs": 5.0},
        wavefunction={"orbitals": "planewave", "jastrow": {"J2": {"size": 4, "coefficients": spline}}},
        series=[{"vmc": {"walkers": 20, "blocks": 20, "steps": 3, "sweeps": 2, "timestep": 4.0}}],
        estimators=[{"sofk": {}}],
        run={"seed": 1},
    )
    found, made = output.scalars(result), result.problem.wavefunction
    k = 2.0 * math.pi / made.cell.volume ** (1.0 / 3.0)
    kinetic = found["vmc_finite_size_kinetic"]
    value, error = kinetic_correction(k, made.jastrow.pair_wave(k, 14), 14, made.cell.volume)
    assert (kinetic.value, kinetic.error) == pytest.approx((value, error))
    assert 0.2 < 4.0 * kinetic.value / math.sqrt(4.0 * math.pi * 14 / made.cell.volume) < 1.0
    energy, potential = found["vmc_energy"], found["vmc_finite_size_potential"]
    bulk = found["vmc_bulk_energy_per_electron"]
    assert bulk.value == pytest.approx((energy.value + potential.value + kinetic.value) / 14)
    assert bulk.error == pytest.approx(math.hypot(energy.error, potential.error + kinetic.error) / 14)
