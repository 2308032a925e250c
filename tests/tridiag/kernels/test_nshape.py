"""The partition method at memory speed: LAPACK = CPU windows, chunks and serial elimination = CUDA.

Tolerances.  Elimination of a diagonally dominant system loses nothing: x is right to a few rounding errors times the condition
number, and the systems drawn here have one below about 100.  Where the inverse decays slowly the condition number is large, and
the normwise backward error ``|T x - d| / (|T| |x| + |d|)`` decides: a few rounding errors whatever the condition.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_banded

from qsim.core.device import pool
from qsim.core.device.device import Device, cpu
from qsim.tridiag.kernels.partition import nshape
from qsim.tridiag.kernels.partition.nshape import partition_solve

DTYPES = [np.complex128, np.float64, np.complex64, np.float32]
SINGLE = [(1, n) for n in (1, 2, 31, 32, 33, 255, 256, 257, 599)]
SIZES = [*SINGLE, (5, 1), (3, 7), (7, 31), (9, 32), (11, 33), (40, 13), (3, 353), (2, 352), (300, 3)]
ROUNDING = 100  # rounding errors allowed, condition number included; at most 15 were seen
BACKWARD = 8  # rounding errors allowed in the backward error; at most 2 were seen
MANY = Device("cpu", 0, "", 3)  # three threads: all three ways through the CPU code can be taken


@pytest.fixture(params=["one thread", "threads", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    devices = {"one thread": cpu(1), "threads": MANY}
    return devices.get(request.param) or request.getfixturevalue("cuda")


def constants(patch, *, small=1, chunk=32, halo=64, exact=8, threads=32):
    """Make pieces small, so that few rows meet many boundaries; returns rows of a chunk of the windows."""
    patch.setattr(nshape, "SMALL", small)
    patch.setattr(nshape, "CPU_CHUNK", chunk)
    patch.setattr(nshape, "CPU_HALO", halo)
    patch.setattr(nshape, "EXACT_CHUNK", exact)
    patch.setattr(nshape, "THREADS", threads)
    patch.setattr(pool, "PARALLEL_SIZE", 1)


@pytest.fixture
def tiny(monkeypatch):
    constants(monkeypatch)


def draw(generator, n, dtype):
    re = generator.standard_normal(n)
    return re + 1j * generator.standard_normal(n) if np.dtype(dtype).kind == "c" else re


def dominant(n, dtype, dominance=2.0, seed=1):
    """Return a, b, c, d of n rows with ``|a| = dominance (|b| + |c|) + 0.1``; unused corners are not cleared."""
    generator = np.random.default_rng([seed, n])
    b, c, d = (draw(generator, n, dtype) for _ in range(3))
    turn = draw(generator, n, dtype)
    a = (dominance * (abs(b) + abs(c)) + 0.1) * turn / abs(turn)
    return [v.astype(dtype) for v in (a, b, c, d)]


def toeplitz(n, kappa, dtype=np.complex128, seed=2):
    """Return a system whose inverse falls off as ``exp(-kappa |i - j|)``, with phases if complex."""
    generator = np.random.default_rng([seed, n])
    phase = np.exp(0.3j) if np.dtype(dtype).kind == "c" else 1.0
    a = np.full(n, 2 * np.cosh(kappa))
    return [v.astype(dtype) for v in (a, -phase * np.ones(n), -np.ones(n) / phase, draw(generator, n, dtype))]


def lapack(a, b, c, d, length):
    """Solve systems of ``length`` rows one by one in double precision."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x = np.empty(len(a), wide)
    for low in range(0, len(a), length):
        rows = slice(low, low + length)
        if length == 1:
            x[rows] = d[rows].astype(wide) / a[rows]
            continue
        bands = np.zeros((3, length), wide)
        bands[0, 1:], bands[1], bands[2, :-1] = c[rows][:-1], a[rows], b[rows][1:]
        x[rows] = solve_banded((1, 1), bands, d[rows])
    return x


def solved(device, system, length, corners=None):
    """Return solution and pivots; what is written there before is NaN, and the inputs must not change."""
    kept = [v.copy() for v in system]
    if corners is not None:
        kept[1][::length] = kept[2][length - 1 :: length] = corners
    arrays = [device.asarray(v.copy()) for v in kept]
    x = device.asarray(np.full(len(system[0]), np.nan, system[0].dtype))
    found = partition_solve(device, *arrays, x, length)
    for array, value in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(device.to_host(array), value)
    return device.to_host(x), found


def agree(found, expected, dtype, units=ROUNDING):
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=units * np.finfo(dtype).eps * scale)


