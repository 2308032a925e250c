"""Claimed errors of sturmian on random decks, and the oracle that knows the truth, against published numbers."""

from dataclasses import replace

import numpy as np
import pytest

from qsim.sturmian.two_electron import known
from qsim.sturmian.two_electron.known import ENERGIES
from qsim_checks import coverage
from qsim_checks.coverage import Coverage, cover
from qsim_checks.sturmian.collisions import SETS, _electron_truth, _turned
from qsim_checks.sturmian.hylleraas import _energy, s_state
from qsim_checks.sturmian.oracle import Functions, Symmetry, coefficient, energies
from qsim_checks.sturmian.perimetric import response
from qsim_checks.sturmian.scaled import photoabsorption, resonance

DECKS = 18
SEED = 1


@pytest.fixture(scope="module")
def covered():
    return cover("sturmian", DECKS, SEED)


def test_claimed_errors_hold(covered):
    broken = [
        f"trial {judged.index}: {claim.quantity} is off by {claim.difference:.2e}, claimed {claim.claimed:.2e}"
        for judged, claim in covered.broken
    ]
    assert not broken
    assert not covered.failures
    assert covered.ok


@pytest.mark.parametrize("index", [0, 4])
def test_claimed_errors_of_collisions_in_tables_hold(index):
    """Collisions with a potential in rows against the formula."""
    found = coverage.run_trial("sturmian", 1, index, kind="tabled_collisions")
    assert found.failure is None
    assert found.claims
    assert not found.broken


def test_few_decks_are_refused_and_few_claims_withdrawn(covered):
    assert sum(trial.refused is not None for trial in covered.trials) <= 0.3 * DECKS
    assert len(covered.deterministic) > DECKS
    assert covered.withdrawn <= 0.15 * len(covered.deterministic)


def test_claims_are_not_far_above_the_truth(covered):
    assert 0.5 < covered.looseness < 3.0


def test_a_lie_is_caught(covered):
    """The same runs with errors a hundred times smaller break the rule in most decks."""
    lies = [
        replace(trial, claims=tuple(replace(claim, claimed=0.01 * claim.claimed) for claim in trial.claims))
        for trial in covered.trials
    ]
    lying = Coverage("sturmian", tuple(lies))
    assert not lying.ok
    assert len(lying.broken) > 0.5 * len(lying.deterministic)


# ---------------------------------------------------------------------------------------------- the oracle


