"""Rates of one and two photons in lowest order, from levels, scattering states and resolvents of the grid."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from qsim.core.run.stages import Method
from qsim.tridiag.atom.evolution.propagator import AtomLattice
from qsim.tridiag.atom.photoelectrons.spectra import scattering_states
from qsim.tridiag.atom.photoelectrons.tunnelling import adk_rate, adk_yield
from qsim.tridiag.atom.resonance.complex_scaling import Wanted, resonance
from qsim.tridiag.atom.states.grid import mapped
from qsim.tridiag.atom.states.levels import Radial, level

scalars = Method("tridiag").scalars

DATA = Path(__file__).resolve().parents[2] / "reference_data" / "atom.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}


@pytest.fixture(scope="module")
def hydrogen():
    grid = mapped(90.0, 0.05, 0.00625, 160.0)
    return AtomLattice(grid, -1.0 / grid.r, 1.0 / grid.r**2, 1.0)


def coupling(l):
    """<l + 1|cos|l> for m = 0."""
    return (l + 1) / math.sqrt((2 * l + 1) * (2 * l + 3))


def test_one_photon(hydrogen):
    """Stobbe: the rate in the field E0 cos(w t) is pi/2 |<E p|z|1s>|^2 E0^2, the cross section 4 pi^2 w / c of |<E p|z|1s>|^2."""
    entry = REFERENCES["stobbe"]
    ground, phi = level(hydrogen, 1, 0)
    omega = np.array(entry["params"]["w"])
    states, _ = scattering_states(hydrogen, 1, omega + ground, 1.0)
    found = (coupling(0) * states @ (hydrogen.grid.r * phi)) ** 2
    assert 0.5 * math.pi * found == pytest.approx(entry["result"]["rate_over_E0^2"], rel=3e-6)
    cross = 4.0 * math.pi**2 * omega / 137.035999 * found
    assert cross == pytest.approx(entry["result"]["sigma_a0^2"], rel=3e-6)


def test_two_photons(hydrogen):
    """2 pi / 16 sum_l |<E l|z (E1 + w - H)^-1 z|1s>|^2, the intermediate l = 1 by one tridiagonal system."""
    entry = REFERENCES["two_photon_shared"]
    ground, phi = level(hydrogen, 1, 0)
    r = hydrogen.grid.r
    for omega, want in zip(entry["params"]["w"], entry["result"]["g2"], strict=True):
        between = -Radial(hydrogen, 1).resolvent(ground + omega, coupling(0) * r * phi).real
        total = 0.0
        for l, c in ((0, coupling(0)), (2, coupling(1))):
            states, _ = scattering_states(hydrogen, l, np.array([ground + 2.0 * omega]), 1.0)
            total += (c * float(states[0] @ (r * between))) ** 2
        assert 2.0 * math.pi / 16.0 * total == pytest.approx(want, rel=3e-5)


@pytest.mark.parametrize("field", [0.05, 0.08])
def test_static_rates(field):
    """Within 4e-6 of the table, which is as far as it lies from a converged Laguerre basis (`test_resonance`)."""
    entry = REFERENCES["static_field"]
    k = entry["params"]["F"].index(field)
    found = resonance(Wanted(lambda r: -1.0 / r, 1.0, 1.0, (1, 0), 0, (0.025, 0.2, 40.0)), field)
    assert found.rate == pytest.approx(entry["result"]["rate"][k], rel=4e-6)
    assert found.energy == pytest.approx(entry["result"]["E"][k], abs=2e-9)


def test_tunnelling_rates():
    """4 / F exp(-2 / 3F) for 1s; the resonance approaches it in weak fields, with the known first correction -(107/12) F."""
    field = np.array([0.03, 0.04, 0.05])
    adk = adk_rate(field, 0.5, 1.0, 0, 0)
    assert adk == pytest.approx(4.0 / field * np.exp(-2.0 / (3.0 * field)), rel=1e-12)
    entry = REFERENCES["static_field"]["result"]["rate"][:3]
    ratio = np.array(entry) / adk
    assert ratio == pytest.approx(1.0 - 107.0 / 12.0 * field, abs=0.09)
    assert np.all(np.diff(ratio) < 0.0)
    # n = 2, l = 1 by scaling of an ion: F / Z^3, rates Z^2
    assert adk_rate(8.0 * field, 2.0, 2.0, 0, 0) == pytest.approx(4.0 * adk, rel=1e-12)
    with_m = [float(adk_rate(np.array([0.003]), 0.125, 1.0, 1, m)[0]) for m in (0, 1)]
    assert with_m[1] < 0.1 * with_m[0]


def test_yields_beside_tunnelling(tridiag):
    """A slow pulse ionises as the tunnelling rate says, but for the factor of the field's strength; a run tells both."""
    laser = {"gauge": "length", "pulses": [{"shape": "sin2", "omega": 0.03, "E0": 0.07, "cycles": 1}]}
    grid = {"rmax": 80, "dr": 0.3, "l_max": 24, "map": {"dr0": 0.05, "width": 30}}
    result = tridiag.run(
        task="atom", atom="hydrogen", grid=grid, laser=laser, absorber={"type": "manolopoulos", "kmin": 0.3},
        time={"dt": 0.1, "outputs": 4, "verify": False},
    )  # fmt: skip
    found = scalars(result)
    ratio = found["continuum_population"].value / found["adk_yield"].value
    assert 0.3 < ratio < 1.5
    both = tridiag.build(task="atom", atom="hydrogen", grid=grid, laser=laser, time={"dt": 0.1},
                         initial=[{"n": 1}, {"n": 2, "l": 1}])  # fmt: skip
    assert adk_yield(both) is None
