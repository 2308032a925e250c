"""Parts of a move in a crystal alone: orbitals and their derivatives, and updates of inverses, against NumPy; CUDA = CPU twin.

Tolerances.  Derivatives by differences of step h are good to h^2 times a fifth derivative and to rounding over h^2; an inverse
whose product with its matrix has terms of size s agrees with it to some hundred roundings of s.
"""

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.device.rng import key_from_seed
from qsim.qmc.kernels.crystal import parts as crystal_parts
from qsim.qmc.kernels.crystal.launch import lines_of, split_of
from qsim.qmc.sampling.walkers import Walkers
from tests.qmc.crystals import CASES
from tests.qmc.kernels.test_crystal_walk import made_of

WALKERS, MOVED = 5, 2
STEP = 1e-3
ROUNDINGS = 300


def walkers_of(device, case, tmp_path, *, single=False):
    walkers = Walkers(device, made_of(case, tmp_path), WALKERS, key_from_seed(5), single=single)
    walkers.place()
    walkers.recompute()
    return walkers


def rows_at(walkers, points):
    """Rows (k, 5, C) of the first spin."""
    device, orbitals = walkers.device, walkers.tables.orbitals
    real = orbitals.table.dtype if not orbitals.is_wave else walkers.state.rows.real.dtype
    out = device.xp.zeros((len(points), 5, orbitals.owner.shape[1]), real)
    crystal_parts.orbital_rows(device, walkers.state, walkers.tables, 0, device.asarray(points), out)
    return device.to_host(out)


def replaced(walkers):
    """New rows (W, k, n) of the first electrons, and the matrices (W, n, n) with them; the inverses are brought up to date."""
    device, n = walkers.device, walkers.tables.n_up
    count, M = walkers.count, walkers.state.inverse.shape[2]
    rows = walkers.state.rows.reshape(count, -1, 5, M)
    moved = min(MOVED, n - 1)
    fresh = rows[:, :moved, 0] + 0.3 * rows[:, n - moved : n, 0]
    crystal_parts.replace_rows(device, walkers.state, walkers.tables, 0, device.xp.ascontiguousarray(fresh))
    matrices = device.to_host(rows[:, :n, 0, :n])
    matrices = matrices.astype(np.result_type(matrices, float))
    matrices[:, :moved] = device.to_host(fresh)[..., :n]
    return matrices, device.to_host(walkers.state.inverse[:, 0, :n, :n])


def points_of(walkers, count=7):
    lattice = np.linalg.inv(walkers.device.to_host(walkers.tables.orbitals.primitive).reshape(3, 3))
    return np.random.default_rng(3).normal(size=(count, 3)) @ lattice


@pytest.mark.parametrize("case", CASES)
def test_rows_have_the_derivatives_of_their_values(case, tmp_path):
    walkers = walkers_of(cpu(1), case, tmp_path)
    points = points_of(walkers)
    shifts = STEP * np.concatenate([np.zeros((1, 3)), np.eye(3), -np.eye(3)])
    values = np.stack([rows_at(walkers, points + shift)[:, 0] for shift in shifts])
    rows = rows_at(walkers, points)
    slopes = (values[1:4] - values[4:]) / (2 * STEP)
    bends = (values[1:].sum(0) - 6 * values[0]) / STEP**2
    np.testing.assert_allclose(rows[:, 1:4], slopes.swapaxes(0, 1), atol=1e-3 * np.abs(rows[:, 1:4]).max())
    # third derivatives of cubic splines jump, so that the second one is good to the first order of the step
    np.testing.assert_allclose(rows[:, 4], bends, atol=5e-2 * np.abs(rows[:, 4]).max())


@pytest.mark.parametrize(
    ("channels", "together", "lanes", "shared"),
    [(128, 4, 32, 1), (32, 4, 32, 4), (4, 4, 8, 8), (7, 1, 8, 1), (1, 1, 32, 16)],
)
def test_lanes_share_lines_where_channels_leave_some(channels, together, lanes, shared):
    assert split_of(channels, together, lanes) == shared


@pytest.mark.parametrize(
    ("shared", "megabytes", "lines"),
    [(1, 40, 1), (4, 8, 1), (1, 170, 4), (4, 1300, 4), (8, 1, 4), (16, 1, 4)],
)
def test_loads_under_way_are_few_where_a_cache_holds_the_table(shared, megabytes, lines):
    assert lines_of(shared, megabytes << 20) == lines


@pytest.mark.parametrize("case", CASES)
def test_inverses_with_new_rows_are_inverses(case, tmp_path):
    holds(*replaced(walkers_of(cpu(1), case, tmp_path)), 2.3e-16)


def holds(matrices, columns, rounding):
    products = np.einsum("wio,wjo->wij", matrices, columns)
    size = np.einsum("wio,wjo->wij", abs(matrices), abs(columns)).max()
    unit = np.broadcast_to(np.eye(products.shape[1]), products.shape)
    np.testing.assert_allclose(products, unit, atol=ROUNDINGS * rounding * size)


@pytest.mark.gpu
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("case", [*CASES, "waves"])
def test_cuda_makes_the_same_rows_and_inverses(cuda, case, single, tmp_path):
    there, here = (walkers_of(device, case, tmp_path, single=single) for device in (cuda, cpu(1)))
    rounding = 6e-8 if single else 2.3e-16
    points = points_of(here)
    a, b = rows_at(there, points), rows_at(here, points)
    for k in range(5):
        np.testing.assert_allclose(
            a[:, k], b[:, k], rtol=0, atol=ROUNDINGS * rounding * np.abs(b[:, k]).max(), err_msg=str(k)
        )
    holds(*replaced(there), rounding)
