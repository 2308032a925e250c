"""Photoionisation over many photon energies: the model between its nodes, channels, beta, resonances, and the deck."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import constants

from qsim.core.device.device import cpu
from qsim.core.errors import NumericsError
from qsim.sturmian.deck.photon import PhotonRange
from qsim.sturmian.deck.symmetry import pairs as pairs_up_to
from qsim.sturmian.driven import operator as driven
from qsim.sturmian.driven import sources
from qsim.sturmian.driven.block import AWAY, KEPT, ChannelBlock
from qsim.sturmian.driven.numbers import Numbers
from qsim.sturmian.driven.reduced import Demand, Reduced
from qsim.sturmian.driven.setup import Setup
from qsim.sturmian.radial.potentials import OneBody
from qsim.sturmian.scatter.cross_sections import amplitudes
from qsim.sturmian.scatter.cross_sections.kinematics import HARTREE_EV
from qsim.sturmian.scatter.photo import fano
from qsim.sturmian.scatter.photo.asymmetry import asymmetry, averaged
from qsim.sturmian.scatter.photo.outgoing_waves import Channel, Waves
from qsim.sturmian.scatter.photo.result import QUANTITIES, PhotoResult
from qsim.sturmian.scatter.photo.run import Photons
from qsim.sturmian.scatter.photo.weights import weight_of
from qsim.sturmian.two_electron.angular import clebsch_gordan, wigner_3j
from qsim_checks.sturmian.collisions import _turned as turned
from qsim_checks.sturmian.scaled import Symmetry, photoabsorption
from tests.changes import REMOVE, change

EV = 1.0 / HARTREE_EV
SMALL = {
    "system": {"Z": 2},
    "grid": {"R": 16, "order": 7, "ecs": {"angle": 0.3, "length": 20}},
    "basis": {"type": "fedvr"},
    "channels": {"pairs": [[0, 1]]},
    "task": {"type": "scatter", "process": "photo", "photon": ["30 eV", "40 eV"], "levels": 1},
}
HELIUM = {
    "system": {"Z": 2},
    "grid": {"R": 20, "order": 9, "ecs": {"angle": 0.3, "length": 35}},
    "basis": {"type": "fedvr"},
    "channels": {"l_max": 3},
    "task": {"type": "scatter", "process": "photo", "photon": ["30 eV"], "levels": 1},
}
HYDROGEN = {
    "system": {"Z": 1},
    "grid": {"R": 62, "order": 8, "ecs": {"angle": 0.3, "length": 60}},
    "basis": {"type": "fedvr"},
    "channels": {"l_max": 2},
    "task": {"type": "scatter", "process": "photo", "photon": ["1.5 eV"], "levels": 1},
}
REFERENCES = {
    one["id"]: one
    for one in json.loads(
        (Path(__file__).parents[1] / "reference_data" / "sturmian_photons.json").read_text()
    )
}


# ----------------------------------------------------------------------------------------- the model


@pytest.fixture(scope="module")
def model():
    """A coarse grid for helium, its model from 26 to 72 eV, and the initial state."""
    from qsim.sturmian.deck.blocks import System

    setup = Setup(cpu(1), Numbers(12.0, 7, 0.3, 16.0), 2.0, OneBody(System(Z=2).potential, 2.0))
    bound = setup.bound(0, 0, 0, pairs_up_to(0, 1, S=0), 1e-9)
    pairs = [(0, 1)]
    operator = setup.operator(1, 0, pairs, 1.0)
    s = np.stack(
        [
            sources.dipole(setup.grid, pairs, 1, bound.components, 0, gauge, 1.0, 2.0)
            for gauge in ("length", "velocity")
        ]
    )
    block = ChannelBlock(operator)
    made = Reduced(operator, s, [False, True], -2.0, -2.0, block)
    E = bound.energy + np.linspace(26.0, 72.0, 90) * EV
    made.grow(E, Demand(1e-4, 200, 8, lambda: None))
    return setup, made, E, block


def test_the_model_is_the_equation_at_all_energies(model):
    """Residuals, totals and amplitudes of the space against one equation per energy, at energies the space never met."""
    setup, made, E, _ = model
    free = E[[7, 31, 60, 85]] + 0.2 * (E[1] - E[0])
    waves, earlier = Waves(made, setup, 3).at(free), Waves(made, setup, 3).at(free, made.earlier)
    left = made.changes(made.products(free), made.products(free, made.earlier), free)
    assert np.all(made.residuals(free) < 5e-4)
    for k in range(2):
        s = np.broadcast_to(made.s[k], (free.size, *made.s[k].shape)).copy()
        u = np.tensordot(made.solve(free)[k], made.Q, 1).reshape(s.shape)
        true = np.linalg.norm(
            (made.operator.residual(u, s, free.astype(complex))).reshape(free.size, -1), axis=1
        )
        assert true / np.linalg.norm(made.s[k]) == pytest.approx(made.residuals(free)[k], abs=2e-7)
        solved = driven.solve(made.operator, s, free, tolerance=1e-9)
        direct = np.einsum("eabc,abc->e", solved.u, made.s[k])
        assert np.all(np.abs(made.products(free)[k] - direct) <= left[k] + 1e-8 * np.abs(direct))
        inside = list(amplitudes.inside(made.operator, setup.grid, solved.u, s))
        for i, energy in enumerate(free):
            found = amplitudes.channels(inside[i], setup.continuum, setup.outside, float(energy), highest=3)
            assert {Channel(one.n, one.l, one.leaves) for one in found} == {
                channel for channel, wave in waves.items() if wave.k[i] > 0.0
            }
            for one in found:
                channel = Channel(one.n, one.l, one.leaves)
                now, before = (of[channel].amplitude for of in (waves, earlier))
                assert abs(now[k, i] - one.amplitude) <= made.changes(now, before, free)[k, i] + 1e-6


def test_channels_add_up_to_the_total(model):
    setup, made, E, _ = model
    # slower electrons come back from the end of this short contour
    below = E[(E > -1.6) & (E < -0.7)]
    waves = Waves(made, setup, 3).at(below)
    flux = waves[Channel(1, 0, 1)].k * np.abs(waves[Channel(1, 0, 1)].amplitude) ** 2
    assert flux == pytest.approx(-made.products(below).imag, rel=1e-2)


def test_the_space_of_many_energies_is_much_smaller_than_one_per_energy(model):
    _, made, E, _ = model
    assert made.size < E.size
    # W = (E0 - H) Q is orthonormal
    assert made.W.conj() @ made.W.T == pytest.approx(np.eye(made.size), abs=1e-9)


def test_directions_that_nearly_depend_on_others_spoil_no_space(model):
    """Each of them is made of the one before, which multiplies what rounding has left of its product with H."""
    _, made, *_ = model
    space = Reduced(made.operator, made.s[:1], [False], -2.0, -2.0, ChannelBlock(made.operator))
    for k in range(6):
        new = made.Q[k].reshape(1, *made.operator.on_grid_shape)
        space.add(space.Q[-1].reshape(new.shape) + 1e-5 * new if k else new)
    exact = -made.operator.residual(
        space.Q.reshape(-1, *made.operator.on_grid_shape), None, np.full(space.size, space.E0, complex)
    ).reshape(space.size, -1)
    assert space.size == 6
    assert np.linalg.norm(space.W - exact, axis=1) == pytest.approx(np.zeros(6), abs=1e-9)


@pytest.mark.parametrize(
    ("L", "S", "pairs"), [(1, 0, [(0, 1), (1, 2)]), (1, 1, [(0, 1)]), (0, 0, [(0, 0), (1, 1)])]
)
def test_the_block_of_low_levels_is_that_of_the_operator(model, L, S, pairs):
    setup = model[0]
    operator = setup.operator(L, S, pairs, 1.0)
    block = ChannelBlock(operator)
    x = np.zeros((1, *operator.shape), complex)
    x.reshape(-1)[block.places] = np.random.default_rng(L + S).normal(size=block.size)
    # (E - H) x, of which the block keeps its own places
    E = np.array([-0.3 + 0.0j])
    away = E + 1j * AWAY
    r = np.zeros_like(x)
    r.reshape(-1)[block.places] = operator.project(
        -operator.residual(operator.on_grid(x), None, away)
    ).reshape(-1)[block.places]
    # single precision, refined once
    assert block.green(operator.on_grid(r), E) == pytest.approx(operator.on_grid(x), abs=1e-6)


# ------------------------------------------------------------------------------------- beta and Fano


@pytest.mark.parametrize("l", range(4))
def test_beta_is_that_of_the_angular_distribution(l):
    """The distribution itself, summed over the magnetic quantum number of the ion, against the formula."""
    from scipy.special import sph_harm_y

    rng = np.random.default_rng(l)
    lower, upper = rng.normal(size=2) + 1j * rng.normal(size=2)
    waves = {l + 1: upper} if l == 0 else {l - 1: lower, l + 1: upper}
    x, w = np.polynomial.legendre.leggauss(12)
    intensity = np.zeros(x.size)
    for m in range(-l, l + 1):
        amplitude = np.zeros(x.size, complex)
        for k, a in waves.items():
            if abs(m) <= k:
                amplitude += clebsch_gordan(l, k, 1, m, -m, 0) * a * sph_harm_y(k, -m, np.arccos(x), 0.0)
        intensity += np.abs(amplitude) ** 2
    expected = 5.0 * (w * intensity) @ (1.5 * x**2 - 0.5) / (w @ intensity)
    found = asymmetry(l, None if l == 0 else np.array([lower]), np.array([upper]))
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("l", range(3))
def test_the_average_over_m_is_the_formula_for_an_isotropic_state(l):
    rng = np.random.default_rng(l)
    lower, upper = rng.normal(size=(2, 1, 3)) + 1j * rng.normal(size=(2, 1, 3))
    parts = {(l + 1, 1): upper} | ({(l - 1, 1): lower} if l else {})
    assert averaged(l, parts, 0) == pytest.approx(asymmetry(l, lower if l else None, upper), abs=1e-12)


def test_beta_of_a_2p_electron_beside_1s_is_that_of_cooper_and_zare():
    """1s stays: one electron leaves 2p as s or d, J. Cooper and R. N. Zare, J. Chem. Phys. 48, 942 (1968)."""
    s, d = 0.7 * np.exp(0.4j), 1.3 * np.exp(-0.9j)
    radial, l = {0: s, 2: d}, 1
    # Total L is that of the electron; (-i)^l belongs to a, and the reduced element has the sign of Racah.
    parts = {
        (k, k): np.array([[(-1j) ** k * sources.reduced_tensor(1, (k, 0, k), (1, 0, 1)) * R]])
        for k, R in radial.items()
    }
    cosine = (s * np.conj(d)).real
    expected = l * (l - 1) * abs(s) ** 2 + (l + 1) * (l + 2) * abs(d) ** 2 - 6 * l * (l + 1) * cosine
    expected /= (2 * l + 1) * (l * abs(s) ** 2 + (l + 1) * abs(d) ** 2)
    assert averaged(0, parts, 1) == pytest.approx(expected, abs=1e-12)


def test_a_fit_finds_the_profile_of_a_pole():
    """A pole on a background of its own channel and of another one, whose numbers are known."""
    energy, width, q, a, b = -0.7, 1.3e-3, -2.7, 1.4, 0.3
    pole = fano.Pole(complex(energy, -0.5 * width), np.array([1.0 + 1.0j]), 0.0)

    def sigma(E):
        """Return the profile of Fano (1961) on a background, both with a slope."""
        eps = (E - energy) / (0.5 * width)
        return (a * (q + eps) ** 2 / (1.0 + eps**2) + b) * (1.0 + 1e-3 * eps)

    found = fano.fit(sigma, pole, (-2.0, 1.0))
    assert found is not None
    assert found.values == pytest.approx([energy, width, q, a, b, 1e-3], rel=1e-6)
    assert found.correlation[0] == pytest.approx(a / (a + b), rel=1e-6)
    # q of the pole: d^2 is parallel to (q - i)^2
    d = complex(q, -1.0) * 0.02
    assert fano.Pole(pole.energy, np.array([d]), 0.0).q(0) == pytest.approx(q)
    assert fano.Pole(pole.energy, np.array([-d]), 0.0).q(0) == pytest.approx(q)


def test_poles_of_the_rotated_continuum_are_no_resonances():
    thresholds, angle = [-2.0, -0.5], 0.3
    on_ray = -0.5 + 0.01 * np.exp(-0.6j)
    energies = np.array([-0.7 - 6e-4j, on_ray, -1.99 - 1e-2j])
    d = np.ones((1, 3), complex) * (1.0 + 0.5j)
    found = fano.resonances((energies, d), energies, (-1.9, -0.4), thresholds, angle)
    assert [pole.energy for pole in found] == [-0.7 - 6e-4j]
    # one that moves with the latest nodes is not settled
    assert not fano.resonances((energies, d), energies + 1e-2, (-1.9, -0.4), thresholds, angle)


# ------------------------------------------------------------------------------------------ the deck


def test_a_range_is_a_list_of_energies():
    given = PhotonRange.model_validate({"from": 1.0, "to": 2.0, "count": 5})
    assert given.values() == pytest.approx([1.0, 1.25, 1.5, 1.75, 2.0])
    assert PhotonRange.model_validate({"from": 1.0, "to": 2.0, "step": 0.25}).values() == pytest.approx(
        given.values()
    )
    assert PhotonRange.model_validate({"from": 1.0, "to": 2.0, "step": 0.3}).values()[-1] == 2.0


MISTAKES = {
    "photon and excess": ({"task__excess": 1.0}, "photon and excess say the same thing"),
    "a range that ends below": ({"task__photon": {"from": 2.0, "to": 1.5}}, "not above its beginning"),
    "count and step": ({"task__photon": {"from": 1.0, "to": 2.0, "count": 5, "step": 0.1}}, "give one of them"),
    "a tiny step": ({"task__photon": {"from": 1.0, "to": 2.0, "step": 1e-4}}, "more than 2000 energies"),
    "a duplicate": ({"task__photon": [1.5, 1.5]}, "a photon energy is a duplicate"),
    "no ionisation": ({"task__photon": "0.5 eV"}, "0.5 eV is below the ionisation energy of this state, about 24.591"),
    "a bound excess": (
        {"task": {"type": "scatter", "process": "photo", "excess": ["-60 eV", "-40 eV"]}}, "frees no electron: the ion alone has"
    ),
    "an excess of zero": ({"task": {"type": "scatter", "process": "photo", "excess": "0 eV"}}, "an energy above or below it"),
    "photon and negative excess": ({"task__excess": "-40 eV"}, "photon and excess say the same thing; give one"),
    "a range of excess that ends below": (
        {"task": {"type": "scatter", "process": "photo", "excess": {"from": "-20 eV", "to": "-30 eV"}}}, "not above its beginning"
    ),
    "two free electrons": (
        {"task__observables": ["sigma", "sdcs"]}, r"no energy sharing below double break-up \(about 79.01"
    ),
    "two free electrons, angles": ({"task__observables": ["tdcs"]}, "fdcs: no energy sharing below double break-up"),
    "two free electrons above": (
        {"task__photon": ["60 eV", "90 eV"], "task__observables": ["sdcs"]}, "double break-up as a positive excess"
    ),
    "unnatural parity": ({"channels": {"l_max": 2, "parity": "unnatural"}}, "leads from 1S to natural parity only"),
    "unnatural parity of D": (
        {"initial": {"L": 1}, "channels": {"L": 2, "l_max": 3, "parity": "unnatural"}}, "leads from 1P to even parity only, L = 2"
    ),
    "momenta without pairs": ({"initial": {"L": 2}, "channels": {"l_max": 1}}, "from D states to L = 2, 3 as well, of which"),
    "refine of one energy": ({"task__refine": "resonances"}, "refine belongs to a range of photon energies"),
    "a screened nucleus": (
        {"system__potential": {"type": "expression", "value": "-2*exp(-0.3*r)/r"}, "grid__R": 45},
        "contour begins at R = 45 bohr, but the potential is -charge/r from 48.5. bohr on; give .. bohr",
    ),
    "a screened nucleus in the smaller box": (
        {"system__potential": {"type": "expression", "value": "-2*exp(-0.3*r)/r"}, "grid__R": 57},
        "in the smaller box that tells the error, but the potential is -charge/r from 48.5",
    ),
    "a mass": ({"system__mass": 7294.3}, "the nucleus has infinite mass"),
    "levels beyond the box": ({"task__levels": 7}, "n = 7 needs R >= 53 bohr"),
    "a sector that the dipole does not reach": (
        {"initial": {"L": 1}, "channels": {"L": 3, "l_max": 3}}, "a photon does not lead from L = 1 to L = 3"
    ),
    "functions": (
        {"basis": {"type": "gsf", "generating": {"type": "square_well", "tail": 4}, "N": 30}}, "share the whole grid"
    ),
    "a scan": ({"scan": {"order": [8]}}, "their errors need no scan"),
    "another process": (
        {"task": {"type": "scatter", "process": "e_h", "energy": 2.0, "photon": 1.5}}, "photon belongs to process: photo"
    ),
    "a threshold without photons": (
        {"task": {"type": "scatter", "process": "photo", "excess": 1.0, "threshold": "grid"}}, "give photon instead of excess"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_with_their_place(sturmian, name):
    changes, message = MISTAKES[name]
    sturmian.refuses(message, **change(SMALL, changes))


def test_an_energy_between_estimate_and_threshold_is_told_by_the_run(sturmian):
    with pytest.raises(
        NumericsError, match=r"24\.2 eV is below the ionisation energy 24\.5\d* eV of this state"
    ):
        sturmian.run(**change(SMALL, {"task__photon": "24.2 eV"}))


def test_measurements_are_read_and_kept(sturmian):
    (sturmian.folder / "data.dat").write_text("# eV Mb\n40.0 3.16 0.05\n30.0 5.38 0.08\n")
    built = sturmian.build(**change(SMALL, {"task__compare": str(sturmian.folder / "data.dat")}))
    assert built.measured.tolist() == [[30.0, 5.38, 0.08], [40.0, 3.16, 0.05]]
    (sturmian.folder / "bad.dat").write_text("40.0\n")
    sturmian.refuses("bad.dat", **change(SMALL, {"task__compare": str(sturmian.folder / "bad.dat")}))


# ---------------------------------------------------------------------------------------- runs


def test_a_stop_between_spectra_changes_no_bit(sturmian):
    problem = sturmian.build(**SMALL)
    whole, first = Photons(problem), Photons(problem)
    whole.advance(lambda progress: None)
    states = []

    def report(progress):
        if progress.done == 1:
            states.append(first.state())

    first.advance(report)
    again = Photons(problem, states[0])
    again.advance(lambda progress: None)
    for name in ("total", "total_error", "level", "level_error"):
        expected = getattr(whole.result().judgement, name)
        assert np.array_equal(getattr(again.result().judgement, name), expected)


def _within(result, omega):
    """Return length gauge, its claimed error and the published value at a photon energy of the result, Mb."""
    at = int(np.argmin(np.abs(result.own.omega * HARTREE_EV - omega)))
    assert result.own.omega[at] * HARTREE_EV == pytest.approx(omega)
    return result.judgement.total[:, at], result.judgement.total_error[:, at]


def test_helium_at_energies_below_double_ionisation(sturmian):
    """Totals of complex-scaled Hylleraas functions with all partial waves, within the claimed errors in both gauges."""
    deck = change(HELIUM, {"task__photon": [f"{omega} eV" for omega in (30, 40, 50)]})
    result = sturmian.run(**deck)
    for omega in (30, 40, 50):
        values, errors = _within(result, omega)
        known = REFERENCES[f"sigma_he_{omega}"]
        assert np.all(np.abs(values - known["value"]) < errors + known["tol"])
        assert np.all(errors < 0.03 * known["value"])
    # one open channel, which has all of the total and leaves the ion in 1s
    assert np.all(np.abs(result.judgement.defect) < 1e-3)
    assert result.judgement.beta[0] == pytest.approx(2.0)
    assert result.judgement.beta_n[0] == pytest.approx(2.0)
    assert np.all(result.judgement.beta_n_error[0] == 0.0)
    # sums over all states of a closed form
    alpha, inverse, electrons, _ = result.own.closures
    assert alpha == pytest.approx(REFERENCES["alpha_he"]["value"], rel=3e-3)
    assert inverse == pytest.approx(REFERENCES["s_minus1_he"]["value"], rel=3e-3)
    assert electrons == pytest.approx(2.0, rel=2e-3)


def test_the_resonance_2s2p_of_helium(sturmian):
    """Pole and fit of a range that a resonance lies in, against the published numbers."""
    deck = change(HELIUM, {"task__photon": {"from": "58.5 eV", "to": "61.5 eV", "count": 13}})
    result = sturmian.run(**deck)
    own, errors = result.own, result.resonance_errors
    p = int(np.argmin(np.abs(own.poles.real - REFERENCES["res_2s2p_E"]["value"])))
    width, q = -2.0 * own.poles[p].imag, -own.strengths[p, 0].real / own.strengths[p, 0].imag
    # of complex-scaled Hylleraas functions, with what two bases and three angles leave open
    known = {
        "position": (own.poles[p].real, REFERENCES["res_2s2p_E"]["value"], 1e-6, 2e-3),
        "width": (width, REFERENCES["res_2s2p_G"]["value"], 1e-6, 2e-4),
        "q": (q, -2.768, 0.006, 0.3),
    }
    for error, (value, true, open_, largest) in zip(errors[p], known.values(), strict=False):
        assert abs(value - true) < error + open_
        assert error < largest
    # the fit is another route to the same numbers
    assert own.fits[p, 0, 0] == pytest.approx(own.poles[p].real, abs=2e-6)
    assert own.fits[p, 0, 1] == pytest.approx(width, rel=3e-3)
    assert own.fits[p, 0, 2] == pytest.approx(q, abs=0.02)
    # below n = 2 one channel is open, which interferes fully
    rho2, _ = fano.Fit(own.fits[p, 0], own.fit_errors[p, 0]).correlation
    assert rho2 == pytest.approx(1.0, abs=2e-3)
    # more energies where the profile turns
    assert np.count_nonzero(np.abs(own.E - own.poles[p].real) < width) > 10


def test_the_negative_ion_of_hydrogen(sturmian):
    """Photodetachment at 1.2 and 1.5 eV, near its maximum, within the claimed errors."""
    result = sturmian.run(**change(HYDROGEN, {"task__photon": ["1.2 eV", "1.5 eV"]}))
    for omega in (1.2, 1.5):
        values, errors = _within(result, omega)
        known = REFERENCES[f"sigma_hminus_{omega}"]
        assert np.all(np.abs(values - known["value"]) < errors + known["tol"])
        assert np.all(errors < 0.2 * known["value"])


P_STATE = {
    "system": {"Z": 2},
    "grid": {"R": 30, "order": 8, "ecs": {"angle": 0.3, "length": 25}},
    "basis": {"type": "fedvr"},
    "channels": {"l_max": 2},
    "initial": {"L": 1},
    "task": {"type": "scatter", "process": "photo", "photon": ["50 eV"], "levels": 2, "errors": False, "threshold": "grid"},
}  # fmt: skip


def test_a_p_state_reaches_three_total_momenta(sturmian):
    """The sum over all states from 2 1P of helium, to which unnatural parity adds a third, and channels against the total."""
    result = sturmian.run(**P_STATE)
    assert sorted({channel[3] for channel in result.own.channels.tolist()}) == [0, 1, 2]
    assert result.own.closures[2] == pytest.approx(2.0, abs=2e-3)
    # Two open levels hold nearly all of the flux.
    assert abs(result.judgement.defect[0, 0]) < 0.02


def test_a_p_state_against_turned_radii(sturmian):
    """2 3P of helium into S and D, averaged over M, beside configuration interaction on turned radii."""
    changes = {"initial": {"L": 1, "S": 1}, "channels": {"L": [0, 2], "l_max": 2}, "task__photon": ["70 eV"]}
    result = sturmian.run(**change(P_STATE, changes | {"task__gauges": ["velocity"]}))
    lower, expected = Symmetry(1, 1, tuple(pairs_up_to(1, 2, S=1))), 0.0
    f = turned(2.0, 0.35, 2.0, 14, 0.3)
    for L in (0, 2):
        upper = Symmetry(L, 1, tuple(pairs_up_to(L, 2, S=1)))
        sigma = photoabsorption(f, lower, upper, 0, [70.0 * EV], ["velocity"], 2.0, photons=True)[0, 0]
        # The oracle has M = 0 alone, in kilobarn.
        expected += 1e-3 * sigma / (9.0 * wigner_3j(L, 1, 1, 0, 0, 0) ** 2)
    assert result.own.total[0, 0] == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize(("power", "exact"), [(-2, 4.5), (-1, 2.0), (0, 1.0), (1, 2.0 / 3.0)])
def test_strengths_of_hydrogen_add_up(power, exact):
    """Lines and continuum of 1s in closed form (M. Stobbe, Ann. Phys. 399, 661 (1930)): sums S(-2) to S(1)."""
    n = np.arange(2.0, 3000.0)
    f = 2.0**8 / 3.0 * np.exp((2 * n - 4) * np.log(n - 1) + 5 * np.log(n) - (2 * n + 4) * np.log(n + 1))
    k = np.geomspace(1e-4, 3e3, 40001)
    omega, eta = 0.5 * (1.0 + k**2), 1.0 / k
    sigma = 2.0**9 * np.pi**2 / 3.0 * constants.alpha * (0.5 / omega) ** 4
    sigma *= np.exp(-4.0 * eta * np.arctan(k)) / -np.expm1(-2.0 * np.pi * eta)
    megabarn = 1e-22 / constants.physical_constants["Bohr radius"][0] ** 2
    own = SimpleNamespace(
        initial=-0.5, bound_levels=-0.5 / n**2, bound_strengths=f, omega=omega, total=sigma[None] / megabarn
    )
    # the rule of trapezoids and levels beyond n = 3000
    assert PhotoResult.strength(SimpleNamespace(own=own), power) == pytest.approx(exact, rel=2e-5)
    assert weight_of(omega[:1])[0] == pytest.approx(
        4 * np.pi * constants.alpha * omega[0] / megabarn, rel=1e-8
    )


def test_a_negative_excess_is_a_photon_energy(sturmian):
    """The same total energies by `photon` and by `excess`, alone, beside one above double ionisation, and as a range."""
    first = sturmian.run(**SMALL)
    E = first.own.E.tolist()
    deck = change(SMALL, {"task__photon": REMOVE, "task__excess": [*E, 0.3]})
    both = sturmian.run(**deck)
    # The deck's list is solved to this relative residual, of which totals have the square.
    assert both.own.total[:, :2] == pytest.approx(first.own.total, rel=1e-8)
    assert both.photons == pytest.approx([*first.photons, 0.3 - first.threshold[0]])
    assert both.own.E.tolist() == pytest.approx([*E, 0.3], abs=1e-14)
    assert np.all(both.judgement.total_error > 0.0)
    spread = {"from": E[0], "to": E[1], "count": 2, "refine": "none"}
    loose = sturmian.run(**change(deck, {"task__excess": spread, "task__errors": False}))
    assert loose.own.total == pytest.approx(first.own.total, rel=1e-3)


def test_momenta_that_a_deck_leaves_out_are_told(sturmian):
    message = r"channels.L: the dipole leads from P states to L = 1, 2 as well"
    sturmian.warns(message, **{**P_STATE, "channels": {"L": 0, "l_max": 2}})


def test_parity_chooses_among_the_momenta_of_a_p_state(sturmian):
    def momenta(**channels):
        deck = {**P_STATE, "channels": {"l_max": 2, **channels}}
        return [sector.L for sector in sturmian.build(**deck).sectors]

    assert momenta() == [0, 1, 2]
    assert momenta(parity="unnatural") == [1]
    assert momenta(parity="natural") == [0, 2]
    assert momenta(parity="even") == [0, 1, 2]


@pytest.mark.parametrize(
    ("observables", "shown", "left_out"),
    [
        (
            None,
            {
                "sigma_total",
                "sigma_level",
                "beta",
                "phase",
                "fano_q",
                "sum_*",
                "fano/E",
                "fano/rho2",
                "sums/S_k",
                "thresholds",
            },
            set(),
        ),
        (
            ["sigma", "beta"],
            {"sigma_total", "beta", "beta_n"},
            {"sigma_level", "phase", "fano_q", "fano/q", "sum_*", "sums/S_k"},
        ),
        (["partial", "sum_rules"], {"sigma_level", "sigma_channel", "sum_*"}, {"beta_error", "amplitude"}),
    ],
)
def test_results_hold_the_observables_of_the_deck(sturmian, observables, shown, left_out):
    named = {} if observables is None else {"task__observables": observables}
    result = SimpleNamespace(problem=sturmian.build(**change(SMALL, named)))
    stored = {one.name for one in QUANTITIES if one.when is None or one.when(result)}
    assert {name for name in shown if any(one.startswith(name) for one in stored)} == shown
    assert not left_out & stored


def test_slopes_of_the_profile_are_its_derivatives():
    eps, x = np.linspace(-7.0, 9.0, 23), np.array([0.3, 1.2, -2.7, 1.4, 0.2, 0.05])

    def value(x):
        return fano.profile(eps, x[0], 2.0 * x[1], *x[2:])

    step = 1e-6
    want = [(value(x + step * one) - value(x - step * one)) / (2.0 * step) for one in np.eye(6)]
    assert fano._slopes(eps, x) == pytest.approx(np.stack(want, axis=1), abs=1e-8)


def test_strips_of_many_energies_are_those_of_each(model):
    """More energies than factors that are kept, two of them so near that they share one."""
    operator, block = model[1].operator, ChannelBlock(model[1].operator)
    E = np.append(np.linspace(-1.9, -0.3, KEPT + 3), -0.2995).astype(complex)
    r = np.broadcast_to(model[1].s[0], (E.size, *operator.on_grid_shape))
    together = block.green(r, E)
    assert block.factorised == KEPT + 3
    again = np.concatenate([block.green(r[:1], E[k : k + 1]) for k in range(E.size - 1)])
    scale = abs(again).max(axis=(1, 2, 3), keepdims=True)
    assert np.all(abs(together[:-1] - again) < 1e-6 * scale)
    assert len(block._solvers) == KEPT
