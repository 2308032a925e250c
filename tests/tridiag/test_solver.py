"""The tridiagonal solver: stored solutions, LAPACK, and every rung of the ladder for what needs pivoting.

Tolerances.  Entries S.. of ``reference_data/tridiag.json`` bring their own, relative to the largest element of the solution.
Diagonally dominant systems agree with LAPACK to 1e-13 of that; elsewhere the backward error decides, and the condition
number times it bounds the difference.
"""

import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh_tridiagonal, solve_banded

import qsim.tridiag
from qsim.core.device.device import Device, cpu
from qsim.core.errors import NumericsError
from qsim.tridiag import solve
from qsim.tridiag.solver import ladder
from qsim.tridiag.solver.ladder import SingularMatrixError
from qsim.tridiag.solver.partition import auto, cost, fit, joints, levels, nested, optimum, shift
from qsim.tridiag.solver.solve import Solution

DATA = Path(__file__).resolve().parents[1] / "reference_data" / "tridiag.json"
REFERENCES = {
    entry["id"]: entry
    for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]
    if entry["group"] == "solver"
}
ALGORITHMS = [
    {},
    {"blocks": 37},
    {"blocks": 100, "iterations": 3},
    {"type": "thomas"},
    {"type": "woodbury", "blocks": 20},
    {"type": "lapack"},
]


def generator(seed):
    return np.random.Generator(np.random.PCG64(seed))


def draw(random, n):
    """Return complex normals, real parts drawn first."""
    return random.standard_normal(n) + 1j * random.standard_normal(n)


def dominant(n, seed):
    """Recipe of S01."""
    random = generator(seed)
    b, c, d, u = draw(random, n), draw(random, n), draw(random, n), random.random(n)
    a = (4 + abs(b) + abs(c)) * np.exp(2j * np.pi * u)
    b[0] = c[-1] = 0
    return a, b, c, d


