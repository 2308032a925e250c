"""Couplings of different components: Kronecker products = dense matrix = CPU twins = CUDA, in the whole space and in sectors.

Tolerances: sums of at most ``9 N^2 / 2`` terms, ``8 eps`` times the sum of all couplings.
"""

from dataclasses import replace

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.trotter.kernels.product.apply import apply_h
from qsim.trotter.kernels.product.exchange import exchange, exchange_tables
from qsim.trotter.kernels.product.operators import operator
from qsim.trotter.model.hamiltonian import Model, conserved, dense
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.operator import sector_operator
from qsim.trotter.sectors.selection import mixing
from tests.trotter.kernels.test_sectors import embedding, vector

EPS = {np.dtype("c16"): 2.3e-16, np.dtype("c8"): 1.2e-7}
PAULI = [np.array(m, complex) / 2 for m in ([[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]])]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


def spin(axis, site, spins):
    """S^a of a site as a matrix; site 0 is the least significant bit."""
    found = np.eye(1)
    for j in range(spins):
        found = np.kron(PAULI[axis] if j == site else np.eye(2), found)
    return found


def model(spins, seed=0, only=None):
    """Random couplings of every two components of every pair and random fields; `only`: Dzyaloshinskii-Moriya along that axis."""
    generator = np.random.default_rng([seed, spins])
    cross, J = np.zeros((3, 3, spins, spins)), np.zeros((3, spins, spins))
    for k in range(spins):
        for j in range(k):
            K = generator.normal(size=(3, 3))
            np.fill_diagonal(K, 0.0)
            if only is not None:
                b, c = (only + 1) % 3, (only + 2) % 3
                K = np.zeros((3, 3))
                K[b, c] = generator.normal()
                K[c, b] = -K[b, c]
            cross[:, :, j, k], cross[:, :, k, j] = K, K.T
            J[:, j, k] = J[:, k, j] = generator.normal(size=3)
    h = generator.normal(size=(3, spins))
    if only is not None:
        J[(only + 1) % 3] = J[(only + 2) % 3]
        h[[a for a in range(3) if a != only]] = 0.0
    return Model(spins, J, h, cross)


def kronecker(system):
    n = system.spins
    S = [[spin(a, j, n) for j in range(n)] for a in range(3)]
    H = sum(system.h[a, j] * S[a][j] for a in range(3) for j in range(n))
    for k in range(n):
        for j in range(k):
            H = H + sum(system.J[a, j, k] * S[a][j] @ S[a][k] for a in range(3))
            H = H + sum(system.cross[a, b, j, k] * S[a][j] @ S[b][k] for a in range(3) for b in range(3))
    return H


def bound(system, psi):
    size = 1 + np.abs(system.J).sum() + np.abs(system.h).sum() + np.abs(system.cross).sum()
    return 8 * EPS[psi.dtype] * size * np.abs(psi).max()


def state(size, dtype):
    generator = np.random.default_rng(size)
    psi = generator.normal(size=size) + 1j * generator.normal(size=size)
    return (psi / np.linalg.norm(psi)).astype(dtype)


@pytest.mark.parametrize("spins", [2, 3, 5, 7])
def test_dense(spins):
    np.testing.assert_allclose(dense(model(spins)), kronecker(model(spins)), rtol=0, atol=1e-13)


@pytest.mark.parametrize("form", ["bonds", "frames"])
@pytest.mark.parametrize("dtype", ["c16", "c8"])
@pytest.mark.parametrize("spins", [2, 3, 6, 9])
def test_product(device, spins, dtype, form):
    system, psi = model(spins), state(1 << spins, dtype)
    out = device.asarray(state(1 << spins, dtype)[::-1].copy())
    expected = 0.7 * (dense(system) @ psi) - 0.3 * psi + 1.1 * device.to_host(out)
    apply_h(device, operator(device, system, form), device.asarray(psi), out, alpha=0.7, beta=-0.3, gamma=1.1)
    np.testing.assert_allclose(device.to_host(out), expected, rtol=0, atol=2 * bound(system, psi))


