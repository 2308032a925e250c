"""Evolutions of states of one character: momentum, reflection, permutations, inversion, parity along any axis."""

import numpy as np
import pytest

from qsim.core.errors import DeckError

ISING = [
    {"type": "ising", "lattice": "ring", "J": 1.0},
    {"type": "field", "axis": "x", "values": 0.7},
]
TILTED = [*ISING, {"type": "field", "axis": "z", "values": 0.2}]
ALONG_Y = [
    {"type": "ising", "lattice": "ring", "J": 1.0},
    {"type": "field", "axis": "y", "values": "0.4+0.1*j"},
]
XXZ = [{"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": 0.4}]
CHIRAL = [{"type": "heisenberg", "lattice": "ring"}, {"type": "dm", "lattice": "ring", "D": [0, 0, 0.3]}]
DRIVEN = [
    ISING[0],
    {"type": "field", "axis": "x", "values": 0.7, "profile": {"type": "expression", "value": "cos(2*t)"}},
]
OBSERVE = [
    {"sz": "all"},
    {"sx": "all"},
    {"sy": "all"},
    {"correlator": ["xx", "yy", "zz"], "pairs": [[0, 1], [2, 5]]},
    {"entropy": {"sites": "half"}},
    "return_probability",
    "energy_variance",
    "state",
]
SHIFTED = {"permutations": [{"sites": [2, 3, 4, 5, 6, 7, 0, 1], "number": 0}]}
Y = {"type": "product", "theta": 0.5 * np.pi, "phi": [0.5 * np.pi, 1.5 * np.pi, *[0.5 * np.pi] * 6]}
CASES = {
    "momentum": (TILTED, {"type": "polarised", "axis": "z"}, {"momentum": 0}, 36),
    "parity along x": (ISING, {"type": "polarised", "axis": "x"}, {"parity": "even"}, 128),
    "odd along y": (ALONG_Y, Y, {"parity": "odd"}, 128),
    "all at once": (
        ISING,
        {"type": "polarised", "axis": "-x"},
        {"momentum": 0, "parity": "even", "reflection": "even"},
        18,
    ),
    "inversion without Sz": (
        XXZ,
        {"type": "polarised", "axis": "x"},
        {"momentum": 0, "inversion": "even"},
        20,
    ),
    "two sublattices": (XXZ, "neel", SHIFTED, 20),
    "currents": (CHIRAL, "neel", SHIFTED, 20),
    "driven": (DRIVEN, {"type": "polarised", "axis": "z"}, {"momentum": 0}, 36),
}


@pytest.mark.parametrize("name", CASES)
def test_evolution_equals_that_of_the_whole_space(trotter, name):
    terms, initial, sector, states = CASES[name]
    deck = {
        "system": {"spins": 8, "terms": terms},
        "initial": initial,
        "evolve": {"t_final": 2.0, "outputs": 3, "accuracy": 1e-10, "integrator": "auto"},
        "observe": OBSERVE,
    }
    found, expected = (trotter.run(**deck, sector=space) for space in (sector, "full"))
    assert found.problem.dimension == states
    assert set(found.mean) == set(expected.mean)
    for key, values in expected.mean.items():
        np.testing.assert_allclose(found.mean[key], values, rtol=0, atol=1e-8, err_msg=key)
    np.testing.assert_allclose(found.psi, expected.psi, rtol=0, atol=1e-8)


def test_a_random_state_has_the_momentum(trotter):
    found = trotter.run(
        system={"spins": 8, "terms": TILTED},
        initial={"type": "haar"},
        evolve={"t_final": 1.0, "outputs": 2, "accuracy": 1e-9},
        sector={"momentum": 3},
        observe=["state"],
    )
    index = np.arange(256)
    moved = (index << 1 | index >> 7) & 255
    # the shift takes the spin of site j to j + 1, and a state of momentum 2 pi k / N to exp(-2 pi i k / N) of itself
    made = np.empty_like(found.psi)
    made[moved] = found.psi
    np.testing.assert_allclose(made, np.exp(-6j * np.pi / 8) * found.psi, rtol=0, atol=1e-10)
    assert np.linalg.norm(found.psi) == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"initial": "neel"}, "of the initial state neel lies in"),
        ({"system": {"spins": 8, "terms": ALONG_Y}}, "H is not invariant under the shift by one site"),
        ({"sector": {"momentum": [0, 1]}}, "carries a state in one sector; give one momentum"),
        (
            {"evolve": {"t_final": 1.0, "dt": 0.1, "integrator": "ts2"}},
            "a single bond has not the symmetries",
        ),
        ({"observe": [{"time_correlation": 0}]}, "leads from one character of the symmetries to others"),
        ({"sector": {"momentum": 0, "sz": 4}}, "Sz = 4 is not conserved"),
    ],
)
def test_bad_input(trotter, change, message):
    deck = {
        "system": {"spins": 8, "terms": TILTED},
        "initial": {"type": "polarised", "axis": "z"},
        "evolve": {"t_final": 1.0, "accuracy": 1e-8},
        "sector": {"momentum": 0},
    }
    with pytest.raises(DeckError, match=message):
        trotter.run(**deck | change)
