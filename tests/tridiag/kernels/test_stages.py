"""Stages of the N-shaped partition method: dense linear algebra = CPU twin = CUDA.

Tolerances.  Diagonally dominant systems lose nothing in elimination: a few rounding errors of the largest element.
"""

from itertools import pairwise

import numpy as np
import pytest
from scipy.linalg import solve_banded

from qsim.core.device.device import cpu
from qsim.core.device.pool import PARALLEL_SIZE
from qsim.tridiag.kernels.jit import reciprocal
from qsim.tridiag.kernels.partition import serial, stages
from qsim.tridiag.solver.partition import joints, levels

DTYPES = [np.complex128, np.float64, np.complex64, np.float32]
ROUNDING = 20  # rounding units allowed; at most 4 were seen
PARTITIONS = [
    (1, 1, 1),
    (2, 1, 1),
    (3, 2, 1),
    (3, 1, 3),
    (17, 4, 2),
    (17, 16, 3),
    (64, [2, 1, 1, 30, 1, 29], 1),
    (65, [33, 32], 2),
    (257, 16, 2),
    (1000, 128, 4),
]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


def random_systems(systems, n, dtype, seed=1):
    """Return a, b, c, d of diagonally dominant systems; unused corners are garbage."""
    generator = np.random.default_rng([seed, systems, n])

    def draw():
        re = generator.standard_normal((systems, n))
        return re + 1j * generator.standard_normal((systems, n)) if np.dtype(dtype).kind == "c" else re

    b, c, d = draw(), draw(), draw()
    turn = np.exp(2j * np.pi * generator.random((systems, n)))
    a = (1 + abs(b) + abs(c)) * (turn if np.dtype(dtype).kind == "c" else np.sign(turn.real))
    b[:, 0] = c[:, -1] = 1e30
    return [v.astype(dtype) for v in (a, b, c, d)]


def dense(a, b, c):
    return np.diag(a) + np.diag(b[1:], -1) + np.diag(c[:-1], 1)


