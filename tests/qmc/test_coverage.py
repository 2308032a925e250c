"""Error bars of qmc cover known means as a normal law says, on random decks; a planted lie is caught."""

import dataclasses
import re

import numpy as np
import pytest

from qsim.qmc.statistics import blocking as statistics
from qsim_checks import qmc as coverage
from qsim_checks.coverage import Claim, cover
from qsim_checks.qmc import _withdrawing
from qsim_checks.qmc.oracles import (
    IONS,
    bloch_pair,
    electron_gas,
    hydrogen_ion,
    ion_pair,
    molecular_ion,
    oscillators,
    over_twists,
    pair,
    pseudo_atom,
)

DECKS = 30


@pytest.fixture(scope="module")
def covered():
    """Decks without cells, whose kernels other tests need as well; `test_periodic_cells_too` draws all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coverage, "MAKERS", coverage.OPEN)
        return cover("qmc", DECKS, 11)


@pytest.mark.exhaustive
def test_periodic_cells_too():
    found = cover("qmc", 60, 2)
    assert found.ok, [(t.index, t.failure) for t in found.failures]


def test_error_bars_cover_known_means(covered):
    assert covered.ok, [(t.index, t.failure) for t in covered.failures]
    assert sum(trial.refused is not None for trial in covered.trials) <= 0.15 * DECKS
    assert len(covered.statistical) > DECKS


@pytest.mark.parametrize("kind", ["coefficients", "orbitals", "forces"])
def test_optimised_coefficients_and_forces(kind):
    """A sum of many draws is for ``qsim check qmc --coverage 100 --kind forces``; here a few of each."""
    found = cover("qmc", 4, 2, kind=kind)
    assert found.ok, [(t.index, t.failure) for t in found.failures]
    assert found.statistical


def test_error_bars_are_taken_back_where_they_do_not_hold(covered):
    """Most claims stand; of those that warnings take back, some would have held."""
    assert covered.withdrawn < 0.3 * len(covered.statistical)


def test_warnings_about_other_sections_take_nothing_back():
    series = [{"vmc": {"timestep": 0.1}}, {"vmc": {"timestep": 0.25}}, {"dmc": {"timesteps": [0.02, 0.01]}}]
    text = "vmc, tau = {}: the energy or a part of it still drifts"
    assert re.search(_withdrawing(series, "vmc"), text.format(0.25))
    assert not re.search(_withdrawing(series, "vmc"), text.format(0.1))
    assert re.search(_withdrawing(series, "dmc"), "dmc, tau = 0.01: the warm-up is too short")
    assert not re.search(_withdrawing(series, "optimize"), text.format(0.25))


def test_a_planted_lie_is_caught(monkeypatch):
    def lie(*args, **keys):
        found = true(*args, **keys)
        return found if found.error is None else dataclasses.replace(found, error=0.01 * found.error)

    true = statistics._estimate
    monkeypatch.setattr(statistics, "_estimate", lie)
    assert not cover("qmc", 3, 1).ok


def test_claims_are_statistical(covered):
    assert all(isinstance(claim, Claim) and claim.statistical for t in covered.trials for claim in t.claims)


# ------------------------------------------------------------------------------------------ the oracles


def test_oracles_agree_where_they_meet():
    """Exact trial functions have the energy of the ground state and no variance; virial theorem."""
    exact = hydrogen_ion(3, 2, 1, 1.5)
    assert exact.trial["energy"] == pytest.approx(exact.ground)
    assert exact.trial["kinetic"] == pytest.approx(-exact.ground)
    assert exact.trial["variance"] == pytest.approx(0.0, abs=1e-12)
    trap = oscillators(4, 1, 0.7, 2.0, 0.7)
    assert trap.exact
    assert trap.trial["energy"] == pytest.approx(trap.ground)
    hooke = pair(0.5, 1.0, 0.25, lambda r: -np.log1p(0.5 * r))
    assert hooke.ground == pytest.approx(2.0, abs=1e-6)
    assert hooke.trial["energy"] == pytest.approx(2.0, abs=1e-6)
    free = pair(1.3, 1.0, 0.65, np.zeros_like)
    assert free.trial["electron_electron"] == pytest.approx(2.0 * (0.65 / np.pi) ** 0.5)


def test_oracles_of_periodic_cells():
    """Hartree-Fock of 14 electrons at r_s = 5 (plane waves); an electron pair without a wave is uniform."""
    cube = np.eye(3) * 5.0 * (4.0 * np.pi * 14 / 3.0) ** (1 / 3)
    assert electron_gas(cube, np.zeros(3), 7, 7).trial["energy"] == pytest.approx(-0.8125487, abs=1e-7)
    assert electron_gas(cube, np.zeros(3), 6, 7) is None  # an open shell
    twist, places = np.array([0.1, 0.2, -0.3]), np.array([[0.0, 0.0, 0.0], [3.0, 2.0, 4.0]])
    uniform = bloch_pair(cube, twist, places, np.array([1, 0, 0]), 0.0, 0.4)
    same = electron_gas(cube, twist, 1, 1)
    for name in ("kinetic", "electron_electron"):
        assert uniform.trial[name] == pytest.approx(same.trial[name])
    assert uniform.trial["local_pp"] == 0.0
    # more density at the protons lowers the energy there
    G = 2 * np.pi / cube[0, 0]
    near = bloch_pair(
        cube, twist, np.array([[0.0, 0.0, 0.0], [0.0, 2.0, 4.0]]), np.array([1, 0, 0]), 0.2, 0.0
    )
    form = 4 * np.pi / (cube[0, 0] ** 3 * G**2)
    assert near.trial["local_pp"] == pytest.approx(-4 * form * 0.4 * 2)


def test_the_oracle_of_a_pseudopotential():
    """Without a core it is hydrogen; the nonlocal part and the variance vanish with what makes them."""

    def coulomb(r):
        return -1.0 / np.maximum(r, 1e-12)

    exact = pseudo_atom(1.0, coulomb, coulomb, 1.0)
    assert exact.ground == pytest.approx(-0.5, abs=1e-6)
    assert exact.trial["energy"] == pytest.approx(-0.5, abs=1e-9)
    assert exact.trial["variance"] == pytest.approx(0.0, abs=1e-9)
    assert exact.trial["nonlocal_pp"] == 0.0
    known = hydrogen_ion(1, 1, 0, 0.7)
    found = pseudo_atom(1.0, coulomb, coulomb, 0.7)
    for name in ("energy", "variance"):
        assert found.trial[name] == pytest.approx(known.trial[name], abs=1e-8)
    core = pseudo_atom(1.0, coulomb, lambda r: coulomb(r) + 3.0 * np.exp(-r * r), 0.7)
    assert core.trial["nonlocal_pp"] > 0.0
    assert core.trial["energy"] > core.ground > found.ground


def test_densities_and_structure_factors_of_twists():
    """Averages of a fine mesh over the cells of a coarse one; as many electrons as there are; weights."""
    lattice, twist, m = (
        np.array([[4.0, 0, 0], [1.0, 5.0, 0], [0, 1.0, 6.0]]),
        np.zeros(3),
        np.array([1, 0, -1]),
    )
    one, other = (bloch_pair(lattice, twist, np.eye(3), m, *wave) for wave in ((0.3, 0.4), (0.1, 2.0)))
    fine = one.mesh((24, 6, 24)).reshape(2, 12, 2, 3, 3, 8).mean(axis=(1, 3, 5))
    np.testing.assert_allclose(one.mesh((2, 2, 3)), fine, rtol=1e-12)
    assert fine.mean() * np.linalg.det(lattice) == pytest.approx(1.0)
    both = over_twists([one, other], [1.0, 9.0])
    np.testing.assert_allclose(both.mesh((2, 1, 1)), 0.1 * one.mesh((2, 1, 1)) + 0.9 * other.mesh((2, 1, 1)))
    assert list(both.structure.values()) == pytest.approx([0.1 * (1 - 0.21) + 0.9 * (1 - 0.09)])
    assert both.trial["energy"] == pytest.approx(0.1 * one.trial["energy"] + 0.9 * other.trial["energy"])


def test_oracles_are_variational():
    assert ion_pair(2, 1.6875).trial["energy"] == pytest.approx(-2.84765625)
    assert all(ion_pair(Z, Z - 0.3125).trial["energy"] > IONS[Z] for Z in (1, 2, 3, 4))
    assert molecular_ion(1.238).trial["energy"] == pytest.approx(
        -0.5865, abs=2e-4
    )  # Finkelstein and Horowitz