def backward_error(a, b, c, d, x, length):
    b, c = b.copy(), c.copy()
    b[::length] = c[length - 1 :: length] = 0
    product = a * x
    product[1:] += b[1:] * x[:-1]
    product[:-1] += c[:-1] * x[1:]
    norm = (abs(a) + abs(b) + abs(c)).max() * abs(x).max() + abs(d).max()
    return abs(product - d).max() / norm


# --------------------------------------------------------------------------------------- right answers


@pytest.mark.parametrize("dtype", DTYPES)
def test_systems_of_all_sizes(device, tiny, dtype):
    for batch, length in SIZES:
        system = dominant(batch * length, dtype)
        x, found = solved(device, system, length)
        agree(x, lapack(*system, length), dtype)
        assert (
            0.3 < found.min_pivot <= 1.0
        )  # at least |a| - |b| >= |a| / 2, in either norm of complex numbers


@pytest.mark.parametrize("dtype", DTYPES)
def test_pieces_of_the_usual_size(device, dtype):
    for batch, length in ((1, 2047), (1, 2048), (1, 8193), (1, 20011), (5, 2000), (3, 5003)):
        system = dominant(batch * length, dtype)
        x, _found = solved(device, system, length)
        agree(x, lapack(*system, length), dtype)


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 12),
    length=st.integers(1, 90),
    dtype=st.sampled_from(DTYPES),
    dominance=st.sampled_from([0.51, 0.7, 2.0, 1e3]),
    chunk=st.sampled_from([1, 2, 5, 16]),
    halo=st.sampled_from([1, 3, 8, 64]),
    exact=st.sampled_from([1, 2, 7]),
    many=st.booleans(),
    seed=st.integers(0, 99),
)
def test_sizes_pieces_and_dominance(batch, length, dtype, dominance, chunk, halo, exact, many, seed):
    """Columns 0.1 c make up for less dominance; then the backward error is that of elimination, eps over the smallest pivot."""
    system = dominant(batch * length, dtype, max(dominance, 1.01), seed)
    if dominance < 1:  # the inverse reaches far on one side only
        system[2] = (0.1 * system[2]).astype(dtype)
        system[0] = (dominance * system[0]).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        constants(patch, chunk=chunk, halo=halo, exact=exact)
        x, found = solved(MANY if many else cpu(1), system, length, corners=1e30)
    wide = [v.astype(np.result_type(v, np.float64)) for v in system]
    assert (
        backward_error(*wide, x.astype(wide[0].dtype), length)
        < BACKWARD * np.finfo(dtype).eps / found.min_pivot
    )
    if dominance > 1:
        agree(x, lapack(*system, length), dtype)


@pytest.mark.gpu
@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 12),
    length=st.integers(1, 1500),
    dtype=st.sampled_from(DTYPES),
    dominance=st.sampled_from([1.01, 2.0, 1e3]),
    threads=st.sampled_from([32, 64, 96]),
    seed=st.integers(0, 99),
)
def test_sizes_pieces_and_dominance_on_cuda(batch, length, dtype, dominance, threads, seed):
    from qsim.core.device.device import select

    system = dominant(batch * length, dtype, dominance, seed)
    with pytest.MonkeyPatch.context() as patch:
        constants(patch, threads=threads)
        x, _found = solved(select("cuda")[0], system, length, corners=1e30)
    agree(x, lapack(*system, length), dtype)


@pytest.mark.parametrize("corner", [1e30, np.inf, np.nan])
@pytest.mark.parametrize("dtype", [np.complex128, np.float64])
def test_corners_do_not_count(device, tiny, dtype, corner):
    for length, dominance in ((40, 1e3), (40, 1.01), (400, 1e3), (400, 1.01)):
        system = dominant(1200, dtype, dominance)
        x, found = solved(device, system, length, corner)
        agree(x, lapack(*system, length), dtype)
        assert found == solved(device, system, length, 0.0)[1]


def test_threads_do_not_change_a_bit(monkeypatch):
    for kappa in (1.0, 0.1):  # in windows, and chunk by chunk
        system = toeplitz(nshape.EXACT_CHUNK * 4 + 777, kappa)
        found = []
        for threads in (3, 5):
            monkeypatch.setattr(pool, "PARALLEL_SIZE", 1)
            found.append(solved(Device("cpu", 0, "", threads), system, len(system[0]))[0])
        np.testing.assert_array_equal(*found)
    one, many = (solved(device, toeplitz(5000, 1.0), 5000)[0] for device in (cpu(1), MANY))
    np.testing.assert_array_equal(one, many)


