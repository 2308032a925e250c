"""Derivatives with respect to Jastrow parameters in crystals: CUDA = CPU twin (finite differences: test_crystal.py).

Tolerances: sums of at most a few thousand terms in another order, hence 1e-10 of the largest derivative in double precision.  In
mixed precision rows and inverses carry 6e-8 each, values of the nonlocal potential some 1e-6: 2e-3 of the largest, as walkers.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qsim.core.device.device import cpu
from qsim.qmc.kernels.crystal import launch as crystal_launch
from qsim.qmc.kernels.walkers import launches, walk
from qsim.qmc.kernels.walkers.derivatives import derivatives
from qsim.qmc.kernels.walkers.walk_cpu import PLAIN
from qsim.qmc.sampling.parameters import Varied
from qsim.qmc.sampling.walkers import Walkers
from tests.qmc.crystals import CASES
from tests.qmc.kernels.test_crystal_walk import KEY, made_of

STREAM = walk.Stream(KEY, 1, 7)


def differentiated(device, made, count, single=False):
    """Derivatives and energies of walkers that have moved a little."""
    walkers = Walkers(device, made, count, KEY, single=single)
    walkers.place()
    walk.walk(device, walkers.state, walkers.tables, 0.2, PLAIN, 2, walk.Stream(KEY, 1, 0))
    walkers.recompute()
    tables = Varied(made).tables(device)
    slopes = derivatives(device, walkers.state, walkers.tables, tables, made.parameters.size, STREAM)
    return tuple(device.to_host(array) for array in (*slopes, walkers.state.energy))


def compare(cuda, made, count, tolerance=1e-10, **keys):
    """Hold both devices against each other; return what the GPU found."""
    found, wanted = differentiated(cuda, made, count, **keys), differentiated(cpu(2), made, count, **keys)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.abs(other).max())
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("case", [*CASES, "waves", "complex waves"])
def test_cuda_is_the_cpu_twin(cuda, case, tmp_path):
    O, G, energy = compare(cuda, made_of(case, tmp_path), 5)
    assert np.abs(O).max() > 0.1
    assert np.abs(G).max() > 0.1
    assert ("waves" in case) == (np.abs(energy[:, 3]).max() == 0.0)


@pytest.mark.gpu
@pytest.mark.parametrize("count", [1, 31, 33])
def test_any_number_of_walkers(cuda, count, tmp_path):
    compare(cuda, made_of("gamma", tmp_path), count)


@pytest.mark.gpu
@pytest.mark.parametrize("lanes", [4, 8, 16, 32])
def test_any_number_of_lanes_carries_the_derivatives_of_a_walker(cuda, lanes, tmp_path, monkeypatch):
    monkeypatch.setattr(crystal_launch, "lanes_of", lambda sizes: lanes)
    compare(cuda, made_of("half", tmp_path), 11)


@pytest.mark.gpu
def test_sums_that_shared_memory_does_not_hold(cuda, tmp_path, monkeypatch):
    made = made_of("gamma", tmp_path)
    wanted = compare(cuda, made, 5)
    monkeypatch.setattr(launches, "SUMS_BYTES", 0)
    for one, other in zip(compare(cuda, made, 5), wanted, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["gamma", "complex"])
def test_mixed_precision(cuda, case, tmp_path):
    compare(cuda, made_of(case, tmp_path), 6, 2e-3, single=True)
