"""Resonances in static fields by complex scaling, against a basis of Sturmian functions, and their claimed errors."""

import numpy as np
import pytest
import scipy.linalg
from pydantic import TypeAdapter
from scipy.special import eval_genlaguerre, gammaln, roots_laguerre

from qsim.tridiag.atom.resonance.complex_scaling import Parabolic, Wanted, parabolic_weights, resonance
from qsim.tridiag.deck.central import Central
from qsim_checks.tridiag.atoms_resonances import separated


def sturmian(field, guess, *, lmax=18, size=36, k=0.8, angle=0.5):
    """E - i Gamma / 2 of hydrogen in a static field: complex-scaled Laguerre functions r^(l+1) exp(-k r) L_n^(2l+1)(2 k r)."""
    x, weights = roots_laguerre(size + lmax + 20)
    r, weights, turn = x / (2 * k), weights / (2 * k), np.exp(1j * angle)
    n = np.arange(size)
    basis = [
        np.exp(0.5 * (gammaln(n + 1) - gammaln(n + 2 * l + 2)))[:, None]
        * eval_genlaguerre(n[:, None], 2 * l + 1, x)
        * x ** (l + 1)
        for l in range(lmax + 1)
    ]
    h = np.zeros((basis[0].shape[0] * (lmax + 1),) * 2, complex)
    b = np.zeros_like(h)
    for l, s in enumerate(basis):
        here = slice(l * size, (l + 1) * size)
        overlap, inverse = (s * weights) @ s.T, (s * weights / r) @ s.T
        kinetic = -0.5 * (k * k * overlap - 2 * k * inverse * (n + l + 1))
        h[here, here] = 0.5 * (kinetic + kinetic.T) / turn**2 - inverse / turn
        b[here, here] = overlap
        if l < lmax:
            there = slice((l + 1) * size, (l + 2) * size)
            c = (l + 1) / np.sqrt((2 * l + 1) * (2 * l + 3))
            h[here, there] = field * c * turn * (s * weights * r) @ basis[l + 1].T
            h[there, here] = h[here, there].T
    factors, v = scipy.linalg.lu_factor(h - guess * b), np.ones(len(h), complex)
    for _ in range(30):
        y = scipy.linalg.lu_solve(factors, b @ v)
        energy, v = guess + (v @ b @ v) / (v @ b @ y), y / np.linalg.norm(y)
    return energy


def hydrogen(which, m=0, charge=1.0, spacings=(0.025, 0.2, 40.0)):
    dr0, dr, width = spacings
    return Wanted(lambda r: -charge / r, charge, charge, which, m, (dr0 / charge, dr / charge, width))


GUESS = {0.05: -0.5061 - 3.9e-5j, 0.1: -0.52742 - 7.27e-3j}


@pytest.mark.parametrize("field", GUESS)
def test_hydrogen(field):
    """Rates to 1e-6 relative, within the claims."""
    exact = sturmian(field, GUESS[field])
    assert abs(exact - sturmian(field, GUESS[field], size=32, k=0.95, angle=0.55)) < 1e-10
    found = resonance(hydrogen((1, 0)), field)
    assert found.rate == pytest.approx(-2.0 * exact.imag, rel=1e-6)
    assert abs(found.energy - exact.real) < found.energy_error + 1e-11
    assert abs(found.rate + 2.0 * exact.imag) < found.rate_error + 1e-11
    assert found.energy_error < 1e-7


@pytest.mark.exhaustive
def test_coarse_grids_claim_more():
    """Whatever the spacing: the error lies within the claim."""
    exact = sturmian(0.1, GUESS[0.1])
    for dr0, dr, width in ((0.2, 0.4, 15.0), (0.1, 0.6, 25.0), (0.05, 0.3, 30.0)):
        found = resonance(hydrogen((1, 0), spacings=(dr0, dr, width)), 0.1)
        assert abs(found.rate + 2.0 * exact.imag) < found.rate_error
        assert abs(found.energy - exact.real) < found.energy_error


BLOCKS = (
    {"type": "tong_lin", "element": "He"},
    {"type": "gsz", "Z": 2.0, "N": 2.0, "xi": 1.77, "eta": 1.14},
)


@pytest.mark.parametrize("block", BLOCKS, ids=["tong_lin", "gsz"])
def test_analytic_potentials(block):
    """No field: the level is real, and that of the formula on the real axis."""
    one = TypeAdapter(Central).validate_python(block)
    from qsim.tridiag.atom.evolution.propagator import AtomLattice
    from qsim.tridiag.atom.states.grid import mapped
    from qsim.tridiag.atom.states.levels import Radial

    grid = mapped(40.0, 0.1, 0.01, 80.0)
    level = Radial(AtomLattice(grid, one.V(grid.r), one.dV(grid.r), one.nucleus), 0).energy(0)
    found = resonance(Wanted(one.V, one.nucleus, one.tail, (1, 0), 0, (0.02, 0.2, 60.0)), 0.0)
    assert found.energy == pytest.approx(level, abs=2e-6)
    assert abs(found.rate) < 1e-7


