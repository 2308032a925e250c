"""Photoelectron spectra that do not see the box, and their claimed errors."""

import math

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from qsim.tridiag.atom.evolution.propagator import AtomLattice
from qsim.tridiag.atom.photoelectrons.outgoing import spectral_density
from qsim.tridiag.atom.photoelectrons.spectra import Angles, scattering, window
from qsim.tridiag.atom.states.grid import mapped
from qsim.tridiag.atom.states.lanes import Lanes
from qsim.tridiag.atom.states.levels import Radial, bound_population
from qsim.tridiag.kernels.resolvents import resolvents
from qsim_checks.tridiag.atoms_planar import coulomb

ENERGY = np.linspace(0.02, 0.9, 8)


def atom(box):
    """Hydrogen in a box and beyond, and a packet of three l with a bound part that lies within 45 bohr."""
    grid = mapped(box, 0.25, 0.05, 40.0)
    near, far = (
        AtomLattice(g, -1.0 / g.r, 1.0 / g.r**2, 1.0)
        for g in (grid, grid.resized(grid.points + round((box + 200.0) / 0.25)))
    )
    r, lanes = grid.r, Lanes(0, 2)
    u = np.array([np.exp(-(((r - 18.0 - l) / 4.0) ** 2) + 0.7j * (1 + l) * r) for l in range(3)])
    u[0] += 2.0 * r * np.exp(-r)
    phi = u * np.sqrt(grid.slope)
    return (near, far), lanes, phi / np.sqrt(np.sum(np.abs(phi) ** 2))


def exact(lanes, phi, grid):
    """dP/dE by Coulomb functions that are normalised at the nucleus."""
    total = np.zeros(ENERGY.size)
    for l in range(lanes.used):
        mesh, waves = coulomb(l, np.sqrt(2.0 * ENERGY), 60.0)
        inside = grid.r < 59.0
        total += (
            np.abs((phi[l] * np.sqrt(grid.slope))[inside] @ CubicSpline(mesh, waves)(grid.r[inside])) ** 2
        )
    return total


