"""Sectors of even and odd numbers of spins down: products against dense matrices, evolutions against the whole space."""

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.errors import DeckError
from qsim.trotter.model.hamiltonian import Hamiltonian, Model, dense
from qsim.trotter.sectors.parity import ParitySector, parity_obstacle
from qsim.trotter.sectors.parity_operator import ParityOperator
from tests.trotter.kernels.test_exchange import bound, state
from tests.trotter.kernels.test_exchange import model as random_model


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


def model(spins, seed=0):
    """XYZ couplings of all pairs, xy and yx of any sign, fields along z."""
    found = random_model(spins, seed)
    found.h[:2] = 0.0
    found.cross[:2, 2] = found.cross[2, :2] = 0.0
    return found


def strings(spins, odd):
    """Strings of a parity in the order of their index: that of all bits but the last."""
    found = [s for s in range(1 << spins) if s.bit_count() % 2 == odd]
    return sorted(found, key=lambda s: s & ((1 << (spins - 1)) - 1))


@pytest.mark.parametrize("dtype", ["c16", "c8"])
@pytest.mark.parametrize("odd", [0, 1])
@pytest.mark.parametrize("spins", [2, 3, 6, 9])
def test_product(device, spins, odd, dtype):
    system, inside = model(spins), strings(spins, odd)
    H = dense(system)
    rest = np.setdiff1d(np.arange(1 << spins), inside)
    assert not H[np.ix_(rest, inside)].any()
    psi, old = state(len(inside), dtype), state(len(inside), dtype)[::-1].copy()
    out = device.asarray(old.copy())
    ParityOperator(device, ParitySector(spins, odd), system).apply(device.asarray(psi), out, 0.7, -0.4, 1.2)
    expected = 0.7 * (H[np.ix_(inside, inside)] @ psi) - 0.4 * psi + 1.2 * old
    np.testing.assert_allclose(device.to_host(out), expected, rtol=0, atol=2 * bound(system, psi))


@pytest.mark.parametrize("odd", [0, 1])
@pytest.mark.parametrize("spins", [2, 6, 9, 15])
def test_product_of_real_vectors(spins, odd):
    system, sector = model(spins), ParitySector(spins, odd)
    system.cross[:] = 0.0
    linear, psi = ParityOperator(cpu(2), sector, system), state(sector.dimension, "c16")
    assert linear.dtype == np.float64
    out, found = np.empty_like(psi), np.empty(psi.size)
    linear.apply(psi, out, 0.7, -0.4)
    linear.apply(psi.real.copy(), found, 0.7, -0.4)
    np.testing.assert_allclose(found, out.real, rtol=0, atol=2 * bound(system, psi))


@pytest.mark.parametrize("odd", [0, 1])
def test_states_of_all_spins(device, odd):
    sector, psi = ParitySector(7, odd), state(64, "c16")
    whole = sector.whole(device, device.asarray(psi))
    expected = np.zeros(128, complex)
    expected[strings(7, odd)] = psi
    np.testing.assert_array_equal(device.to_host(whole), expected)
    np.testing.assert_array_equal(device.to_host(sector.restricted(device, whole)), psi)


def test_threads_and_tiles():
    system = model(15, 1)
    psi, outs = state(1 << 14, "c16"), []
    for threads in (1, 3):
        out = np.zeros_like(psi)
        ParityOperator(cpu(threads), ParitySector(15, 1), system).apply(psi, out)
        outs.append(out)
    assert outs[0].tobytes() == outs[1].tobytes()


TERMS = [
    {"type": "xyz", "lattice": "ring", "Jx": 1.0, "Jy": 0.6, "Jz": -0.4},
    {"type": "field", "axis": "z", "values": "0.3*cos(j)"},
]
OBSERVE = [
    {"sz": "all"},
    {"sx": "all"},
    {"correlator": ["xx", "yy", "zz"], "pairs": "all"},
    {"entropy": {"cuts": "all", "kinds": ["von_neumann", "renyi2"], "spectrum": 2}},
    "return_probability",
    "energy_variance",
    "imbalance",
    {"echo": {"sigma": [{"type": "xyz", "lattice": "chain", "Jx": 0.1, "Jy": -0.05, "Jz": 0.1}]}},
]


@pytest.mark.parametrize("initial", [{"type": "neel"}, {"type": "basis", "bits": "011010000"}])
def test_evolution_equals_that_of_the_whole_space(trotter, initial):
    deck = {
        "system": {"spins": 9 if initial["type"] == "basis" else 8, "terms": TERMS},
        "initial": initial,
        "evolve": {"t_final": 2.0, "outputs": 3, "accuracy": 1e-11, "integrator": "chebyshev"},
        "observe": OBSERVE,
    }
    word = "odd" if initial["type"] == "basis" else "even"
    found, expected = (trotter.run(**deck, sector=sector) for sector in ({"parity": word}, "full"))
    assert str(found.problem.sector) == f"{word} number of spins down"
    assert found.problem.dimension == expected.problem.dimension // 2
    assert set(found.mean) == set(expected.mean)
    for name, values in expected.mean.items():
        np.testing.assert_allclose(found.mean[name], values, rtol=0, atol=1e-9, err_msg=name)


def test_random_states_are_drawn_inside(trotter):
    result = trotter.run(
        system={"spins": 7, "terms": TERMS},
        initial={"type": "haar"},
        evolve={"t_final": 1.0, "outputs": 2, "accuracy": 1e-10},
        sector={"parity": "odd"},
        observe=["state"],
    )
    outside = strings(7, 0)
    assert not result.psi[outside].any()
    assert np.linalg.norm(result.psi) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"initial": {"type": "basis", "bits": "01101000"}}, "has 3 spins down, the sector an even"),
        ({"sector": {"parity": "even", "sz": 0}}, "parity stands alone"),
        (
            {"system": {"spins": 8, "terms": [*TERMS, {"type": "field", "axis": "x", "values": 0.1}]}},
            "flips a single spin",
        ),
        ({"initial": {"type": "product", "theta": 0.3}}, "of the initial state product lies in even number"),
    ],
)
def test_bad_input(trotter, change, message):
    deck = {
        "system": {"spins": 8, "terms": TERMS},
        "initial": {"type": "neel"},
        "evolve": {"t_final": 1.0, "accuracy": 1e-8},
        "sector": {"parity": "even"},
    }
    with pytest.raises(DeckError, match=message):
        trotter.run(**deck | change)


def test_obstacles():
    nothing = np.zeros((3, 3))
    assert parity_obstacle(Hamiltonian(Model(3, np.zeros((3, 3, 3)), nothing))) == ""
    tilted = Hamiltonian(Model(3, np.zeros((3, 3, 3)), nothing, random_model(3).cross))
    assert "flips a single spin" in parity_obstacle(tilted)