NOT_STATIC = r"a resonance needs a static field"
PULSE = {"shape": "sin2", "omega": 0.5, "E0": 0.02, "cycles": 3}
FORMULA = {"type": "expression", "value": "-1/r", "Z": 1}
MISTAKES = {
    "pulse": ({"pulses": [PULSE]}, {}, NOT_STATIC),
    "superposition": ({}, {"initial": [{"n": 1}, {"n": 2}]}, r"starts from one level"),
    "formula": ({}, {"atom": FORMULA}, r"analytic: hydrogen, .*found expression"),
    "circular": ({"polarization": "circular", "pulses": [PULSE]}, {}, NOT_STATIC),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(tridiag, name):
    laser, changes, message = MISTAKES[name]
    good = {
        "task": "atom",
        "atom": "hydrogen",
        "grid": {"rmax": 40, "dr": 0.2, "l_max": 4},
        "laser": {"gauge": "length", "pulses": [{"shape": "static", "E0": 0.05}], **laser},
        "time": {"dt": 0.1, "t_final": 2.0},
        "observe": ["resonance"],
    }
    tridiag.refuses(r"observe\.0.*" + message, **{**good, **changes})


def test_position_and_rate_have_their_errors_in_the_summary(tridiag):
    """F = 0.07, from an FE-DVR basis on a complex radius; the errors had been found and not written."""
    scalars = tridiag.execute(
        task="atom",
        atom="hydrogen",
        grid={"rmax": 40, "dr": 0.2, "l_max": 4, "map": {"dr0": 0.02, "width": 40}},
        laser={"gauge": "length", "pulses": [{"shape": "static", "E0": 0.07}]},
        time={"dt": 0.1, "t_final": 1.0, "verify": False},
        observe=["resonance"],
    )["scalars"]
    for name, exact in (("resonance_energy", -0.513076765822), ("resonance_rate", 1.84736856642e-3)):
        found = scalars[name]
        assert abs(found["value"] - exact) < found["error"] < 1e-9


STATES = (  # n1, n2, m, Z, F
    pytest.param((0, 1, 0, 1.0, 0.004), id="downhill"),
    pytest.param((0, 0, 1, 2.0, 0.05), marks=pytest.mark.exhaustive),
    pytest.param((1, 0, 0, 1.0, 0.006), marks=pytest.mark.exhaustive),
    pytest.param((1, 1, 0, 1.5, 0.004), marks=pytest.mark.exhaustive),
)


@pytest.mark.parametrize("state", STATES)
def test_stark_states(state):
    """Every component of a level, against the separation in parabolic coordinates."""
    n1, n2, m, charge, field = state
    exact = separated(charge, n1, n2, m, field)
    found = resonance(hydrogen(Parabolic(n1, n2, m), m, charge), field)
    assert abs(found.energy - exact.real) < found.energy_error + 1e-13
    assert abs(found.rate + 2.0 * exact.imag) < found.rate_error + 1e-13
    assert found.rate_error < 1e-3 * found.rate
    near = resonance(hydrogen(exact.real + 0.2 * n1 * field, m, charge), field)
    assert abs(near.rate - found.rate) < found.rate_error + near.rate_error


def test_shares_of_a_level():
    """Clebsch-Gordan coefficients of two spins (n - 1) / 2."""
    half = [share for _, share in parabolic_weights(2, 1, 0)]
    assert half == pytest.approx([0.5, 0.5])
    d = {(state.n1, state.n2): share for state, share in parabolic_weights(3, 2, 0)}
    assert d == pytest.approx({(1, 1): 2 / 3, (2, 0): 1 / 6, (0, 2): 1 / 6})
    assert parabolic_weights(3, 2, -2) == [(Parabolic(0, 0, -2), pytest.approx(1.0))]


def stark(tridiag, resonance, **changes):
    """The quickest run that there is."""
    deck = {
        "task": "atom",
        "atom": "hydrogen",
        "grid": {"rmax": 20, "dr": 0.4, "l_max": 2, "map": {"dr0": 0.1, "width": 20}},
        "laser": {"gauge": "length", "pulses": [{"shape": "static", "E0": 0.005}]},
        "time": {"dt": 0.1, "t_final": 0.2, "verify": False},
        "observe": [resonance],
    }
    return tridiag.execute(**{**deck, **changes})


def test_the_lower_state_of_n_2_can_be_asked_for(tridiag):
    """Whatever the box of the run, and its initial level."""
    found = stark(tridiag, {"resonance": {"n1": 0, "n2": 1}})
    assert found["scalars"]["resonance_energy"]["value"] == pytest.approx(-0.142618607573, abs=1e-10)
    assert found["scalars"]["resonance_rate"]["value"] == pytest.approx(1.0594446e-4, rel=1e-7)
    assert found["scalars"]["resonance_state"]["value"] == "n1 = 0, n2 = 1, m = 0"
    assert not any("mixture" in text for text in found["warnings"])


def test_an_initial_level_that_is_a_mixture_is_told(tridiag):
    grid = {"rmax": 60, "dr": 0.4, "l_max": 2, "map": {"dr0": 0.1, "width": 20}}
    found = stark(tridiag, "resonance", initial="2p", grid=grid)
    told = [text for text in found["warnings"] if "2p is a mixture of 2 Stark states" in text]
    assert len(told) == 1
    assert "the resonance belongs to (1, 0), and observe: [{resonance: {n1: 0, n2: 1}}]" in told[0]


NAMES = {
    "one number": ({"n1": 1}, r"two parabolic quantum numbers: give both n1 and n2"),
    "twice": ({"n1": 0, "n2": 1, "energy": -0.1}, r"named twice"),
    "m alone": ({"m": 1}, r"m belongs to n1 and n2, or to energy"),
    "large": ({"n1": 20, "n2": 9, "m": 1}, r"n1 \+ n2 \+ \|m\| \+ 1 is 31, at most 30"),
}


@pytest.mark.parametrize("name", NAMES)
def test_bad_names(tridiag, name):
    block, message = NAMES[name]
    tridiag.refuses(
        r"observe\.0\.resonance.*" + message,
        task="atom",
        atom="hydrogen",
        laser={"gauge": "length", "pulses": [{"shape": "static", "E0": 0.05}]},
        time={"dt": 0.1, "t_final": 2.0},
        observe=[{"resonance": block}],
    )
