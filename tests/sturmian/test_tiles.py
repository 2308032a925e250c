"""Rows of matrices and ranges of vectors on threads = plain NumPy, with the same bits on any number of threads.

Tolerance.  Sums of k numbers of size one differ by ``eps k`` times their sizes at most, products of matrices likewise.
"""

import itertools

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.sturmian.driven.numbers import Numbers
from qsim.sturmian.driven.setup import Setup
from qsim.sturmian.linalg import tiles
from qsim.sturmian.linalg.banded import Banded
from qsim.sturmian.radial import potentials

EPS = 2.3e-16
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SIZES = [1, tiles.RANGE, 3 * tiles.RANGE + 7]


@pytest.fixture(params=DEVICES)
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


@pytest.fixture(autouse=True)
def threads_from_the_first_call(monkeypatch):
    monkeypatch.setattr(tiles, "PARALLEL_SIZE", 1)


def random(*shape, seed=0):
    generator = np.random.default_rng([seed, *shape])
    return generator.standard_normal(shape) + 1j * generator.standard_normal(shape)


@pytest.mark.parametrize("size", SIZES)
def test_long_vectors(device, size):
    w, y, factors = random(3, size), random(3, size, seed=1), np.array([2.0, -0.5, 1.0])
    out = device.asarray(np.zeros((3, size), complex))
    tiles.scaled(device, device.asarray(w), device.asarray(factors), out)
    np.testing.assert_array_equal(device.to_host(out), factors[:, None] * w)
    np.testing.assert_allclose(
        device.to_host(tiles.squares(device, device.asarray(w))),
        (abs(w) ** 2).sum(axis=1),
        rtol=EPS * size**0.5 * 8,
    )
    np.testing.assert_array_equal(
        device.to_host(tiles.subtracted(device, device.asarray(y), device.asarray(w.copy()))), y - w
    )
    wide = device.asarray(np.zeros((3, 5, size), complex))
    tiles.copied(device, device.asarray(y[:, None].repeat(2, axis=1)), wide[:, :2])
    np.testing.assert_array_equal(device.to_host(wide)[:, 1], y)
    assert not device.to_host(wide)[:, 2:].any()


@pytest.mark.parametrize("size", SIZES[1:])
def test_parts_along_directions(device, size):
    basis, w = random(2, 4, size), random(2, size, seed=1)
    left = device.asarray(w.copy())
    h = device.to_host(tiles.subtract_along(device, device.asarray(basis), left))
    want = np.einsum("jks,js->jk", basis.conj(), w)
    assert abs(h - want).max() < 8 * EPS * size
    rest = w - np.einsum("jk,jks->js", want, basis)
    assert abs(device.to_host(left) - rest).max() < 64 * EPS * size


@pytest.mark.parametrize("size", SIZES)
def test_products_and_combinations_of_long_vectors(device, size):
    left, right, c = random(3, size), random(2, size, seed=1), random(2, 3, seed=2)
    made = tiles.products(device, device.asarray(left), device.asarray(right), (True, False))
    want = np.concatenate((left @ right.conj().T, left @ right.T), axis=1)
    assert abs(device.to_host(made) - want).max() < 8 * EPS * size
    out = device.asarray(np.full((2, size), np.nan + 0j))
    tiles.combined(device, device.asarray(c), device.asarray(left), out)
    assert abs(device.to_host(out) - c @ left).max() < 64 * EPS
    tiles.add_combinations(device, device.asarray(-c), device.asarray(left), out)
    assert abs(device.to_host(out)).max() < 128 * EPS