def test_the_ways_agree():
    """Windows, chunks and serial elimination of one well-conditioned system, to a few rounding errors."""
    system = toeplitz(30011, 0.7)
    windows, local = solved(cpu(1), system, 30011)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nshape, "CPU_HALO", 1)
        chunks, exact = solved(MANY, system, 30011)
        serial, thomas = solved(cpu(1), system, 30011)
    assert (local.mode, exact.mode, thomas.mode) == ("local", "exact", "exact")
    agree(windows, serial, float, 10)
    agree(chunks, serial, float, 10)
    np.testing.assert_allclose([local.min_pivot, exact.min_pivot], thomas.min_pivot, rtol=1e-3)


# --------------------------------------------------------------------------- how far the ends are felt

BORDER = -np.log(1e-17)  # kappa times the rows of a halo where one pass may just be used


@pytest.mark.parametrize("dtype", [np.complex128, np.float64])
@pytest.mark.parametrize("share", [0.3, 0.8, 0.9, 0.97, 1.03, 1.1, 2.0])
def test_the_pass_decides_by_the_decay(device, monkeypatch, dtype, share):
    """``exp(-kappa halo)`` on either side of 1e-17: below, one pass; above, the exact solve; right in both.

    The right-hand side is one row or one chunk, and zero elsewhere: what a halo cuts off is not hidden by what is around it.
    """
    monkeypatch.setattr(pool, "PARALLEL_SIZE", 1)
    halo = nshape.HALO if device.is_cuda else nshape.CPU_HALO
    n = 2 * nshape.EXACT_CHUNK * 2 + 5
    a, b, c, d = toeplitz(n, share * BORDER / halo, dtype)
    keep = np.zeros(n, bool)
    keep[[0, 1024 - 5, 1024 + 5, 3000, n - 1]] = keep[5000:7000] = True
    d[~keep] = 0
    x, found = solved(device, (a, b, c, d), n)
    # one thread solves real systems one after another: that is faster than lanes
    serial = device == cpu(1) and dtype == np.float64
    assert found.mode == ("local" if share > 1 and not serial else "exact")
    agree(x, lapack(a, b, c, d, n), dtype)  # condition number at most 130


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_one_slow_side_is_enough(device, side):
    """Only what lies above (below) a row is felt far away: 0.9 a row."""
    n = 4001
    a, b, c, d = toeplitz(n, 2.0)
    a[:], b[:], c[:] = 1.0, 0.9, 0.001
    if side == "upper":
        b, c = c, b
    x, found = solved(device, (a, b, c, d), n)
    assert found.mode == "exact"
    agree(x, lapack(a, b, c, d, n), np.complex128)


@pytest.mark.parametrize("at", [-70, -64, -32, -1, 0, 40])
def test_one_slow_halo_is_enough(device, at):
    """The inverse decays fast but for 60 rows near the edge of one chunk, where it does not decay at all."""
    n = 8 * 1024
    a, b, c, d = toeplitz(n, 2.0)
    edge = 3 * (nshape.ROWS * nshape.THREADS - 2 * nshape.HALO if device.is_cuda else 1024)
    slow = slice(edge + at, edge + at + 60)
    a[slow], b[slow], c[slow] = 1.0, 0.9999, 1e-5
    d[:] = 0
    d[edge - 200 : edge - 60] = 1.0  # nothing else: an error here is not hidden
    x, _found = solved(device, (a, b, c, d), n)
    agree(x, lapack(a, b, c, d, n), np.complex128)  # condition number about 120


def test_growth_after_decay_keeps_the_backward_error(device):
    """What a chunk's end sends is below rounding in its first row, and grows further on: T has a huge condition number."""
    n = 3072
    a, b, c = np.ones(n), np.full(n, -0.5), np.zeros(n)
    b[1100:2000] = -1.03
    d = np.zeros(n)
    d[:900] = 1.0
    system = [v.astype(complex) for v in (a, b, c, d)]
    x, _found = solved(device, system, n)
    assert backward_error(*system, x, n) < BACKWARD * np.finfo(float).eps


@pytest.mark.parametrize("dtype", DTYPES)
def test_laplacian(device, monkeypatch, dtype):
    """No decay: exact for any number of chunks; the condition number is n^2, the backward error a few rounding errors."""
    monkeypatch.setattr(pool, "PARALLEL_SIZE", 1)
    n = 4 * nshape.EXACT_CHUNK + 3
    a, b, c = (np.full(n, v, dtype) for v in (2.0, -1.0, -1.0))
    d = draw(np.random.default_rng(1), n, dtype).astype(dtype)
    x, found = solved(device, (a, b, c, d), n)
    assert found.mode == "exact"
    # row by row pivots are 1 + 1/j, of 2; the joint line of a thread's 11 rows has 2 - 2 * 10 / 11 left
    assert (0.09 if device.is_cuda else 0.49) < found.min_pivot <= 1.0
    wide = [v.astype(np.result_type(v, np.float64)) for v in (a, b, c, d)]
    # the pivots 1 + 1/j of a chunk are rounded to the same side for thousands of rows: 21 in single precision
    assert backward_error(*wide, x.astype(wide[0].dtype), n) < 5 * BACKWARD * np.finfo(dtype).eps