def crank_nicolson(n, seed):
    """Recipe of S03."""
    x, dx, dt = (np.arange(n) - n // 2) * 0.1, 0.1, 0.05
    a = 1 + 0.5j * dt * (1 / dx**2 - 1 / np.sqrt(x**2 + 2))
    off = np.full(n, -0.25j * dt / dx**2)
    return a, off, off, draw(generator(seed), n)


def constant(n, a, off, d):
    return np.full(n, a), np.full(n, off), np.full(n, off), d


def lapack(a, b, c, d):
    n = len(a)
    bands = np.zeros((3, n), np.result_type(a, b, c))
    bands[0, 1:], bands[1], bands[2, :-1] = c[: n - 1], a, b[-(n - 1) :]
    return solve_banded((1, 1), bands, d)


def difference(found, expected):
    return abs(found - expected).max() / abs(expected).max()


def check(x, name, tolerance=None):
    """Compare a solution with the stored sums and elements."""
    checks, n = REFERENCES[name]["checks"], len(x)
    tolerance = (tolerance or REFERENCES[name]["rel_tol"]) * checks.get("max_abs", 1.0)
    x = x.astype(complex)
    scale = checks.get("max_abs", 1.0)
    values = {
        "sum": (x.sum(), n),
        "wsum": ((x * np.cos(0.1 * np.arange(n))).sum(), n),
        "sum_abs2": ((abs(x) ** 2).sum(), 2 * n * scale),
        "first": (x[0], 1),
        "mid": (x[n // 2], 1),
        "last": (x[-1], 1),
        "max_abs": (abs(x).max(), 1),
    }
    for key, stored in checks.items():
        expected = complex(*stored) if isinstance(stored, list) else stored
        found, factor = values[key]
        assert abs(found - expected) <= factor * tolerance, key


# ---------------------------------------------------------------------------------- stored solutions


@pytest.mark.parametrize("how", ALGORITHMS, ids=str)
def test_dominant_complex(how):
    system = dominant(1000, 101)
    found = solve(*system, **how)
    check(found.x, "S01_dd_complex")
    assert found.backward_error < 1e-15
    assert found.refinements == 0
    assert difference(found.x, lapack(*system)) < 1e-15


@pytest.mark.parametrize("how", ALGORITHMS, ids=str)
@pytest.mark.parametrize("n", [3000, 300_000])
def test_crank_nicolson(how, n):
    system = crank_nicolson(n, 103)
    found = solve(*system, **how)
    assert difference(found.x, lapack(*system)) < 1e-14
    if n == 300_000:
        check(found.x, "S03_cn_softcore_3e5")


@pytest.mark.parametrize("how", ALGORITHMS, ids=str)
def test_laplace(how):
    found = solve(*constant(10_000, 2.0, -1.0, generator(105).standard_normal(10_000)), **how)
    check(found.x, "S05_laplace")
    assert found.x.dtype == np.float64


@pytest.mark.parametrize("how", ALGORITHMS, ids=str)
def test_small_pivots(how):
    found = solve(*constant(1000, 1 + 1e-9, -1.0, draw(generator(106), 1000)), **how)
    check(found.x, "S06_small_pivots")
    assert found.backward_error < 1e-15
    if how.get("type") != "lapack":
        assert found.min_pivot < 1e-8
        assert found.refinements > 0 or found.algorithm == "lapack"


@pytest.mark.parametrize("how", ALGORITHMS, ids=str)
def test_random_normal(how):
    random = generator(109)
    b, a, c = (random.standard_normal(2000) for _ in range(3))
    check(solve(a, b, c, draw(random, 2000), **how).x, "S09_random_normal")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_unknowns_of_badly_scaled_systems_keep_their_digits(dtype):
    """Two large elements off a small diagonal: scaled, the system is solved to a rounding of its larger unknown alone."""
    a, b, c, d = (
        np.array(v, dtype)
        for v in (
            [193784.71875, -886086.625],
            [0.0, -1.427713596058311e-05],
            [0.0213631559163332, 0.0],
            [-1419.00634765625, -59.65983581542969],
        )
    )
    found = solve(a, b, c, d)
    (p, q, r, s), (u, v) = ([Fraction(float(z)) for z in row] for row in ((a[0], c[0], b[1], a[1]), d))
    truth = (u * s - q * v) / (p * s - q * r), (p * v - r * u) / (p * s - q * r)
    for x, exact in zip(found.x, truth, strict=True):
        assert abs(float(Fraction(float(x)) / exact - 1)) < 8 * np.finfo(dtype).eps
    assert found.rowwise_error < 8 * np.finfo(dtype).eps


def test_smallest_systems():
    found = solve(np.array([2 + 1j]), np.zeros(0), np.zeros(0), np.array([1 - 3j]))
    check(found.x, "S10_n1")
    for how in ({}, {"blocks": 1}, {"type": "thomas"}, {"type": "woodbury"}, {"type": "lapack"}):
        check(solve(*dominant(2, 112), **how).x, "S10_n2")


@pytest.mark.parametrize("how", ALGORITHMS, ids=str)
def test_singular(how):
    with pytest.raises(SingularMatrixError, match="no pivot is left for row 998") as caught:
        solve(*constant(999, 0.0, 1.0, np.ones(999)), **how)
    assert caught.value.row == 998
    assert caught.value.exit_code == 5


@pytest.mark.parametrize("how", [how for how in ALGORITHMS if how.get("type") != "lapack"], ids=str)
def test_single_precision(how):
    found = solve(*(v.astype(np.complex64) for v in crank_nicolson(300_000, 103)), **how)
    assert found.x.dtype == np.complex64
    expected = solve(*crank_nicolson(300_000, 103)).x
    assert difference(found.x, expected) < REFERENCES["S15_complex64"]["rel_tol"]
    for place, key in ((0, "first"), (150_000, "mid"), (-1, "last")):
        stored = complex(*REFERENCES["S03_cn_softcore_3e5"]["checks"][key])
        assert abs(found.x[place] - stored) < 2e-6 * 2.878


# ------------------------------------------------------------------------------------------ properties


@st.composite
def problems(draw):
    """Size, blocks (a number, a list of sizes or automatic), nesting, type of numbers, seed."""
    n = draw(st.one_of(st.integers(1, 12), st.integers(13, 400)))
    blocks = draw(st.sampled_from(["auto", "number", "sizes"]))
    if blocks == "number":
        blocks = draw(st.integers(1, max(1, n - 1)))
    elif blocks == "sizes":
        if n < 3:
            blocks = [n]
        else:
            cuts = draw(st.sets(st.integers(2, n - 1), max_size=40))
            edges = [0, *sorted(cuts), n]
            blocks = [high - low for low, high in pairwise(edges)]
    iterations = draw(st.one_of(st.just("auto"), st.integers(1, 6)))
    dtype = draw(st.sampled_from(["d", "D", "f", "F"]))
    return n, blocks, iterations, dtype, draw(st.integers(0, 2**32 - 1))


@given(problems(), st.sampled_from(["nshape", "woodbury", "thomas"]))
@settings(max_examples=150, deadline=None)
def test_any_partition_agrees_with_lapack(problem, algorithm):
    n, blocks, iterations, dtype, seed = problem
    a, b, c, d = dominant(max(n, 2), seed)
    if dtype in "df":
        a, b, c, d = abs(a), b.real, c.real, d.real
    a, b, c, d = (v[:n].astype(dtype) for v in (a, b, c, d))
    if algorithm != "nshape":
        iterations = "auto"
    found = solve(a, b, c, d, type=algorithm, blocks=blocks, iterations=iterations)
    expected = lapack(a, b, c, d) if n > 1 else d / a
    assert difference(found.x, expected) < (1e-13 if dtype in "dD" else 5e-6)
    assert found.x.dtype == np.dtype(dtype)
    assert found.backward_error < (1e-15 if dtype in "dD" else 1e-6)


@given(st.integers(2, 60), st.integers(1, 5), st.booleans(), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_columns_and_batches(n, count, columns, seed):
    systems = [dominant(n, [seed, s]) for s in range(count)]
    for how in (
        {},
        {"blocks": 2 if n > 2 else 1},
        {"type": "thomas"},
        {"type": "lapack"},
        {"type": "woodbury"},
    ):
        if columns:
            a, b, c, _d = systems[0]
            d = np.stack([system[3] for system in systems], axis=1)
            found = solve(a, b, c, d, **how).x
            expected = np.stack([lapack(a, b, c, column) for column in d.T], axis=1)
        else:
            found = solve(*(np.stack(v) for v in zip(*systems, strict=True)), **how).x
            expected = np.stack([lapack(*system) for system in systems])
        assert found.shape == expected.shape
        assert difference(found, expected) < 1e-13


def test_off_diagonals_of_either_length_and_garbage_corners():
    a, b, c, d = dominant(50, 1)
    expected = lapack(a, b, c, d)
    assert difference(solve(a, b[1:], c[:-1], d).x, expected) < 1e-15
    b[0], c[-1] = np.nan, np.inf
    for how in [{}, {"blocks": 7}, {"type": "thomas"}, {"type": "lapack"}, {"type": "woodbury"}]:
        assert difference(solve(a, b, c, d, **how).x, expected) < 1e-14
    shared = solve(np.stack([a, 2 * a]), b[1:], c, np.stack([d, d]))
    assert difference(shared.x[1], lapack(2 * a, np.append(0, b[1:]), c, d)) < 1e-15


def test_input_is_left_alone_and_may_be_of_any_kind():
    a, b, c, d = dominant(30, 2)
    copies = [v.copy() for v in (a, b, c, d)]
    solve(a, b, c, d, blocks=4)
    for mine, copy in zip((a, b, c, d), copies, strict=True):
        np.testing.assert_array_equal(mine, copy)
    found = solve([4, 4, 4], [1, 1], [1, 1], [6, 12, 14])
    np.testing.assert_allclose(found.x, [1, 2, 3], rtol=1e-15)
    assert found.x.dtype == np.float64
    assert solve(a.astype("F"), b, c, d).x.dtype == np.complex128
    assert (
        solve(a.real[::2].astype("f"), b.real[:15].astype("f"), np.ones(15, "f"), d[:15].astype("F")).x.dtype
        == "F"
    )
    strided = solve(a[::-1], c[::-1], b[::-1], d[::-1])
    assert difference(strided.x[::-1], lapack(a, b, c, d)) < 1e-15


def test_results_say_what_was_done():
    found = solve(*dominant(500, 3), blocks=20, iterations=2)
    assert isinstance(found, Solution)
    assert (found.algorithm, found.blocks, found.iterations) == ("nshape-literal", 20, 2)
    assert found.seconds > 0
    assert found.notes == []
    assert 0 <= found.residual < 1e-14
    assert found.min_pivot > 0.1
    assert qsim.tridiag.solve is solve
    with pytest.raises(AttributeError, match="no attribute 'solved'"):
        _ = qsim.tridiag.solved


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["d", "D", "f", "F"])
@pytest.mark.parametrize("how", [{}, {"blocks": 37}, {"blocks": 300, "iterations": 3}], ids=str)
def test_cuda_agrees(cuda, how, dtype):
    a, b, c, d = dominant(1000, 5)
    if dtype in "df":
        a, b, c, d = abs(a), b.real, c.real, d.real
    arrays = [v.astype(dtype) for v in (a, b, c, d)]
    found = solve(*arrays, device=cuda, **how)
    assert isinstance(found.x, np.ndarray)
    assert difference(found.x, lapack(*arrays)) < (1e-14 if dtype in "dD" else 1e-6)
    there = solve(*(cuda.asarray(v) for v in arrays), **how)
    assert hasattr(there.x, "__cuda_array_interface__")
    np.testing.assert_array_equal(cuda.to_host(there.x), found.x)


# ------------------------------------------------------------------------------------------- the ladder


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


BLOCKS, N = 32, 1000
RHS = draw(generator(7), N)


def harmless():
    """Diagonally dominant, so that what is wrong later was put in by hand."""
    random = generator(8)
    return 4 + random.random(N), -np.ones(N), -np.ones(N)


def singular_interior(noise):
    """Rows strictly between two joint lines that are singular by themselves; the whole matrix is harmless."""
    a, b, c = harmless()
    left, right = joints(N, BLOCKS)[3:5]
    a[left + 1 : right] = 2.0
    a[left + 1] = a[right - 1] = 1.0  # Neumann conditions: constant vectors are in the kernel of the block
    factors = 1 + noise * generator(9).random(N)
    return a * factors, b * factors, c * factors


def test_good_pivots_are_accepted_at_once(device):
    found = solve(*harmless(), RHS, blocks=BLOCKS, device=device)
    assert (found.algorithm, found.refinements, found.notes) == ("nshape-literal", 0, [])


@pytest.mark.parametrize(("dt", "bound"), [(1e4, 1e-12), (1e8, 1e-11)])
def test_refinement_mends_resonant_blocks(device, dt, bound):
    """Crank-Nicolson with a level of one block at zero and absurd time steps: pivots down to 1e-10."""
    dx, x = 0.1, (np.arange(N) - N // 2) * 0.1
    h = 1 / dx**2 - 1 / np.sqrt(x**2 + 2)
    left, right = joints(N, BLOCKS)[10:12]
    h[left + 1 : right] -= eigh_tridiagonal(
        h[left + 1 : right], np.full(right - left - 2, -0.5 / dx**2), eigvals_only=True
    )[3]
    off = np.full(N, -0.25j * dt / dx**2)
    system = 1 + 0.5j * dt * h, off, off, RHS
    found = solve(*system, blocks=BLOCKS, device=device)
    assert found.algorithm == "nshape-literal"
    assert found.min_pivot < 10 / dt
    assert found.refinements >= 1
    assert found.backward_error < 1e-15
    assert difference(found.x, lapack(*system)) < bound


def test_refinement_mends_a_tiny_diagonal(device):
    system = constant(N, 1e-8, 1.0, RHS)
    found = solve(*system, blocks=BLOCKS, device=device)
    assert found.min_pivot < 1e-7
    assert 1 <= found.refinements <= ladder.REFINEMENTS
    assert found.algorithm == "nshape-literal"
    assert difference(found.x, lapack(*system)) < 1e-13


@pytest.mark.parametrize("noise", [0.0, 0.3], ids=["exact", "rounded"])
def test_other_joint_lines_mend_a_singular_block(device, noise):
    system = (*singular_interior(noise), RHS)
    found = solve(*system, blocks=BLOCKS, device=device)
    assert found.min_pivot < 1e-14
    assert found.algorithm == "nshape-shifted"
    assert any("joint lines moved" in note for note in found.notes)
    assert difference(found.x, lapack(*system)) < 1e-14


def test_other_joint_lines_mend_a_zero_in_the_first_row_of_a_block(device):
    a, b, c = harmless()
    a[joints(N, BLOCKS)[5] + 1] = 0.0
    found = solve(a, b, c, RHS, blocks=BLOCKS, device=device)
    assert found.algorithm == "nshape-shifted"
    assert found.min_pivot == 0.0
    assert difference(found.x, lapack(a, b, c, RHS)) < 1e-14


@pytest.mark.parametrize("how", ALGORITHMS, ids=str)
def test_pivoting_solves_a_zero_diagonal(how):
    system = constant(N, 0.0, 1.0, RHS)
    found = solve(*system, **how)
    assert found.algorithm == "lapack"
    assert found.backward_error < 1e-15
    assert difference(found.x, lapack(*system)) < 1e-15


def test_only_the_systems_that_need_it_climb(device):
    a, b, c = harmless()
    bad = singular_interior(0.3)
    batch = [
        np.stack([good, worse, good, np.full(N, value)])
        for good, worse, value in zip((a, b, c), bad, (0, 1, 1), strict=True)
    ]
    d = np.tile(RHS, (4, 1))
    found = solve(*batch, d, blocks=BLOCKS, device=device)
    for s in range(4):
        assert difference(found.x[s], lapack(*(v[s] for v in batch), RHS)) < 1e-14
    assert found.algorithm == "lapack"
    assert any("system 1: joint lines moved" in note for note in found.notes)
    alone = solve(a, b, c, RHS, blocks=BLOCKS, device=device).x
    np.testing.assert_array_equal(found.x[0], alone)


def determinant(a, b, c):
    """Determinant of a tridiagonal matrix of integers, exactly."""
    before, now = Fraction(1), Fraction(int(a[0]))
    for i in range(1, len(a)):
        before, now = now, int(a[i]) * now - int(b[i]) * int(c[i - 1]) * before
    return now


@given(st.integers(1, 24), st.integers(0, 2**32 - 1), st.data())
@settings(max_examples=200, deadline=None)
def test_singular_or_right(n, seed, data):
    """Small integers: many matrices are singular, many pivots zero.  Either the error, or an accurate solution."""
    random = generator(seed)
    a, b, c = random.choice([-1.0, 0.0, 1.0, 2.0], size=(3, n), p=[0.4, 0.25, 0.25, 0.1])
    d = random.integers(-3, 4, n).astype(float)
    how = data.draw(st.sampled_from(["nshape", "thomas", "woodbury", "lapack"]))
    blocks = "auto" if how in ("thomas", "lapack") else data.draw(st.integers(1, max(1, n - 1)))
    if determinant(a, b, c) == 0:
        with pytest.raises(SingularMatrixError):
            solve(a, b, c, d, type=how, blocks=blocks)
        return
    found = solve(a, b, c, d, type=how, blocks=blocks)
    full = np.diag(a) + np.diag(b[1:], -1) + np.diag(c[:-1], 1)
    assert found.backward_error < 1e-14
    bound = 1e-14 * np.linalg.cond(full) * max(1.0, abs(found.x).max())
    assert abs(found.x - np.linalg.solve(full, d)).max() < bound


@pytest.mark.parametrize("how", [{}, {"blocks": BLOCKS}, {"type": "thomas"}, {"type": "woodbury"}], ids=str)
def test_singular_without_an_exact_zero(how):
    a, b, c = np.full(N, 2.0), -np.ones(N), -np.ones(N)
    a[0] = a[-1] = 1.0
    factors = 1 + 0.3 * generator(9).random(N)
    with pytest.raises(SingularMatrixError, match="singular"):
        solve(a * factors, b * factors, c * factors, RHS, **how)


def test_singular_in_a_batch_names_the_system(device):
    a, b, c = (np.stack([v, v]) for v in harmless())
    a[1, 7] = b[1, 7] = c[1, 7] = 0.0
    with pytest.raises(
        SingularMatrixError, match="of system 1 is singular: no pivot is left for row 7"
    ) as caught:
        solve(a, b, c, np.stack([RHS, RHS]), device=device)
    assert (caught.value.system, caught.value.row) == (1, 7)


def test_ill_conditioned_systems_are_noted():
    found = solve(*(v.astype(np.float32) for v in constant(200, 2.0, -1.0, np.ones(200))))
    assert any("ill-conditioned" in note for note in found.notes)


def test_unstable_is_an_error_if_asked():
    with pytest.raises(NumericsError, match="smallest relative pivot") as caught:
        solve(*constant(1000, 1 + 1e-9, -1.0, RHS), on_unstable="error")
    assert "on_unstable: ladder" in caught.value.hint
    found = solve(*constant(1000, 2.0, -1.0, RHS), blocks=2, on_unstable="error")
    assert found.backward_error < 1e-15


@pytest.mark.parametrize("factor", [1e-290, 1e-160, 1e160, 1e290])
@pytest.mark.parametrize("how", ALGORITHMS[:-1], ids=str)
def test_scale_does_not_matter(how, factor):
    a, b, c, d = dominant(1000, 11)
    found = solve(factor * a, factor * b, factor * c, factor * d, **how)
    assert difference(found.x, lapack(a, b, c, d)) < 1e-14
    assert found.algorithm != "lapack"


# --------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": np.ones((2, 3, 4))}, "a has shape"),
        ({"a": np.ones(0)}, "a has shape"),
        ({"b": np.ones(8)}, r"b has shape \(8,\); with a of shape \(10,\) it needs 10 or 9 entries"),
        ({"c": np.ones((2, 10))}, "c has shape"),
        ({"d": np.ones(9)}, r"d has shape \(9,\).* it must be \(10,\) or \(10, k\)"),
        ({"d": np.ones((10, 0))}, "nothing to solve"),
        ({"a": np.where(np.arange(10) == 4, np.nan, 5.0)}, r"a\[4\] is nan"),
        ({"d": np.where(np.arange(10) == 9, np.inf, 5.0)}, r"d\[9\] is inf"),
        ({"b": np.where(np.arange(9) == 0, np.nan, 5.0)}, r"b\[0\] is nan"),
        ({"a": np.array(["x"] * 10)}, "must hold numbers"),
        ({"type": "cyclic"}, "type is nshape, thomas, lapack or woodbury"),
        ({"blocks": "many"}, "blocks is 'auto'"),
        ({"blocks": 10}, "room for at most 9 blocks, not 10"),
        ({"blocks": 0}, "at least one block"),
        ({"blocks": [5, 6]}, "sum to 11, but the system has 10 rows"),
        ({"blocks": [1, 9]}, "size must be at least 2"),
        ({"blocks": [5, 0, 5]}, "block 1 has 0"),
        ({"iterations": 0}, "at least 1"),
        ({"iterations": "some"}, "iterations is 'auto'"),
        ({"on_unstable": "ignore"}, "on_unstable"),
        ({"tolerance": -1.0}, "tolerance must be positive"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value),
)
def test_mistakes_are_named(change, message):
    arguments = {"a": np.full(10, 4.0), "b": np.ones(10), "c": np.ones(10), "d": np.ones(10), **change}
    with pytest.raises(ValueError, match=message):
        solve(**arguments)


# -------------------------------------------------------------------------------------------- partition


@given(st.integers(2, 500), st.data())
def test_joint_lines(n, data):
    blocks = data.draw(st.integers(1, n - 1))
    lines = joints(n, blocks)
    assert (lines[0], lines[-1], len(lines)) == (0, n - 1, blocks + 1)
    assert np.ptp(np.diff(lines)) <= 1
    sizes = np.diff(lines)
    sizes[0] += 1
    np.testing.assert_array_equal(joints(n, sizes.tolist()), lines)


def test_nested_partitions():
    found = levels(300_000, 4095, 3)
    assert [len(lines) for lines in found] == [4096, 257, 17]
    assert [int(lines[-1]) for lines in found] == [299_999, 4095, 256]
    assert [len(lines) for lines in levels(9, 8, 10)] == [9, 5, 3, 2]
    assert [lines.tolist() for lines in levels(1, 1, 3)] == [[0]]


@given(st.integers(20, 200), st.data())
def test_shifted_joint_lines_stay_in_order(n, data):
    lines = joints(n, data.draw(st.integers(1, n - 1)))
    flagged = data.draw(st.lists(st.integers(0, len(lines) - 2), unique=True))
    weight = np.random.default_rng(n).random(n)
    moved = shift(lines, flagged, weight)
    assert (np.diff(moved) > 0).all()
    assert abs(moved - lines).max() <= 2
    assert (moved[0], moved[-1]) == (0, n - 1)
    kept = [w for w in range(len(lines)) if w not in flagged and w - 1 not in flagged]
    np.testing.assert_array_equal(moved[kept], lines[kept])


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_cost_model(iterations):
    n, alpha, beta = 300_000, 3e-7, 1e-7
    best = optimum(n, iterations, alpha, beta)
    if iterations == 1:
        assert best == round(np.sqrt(alpha * n / beta))
    times = {blocks: cost(n, blocks, iterations, alpha, beta) for blocks in np.geomspace(10, n / 2, 400)}
    assert cost(n, best, iterations, alpha, beta) < 1.1 * min(times.values())
    measured = [float(b) for b in (100, 300, 1000, 3000)]
    found = fit(measured, [cost(n, b, iterations, alpha, beta) for b in measured], n, iterations)
    np.testing.assert_allclose(found, (alpha, beta), rtol=1e-9)


@given(st.integers(1, 10**9))
def test_automatic_partitions_fit(n):
    for device in (cpu(1), Device("cuda", 0, "none", 1)):  # a device is a value: nothing is asked of a driver
        blocks, iterations = auto(n, device)
        assert 1 <= blocks <= max(1, n - 1)
        assert 1 <= iterations <= 6
        assert 1 <= nested(n, blocks, device) <= 6
