"""Moments of S^z: direct sums = CPU twin = CUDA, below and above the size of a tile.

Tolerances.  Sums of positive numbers that add up to the norm: each level of pairwise or running sums rounds once, and 32 levels
with some room are ``1e-14`` of the norm.  Single precision only rounds the amplitudes, the sums are double in both.
"""

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.trotter.kernels.states.measure import (
    OUTPUTS,
    TILE,
    first_moments,
    measure_tiles,
    moments_of_axis,
)

KINDS = [np.complex64, np.complex128]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


def random_state(spins, seed=0, dtype=np.complex128, norm=1.0):
    """Return amplitudes whose size depends on the index, so that no moment is near zero by chance."""
    generator = np.random.default_rng([7, seed])
    psi = generator.standard_normal(1 << spins) + 1j * generator.standard_normal(1 << spins)
    for j in range(spins):
        psi.reshape(-1, 2, 1 << j)[:, 1] *= 0.5 + 0.9 * generator.random()
    psi *= 1 + (np.arange(1 << spins) >> spins // 2 & np.arange(1 << spins) & 3)  # correlations
    return (psi * np.sqrt(norm) / np.linalg.norm(psi)).astype(dtype)


def oracle(psi):
    """Return norm, <S^z_j> and <S^z_j S^z_k> as written."""
    n = int(psi.size).bit_length() - 1
    p = np.abs(psi.astype(complex)) ** 2
    s = [0.5 - (np.arange(psi.size) >> j & 1) for j in range(n)]
    return p.sum(), np.array([p @ a for a in s]), np.array([[p @ (a * b) for b in s] for a in s])


def close(found, expected, norm=1.0):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-14 * norm)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("spins", [1, 2, 5, 11, 12, 13, 14, 16])
def test_moments_are_direct_sums(device, spins, dtype):
    psi = random_state(spins, dtype=dtype)
    found = moments_of_axis(device, device.asarray(psi))
    close(found, oracle(psi))
    np.testing.assert_array_equal(found[2], found[2].T)
    assert isinstance(found[0], float)
    assert found[1].shape == (spins,)
    assert found[2].shape == (spins, spins)


@pytest.mark.parametrize("spins", [6, 13])
def test_moments_are_not_divided_by_the_norm(device, spins):
    psi = random_state(spins, norm=9.0)
    norm, s, ss = moments_of_axis(device, device.asarray(psi))
    close((norm, s, ss), oracle(psi), 9.0)
    assert norm == pytest.approx(9.0, rel=1e-14)
    np.testing.assert_allclose(ss.diagonal(), 9 / 4, rtol=1e-14)


@pytest.mark.parametrize("spins", [5, 15])
def test_first_moments_alone(device, spins):
    psi = random_state(spins)
    close(first_moments(device, device.asarray(psi)), oracle(psi)[:2])


@pytest.mark.parametrize("bit", range(14))
def test_one_spin_up(device, bit):
    """The signs of a basis state, exactly: site j is bit j and zero is up."""
    spins = 14
    psi = np.zeros(1 << spins, complex)
    psi[(1 << spins) - 1 - (1 << bit)] = 1
    norm, s, ss = moments_of_axis(device, device.asarray(psi))
    sign = np.where(np.arange(spins) == bit, 0.5, -0.5)
    assert norm == 1
    np.testing.assert_array_equal(s, sign)
    np.testing.assert_array_equal(ss, np.outer(sign, sign))


def test_outputs_of_a_tile(device):
    """Columns: no sign, bits 0 to 11, then the pairs (0, 1), (0, 2), ... (10, 11)."""
    psi = random_state(14)
    found = device.to_host(measure_tiles(device, device.asarray(psi)))
    p = (np.abs(psi) ** 2).reshape(-1, 1 << TILE)
    sign = 1 - 2 * (np.arange(1 << TILE)[:, None] >> np.arange(TILE) & 1)
    columns = [np.ones(1 << TILE), *sign.T]
    columns += [sign[:, a] * sign[:, b] for a in range(TILE) for b in range(a + 1, TILE)]
    assert found.shape == (4, OUTPUTS)
    np.testing.assert_allclose(found, p @ np.array(columns).T, rtol=0, atol=1e-14)


def test_the_state_is_not_touched(device):
    psi = random_state(13)
    given = device.asarray(psi.copy())
    moments_of_axis(device, given)
    np.testing.assert_array_equal(device.to_host(given), psi)


def test_threads_change_nothing():
    psi = random_state(16)
    for one, many in zip(moments_of_axis(cpu(1), psi), moments_of_axis(cpu(3), psi), strict=True):
        np.testing.assert_array_equal(one, many)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("spins", [12, 17, 22, 24])
def test_cuda_is_its_twin(cuda, spins, dtype):
    psi = random_state(spins, dtype=dtype)
    close(moments_of_axis(cuda, cuda.asarray(psi)), moments_of_axis(cpu(2), psi))