def test_the_flux_out_of_the_box_is_the_spectrum():
    for box in (60.0, 110.0):
        (near, far), lanes, phi = atom(box)
        found = spectral_density(near, far, lanes, phi, ENERGY)
        assert found == pytest.approx(exact(lanes, phi, near.grid), rel=5e-4, abs=1e-5)
        states = scattering(near, lanes, phi, ENERGY, Angles(None), 1.0, {})
        assert states.spectrum == pytest.approx(found, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize(
    "order",
    [1, 2, pytest.param(3, marks=pytest.mark.exhaustive), pytest.param(4, marks=pytest.mark.exhaustive)],
)
def test_a_window_does_not_see_the_box(order):
    """Levels of the box of 60 bohr are 0.01 to 0.07 hartree apart, thirty times as far as the window is wide."""
    spectra = []
    for box in (60.0, 110.0):
        pair, lanes, phi = atom(box)
        spectra.append(window(pair, lanes, phi, ENERGY, (0.0007, order), Angles(181)))
    assert spectra[0].spectrum == pytest.approx(spectra[1].spectrum, rel=1e-4, abs=1e-6)
    assert spectra[0].spectrum == pytest.approx(
        exact(lanes, phi, pair[0].grid), rel=0.02 if order == 1 else 1e-3, abs=2e-3 if order == 1 else 2e-5
    )
    one = spectra[0]
    around = 2.0 * math.pi * np.trapezoid(one.angular * np.sin(one.theta), one.theta, axis=1)
    assert around == pytest.approx(one.spectrum, rel=1e-3)


DECK = {
    "task": "atom",
    "atom": "hydrogen",
    "initial": "1s",
    "grid": {"rmax": 70, "dr": 0.3, "l_max": 2, "map": {"dr0": 0.08, "width": 30}},
    "laser": {"gauge": "length", "pulses": [{"shape": "sin2", "omega": 0.85, "E0": 0.01, "cycles": 3}]},
    "time": {"dt": 0.12, "outputs": 1},
}


def test_spectra_claim_errors_that_hold(tridiag):
    """Weak pulse: |D(E)|^2 |E~(E + 1/2)|^2, exact matrix element and transform, by window and by projection in one run."""
    energies = {"energy": [0.1, 0.6], "points": 26}
    spectra = [{"method": "window", **energies}, {"method": "scattering", **energies}]
    result = tridiag.run(**DECK, spectra=spectra)
    e = result.spectra["energy"]
    k, w = np.sqrt(2.0 * e), e + 0.5
    matrix = (
        2.0**7
        / (3.0 * w)
        * (0.5 / w) ** 4
        * np.exp(-4.0 / k * np.arctan(k))
        / (1.0 - np.exp(-2.0 * np.pi / k))
    )
    t = np.linspace(0.0, result.problem.t_final, 4001)
    field = result.problem.pulse.electric(t)
    transform = np.trapezoid(field * np.exp(1j * w[:, None] * t), t, axis=1)
    want = matrix * np.abs(transform) ** 2
    for value, error in (("pes", "pes_error"), ("scattering_pes", "scattering_error")):
        off, claimed = np.abs(result.spectra[value] - want), result.spectra[error]
        assert np.all(off < 2.0 * claimed + 2e-3 * want)  # the second order of the field
        assert claimed.max() < 0.1 * want.max()
    assert result.errors["pes_total"] < 0.1 * result.numbers["pes_total"]


def test_no_error_is_claimed_below_zero_or_without_companions(tridiag):
    block = {"method": "window", "energy": [-0.1, 0.4], "points": 6}
    claimed = tridiag.run(**DECK, spectra=[block]).spectra["pes_error"]
    assert np.isnan(claimed[:2]).all()
    assert np.isfinite(claimed[2:]).all()
    time = {**DECK["time"], "verify": False}
    assert "pes_error" not in tridiag.run(**{**DECK, "time": time}, spectra=[block]).spectra


def test_resolvents_of_many_energies():
    """Against banded solutions one by one, with energies at which pivots change places; threads share them to the bit."""
    grid = mapped(60.0, 0.3, 0.02, 40.0)
    radial = Radial(AtomLattice(grid, -1 / grid.r, 1 / grid.r**2, 1.0), 2)
    rng = np.random.default_rng(7)
    phi = rng.normal(size=(3, grid.points)) + 1j * rng.normal(size=(3, grid.points))
    z = np.linspace(-0.5, 60.0, 23)[:, None] + 0.01 * np.exp(1j * np.array([0.4, 1.3]))
    rho, parts = np.exp(1j * rng.uniform(0.1, 2.0, z.shape)), np.array([1.0 + 0.5j, -0.3j])
    found, edges = resolvents(radial, z, rho, phi, 1, parts)
    for k, (energies, ends) in enumerate(zip(z, rho, strict=True)):
        waves = [radial.resolvent(one, phi.T, end) for one, end in zip(energies, ends, strict=True)]
        expected = sum(part * wave for part, wave in zip(parts, waves, strict=True))
        assert np.abs(found[k] - expected).max() < 1e-10 * np.abs(expected).max()
        last = [radial.edge(one, wave) for one, wave in zip(energies, waves, strict=True)]
        np.testing.assert_allclose(edges[k], last, rtol=0, atol=1e-10 * np.abs(last).max())
    shared = resolvents(radial, z, rho, phi, 3, parts)
    assert np.array_equal(shared[0], found)
    assert np.array_equal(shared[1], edges)


def test_bound_population():
    """The sum over levels one by one; of one l the state holds nothing."""
    grid = mapped(60.0, 0.3, 0.02, 40.0)
    lattice = AtomLattice(grid, -1 / grid.r, 1 / grid.r**2, 1.0)
    ls, rng = np.array([0, 1, 1, 2, 3]), np.random.default_rng(8)
    phi = rng.normal(size=(5, grid.points)) + 1j * rng.normal(size=(5, grid.points))
    phi[3] = 0.0
    total = 0.0
    for l in np.unique(ls):
        radial = Radial(lattice, int(l))
        for k in range(radial.below(0.0)):
            total += float(np.sum(np.abs(phi[ls == l] @ radial.state(radial.energy(k))) ** 2))
    found = [bound_population(lattice, ls, phi, threads) for threads in (1, 3)]
    assert found[0] == found[1] == pytest.approx(total, rel=1e-12)