def test_reduced_systems_of_reduced_systems(device, tiny):
    """Chunks so small that the joint lines of the joint lines are several chunks, in batches that fit them or do not."""
    for batch, length in ((1, 30011), (3, 9001), (7, 353), (5, 704)):
        system = toeplitz(batch * length, 0.02)
        x, found = solved(device, system, length, corners=1e30)
        assert found.mode == "exact"
        agree(x, lapack(*system, length), np.complex128, 1e4)  # condition number 1e4


# ------------------------------------------------------------------------------------------ breakdowns

EDGES = [0, 1, 31, 32, 33, 63, 64, 65, 200, 255, 256, 257, 295, 296, 297, 350, 351, 352, 598, 599]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", ["zero pivot", "zero row"])
def test_a_vanishing_pivot_is_told(device, tiny, dtype, row):
    """Wherever the row lies in chunks, halos and lanes; in one long system, and in one of a batch.

    The last row of a piece is eliminated after the row below, so that a zero on its diagonal need not be a zero pivot: what
    is not told must be right.
    """
    for place in EDGES:
        for length in (600, 50):
            a, b, c, d = dominant(600, dtype, 100.0)
            a[place] = b[place] = 0.0
            if row == "zero row":
                c[place] = 0.0
            elif place % length == length - 1:
                continue  # the same
            x, found = solved(device, (a, b, c, d), length)
            if found.min_pivot > 0:
                assert row == "zero pivot"
                assert device != cpu(1)
                wide = [v.astype(np.result_type(v, np.float64)) for v in (a, b, c, d)]
                error = backward_error(*wide, x.astype(wide[0].dtype), length)
                assert error < BACKWARD * np.finfo(dtype).eps, (place, length)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("array", range(3))
def test_numbers_that_are_not_finite_are_told(device, tiny, dtype, array):
    for value in (np.nan, np.inf, -np.inf):
        for place in EDGES:
            system = dominant(601, dtype, 100.0)
            system[array][place] = value
            if (array, place) == (1, 0):
                continue  # a corner
            _x, found = solved(device, system, 601)
            assert not found.min_pivot > 0, (value, place)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [-120, 120])
def test_scales(device, tiny, dtype, exponent):
    """T and d times 1e+-120 (single: 1e+-12) give the same x, in one pass and in two; so do rows of different scales."""
    scale = 10.0 ** (exponent if np.finfo(dtype).eps < 1e-10 else exponent // 10)
    rows = scale ** np.random.default_rng(3).random(599)
    for dominance in (1.01, 1e3):
        system = dominant(599, dtype, dominance)
        expected = lapack(*system, 599)
        unscaled = solved(device, system, 599)[1]
        for factor in (scale, rows):
            x, found = solved(device, [(v * factor).astype(dtype) for v in system], 599)
            agree(x, expected, dtype)
            assert found.mode == unscaled.mode
            np.testing.assert_allclose(found.min_pivot, unscaled.min_pivot, rtol=1e-4)


def test_the_right_hand_side_may_have_any_size(device, tiny):
    system = dominant(599, np.complex128)
    expected = lapack(*system, 599)
    for scale in (1e250, 1e-250):
        x, _found = solved(device, (*system[:3], system[3] * scale), 599)
        agree(x / scale, expected, np.complex128)


@pytest.mark.parametrize("dtype", [np.complex128, np.float64])
def test_the_smallest_pivot_is_that_of_the_elimination(dtype):
    """Serial: pivots of LU without exchanges, relative to the largest element of the row (1-norm of complex numbers)."""
    a, b, c, d = dominant(500, dtype, 1.01)
    a[250] = 0.02 * a[250]
    pivot, smallest = a[0], np.inf
    for i in range(500):
        if i:
            pivot = a[i] - b[i] * c[i - 1] / pivot
        size = [abs(v[i].real) + abs(v[i].imag) for v in (a, b, c)]
        size[1] *= i > 0
        size[2] *= i < 499
        smallest = min(smallest, (abs(pivot.real) + abs(pivot.imag)) / max(size))
    _x, found = solved(cpu(1), (a, b, c, d), 500)
    np.testing.assert_allclose(found.min_pivot, smallest, rtol=1e-10)
    with pytest.MonkeyPatch.context() as patch:
        constants(
            patch, chunk=63, halo=250
        )  # windows from the first row on, all of them: the same elimination
        _x, found = solved(MANY, (a, b, c, d), 500)
    assert smallest / np.sqrt(2) <= found.min_pivot <= smallest * np.sqrt(2)
