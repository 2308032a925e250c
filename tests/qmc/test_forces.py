"""Forces on nuclei: the warp and its Jacobian, the regularisation, derivatives of a known trial function, deck mistakes.

Energies of the oracle agree with the closed form of H2+ (Finkelstein and Horowitz); coverage draws the rest (kind `forces`).
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from qsim.core.device import rng
from qsim.core.device.device import cpu
from qsim.qmc.estimators.forces import Forces, factor
from qsim.qmc.estimators.histograms import Boundaries
from qsim.qmc.sampling.forces import STEP, Displacements, warped
from qsim.qmc.sampling.walkers import Walkers
from qsim_checks.qmc.forces import energy_of_two_centres, force_of_two_centres
from qsim_checks.qmc.oracles import molecular_ion
from tests.qmc.trials import trial_function

ATOMS = np.array([[0.0, 0.1, -1.0], [0.3, 0.0, 1.1], [1.5, -0.4, 0.2]])


def test_oracle_is_the_closed_form():
    zetas = np.array([1.2, 1.2])
    arguments = (1.0, 1.0), np.ones(2), zetas
    assert energy_of_two_centres(2.0, *arguments) == pytest.approx(
        molecular_ion(1.2).trial["energy"], abs=1e-12
    )
    around = [molecular_ion(1.2, 2.0 + h).trial["energy"] for h in (1e-4, -1e-4)]
    assert force_of_two_centres(2.0, *arguments) == pytest.approx((around[1] - around[0]) / 2e-4, abs=1e-8)


def test_the_factor_leaves_no_error_of_first_order():
    assert quad(lambda x: 1.0 - factor(np.array([x]), 0.5)[0], 0.0, 0.5)[0] == pytest.approx(0.0, abs=1e-12)
    assert_allclose(factor(np.array([0.0, 0.5, 0.7]), 0.5), [0.0, 1.0, 1.0])
    assert_allclose(factor(np.array([0.0, 0.5]), 0.0), 1.0)


def test_jacobian_of_the_warp():
    """Determinant of the differences of the map itself; electrons on a nucleus go where it goes."""
    R = np.random.default_rng(1).normal(size=(4, 2, 3))
    h, d = 1e-2, 1e-5
    for atom, axis in ((0, 2), (2, 0)):
        moved, log = warped(R, ATOMS, atom, axis, h)
        total = np.zeros(len(R))
        for e in range(2):
            slopes = np.zeros((len(R), 3, 3))
            for x in range(3):
                step = np.zeros_like(R)
                step[:, e, x] = d
                ends = [warped(R + s * step, ATOMS, atom, axis, h)[0][:, e] for s in (1.0, -1.0)]
                slopes[:, :, x] = (ends[0] - ends[1]) / (2.0 * d)
            total += np.log(np.linalg.det(slopes))
        assert_allclose(log, total, atol=1e-8)
        assert_allclose(moved - R, h * np.eye(3)[axis] * (moved - R)[..., axis : axis + 1] / h, atol=1e-15)
    shifts = sum(warped(R, ATOMS, atom, 1, h)[0] - R for atom in range(3))
    assert_allclose(shifts, np.broadcast_to([0.0, h, 0.0], R.shape), atol=1e-14)
    close = ATOMS[None, :1] + 1e-6
    assert_allclose(warped(close, ATOMS, 0, 0, h)[0] - close, [[[h, 0.0, 0.0]]], atol=1e-12)


def test_derivatives_are_those_of_a_known_function():
    """One electron in two Slater functions: psi and its Laplacian by hand, differences of the whole geometry."""
    zetas, c, places = np.array([1.3, 0.9]), np.array([1.0, -0.8]), ATOMS[:2]
    atoms = [["H", *place] for place in places.tolist()]
    shells = [{"atom": k, "n": 1, "l": 0, "zeta": float(z)} for k, z in enumerate(zetas)]
    orbitals = {"source": "sto", "shells": shells, "molecular_orbitals": [c.tolist()]}
    w = trial_function({"atoms": atoms, "charge": 1, "spin": 1}, orbitals, "none")

    def of(R, centres):
        d = R[:, 0, None] - centres
        r = np.linalg.norm(d, axis=-1)
        parts = c * np.sqrt(zetas**3 / np.pi) * np.exp(-zetas * r)
        psi = parts.sum(1)
        gradient = -(zetas * parts / r)[..., None] * d
        energy = -0.5 * ((zetas**2 - 2.0 * zetas / r) * parts).sum(1) / psi - (1.0 / r).sum(1)
        distance = np.abs(psi) / np.linalg.norm(gradient.sum(1), axis=-1)
        return energy + 1.0 / np.linalg.norm(centres[0] - centres[1]), np.log(np.abs(psi)), distance

    walkers = Walkers(cpu(1), w, 12, rng.key_from_seed(1))
    R = np.random.default_rng(3).normal(size=(12, 1, 3))
    found = Displacements(walkers, 0)(R, warp=True)
    energy, _, distance = of(R, places)
    # Parts of the energy cancel; tables are known relative to each of them.
    scale = 1.0 + (1.0 / np.linalg.norm(R - places, axis=-1)).sum(1)
    assert_allclose(found.energy / scale, energy / scale, atol=1e-7)
    assert_allclose(found.distance, distance, rtol=1e-6)
    for k in range(6):
        ends = []
        for h in (STEP, -STEP):
            centres = places.copy()
            centres[k // 3, k % 3] += h
            moved, jacobian = warped(R, places, k // 3, k % 3, h)
            E, log, _ = of(moved, centres)
            ends.append((E, log + 0.5 * jacobian))
        slopes = [(a - b) / (2.0 * STEP) for a, b in zip(*ends, strict=True)]
        # tables of radial functions are known to 1e-8, their differences by a step of 1e-4 to 1e-4 at worst
        assert_allclose(found.energy_slopes[:, k], slopes[0], atol=2e-4, rtol=1e-4)
        assert_allclose(found.log_slopes[:, k], slopes[1], atol=1e-5, rtol=1e-5)
    assert_allclose(found.energy_slopes.reshape(-1, 2, 3).sum(1), 0.0, atol=1e-6)


def test_forces_are_refused_where_they_have_no_meaning():
    words = [
        next(iter(Forces().findings("estimators.0", Boundaries(*given)))).message
        for given in ((True, True), (False, False), (False, True, False))
    ]
    for text, wanted in zip(words, ("open systems", "a trap has none", "there is none"), strict=True):
        assert wanted in text
    assert not list(Forces().findings("estimators.0", Boundaries(False, True)))
