"""Resonances of a line by complex scaling, against oscillator functions on a complex axis and the decay of the norm of a run."""

import numpy as np
import pytest
from scipy.linalg import eigvals

from qsim.tridiag.deck.potentials.wells import GaussianWell
from qsim.tridiag.propagate.resonance import Wanted, resonance

BARRIERS = "(0.5*x^2-0.8)*exp(-0.1*x^2)+0.8"


def expanded(potential, field, size=90, angle=0.45, omega=0.25):
    """Return the energies of ``-e^(-2 i theta) D/2 + V(x e^(i theta)) + F x e^(i theta)`` in oscillator functions, (size,)."""
    nodes, weights = np.polynomial.hermite.hermgauss(160)
    x = nodes / np.sqrt(omega)
    # normalised functions without their Gaussian, which the weights hold
    f = np.zeros((size + 2, nodes.size))
    f[0] = np.pi**-0.25
    f[1] = np.sqrt(2.0) * nodes * f[0]
    for n in range(2, size + 2):
        f[n] = np.sqrt(2.0 / n) * nodes * f[n - 1] - np.sqrt((n - 1.0) / n) * f[n - 2]
    f, turn = f[:size], np.exp(1j * angle)
    n = np.arange(size)
    kinetic = np.diag(0.5 * omega * (n + 0.5))
    off = -0.25 * omega * np.sqrt((n[:-2] + 1.0) * (n[:-2] + 2.0))
    kinetic = kinetic + np.diag(off, 2) + np.diag(off, -2)
    v = potential(x * turn) + field * x * turn
    return eigvals(kinetic / turn**2 + (f * (weights * v)) @ f.T)


def shape(x):
    return (0.5 * x**2 - 0.8) * np.exp(-0.1 * x**2) + 0.8


def run(tridiag, potential, resonance, field=0.0, **changes):
    laser = {"laser": {"pulses": [{"shape": "static", "E0": field}]}} if field else {}
    return tridiag.run(
        task="propagate",
        grid={"xmin": -30, "xmax": 30, "points": 301},
        potential=potential,
        time={"dt": 0.1, "t_final": 1, "outputs": 1, "verify": False},
        observe=[{"resonance": resonance}],
        **laser,
        **changes,
    )


@pytest.mark.parametrize("near", [1.42, 2.13])
def test_shape_resonances(tridiag, near):
    """Behind two barriers; the second has a width of 0.03."""
    found = run(tridiag, {"type": "expression", "value": BARRIERS}, {"energy": near})
    exact = min(expanded(shape, 0.0), key=lambda e: abs(e - near))
    assert abs(found.numbers["resonance_energy"] - exact.real) <= found.errors["resonance_energy"] + 1e-9
    assert abs(found.numbers["resonance_rate"] + 2 * exact.imag) <= found.errors["resonance_rate"] + 2e-9
    assert found.errors["resonance_rate"] < 1e-4 * found.numbers["resonance_rate"]


@pytest.mark.parametrize("field", [0.05, 0.08])
def test_a_level_in_a_static_field(tridiag, field):
    """The ground state of a Gaussian well, followed from F = 0."""
    block = {"type": "gaussian_well", "depth": 0.8, "width": 1.5}
    found = run(tridiag, block, True, field)
    energies = expanded(lambda x: -0.8 * np.exp(-(x**2) / 4.5), field, omega=0.4)
    exact = min(energies, key=lambda e: abs(e - found.numbers["resonance_energy"]))
    assert abs(found.numbers["resonance_energy"] - exact.real) <= found.errors["resonance_energy"] + 1e-8
    assert abs(found.numbers["resonance_rate"] + 2 * exact.imag) <= found.errors["resonance_rate"] + 2e-8
    assert found.resonance == "level 0"


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_wide_level_is_followed_in_a_field_of_either_sign(sign):
    """The first excited level of a wide well, above its barrier, where the next one is near."""
    block, field = GaussianWell(type="gaussian_well", depth=1.0, width=3.0), 0.25
    found = resonance(Wanted(block, 1), sign * field)
    exact = -0.55412 + 0j
    for f in np.linspace(0.0, field, 41)[1:]:
        energies = expanded(lambda x: -np.exp(-(x**2) / 18.0), f, omega=0.4)
        exact = min(energies, key=lambda e: abs(e - exact))
    assert abs(found.energy - exact.real) <= found.energy_error + 1e-7
    assert abs(found.rate + 2 * exact.imag) <= found.rate_error + 2e-7


def test_the_norm_decays_at_that_rate(tridiag):
    """In a run with an absorber, after the field has risen."""
    found = tridiag.run(
        task="propagate",
        grid={"xmin": -60, "xmax": 60, "points": 601},
        potential={"type": "softcore"},
        laser={"pulses": [{"shape": "static", "E0": 0.08, "ramp": 30}]},
        absorber={"type": "manolopoulos", "kmin": 0.3},
        time={"dt": 0.1, "t_final": 150, "outputs": 2, "verify": False},
        observe=["resonance"],
    )
    rate, error = found.numbers["rate"], found.errors["rate"]
    assert found.numbers["resonance_rate"] == pytest.approx(rate, abs=2 * error + 2e-2 * rate)


def test_refusals(tridiag):
    keys = {
        "task": "propagate",
        "grid": {"xmin": -30, "xmax": 30, "points": 301},
        "time": {"dt": 0.1, "t_final": 1},
        "observe": ["resonance"],
    }
    well = {"type": "square_well", "depth": 1.0, "width": 2.0}
    tridiag.refuses("an analytic function", **keys, potential=well)
    pulse = {"laser": {"pulses": [{"shape": "sin2", "omega": 0.5, "E0": 0.1, "cycles": 2}]}}
    tridiag.refuses("needs a static field", **keys, potential={"type": "softcore"}, **pulse)
    start = {"type": "gaussian", "width": 1.0}
    tridiag.refuses("name the resonance by its energy", **keys, potential={"type": "softcore"}, initial=start)