@pytest.mark.parametrize(("size", "width"), [(1, 0), (31, 4), (32, 31), (65, 9), (100, 40)])
def test_products_with_a_banded_matrix(size, width):
    """Zeros may lie at different distances from the diagonal; rows begin anywhere."""
    i = np.arange(size)
    matrix = random(size, size)
    matrix[abs(i[:, None] - i) > width * (1 + i[:, None] + i) / (2 * size)] = 0.0
    banded = Banded(matrix)
    x, left = random(size, 7, seed=1), random(5, size, seed=2)
    for rows in (slice(0, size), slice(size // 3, size // 2), slice(size - 1, size)):
        out = np.ones((rows.stop - rows.start, 7), complex)
        banded.add_rows(rows, x, out)
        assert abs(out - 1.0 - matrix[rows] @ x).max(initial=0.0) < 64 * EPS * size
    out = np.ones((5, size), complex)
    banded.add_right(left, out)
    assert abs(out - 1.0 - left @ matrix).max() < 64 * EPS * size


@pytest.mark.parametrize(
    ("shape", "threads"), [((1, 1, 1), 4), ((2, 3, 70), 2), ((1, 1, 700), 5), ((3, 2, 31), 3)]
)
def test_tiles_cover_every_row_once(shape, threads):
    seen = np.zeros(shape, int)

    def work(k, p, rows):
        assert rows.stop - rows.start <= tiles.TALL + 1
        seen[k, p, rows] += 1

    tiles.each_tile(cpu(threads), work, shape, 1e9, work.__code__)
    assert (seen == 1).all()


@pytest.mark.parametrize("shape", [(1, 1, 61), (1, 2, 150), (2, 4, 300), (1, 9, 97), (1, 1, 700)])
def test_tiles_depend_on_the_matrices_alone(shape):
    """Kernels of BLAS may round the last rows of a product in another way than the others."""

    def edges(threads):
        seen = set()
        tiles.each_tile(
            cpu(threads), lambda k, p, rows: seen.add((k, p, rows.start, rows.stop)), shape, 1e9, threads
        )
        return seen

    assert all(edges(threads) == edges(1) for threads in (2, 3, 8, 64))


@pytest.fixture(scope="module")
def numbers():
    return Numbers(R=24.0, order=9, angle=0.3, length=18.0)


@pytest.mark.parametrize("pairs", [[(0, 0), (1, 1)], [(0, 1), (1, 2)], [(0, 2), (1, 1), (1, 3)]])
def test_a_step_of_the_driven_equation(device, numbers, pairs):
    """``(1 - V G0) y`` by dense matrices of each pair, multipole by multipole."""
    L = pairs[0][1] - pairs[0][0]
    setup = Setup(device, numbers, 2.0, potentials.OneBody(None, 2.0))
    operator = setup.operator(L, 0, pairs, 0.5)
    n, P = operator.points, len(pairs)
    y, E = random(2, P, n, n), np.array([0.5, 1.5 + 0j])
    C = {l: orbital.C for l, orbital in operator.orbitals.items()}
    e = {l: orbital.e for l, orbital in operator.orbitals.items()}
    G = np.stack([setup.planes[l] for l in operator.multipoles])
    A = device.to_host(operator._terms.dense)
    order = [p for p, (a, b) in enumerate(pairs) if a != b]

    def green(y, C, below):
        u = np.empty_like(y)
        for p, (a, b) in enumerate(pairs):
            x = np.einsum("ia,kij,jb->kab", C[a], y[:, p], C[b], optimize=True) / below[a, b]
            u[:, p] = np.einsum("ia,kab,jb->kij", C[a], x, C[b], optimize=True)
        return u

    def repulsion(u, G, A):
        F = np.concatenate([u, u[:, order].transpose(0, 1, 3, 2)], axis=1)
        return np.einsum("lpc,lij,kcij->kpij", A, G, F, optimize=True)

    below = {(a, b): E[:, None, None] - e[a][:, None] - e[b] for a, b in pairs}
    u = green(y, C, below)
    repelled = repulsion(u, G, A)
    # the same with the sizes of all numbers: each of the sums of n products is rounded by eps n of it at most
    sizes = {l: abs(c) for l, c in C.items()}, {pair: abs(values) for pair, values in below.items()}
    rounded = 8 * EPS * n * green(abs(y), *sizes)
    there = device.asarray(y), device.asarray(E)
    assert (abs(device.to_host(operator.green(*there)) - u) <= rounded).all()
    bound = repulsion(rounded, abs(G), abs(A)) + 8 * EPS * repulsion(abs(u), abs(G), abs(A))
    found = device.to_host(operator.step(*there))
    assert (abs(found - (y - repelled)) <= bound + 8 * EPS * abs(y)).all()
    found = device.to_host(operator.repel(device.asarray(u)))
    assert (abs(found - repelled) <= 8 * EPS * repulsion(abs(u), abs(G), abs(A))).all()


def test_threads_change_no_bit_of_a_step(numbers):
    found = []
    for threads in (1, 2, 5):
        setup = Setup(cpu(threads), numbers, 2.0, potentials.OneBody(None, 2.0))
        operator = setup.operator(1, 0, [(0, 1), (1, 2)], 0.5)
        y, E = random(1, 2, operator.points, operator.points), np.array([0.7 + 0j])
        s = random(1, 2, operator.points, operator.points, seed=1)
        found.append((operator.step(y, E), operator.residual(y, s, E)))
    for first, second in itertools.pairwise(found):
        for one, other in zip(first, second, strict=True):
            np.testing.assert_array_equal(one, other)
