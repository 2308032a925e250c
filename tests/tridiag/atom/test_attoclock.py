"""Attoclock angles and their claimed errors against an expansion in finite-element eigenfunctions and Coulomb functions."""

import math

import numpy as np
import pytest

from qsim.core.run.stages import Method
from qsim.tridiag.atom.photoelectrons.attoclock import highest
from qsim_checks import tridiag as coverage
from qsim_checks.coverage import run_trial
from qsim_checks.tridiag.atoms_planar import World, coulomb, truth

scalars = Method("tridiag").scalars

OMEGA, PEAK, RATIO, ENERGY = 0.6, 0.1, 0.8, (0.05, 0.9)
DURATION = 2.0 * math.pi / OMEGA
SIZE = PEAK / math.hypot(1.0, RATIO)


def field(t):
    """A pulse of one cycle that turns to the left."""
    p = math.pi / DURATION

    def one(phase):
        angle = OMEGA * (t - 0.5 * DURATION) + phase
        return (
            -SIZE
            / OMEGA
            * (p * math.sin(2 * p * t) * math.sin(angle) + OMEGA * math.sin(p * t) ** 2 * math.cos(angle))
        )

    return np.array([one(0.0), RATIO * one(-0.5 * math.pi)])


# E points along -x at the middle of the pulse, where |E| is largest and A, which is a quarter of a cycle away, along y
WORLD = World(lambda r: -1.0 / r, field, DURATION, (1, 0, 0), 4, 0, 0.5 * math.pi, 1, ENERGY)
DECK = {
    "task": "atom",
    "atom": "hydrogen",
    "grid": {"rmax": 28, "dr": 0.25, "l_max": 4, "map": {"dr0": 0.05, "width": 30}},
    "laser": {
        "polarization": {"type": "elliptical", "ellipticity": RATIO},
        "pulses": [{"shape": "sin2", "omega": OMEGA, "E0": PEAK, "cycles": 1}],
    },
    "spectra": [{"method": "scattering", "energy": list(ENERGY), "points": 100, "angles": 72}],
}


@pytest.fixture(scope="module")
def exact():
    """The angle, from two bases."""
    box = 28.0
    one, two = (
        truth(WORLD, box, order, top, 1.0)["attoclock_angle"] for order, top in ((12, 20.0), (11, 15.0))
    )
    assert one == pytest.approx(two, abs=2e-3)
    return one


@pytest.mark.parametrize(
    ("gauge", "time", "points"),
    [
        ("length", {"dt": 0.1}, 100),
        ("length", {"dt": 0.3, "order": 4}, 30),
        ("velocity", {"dt": 0.15}, 100),
        ("length", {"dt": 0.4}, 100),
    ],
)
def test_the_claimed_error_holds_the_truth(tridiag, exact, gauge, time, points):
    deck = DECK | {
        "laser": DECK["laser"] | {"gauge": gauge},
        "time": time | {"outputs": 1},
        "spectra": [DECK["spectra"][0] | {"points": points}],
    }
    result = tridiag.run(**deck)
    found = scalars(result)["attoclock_angle"]
    wall = result.problem.lattice.grid.wall
    assert wall == pytest.approx(28.0, rel=1e-13)
    assert abs(found.value - exact) < 3.0 * found.error + 0.02
    assert found.error < 3.0
    assert abs(found.value - exact) > 1e-6  # the truth is another calculation


def test_without_companions_no_error_is_claimed(tridiag):
    result = tridiag.run(**DECK, time={"dt": 0.2, "outputs": 1, "verify": False})
    assert scalars(result)["attoclock_angle"].error is None


def test_flux_and_window_claim_errors_too(tridiag):
    """Behind a sphere of 15 bohr hydrogen still pulls: the second sphere says so."""
    found = {}
    for method, more in (("scattering", {}), ("tsurff", {"radius": 40}), ("window", {"gamma": 0.03})):
        block = {"method": method, "energy": [0.2, 0.9], "points": 30, "angles": 48} | more
        grid = {"rmax": 75, "dr": 0.3, "l_max": 4, "map": {"dr0": 0.05, "width": 30}}
        deck = DECK | {"grid": grid, "spectra": [block], "time": {"dt": 0.1, "outputs": 1}}
        if method == "tsurff":
            deck |= {"absorber": {"type": "manolopoulos", "kmin": 0.3}}
        found[method] = scalars(tridiag.run(**deck))["attoclock_angle"]
    assert all(one.error is not None for one in found.values())
    exact = found["scattering"]
    flux = found["tsurff"]
    assert flux.error > 10.0 * exact.error
    assert abs(flux.value - exact.value) < flux.error + exact.error


def test_random_decks(monkeypatch):
    """Coverage of fields that turn: two trials whose seed nobody had looked at."""
    monkeypatch.setattr(coverage, "SHARES", (0.0, 0.0, 0.0, 1.0, 1.0))
    for index in (2, 10):
        trial = run_trial("tridiag", 20261123, index)
        assert trial.claims
        assert not trial.broken, trial.broken


def test_the_highest_point_of_a_fourier_sum():
    """Exact for as many azimuths as the sum has terms, whatever the place of the maximum."""
    for count in (16, 17, 40):
        angle = -math.pi + 2 * math.pi * np.arange(count) / count
        for top in (0.1, 3.13, -2.0):
            values = 2.0 + np.cos(angle - top) + 0.3 * np.cos(2 * (angle - top))
            assert math.remainder(highest(angle, values) - top, 2 * math.pi) == pytest.approx(0.0, abs=1e-6)


def test_coulomb_functions_of_the_oracle():
    """They oscillate with the Coulomb phase, energy-normalised, far out."""
    from scipy.special import loggamma

    k = np.array([0.4, 1.1])
    for l in (0, 2):
        r, u = coulomb(l, k, 900.0)
        at = slice(-400, None)
        phase = (
            k * r[at, None]
            + np.log(2 * k * r[at, None]) / k
            - 0.5 * l * np.pi
            + loggamma(l + 1 - 1j / k).imag
        )
        wave = np.sqrt(2 / (np.pi * k)) * np.sin(phase)
        assert np.abs(u[at] - wave).max() < 0.03