def test_tiles_and_threads():
    """14 spins are four tiles: sites within one tile, across, and above, by one thread and by three."""
    system = model(14, 1)
    psi, outs = state(1 << 14, "c16"), []
    for threads in (1, 3):
        out = np.zeros_like(psi)
        exchange(cpu(threads), exchange_tables(cpu(1), system.cross), psi, out, 0.9)
        outs.append(out)
    assert outs[0].tobytes() == outs[1].tobytes()
    some = np.random.default_rng(0).integers(0, 1 << 14, 40)
    for n in some:
        expected = 0.0
        for k in range(14):
            for j in range(k):
                pair = sum(
                    system.cross[a, b, j, k] * np.kron(PAULI[b], PAULI[a]) for a in range(3) for b in range(3)
                )
                here = (n >> j & 1) + 2 * (n >> k & 1)
                for other in range(4):
                    m = (n & ~((1 << j) | (1 << k))) | (other & 1) << j | (other >> 1) << k
                    expected += pair[here, other] * psi[m]
        assert abs(outs[0][n] - 0.9 * expected) < bound(system, psi)


@pytest.mark.parametrize("dtype", ["c16", "c8"])
@pytest.mark.parametrize("spins", [2, 3, 5, 8])
def test_product_in_every_sector(device, spins, dtype):
    system = model(spins, 2, only=2)
    H = dense(system)
    for down in range(spins + 1):
        sector = Sector(spins, down)
        V, psi, old = embedding(sector), vector(sector, dtype), vector(sector, dtype, 1)
        assert np.abs(H @ V - V @ (V.T @ H @ V)).max() < 1e-12  # H stays inside
        out = device.asarray(old.copy())
        sector_operator(device, sector, system).apply(device.asarray(psi), out, 0.7, -0.4, -1.3)
        expected = 0.7 * (V.T @ H @ V @ psi) - 0.4 * psi - 1.3 * old
        np.testing.assert_allclose(device.to_host(out), expected, rtol=0, atol=2 * bound(system, psi))


@pytest.mark.parametrize("axis", range(3))
def test_what_is_conserved(axis):
    """Total S^a is named by `conserved` where the commutator with the dense matrix vanishes, for couplings of all kinds."""
    for only in (axis, None):
        system = model(4, 3, only)
        total = sum(spin(axis, j, 4) for j in range(4))
        H = dense(system)
        commutes = np.abs(H @ total - total @ H).max() < 1e-12
        assert ("xyz"[axis] in conserved(system)) == commutes == (only is not None)
        assert (mixing(replace(system, J=0.0 * system.J, h=0.0 * system.h)) == "") == (only == 2)


@pytest.mark.parametrize("spins", [2, 4, 6])
def test_bounds_hold_the_spectrum(spins):
    for seed in range(4):
        values = np.linalg.eigvalsh(dense(model(spins, seed)))
        low, high = model(spins, seed).bounds
        assert low <= values[0] + 1e-12
        assert high >= values[-1] - 1e-12
    alone = model(2, 5)
    pair = Model(2, alone.J, np.zeros((3, 2)), alone.cross)  # the bounds of one pair are its levels
    values = np.linalg.eigvalsh(dense(pair))
    np.testing.assert_allclose(pair.bounds, (values[0], values[-1]), rtol=0, atol=1e-13)


@pytest.mark.parametrize("form", ["bonds", "frames"])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("spins", [1, 2, 6, 14])
def test_product_of_real_vectors(spins, dtype, form):
    """Of an H without S^y alone: as of complex vectors, of which :func:`test_product` knows that they are right."""
    system = model(spins, 3)
    system.h[1] = 0.0
    system.cross[1] = system.cross[:, 1] = 0.0
    psi, old = (state(1 << spins, "c16")[::step].real.copy() for step in (1, -1))
    found, expected = old.astype(dtype), old.astype("c16")
    for out, kind in ((found, dtype), (expected, "c16")):
        vector, made = psi.astype(kind), operator(cpu(2), system, form)
        apply_h(cpu(2), made, vector, out, alpha=0.7, beta=-0.3, gamma=1.1)
    bounds = bound(system, psi.astype("c16" if dtype == "f8" else "c8"))
    np.testing.assert_allclose(found, expected.real, rtol=0, atol=2 * bounds)
    system.h[1, 0] = 0.1
    with pytest.raises(ValueError, match="psi must be complex"):
        apply_h(cpu(1), operator(cpu(1), system, form), found, np.empty_like(found))