def lapack(a, b, c, d):
    """Solve systems one by one in double precision."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x = np.empty(a.shape, wide)
    for s in range(len(a)):
        bands = np.zeros((3, a.shape[1]), wide)
        bands[0, 1:], bands[1], bands[2, :-1] = c[s, :-1], a[s], b[s, 1:]
        x[s] = solve_banded((1, 1), bands, d[s]) if a.shape[1] > 1 else d[s] / a[s]
    return x


def put(device, *arrays):
    """Return copies on the device: the stages overwrite what they are given."""
    return [device.asarray(v.copy()) for v in arrays]


def agree(found, expected, dtype, units=ROUNDING):
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=units * np.finfo(dtype).eps * scale)


# ------------------------------------------------------------------------------------- whole solutions


@pytest.mark.parametrize("dtype", DTYPES)
def test_partitions_solve(device, dtype):
    for n, blocks, iterations in PARTITIONS:
        system = random_systems(3, n, dtype)
        a, b, c, d = put(device, *system)
        x = device.asarray(np.zeros((3, n), dtype))
        smallest, pivots = stages.solve_levels(device, levels(n, blocks, iterations), a, b, c, d, x)
        agree(device.to_host(x), lapack(*system), dtype)
        smallest, pivots = device.to_host(smallest), device.to_host(pivots)
        assert smallest.shape == (3,)
        assert pivots.shape == (3, len(joints(n, blocks)) - 1)
        assert (smallest > 0.1).all()
        assert (pivots.min(axis=1, initial=np.inf) >= smallest).all()


def test_the_right_hand_side_may_become_the_solution(device):
    system = random_systems(2, 100, np.complex128)
    a, b, c, x = put(device, *system)
    stages.solve_levels(device, levels(100, 9, 2), a, b, c, x, x)
    agree(device.to_host(x), lapack(*system), np.complex128)


def test_threads_do_not_change_a_bit():
    n = PARALLEL_SIZE + 5
    system = random_systems(1, n, np.complex128)
    found = []
    for threads in (1, 3):
        a, b, c, x = (v.copy() for v in system)
        stages.solve_levels(cpu(threads), levels(n, 50, 2), a, b, c, x, x)
        found.append(x)
    np.testing.assert_array_equal(found[0], found[1])


# -------------------------------------------------------------------------------------- single stages


def reduce(device, system, lines, scale=None):
    """Run the first two stages; return the level and the overwritten arrays."""
    a, b, c, d = put(device, *system)
    level = stages.Level.empty(device, lines, a.shape[1], a.shape[0], a.dtype)
    scale = None if scale is None else device.asarray(scale)
    stages.rd_jd_ru_ju(device, level, scale, a, b, c, d)
    stages.joint_lines(device, level, scale, a, b, c, d)
    return level, (a, b, c, d)


@pytest.mark.parametrize("dtype", [np.complex128, np.float64])
@pytest.mark.parametrize("blocks", [1, 5, 40, [2, 1, 7, 1, 1, 29]])
def test_reduction_is_the_schur_complement(device, dtype, blocks):
    system = random_systems(2, 41, dtype)
    lines = joints(41, blocks)
    level, _rest = reduce(device, system, lines)
    rest = np.setdiff1d(np.arange(41), lines)
    for s in range(2):
        a, b, c, d = (v[s] for v in system)
        full = dense(a, b, c)
        elimination = full[np.ix_(lines, rest)] @ np.linalg.inv(full[np.ix_(rest, rest)])
        schur = full[np.ix_(lines, lines)] - elimination @ full[np.ix_(rest, lines)]
        reduced = dense(*(device.to_host(v)[s] for v in (level.a, level.b, level.c)))
        agree(reduced, schur, dtype, 100)
        agree(device.to_host(level.d)[s], d[lines] - elimination @ d[rest], dtype, 100)
        assert device.to_host(level.b)[s, 0] == 0
        assert device.to_host(level.c)[s, -1] == 0


def relative_pivots(a, b, c):
    """Pivots of the elimination downwards, relative to the rows as they were."""

    def size(z):
        return abs(z.real) + abs(z.imag)

    found, pivot = [], a[0]
    for i in range(len(a)):
        if i:
            pivot = a[i] - b[i] * c[i - 1] / pivot
        found.append(size(pivot) / max(size(a[i]), size(b[i]), size(c[i])))
    return np.array(found)


def test_pivots_of_every_block(device):
    system = random_systems(1, 50, np.complex128)
    system[0] *= 0.3  # not dominant
    lines = joints(50, [2, 1, 20, 27])
    level, _rest = reduce(device, system, lines)
    found = device.to_host(level.pivots)[0]
    for w, (left, right) in enumerate(pairwise(lines)):
        inner = [v[0, left + 1 : right] for v in system[:3]]
        expected = relative_pivots(*inner).min() if right > left + 1 else np.inf
        np.testing.assert_allclose(found[w], expected, rtol=1e-12)


def test_row_sizes_of_the_finest_system_are_handed_down(device):
    system = random_systems(1, 20, np.float64)
    scale = np.linspace(1.0, 2.0, 20)[None]
    level, _rest = reduce(device, system, joints(20, 4), scale)
    np.testing.assert_array_equal(device.to_host(level.scale)[0], scale[0, joints(20, 4)])
    level, _rest = reduce(device, system, joints(20, 4))
    a, b, c = (np.abs(v[0]) for v in system[:3])
    b[0] = c[-1] = 0  # garbage
    sizes = np.maximum(np.maximum(a, b), c)[joints(20, 4)]
    np.testing.assert_array_equal(device.to_host(level.scale)[0], sizes)


@pytest.mark.parametrize("zero", [1, 3, 8])
def test_a_vanishing_pivot_is_seen(device, zero):
    a, b, c, d = random_systems(1, 10, np.complex128)
    a[0, zero] = 0.0
    if zero > 1:  # what elimination adds to this row is taken away, too
        b[0, zero] = 0.0
    a, b, c, d = put(device, a, b, c, d)
    smallest, _pivots = stages.solve_levels(device, [joints(10, 1)], a, b, c, d, d)
    assert device.to_host(smallest)[0] == 0.0
    assert not np.isfinite(device.to_host(d)).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_serial_solution_of_reduced_systems(device, dtype):
    system = random_systems(5, 33, dtype)
    a, b, c, d = put(device, *system)
    x = device.asarray(np.zeros((5, 33), dtype))
    scale = device.asarray(np.ones((5, 33), a.real.dtype))
    smallest = device.asarray(np.zeros(5, a.real.dtype))
    stages.rs(device, a, b, c, d, scale, x, smallest)
    agree(device.to_host(x), lapack(*system), dtype)
    assert (device.to_host(smallest) > 0.1).all()


def test_substitution_from_known_joint_lines(device):
    system = random_systems(2, 30, np.complex128)
    lines = joints(30, [2, 9, 1, 18])
    level, arrays = reduce(device, system, lines)
    expected = lapack(*system)
    level.x = device.asarray(np.ascontiguousarray(expected[:, lines]))
    x = device.asarray(np.zeros((2, 30), np.complex128))
    stages.ss(device, level, *arrays, x)
    agree(device.to_host(x), expected, np.complex128)


@pytest.mark.parametrize("real", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 2, 7, 300])
def test_crank_nicolson_system(device, real, n):
    generator = np.random.default_rng(n)
    potential = generator.standard_normal(n)
    psi = generator.standard_normal(n) + 1j * generator.standard_normal(n)
    xmin, dx, dt, field = -3.0, 0.25, 0.125, 0.5
    kind = np.result_type(real, np.complex64)
    out = tuple(device.asarray(np.zeros(n, kind)) for _ in range(4))
    arrays = device.asarray(potential.astype(real)), device.asarray(psi.astype(kind))
    stages.build_cn(device, *arrays, (xmin, dx), dt, field, out)
    a, b, c, d = (device.to_host(v) for v in out)
    second = dense(np.full(n, -2.0), np.ones(n), np.ones(n)) / dx**2
    x = xmin + dx * np.arange(n)
    step = 0.5j * dt * (-0.5 * second + np.diag(potential + field * x))
    agree(dense(a, b, c), np.eye(n) + step, kind)
    agree(d, psi - step @ psi, kind)
    assert b[0] == 0
    assert c[-1] == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 100, 2 * stages.RESIDUAL_ROWS + 3])
def test_residual_and_norms(device, dtype, n):
    a, b, c, d = random_systems(2, n, dtype)
    b[:, 0] = c[:, -1] = 0
    x = random_systems(2, n, dtype, seed=2)[3]
    r = device.asarray(np.zeros((2, n), dtype))
    norms = stages.residual(device, *put(device, a, b, c, d, x), r)

    def size(z):
        return abs(z.real) + abs(z.imag)

    product = a * x
    product[:, 1:] += b[:, 1:] * x[:, :-1]
    product[:, :-1] += c[:, :-1] * x[:, 1:]
    agree(device.to_host(r), d - product, dtype)
    expected = [size(v).max(axis=1) for v in (d - product, x, d)] + [
        (size(a) + size(b) + size(c)).max(axis=1)
    ]
    np.testing.assert_allclose(norms[:, :4].T, expected, rtol=50 * np.finfo(dtype).eps)
    whole = size(d) + size(a) * size(x)
    whole[:, 1:] += size(b[:, 1:]) * size(x[:, :-1])
    whole[:, :-1] += size(c[:, :-1]) * size(x[:, 1:])
    share = (size(d - product) / whole).max(axis=1)
    np.testing.assert_allclose(norms[:, 4], share, rtol=50 * np.finfo(dtype).eps)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("array", [0, 1, 2, 3, 4])
def test_residual_sees_what_is_not_finite(device, array, value):
    arrays = [*random_systems(2, 50, np.complex128), np.ones((2, 50), complex)]
    arrays[array][1, 20] = value
    norms = stages.residual(device, *put(device, *arrays), device.asarray(np.zeros((2, 50), complex)))
    assert np.isfinite(norms[0]).all()
    assert norms[1, 0] == norms[1, 4] == np.inf


def test_rows_that_underflow_do_not_count(device):
    a, d = (np.full((2, 3), value) for value in (1.0, 1e-300))
    d[1, 2] = 1e-290
    norms = stages.residual(device, *put(device, a, 0 * a, 0 * a, d, 0 * d), device.asarray(0 * d))
    assert norms[:, 4].tolist() == [0.0, 1.0]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_twins_agree(cuda, dtype):
    """Every array that the two stages before RS write, CPU against CUDA."""
    system = random_systems(4, 700, dtype)
    lines = joints(700, 60)
    host, arrays = reduce(cpu(1), system, lines)
    there, others = reduce(cuda, system, lines)
    for mine, other in zip(arrays, others, strict=True):
        corner = np.abs(mine) < 1e29
        agree(cuda.to_host(other)[corner], mine[corner], dtype)
    for part in ("a", "b", "c", "d", "scale", "slots", "pivots"):
        agree(cuda.to_host(getattr(there, part)), getattr(host, part), dtype)


# ------------------------------------------------------------------------------------ serial and scalar


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 40, 500])
def test_thomas_and_woodbury(dtype, n):
    system = random_systems(3, n, dtype)
    expected = lapack(*system)
    x = np.empty((3, n), dtype)
    assert (serial.thomas(cpu(2), *system, x) > 0.1).all()
    agree(x, expected, dtype)
    for blocks in {1, 2, max(1, n // 3), max(1, n - 1)} & set(range(max(n, 2))):
        x[:] = 0
        assert (serial.woodbury(cpu(2), joints(n, blocks), *system, x) > 0.05).all()
        agree(x, expected, dtype, 100)


@pytest.mark.parametrize(
    "z", [1e300 + 1e300j, 1e-300 - 2e-300j, 1e-160j, -1e200 + 0j, 3.0 - 4.0j, -2.5, 1e-308]
)
def test_reciprocals_do_not_overflow(z):
    import numba

    call = numba.njit(lambda z: reciprocal(z), error_model="numpy")
    np.testing.assert_allclose(call(z), complex(1 / np.clongdouble(z)), rtol=1e-15)
    assert not np.isfinite(call(0 * z))
