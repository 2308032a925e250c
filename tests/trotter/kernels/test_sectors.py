"""Products and spin flips in a sector: the dense matrix of the whole space, cut out = CPU twins = CUDA.

Tolerances.  A product sums at most ``N^2 / 2`` terms below the sum of all couplings; ``8 eps`` times that sum holds everywhere.
"""

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.trotter.model.hamiltonian import Model, dense
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.operator import SectorOperator

EPS = {np.dtype(t): e for t, e in (("c16", 2.3e-16), ("f8", 2.3e-16), ("c8", 1.2e-7), ("f4", 1.2e-7))}


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


def model(spins, bonds, seed=0, fields=True):
    """XXZ couplings of random strength between the pairs, and random fields along z."""
    generator = np.random.default_rng([seed, spins])
    J = np.zeros((3, spins, spins))
    for j, k in bonds:
        J[:2, j, k] = J[:2, k, j] = generator.normal()
        J[2, j, k] = J[2, k, j] = generator.normal()
    h = np.zeros((3, spins))
    if fields:
        h[2] = generator.normal(size=spins)
    return Model(spins, J, h)


BONDS = {
    "chain": lambda n: [(j, j + 1) for j in range(n - 1)],
    "ring": lambda n: [(j, (j + 1) % n) for j in range(n)] if n > 2 else [],
    "all": lambda n: [(j, k) for k in range(n) for j in range(k)],
    "far": lambda n: [(j, j + 3) for j in range(n - 3)],
    "none": lambda n: [],
}


def embedding(sector):
    """The matrix (2^N, D) of the states of a sector, made from strings alone."""
    N, found = sector.spins, []
    for s in sector.strings():
        column = np.zeros(1 << N)
        column[s] = 1.0
        if sector.inversion:
            column[s] = np.sqrt(0.5)
            column[(1 << N) - 1 - s] = sector.inversion * np.sqrt(0.5)
        found.append(column)
    return np.array(found).T


def vector(sector, dtype, seed=0):
    generator = np.random.default_rng([3, seed, sector.dimension])
    psi = generator.normal(size=sector.dimension).astype(dtype)
    if np.dtype(dtype).kind == "c":
        psi = psi + (1j * generator.normal(size=sector.dimension)).astype(dtype)
    return (psi / np.linalg.norm(psi)).astype(dtype)


def bound(system, psi):
    return 8 * EPS[psi.dtype] * (1 + np.abs(system.J).sum() + np.abs(system.h).sum()) * np.abs(psi).max()


def check(device, system, sector, dtype=np.complex128):
    V, psi, old = embedding(sector), vector(sector, dtype), vector(sector, dtype, 1)
    H = V.T @ dense(system).real @ V
    operator, out = SectorOperator(device, sector, system), device.asarray(np.full_like(psi, np.nan))
    operator.apply(device.asarray(psi), out)
    np.testing.assert_allclose(device.to_host(out), H @ psi, rtol=0, atol=bound(system, psi))
    out = device.asarray(old.copy())
    operator.apply(device.asarray(psi), out, 0.7, -0.4, -1.3)
    expected = 0.7 * (H @ psi) - 0.4 * psi - 1.3 * old
    np.testing.assert_allclose(device.to_host(out), expected, rtol=0, atol=2 * bound(system, psi))


@pytest.mark.parametrize("bonds", BONDS)
@pytest.mark.parametrize("spins", [1, 2, 3, 4, 7, 8])
def test_product_in_every_sector(device, bonds, spins):
    system = model(spins, BONDS[bonds](spins))
    for down in range(spins + 1):
        check(device, system, Sector(spins, down))


@pytest.mark.parametrize("dtype", ["f8", "c16", "f4", "c8"])
@pytest.mark.parametrize("bonds", ["chain", "ring", "all"])
def test_product_of_all_types(device, bonds, dtype):
    check(device, model(11, BONDS[bonds](11)), Sector(11, 5), np.dtype(dtype))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("bonds", BONDS)
@pytest.mark.parametrize("spins", [2, 4, 6, 8, 10])
def test_product_with_inversion(device, spins, bonds, sign):
    check(device, model(spins, BONDS[bonds](spins), fields=False), Sector(spins, spins // 2, sign))
    check(
        device, model(spins, BONDS[bonds](spins), fields=False), Sector(spins, spins // 2, sign), np.float64
    )


def test_the_number_of_threads_changes_no_bit():
    sector, system = Sector(18, 9), model(18, BONDS["ring"](18))
    psi, outs = vector(sector, np.complex128), []
    for threads in (1, 3):
        out = np.empty_like(psi)
        SectorOperator(cpu(threads), sector, system).apply(psi, out)
        outs.append(out)
    assert outs[0].tobytes() == outs[1].tobytes()


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize(
    ("spins", "down", "sign"), [(7, 3, 0), (8, 4, 0), (8, 4, 1), (8, 4, -1), (5, 0, 0), (2, 1, 1)]
)
def test_flips(device, spins, down, sign, dtype):
    sector = Sector(spins, down, sign)
    psi = vector(sector, np.dtype(dtype))
    whole = embedding(sector) @ psi
    pairs = BONDS["all"](spins)
    found = SectorOperator(device, sector, model(spins, [])).flips(device.asarray(psi), pairs)
    for value, (j, k) in zip(found, pairs, strict=True):
        J = np.zeros((3, spins, spins))
        J[0, j, k] = J[0, k, j] = 1.0
        expected = np.vdot(whole, dense(Model(spins, J, np.zeros((3, spins)))) @ whole).real
        assert value == pytest.approx(expected, abs=1e-14)


def test_numbering():
    """Every string of the sector once, its index that of the formula; blocks by weight, ranks in numeric order."""
    for sector in (Sector(9, 4), Sector(10, 3), Sector(10, 5, 1), Sector(6, 0), Sector(6, 6)):
        strings = sector.strings()
        assert sorted(strings) == [s for s in range(1 << sector.bits) if s.bit_count() == sector.down]
        np.testing.assert_array_equal(sector.index(strings), np.arange(sector.dimension))


def test_indices_beyond_32_bits():
    """N = 36: the last string of the sector has the number D - 1 > 2^31, and neighbours in the numbering are found again."""
    sector = Sector(36, 18)
    assert sector.dimension == 9075135300
    assert int(sector.index(np.array([((1 << 18) - 1) << 18]))[0]) == sector.dimension - 1
    generator = np.random.default_rng(0)
    for _ in range(20):
        sites = generator.choice(36, 18, replace=False)
        string = int(sum(1 << int(k) for k in sites))
        h, low = string >> 18, string & ((1 << 18) - 1)
        p = h.bit_count()
        smaller_rows = sum(1 for x in range(h) if x.bit_count() == p) if h < 1 << 12 else None
        found = int(sector.index(np.array([string]))[0])
        row, column = divmod(found - int(sector.block[p]), sector.shape(p)[1])
        assert int(sector.high.strings[sector.high.offset[p] + row]) == h
        assert int(sector.low.strings[sector.low.offset[18 - p] + column]) == low
        assert smaller_rows is None or smaller_rows == row