PUBLISHED = {
    "1S": (Symmetry(0, 0, ((0, 0), (1, 1), (2, 2))), (-2.9027668528, -2.1459147892)),
    "3S": (Symmetry(0, 1, ((0, 0), (1, 1), (2, 2))), (-2.1752204365,)),
    "3P": (Symmetry(1, 1, ((0, 1),)), (-2.1323713804,)),
    "1P": (Symmetry(1, 0, ((0, 1), (1, 2), (2, 3))), (-2.1237970211,)),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_oracle_finds_helium_within_its_error(name):
    """Product grids of another program, tests/reference_data/sturmian.json."""
    symmetry, expected = PUBLISHED[name]
    found, errors = energies(symmetry, len(expected), lambda r: -2.0 / r, 2.0)
    assert np.all(np.abs(found - expected) < errors)
    assert np.all(errors < 1e-4)


def test_the_oracle_finds_two_electrons_in_a_harmonic_well():
    """Without repulsion 3 omega; the functions do not fall off like a Gaussian, which costs digits only."""
    free = Functions(1.6, 2.0, 20, lambda r: 0.5 * r**2)
    assert np.linalg.eigvalsh(free.one_body(0))[:2] == pytest.approx([1.5, 3.5], abs=2e-6)
    assert np.linalg.eigvalsh(free.one_body(2))[0] == pytest.approx(3.5, abs=2e-6)


def test_the_oracle_has_its_own_angular_coefficients():
    from qsim.sturmian.two_electron.angular import angular

    for L, bra, ket in ((0, (1, 1), (2, 2)), (1, (0, 1), (1, 2)), (2, (1, 1), (0, 2)), (2, (1, 2), (2, 1))):
        for l in range(5):
            expected = angular(L, *bra, *ket, l) if abs(bra[0] - ket[0]) <= l <= bra[0] + ket[0] else 0.0
            assert coefficient(L, bra, ket, l) == pytest.approx(expected, abs=1e-14)


TEMKIN_POET = {  # S: ionisation, 1s, 2s, 3s at 40.8 eV, pi a0^2, tests/reference/sturmian
    0: (0.01944, 0.08654, 0.0080184, 0.0021276),
    1: (0.002475, 0.63177, 0.0050849, 0.00098837),
}


@pytest.mark.parametrize("S", TEMKIN_POET)
def test_turned_radii_give_the_channels_of_the_s_wave_model(S):
    found = _electron_truth(1.0, S, 40.8 / 27.211386245981, *SETS[0])
    names = ("sigma_ionisation", "sigma_elastic", "sigma_2s", "sigma_3s")
    for name, expected in zip(names, TEMKIN_POET[S], strict=True):
        assert found[name] == pytest.approx(expected, rel=5e-3, abs=3e-4 if name == names[0] else 0.0)


def test_turned_radii_give_a_resonance_and_the_photoabsorption():
    """2s^2 of He with all s and p pairs, -0.77730 hartree; gauges disagree for few pairs, but not in an exact eigenstate."""
    functions = _turned(2.0, 0.4, 3.0, 15, 0.3)
    energy = resonance(functions, Symmetry(0, 0, ((0, 0), (1, 1))), -0.78)
    assert energy.real == pytest.approx(-0.7773, abs=2e-4)
    assert -2.0 * energy.imag == pytest.approx(0.00466, abs=2e-4)


def test_functions_of_all_partial_waves_give_the_photoabsorption():
    """Helium at 40 and 50 eV: 3.1824 and 2.0438 Mb of complex-scaled Hylleraas functions of another program."""
    EV = 1.0 / 27.211386245981
    found = response(2.0, 0, False, 5, 20).photoabsorption(0, 0, [40.0 * EV, 50.0 * EV], 0.35)
    assert found == pytest.approx([3.18242, 2.04383], rel=3e-3)


def test_the_dipole_of_hydrogenic_electrons_has_one_value_in_all_gauges():
    """Without repulsion 1s^2 -> 1s kp: the known cross section of a hydrogenic ion, twice."""

    class Free(Functions):
        def repulsion(self, l, left, right):
            return np.zeros((self.count,) * 4)

    Z, excess = 2.0, 3.0
    free = Free(0.5 * Z, 2.0 / Z, 14, lambda r: -Z / r, (), complex(np.exp(0.3j)))
    gauges = ["length", "velocity"]
    found = photoabsorption(
        free, Symmetry(0, 0, ((0, 0),)), Symmetry(1, 0, ((0, 1),)), 0, [excess], gauges, Z
    )[0]
    omega = excess + Z * Z
    kappa = np.sqrt(2.0 * (omega - 0.5 * Z * Z)) / Z  # Stobbe's formula, eta = 1 / kappa
    eta = 1.0 / kappa
    ratio = 0.5 * Z * Z / omega
    stobbe = 2**9 * np.pi**2 / 3 * 7.2973525643e-3 / Z**2 * ratio**4
    stobbe *= np.exp(-4.0 * eta * np.arctan(1.0 / eta)) / (1.0 - np.exp(-2.0 * np.pi * eta))
    assert found == pytest.approx(2.0 * stobbe * 28.0028520539e3, rel=1e-2)


HYLLERAAS = {
    (1, 0, 0): 4e-7,
    (2, 0, 0): 2e-7,
    (4, 0, 0): 4e-7,
    (2, 1, 0): 2e-7,
    (3, 1, 0): 2e-7,
}


@pytest.mark.parametrize(("Z", "S", "root"), HYLLERAAS)
def test_hylleraas_functions_find_published_limits(Z, S, root):
    found, error = s_state(float(Z), S, root)
    off = found - ENERGIES[Z, 0, S, True, root]
    assert -1e-9 < off < HYLLERAAS[Z, S, root]
    assert off < 2.0 * error


def test_one_hylleraas_function_is_the_screened_charge():
    """``-(Z - 5/16)^2`` of ``exp(-k s)`` with k = Z - 5/16."""
    assert _energy(2.7, 0, 0, 2.7 - 5 / 16, 0) == pytest.approx(-((2.7 - 5 / 16) ** 2), rel=1e-12)


def test_a_run_is_compared_with_low_levels_known_to_twelve_figures():
    stated = {
        key: energy
        for (Z, L, S, natural, root), energy in ENERGIES.items()
        if natural and known.energy(Z, L, S, "natural", root) == energy
        for key in [(Z, L, S, root)]
    }
    ground = {(1, 0, 0, 0), (2, 0, 0, 0), (3, 0, 0, 0), (4, 0, 0, 0)}
    assert stated.keys() == ground | {(2, 0, 0, 1), (2, 0, 1, 0), (2, 1, 0, 0), (2, 1, 1, 0)}
    assert known.energy(2, 1, 1, "even", 0) is None  # 2p^2, of the other parity


def test_a_trial_is_the_same_every_time(tmp_path):
    first, second = (coverage.draw("sturmian", 3, 17, tmp_path).deck for _ in range(2))
    assert first == second


@pytest.mark.parametrize(("seed", "index"), [(880131, 29)])
def test_functions_that_their_grid_does_not_hold_have_no_good_integrals(seed, index):
    """Elements of a table may agree with those of a finer grid by chance: the overlaps tell that the functions do not."""
    judged = coverage.run_trial("sturmian", seed, index, "cpu")
    assert {claim.quantity for claim in judged.claims} >= {"integrals/coulomb", "integrals/exchange"}
    assert judged.broken == ()
